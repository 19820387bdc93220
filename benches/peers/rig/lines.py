"""What is measured: a function for each line, which checks an answer before it times one."""

import json
import shutil
import statistics
import time

from corpus import NEEDLE
from driver import Failed, Server, text_of

READS = 2_000
IN_FLIGHT = 16
RACES = 300


def measure(driven, corpus, place, rounds):
    """Measures each line in turns over all peers. Returns {line: {peer: [figure of each round]}}."""
    figures = {}
    for title, unit, line in LINES:
        figures[title] = {"unit": unit, "peers": {peer.name: [] for peer in driven}}
        for _ in range(1 if line in ONCE else rounds):
            for peer in driven:
                try:
                    figure = line(Place(peer, corpus, place))
                except Failed as error:
                    figure = None
                    print(f"{peer.name}, {title}: {error}"[:300])
                figures[title]["peers"][peer.name].append(figure)
    return figures


class Place:
    """A peer over the corpus, or over a copy of one of its files."""

    def __init__(self, peer, corpus, place):
        self.peer, self.corpus, self.root = peer, corpus, corpus.root
        self.state = place / "state" / peer.name.replace(" ", "-").replace(",", "")
        self.place = place

    def server(self, root=None):
        return Server(self.peer.command(root or self.root, self.state))

    def copy(self, *files):
        """A folder with these files alone, so that changes leave the corpus as it is."""
        folder = self.place / "changes"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file in files:
            shutil.copy(self.root / file, folder / file)
        return folder


def milliseconds(times):
    return 1_000 * statistics.median(times)


def start(at):
    """From the start of the process to the answer to tools/list."""
    with at.server() as server:
        tools = server.ask("tools/list", {})["tools"]
        took = time.perf_counter() - server.began
    if not tools:
        raise Failed("no tools")
    return 1_000 * took


def read(at):
    """A read of 100 KB."""
    with at.server() as server:
        if at.peer.whole(server, at.root, "medium.md").rstrip("\n") not in (at.corpus.medium.rstrip("\n"),):
            raise Failed("not the content of the file")
        call = at.peer.read(at.root, "medium.md")
        return milliseconds(server.timed(call) for _ in range(50))


def sent(at):
    """The bytes that the answer to that read has."""
    with at.server() as server:
        server.call(at.peer.read(at.root, "medium.md"))
        return server.received


def listing(at):
    """All pages of a folder of 10,000 entries."""
    with at.server() as server:
        if at.peer.list_pages(server, at.root, "many") != at.corpus.entries:
            raise Failed("not the entries of the folder")
        times = []
        for _ in range(3):
            began = time.perf_counter()
            at.peer.list_pages(server, at.root, "many")
            times.append(time.perf_counter() - began)
        return milliseconds(times)


def small_reads(at):
    """Reads of a small file a second, one after another."""
    with at.server() as server:
        if at.corpus.small.strip() not in at.peer.whole(server, at.root, "small.md"):
            raise Failed("not the content of the file")
        call = at.peer.read(at.root, "small.md")
        began = time.perf_counter()
        for _ in range(READS):
            server.timed(call)
        return READS / (time.perf_counter() - began)


def parallel_reads(at):
    """The same with 16 in flight."""
    with at.server() as server:
        tool, arguments = at.peer.read(at.root, "small.md")
        params = {"name": tool, "arguments": arguments}
        server.call((tool, arguments))
        began = time.perf_counter()
        for _ in range(IN_FLIGHT):
            server.send("tools/call", params)
        for number in range(READS):
            server.receive()
            if number < READS - IN_FLIGHT:
                server.send("tools/call", params)
        return READS / (time.perf_counter() - began)


def memory(at):
    """The memory of the process after its first list, in MB."""
    with at.server() as server:
        server.ask("tools/list", {})
        return server.resident() / 1e6


def window(at):
    """Twenty lines in the middle of 50 MB."""
    with at.server() as server:
        call = at.peer.window(at.root, "large.md", at.corpus.first_line)
        shown = text_of(server.call(call))
        if not all(line in shown for line in at.corpus.window):
            raise Failed("not the lines of the file")
        return milliseconds(server.timed(call) for _ in range(5))


def edit(at):
    """An edit of one line of a file of 1 MB."""
    root = at.copy("megabyte.md")
    times = []
    with at.server(root) as server:
        for number in range(10):
            old, new = f"the one line {number}\n", f"the one line {number + 1}\n"
            call = at.peer.edit(server, root, "megabyte.md", old, new)
            times.append(server.timed(call))
            if not (root / "megabyte.md").read_text().startswith(new):
                raise Failed("the file was not changed")
    return milliseconds(times)


def search(at):
    """A text in 5,000 notes, which 7 of them have."""
    if at.peer.search is None:
        return None
    with at.server() as server:
        call = at.peer.search(at.root, NEEDLE)
        found = text_of(server.call(call))
        missing = [path for path in at.corpus.with_needle if path.rsplit("/", 1)[-1] not in found]
        if missing:
            raise Failed(f"{len(missing)} notes were not found")
        return milliseconds(server.timed(call) for _ in range(3))


def races(at):
    """Writes that were confirmed and are not there, of two processes that change one file 300 times."""
    root = at.copy("small.md")
    file, lost = root / "small.md", 0
    file.write_text("first: 0\nsecond: 0\n")
    with at.server(root) as one, at.server(root) as two:
        for number in range(RACES):
            file.write_text(f"first: {number}\nsecond: {number}\n")
            edits = [(one, f"first: {number}", f"first: {number}!"), (two, f"second: {number}", f"second: {number}!")]
            # Each reads before either writes.
            calls = [(server, at.peer.edit(server, root, "small.md", old, new)) for server, old, new in edits]
            for server, (tool, arguments) in calls:
                server.send("tools/call", {"name": tool, "arguments": arguments})
            confirmed = ["isError" not in answer or not answer["isError"] for answer in map(answered, (one, two))]
            now = file.read_text()
            lost += sum(ok and new not in now for ok, (_, _, new) in zip(confirmed, edits))
    return lost


def answered(server):
    return json.loads(server.receive()).get("result", {"isError": True})


LINES = [
    ("two processes, one file, 300 rounds: confirmed writes lost", "writes", races),
    ("start to tools/list", "ms", start),
    ("read of 100 KB", "ms", read),
    ("bytes sent for it", "bytes", sent),
    ("list of 10,000 entries, all pages", "ms", listing),
    ("small reads, one after another", "a second", small_reads),
    ("small reads, 16 in flight", "a second", parallel_reads),
    ("memory after the first list", "MB", memory),
    ("20 lines in the middle of 50 MB", "ms", window),
    ("edit of one line in 1 MB", "ms", edit),
    ("text in 5,000 notes", "ms", search),
]
# A count needs no median.
ONCE = {races, sent}
