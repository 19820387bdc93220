"""The journal: a line for each call, which the owner reads as sentences, as a chart and on the page."""

import hashlib
import hmac
import sqlite3
import time
import urllib.parse
import uuid

from program import Figures, State, floor, timed

TITLE = "Lines in the journal"
COUNTED = "lines"
SIZES = [10_000, 100_000, 1_000_000, 10_000_000]
CORPUS = (
    "Lines of the journal's own form, chained and anchored as the program does it: 100 clients, 5,000 files, two "
    "changes in seven calls, spread evenly over 390 days in files of a day or 150,000 lines. One call by the client "
    "`one` in the last hour."
)
CLIENTS, FILES, DAYS, MOST_LINES = 100, 5_000, 390, 150_000


def fill(state, count):
    """Makes the key and the first anchors through the program, and writes the lines."""
    (state.space / "a.md").write_text("one\n")
    with state.stdio("one") as server:
        server.call("text_read", {"path": "/a.md"})
    key = (state.state / "journal.key").read_bytes()

    def mac(text):
        return hmac.digest(key, text.encode(), "sha256")

    now = time.time() - 3_700
    first = now - DAYS * 86_400
    step = (now - first) / count
    # Days that begin at the same time as the first line, so that a file has the lines of one day at most.
    a_file = max(1, min(MOST_LINES, int(86_400 / step)))
    anchors, number, tokens = [], 0, [uuid.UUID(int=number) for number in range(CLIENTS)]
    digests = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(1_000)]
    while number < count:
        begun = first + step * number
        name = f"{stamp(begun, '%Y%m%dT%H%M%S')}.{int(begun % 1 * 1e6):06}Z-{number % 9000 + 1000}-{uuid.UUID(int=number).hex}.jsonl"
        head = hashlib.sha256(b"stile journal 1\n" + name.encode()).digest()
        lines, until = [], min(count, number + a_file)
        for at in range(1, until - number + 1):
            here = first + step * (number + at - 1)
            client, is_change = (number + at) % CLIENTS, (number + at) % 7 < 2
            about = f'"before":"{digests[at % 1000]}",'
            if is_change:
                about += f'"after":"{digests[(at + 1) % 1000]}","changed_lines":1,"call":{number + at},'
            line = (
                f'{{"at":"{stamp(here, "%Y-%m-%dT%H:%M:%S")}.{int(here % 1 * 1e6):06}Z","subject":"ann",'
                f'"token":"{tokens[client]}","client":"client {client}","tool":"{"text.edit" if is_change else "text.read"}",'
                f'"path":"/work/{at % 50}/{(number + at) % FILES}.md",{about}"outcome":"ok","n":{at}'
            ).encode()
            head = hashlib.sha256(head + line).digest()
            lines.append(line + b',"chain":"' + head.hex().encode() + b'"}\n')
        file = state.state / "journal" / name
        file.write_bytes(b"".join(lines))
        file.chmod(0o600)
        set_time(file, first + step * (until - 1))
        anchors.append((name, len(lines), head, 2, 0, mac(f"stile anchor 1\n{len(lines)}\n{head.hex()}\nfinished\n0\n{name}")))
        number = until
    database = sqlite3.connect(state.state / "journal.db")
    with database:
        database.executemany("INSERT INTO anchors VALUES (?, ?, ?, ?, ?, ?)", anchors)
        files = database.execute("SELECT count(*) FROM anchors").fetchone()[0]
        database.execute("UPDATE ledger SET files = ?, made_anew = 0, mac = ?",
                         (files, mac(f"stile ledger 1\n{files}\nfalse")))
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


def stamp(seconds, form, known={}):
    """The time as text; seconds that were asked last are remembered."""
    whole = int(seconds), form
    if known.get("whole") != whole:
        known["whole"], known["text"] = whole, time.strftime(form, time.gmtime(whole[0]))
    return known["text"]


def set_time(file, seconds):
    import os

    os.utime(file, (seconds, seconds))


def measure(program, place, sizes, rounds):
    figures, states = Figures(), {}
    for size in sizes:
        states[size] = State(program, place / str(size))
        fill(states[size], size)
    for turn in range(rounds):
        floor(program, figures, sizes)
        for size, state in states.items():
            ask(state, size, figures, turn)
    return figures.medians()


def ask(state, size, figures, turn):
    def command(title, *words, check=lambda text: True):
        run = state.run(*words)
        if not check(run.text):
            raise AssertionError(f"{title}: {run.text[-400:]}")
        figures.add(title, "ms", size, 1000 * run.seconds)
        return run

    one = lambda text: text.count(b"\n") >= 1 and b"one read /a.md" in text
    command("`audit --since 1h`", "audit", "--since", "1h", check=one)
    command("`audit --client one --since 1h`", "audit", "--client", "one", "--since", "1h", check=one)
    command("`activity --since 1d`", "activity", "--since", "1d", check=lambda text: b"one\n" in text)
    if turn == 0:
        command("`activity`, 30 days", "activity", check=lambda text: b"one\n" in text)
        figures.add("memory of `activity`", "MB", size, state.memory("activity") / 1e6)
        command("`audit verify`", "audit", "verify", check=lambda text: b"intact" in text)
    with state.serve() as server:
        figures.add("`serve`: start to the first connection", "ms", size, 1000 * server.started)
        token = state.token("--scope", "read:/", "--root", state.space)
        client = server.client(token)
        took = sorted(timed(client.call, "text_read", {"path": "/a.md"})[0] for _ in range(100))
        figures.add("a small read over HTTP", "ms", size, took[50])
        owner = sign_in(state, server)
        spent, body = timed(owner.get, "/owner/clients")
        figures.add("the page of clients, first of all", "ms", size, spent)
        took = sorted(timed(owner.get, "/owner/clients")[0] for _ in range(30))
        figures.add("the page of clients, again", "ms", size, took[15])
        began, most = time.perf_counter(), server.memory()
        while time.perf_counter() - began < 120:
            most = max(most, server.memory())
            if b"being counted" not in owner.get("/owner/clients"):
                break
            time.sleep(0.1)
        figures.add("from there until the month is counted", "ms", size, 1000 * (time.perf_counter() - began))
        took = sorted(timed(owner.get, "/owner/clients")[0] for _ in range(30))
        figures.add("the page of clients, counted", "ms", size, took[15])
        figures.add("most memory of the server", "MB", size, most / 1e6)


def sign_in(state, server):
    """Signs in with a link of the terminal, and returns a connection with the cookie."""
    printed = state.say("sign-in", "--address", f"http://{server.address}")
    code = printed.splitlines()[0].split("code=")[1].strip()
    owner = server.client()
    form = urllib.parse.urlencode({"code": code})
    answer, body = owner.ask("POST", "/sign-in", form, {"Content-Type": "application/x-www-form-urlencoded"})
    cookie = answer.getheader("set-cookie")
    if not cookie:
        raise AssertionError(f"no sign-in: {answer.status} {body[:300]}")
    owner.headers["Cookie"] = cookie.split(";")[0]
    return owner
