"""Records on SQLite: imported, read by the page, and searched."""

import json
import random
import subprocess
import time
import urllib.parse

from program import Figures, State, floor, timed

TITLE = "Records on SQLite"
COUNTED = "records"
SIZES = [10_000, 100_000, 1_000_000]
CORPUS = (
    "Messages of 28 words out of 60,000, a few of which are in most messages, in the order of their times; one in 1,000 "
    "has two certain words beside each other, the first has a text of 100 KB. Each size is imported once from a file of "
    "JSON lines by `stile import`; requests go to `/v1` with an owner's token, medians of ten. The floor of the import is "
    "the same rows in a table of SQLite's with an index of full text (FTS5), committed every 10,000 rows."
)
VOCABULARY, SEED = 60_000, 7


def messages(count):
    chance = random.Random(SEED)
    names = [f"w{number:x}" for number in range(VOCABULARY)]
    for number in range(count):
        chosen = [names[min(int(chance.paretovariate(0.35)) - 1, VOCABULARY - 1)] for _ in range(28)]
        chosen[0] = f"rare{number}"
        if number % 1000 == 0:
            chosen[1:3] = ["amber", "birch"]
        text = " ".join(chosen)
        if number == 0:
            text = (text + " ") * (100_000 // len(text))
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_600_000_000 + 30 * number))
        yield {"id": chance.getrandbits(48), "at": at, "text": text}


def measure(program, place, sizes, rounds):
    figures, states = Figures(), {}
    for size in sizes:
        state = states[size] = State(program, place / str(size))
        file = place / "messages.jsonl"
        with open(file, "w") as out:
            for row in messages(size):
                out.write(json.dumps(row) + "\n")
        took, _ = timed(lambda: state.say("import", file, "--connection", "c", "--stream", "messages"))
        figures.add("import, records a second", "a second", size, size / took * 1000)
        plain = bare(file, place / "plain.db")
        figures.add("floor: plain table with FTS5, rows a second", "a second", size, size / plain[0])
        figures.add("bytes of the disk a record", "bytes", size, disk(state.state) / size)
        figures.add("floor: bytes of that table a row", "bytes", size, plain[1] / size)
        (place / "plain.db").unlink()
        file.unlink()
    for _ in range(rounds):
        floor(program, figures, sizes)
        for size, state in states.items():
            ask(state, size, figures)
    return figures.medians()


def bare(file, place):
    """Stores the same rows in a plain table with an index of words."""
    import sqlite3

    began = time.perf_counter()
    database = sqlite3.connect(place)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE plain (id TEXT PRIMARY KEY, at TEXT, text TEXT)")
    database.execute("CREATE INDEX plain_by_time ON plain (at)")
    database.execute("CREATE VIRTUAL TABLE words USING fts5 (text, content='plain')")
    for number, line in enumerate(open(file), 1):
        row = json.loads(line)
        database.execute("INSERT INTO plain VALUES (?, ?, ?)", (str(row["id"]), row["at"], row["text"]))
        database.execute("INSERT INTO words (rowid, text) VALUES (last_insert_rowid(), ?)", (row["text"],))
        if number % 10_000 == 0:
            database.commit()
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return time.perf_counter() - began, place.stat().st_size


def disk(folder):
    said = subprocess.run(["du", "-sk", folder], capture_output=True, text=True, check=True)
    return int(said.stdout.split()[0]) * 1024


def ask(state, size, figures):
    with state.serve() as server:
        figures.add("`serve`: start to the first connection", "ms", size, 1000 * server.started)
        client = server.client(state.token("--owner"))

        def get(title, path, check=lambda answer: True):
            def once():
                return json.loads(client.get(path))

            answer = once()
            if not check(answer):
                raise AssertionError(f"{title}: {str(answer)[:300]}")
            took = sorted(timed(once)[0] for _ in range(10))
            figures.add(title, "ms", size, took[5])
            return answer

        def search(query):
            return "/v1/search?order=newest&limit=25&q=" + urllib.parse.quote(query)

        full = lambda answer: len(answer["data"]) == 25
        page = get("page of 25, the newest", "/v1/streams/messages/records?limit=25", full)
        for _ in range(8):
            page = json.loads(client.get(f"/v1/streams/messages/records?limit=100&cursor={page['next_cursor']}"))
        get("page of 25, after 825 others", f"/v1/streams/messages/records?limit=25&cursor={page['next_cursor']}", full)
        get("search of a word of one record", search(f"rare{size // 2}"), lambda answer: len(answer["data"]) == 1)
        get("search of a word of most records", search("w0"), full)
        get("search of two words, 1 in 1,000 records", search("amber birch"), lambda answer: answer["data"])
        get("search of the two as a phrase", search('"amber birch"'), lambda answer: answer["data"])
        get("the list of streams", "/v1/streams", lambda answer: answer["data"])
        figures.add("memory of the server after that", "MB", size, server.memory() / 1e6)
