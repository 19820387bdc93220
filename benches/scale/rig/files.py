"""A space with many small files, which an agent lists and searches."""

import time

from program import Figures, State, floor, timed

TITLE = "Files in a space"
COUNTED = "files"
SIZES = [1_000, 10_000, 100_000, 1_000_000]
CORPUS = (
    "Files of some 120 bytes in folders of 1,000, below ten folders. Three of them have a certain word. A folder beside "
    "them has 50 files. Calls go over standard input and output; `first` is the first call of its kind in a process, "
    "`second` the same call again."
)
WORD = "zanzibar"
WORDS = "river stone light table window garden letter morning paper answer winter friend".split()


def fill(state, count):
    where = set(range(7, count, max(1, count // 3)))
    for number in range(count):
        at = state.space / f"part-{number // 1000 % 10}" / f"{number // 1000:04}"
        if number % 1000 == 0:
            at.mkdir(parents=True, exist_ok=True)
        text = f"# Note {number}\n\n" + " ".join(WORDS[(number * 7 + turn * 5) % 12] for turn in range(14)) + ".\n"
        with open(at / f"note-{number}.md", "w") as file:
            file.write(text + (f"The {WORD} crate.\n" if number in where else ""))
    few = state.space / "few"
    few.mkdir()
    for number in range(50):
        (few / f"{number}.md").write_text("x\n")
    return len(where)


def measure(program, place, sizes, rounds):
    figures, states = Figures(), {}
    for size in sizes:
        states[size] = State(program, place / str(size))
        states[size].hits = fill(states[size], size)
    for turn in range(rounds):
        floor(program, figures, sizes)
        for size, state in states.items():
            ask(state, size, figures, turn == 0)
    return figures.medians()


def ask(state, size, figures, watches):
    def note(title, took):
        figures.add(title, "ms", size, took)

    with state.stdio() as server:
        server.ask("tools/list", {})
        note("start to `tools/list`", 1000 * (time.perf_counter() - server.began))
        took, _ = timed(server.call, "text_read", {"path": "/few/1.md"})
        note("the first read of a file", took)
        took, page = timed(server.call, "file_list", {"path": "/few"})
        assert len(page["entries"]) == 50
        note("list of a folder of 50", took)
        took, page = timed(server.call, "file_list", {"path": "/part-0/0000"})
        assert page["entries"]
        note("first page of a folder of 1,000", took)
        for which in ("first", "second"):
            took, found = whole(server, "file_find", {"pattern": f"note-{size - 1}.md"}, "matches")
            assert len(found) == 1, found
            note(f"find a file by its name, {which}", took)
        for which in ("first", "second"):
            took, found = whole(server, "text_search", {"q": WORD}, "hits")
            assert len(found) == state.hits, (len(found), state.hits)
            note(f"a word in all files, {which}", took)
        for which in ("first", "second"):
            took, found = timed(server.call, "file_search", {"q": f"{WORD} crate"})
            note(f"ranked search, {which} answer", took)
        figures.add("memory of the server after that", "MB", size, server.memory() / 1e6)
    if watches:
        watch(state, size, figures)
    with state.serve() as server:
        note("`serve`: start to the first connection", 1000 * server.started)
        client = server.client(state.token("--scope", "read:/", "--scope", "write:/", "--root", state.space))
        path = f"/new-{time.time_ns()}.md"
        took, _ = timed(client.call, "file_create", {"path": path, "content": "new\n"})
        note("a durable new file", took)


def watch(state, size, figures):
    """From a change by another program to the notification, of a file and of the folder of 50."""
    with state.stdio() as server:
        for what, uri in (("file", "space:///few/1.md"), ("folder", "list:///few")):
            took, _ = timed(server.ask, "resources/subscribe", {"uri": uri})
            figures.add(f"to subscribe to a {what}", "ms", size, took)

            def change():
                name = "1.md" if what == "file" else "50.md"
                (state.space / "few" / name).write_text(f"{time.time_ns()}\n")
                while b"notifications/resources/updated" not in server.process.stdout.readline():
                    pass

            figures.add(f"from a change of that {what} to the notification", "ms", size, timed(change)[0])
            server.ask("resources/unsubscribe", {"uri": uri})
        (state.space / "few/50.md").unlink()


def whole(server, tool, arguments, member):
    """Calls a tool until it has no more to say. Returns the time of all calls and all that was found."""
    began, found, cursor = time.perf_counter(), [], None
    while True:
        answer = server.call(tool, arguments | ({"cursor": cursor} if cursor else {}))
        found += answer.get(member, [])
        cursor = answer.get("next_cursor")
        if not cursor:
            return 1000 * (time.perf_counter() - began), found
