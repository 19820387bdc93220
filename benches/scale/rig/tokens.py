"""Tokens: the owner lists them, and each call of a client checks one."""

import sqlite3
import time
import uuid

from journal import sign_in
from program import Figures, State, floor, timed

TITLE = "Tokens"
COUNTED = "tokens"
SIZES = [100, 1_000, 10_000, 100_000]
CORPUS = (
    "One token made by `stile token`, and as many rows beside it in the table of tokens as the size says: one in ten "
    "is valid, the others expired or were revoked within the last year; 1,000 clients."
)


def fill(state, count):
    (state.space / "a.md").write_text("one\n")
    token = state.token("--scope", "read:/", "--client", "one", "--root", state.space)
    database = sqlite3.connect(state.state / "stile.db")
    columns = [row[1] for row in database.execute("PRAGMA table_info(tokens)")]
    known = dict(zip(columns, database.execute("SELECT * FROM tokens").fetchone()))
    now, day = int(time.time()), 86_400

    def rows():
        for number in range(count):
            issued = now - (number % 365) * day - 60
            row = known | {
                "jti": str(uuid.UUID(int=number)), "subject": "ann", "client": f"client {number % 1000}",
                "issued": issued, "expires": now + 30 * day if number % 10 == 0 else issued + 30,
                "revoked": issued + 20 if number % 10 == 5 else None, "shown": 0,
            }
            yield tuple(row[column] for column in columns)

    with database:
        database.executemany(f"INSERT INTO tokens VALUES ({', '.join('?' * len(columns))})", rows())
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return token


def measure(program, place, sizes, rounds):
    figures, states = Figures(), {}
    for size in sizes:
        states[size] = State(program, place / str(size))
        states[size].known = fill(states[size], size)
    for _ in range(rounds):
        floor(program, figures, sizes)
        for size, state in states.items():
            ask(state, size, figures)
    return figures.medians()


def ask(state, size, figures):
    def command(title, *words):
        run = state.run(*words)
        figures.add(title, "ms", size, 1000 * run.seconds)
        return run

    listed = command("`token list`", "token", "list")
    figures.add("lines of `token list`", "lines", size, listed.lines())
    command("a token is made", "token", "--scope", "read:/", "--client", "two", "--root", state.space)
    one = state.token("--scope", "read:/", "--client", "gone", "--root", state.space)
    listed = state.say("token", "list", "--json")
    import json

    identifier = next(row for row in json.loads(listed) if row.get("client") == "gone" and not row.get("revoked"))
    identifier = identifier.get("id") or identifier.get("jti") or identifier.get("token")
    command("`token revoke`", "token", "revoke", identifier)
    with state.serve() as server:
        figures.add("`serve`: start to the first connection", "ms", size, 1000 * server.started)
        status, _ = server.client(one).try_call("text_read", {"path": "/a.md"})
        assert status == 401, status
        client = server.client(state.known)
        client.call("text_read", {"path": "/a.md"})
        took = sorted(timed(client.call, "text_read", {"path": "/a.md"})[0] for _ in range(200))
        figures.add("a small read with its check of the token", "ms", size, took[100])
        owner = sign_in(state, server)
        owner.get("/owner/clients")
        took = sorted(timed(owner.get, "/owner/clients")[0] for _ in range(10))
        figures.add("the page of clients", "ms", size, took[5])
        figures.add("bytes of the page of clients", "bytes", size, len(owner.get("/owner/clients")))
        figures.add("memory of the server", "MB", size, server.memory() / 1e6)
