"""The history of a space: old versions of files, which the owner lists and takes back."""

import hashlib
import sqlite3
import time

from program import Figures, State, floor, timed

TITLE = "Versions in the history"
COUNTED = "versions"
SIZES = [1_000, 10_000, 100_000, 1_000_000]
CORPUS = (
    "One client made, through the program, ten changes of ten files, five of them new. Then rows of the history's own "
    "form were added until it had the number of versions: 100 clients, up to 100,000 files, spread over 20 days, one "
    "row in 50 a new file, one in 1,000 an undo, one version in 5,000 a file of its own."
)
CLIENTS, FILES, DAYS, A_FILE = 100, 100_000, 20, 5_000


def fill(state, count):
    """Makes ten true changes, and fills the history up."""
    with state.stdio("one") as server:
        for number in range(5):
            (state.space / f"old-{number}.md").write_text("before\n")
            server.call("file_create", {"path": f"/new-{number}.md", "content": f"{number}\n"})
            read = server.call("text_read", {"path": f"/old-{number}.md"})
            edit = [{"old": "before", "new": f"after {number}"}]
            server.call("text_edit", {"path": f"/old-{number}.md", "hash": read["hash"], "edits": edit})
    database = sqlite3.connect(state.state / "history/history.db")
    database.execute("PRAGMA synchronous = OFF")
    now = int(time.time() * 1e6)
    space, last = database.execute("SELECT max(space) FROM spaces").fetchone()[0], now - 60_000_000
    # The ten changes are the oldest.
    first = now - DAYS * 86_400_000_000
    database.execute("UPDATE changes SET at = ? + number", [first])
    first_version = database.execute("SELECT coalesce(max(version), 0) + 1 FROM versions").fetchone()[0]
    first_number = database.execute("SELECT max(number) + 1 FROM changes").fetchone()[0]

    def versions():
        for number in range(count):
            digest = hashlib.sha256(b"%d" % number).digest()
            path = f"/bulk/{number % FILES // 1000}/{number % FILES}.md"
            file = f"large-{number}" if number % A_FILE == 0 else None
            if file:
                (state.state / "history/objects" / file).write_bytes(b"x")
            yield (first_version + number, digest, 300, 120, file, f"token {number % CLIENTS}", 0,
                   first_number + number, path)

    def changes():
        step = (last - first) // max(1, count)
        for number in range(count):
            kind = "created" if number % 50 == 0 else "replaced"
            tool = "undo" if number % 1000 == 1 else "file.create" if kind == "created" else "text.edit"
            before = None if kind == "created" else hashlib.sha256(b"%d" % number).digest()
            after = hashlib.sha256(b"after %d" % number).digest()
            client = number % CLIENTS
            path = f"/bulk/{number % FILES // 1000}/{number % FILES}.md"
            yield (first_number + number, space, first_number + number, first + step * number, kind, path, None, before,
                   300, after, None if before is None else first_version + number, tool, "ann", f"client {client}",
                   f"token {client}", None, None, f"token {client}", 1, 0, 310, None)

    with database:
        # Made again at the end, which is faster.
        made_again = database.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL").fetchall()
        for kind, name, _ in made_again:
            database.execute(f"DROP {kind} {name}")
        database.executemany("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", versions())
        database.executemany("INSERT INTO contents VALUES (?, ?)",
                             ((first_version + number, b"x" * 120) for number in range(count)))
        database.executemany(f"INSERT INTO changes VALUES ({', '.join('?' * 22)})", changes())
        database.execute(
            "INSERT OR REPLACE INTO shares SELECT share, sum(bytes), 0, "
            "coalesce((SELECT sum(stored) FROM versions WHERE versions.share = changes.share), 0) "
            "FROM changes GROUP BY share")
        for _, _, sql in made_again:
            database.execute(sql)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return first_number


def measure(program, place, sizes, rounds):
    figures, states = Figures(), {}
    for size in sizes:
        states[size] = State(program, place / str(size))
        states[size].first = fill(states[size], size)
    for _ in range(rounds):
        floor(program, figures, sizes)
        for size, state in states.items():
            ask(state, size, figures)
    return figures.medians()


def ask(state, size, figures):
    root = ("--root", state.space)

    def command(title, *words, lines=None, expected=(0,)):
        run = state.run(*words, *root, expected=expected)
        if lines is not None and run.lines() != lines:
            raise AssertionError(f"{title}: {run.lines()} lines\n{run.text[-400:]}")
        figures.add(title, "ms", size, 1000 * run.seconds)
        return run

    command("`history FILE`, one change", "history", "/old-1.md", lines=2)
    command("`history --client one`, ten changes", "history", "--client", "one", lines=11)
    command("`history`", "history")
    figures.add("memory of `history`", "MB", size, state.memory("history", *root) / 1e6)
    command("plan of `undo CALL`, one change", "undo", "1", expected=(0, 1))
    plan = command("plan of `undo --client one`, ten changes", "undo", "--client", "one", expected=(0, 1))
    if plan.text.count(b"remove") != 5 or plan.text.count(b"restore") != 5:
        raise AssertionError(plan.text.decode())
    figures.add("memory of that plan", "MB", size, state.memory("undo", "--client", "one", *root) / 1e6)
    command("plan of `undo --since 90s`, a few changes", "undo", "--since", "90s", expected=(0, 1))
    command("`diff FILE`", "diff", "/old-1.md")
    with state.stdio("two") as server:
        server.call("text_read", {"path": "/old-0.md", "lines": [1, 2]})
        figures.add("`stdio`: start to the first answer about a file", "ms", size,
                    1000 * (time.perf_counter() - server.began))
    with state.serve() as server:
        figures.add("`serve`: start to the first connection", "ms", size, 1000 * server.started)
        client = server.client(state.token("--scope", "read:/", "--scope", "write:/", *root))
        path, took = f"/e-{time.time_ns()}.md", []
        known = client.call("file_create", {"path": path, "content": "0\n"})["hash"]
        for number in range(20):
            edit = {"path": path, "hash": known, "edits": [{"old": f"{number}\n", "new": f"{number + 1}\n"}]}
            spent, answer = timed(client.call, "text_edit", edit)
            known = answer["hash"]
            took.append(spent)
        figures.add("a durable edit of a small file", "ms", size, sorted(took)[10])
