"""Measures how a database on PostgreSQL grows, beside a plain table with tsvector and GIN. A rig run by hand:

    growth.py --program target/release/stile [--records 100000] [--words 28] [--one-role] [--statements]

It starts PostgreSQL in a temporary folder (commits do not wait for the disk), stores the same messages in both, and
prints room, the time that PostgreSQL took (pg_stat_statements, planning included), and the statements of each search.
Both are searched as a role that row-level security holds for. Without --one-role the servers have a role of their own.
"""

import argparse
import json
import os
import pathlib
import pwd
import random
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

PROGRAMS = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
VOCABULARY = 60_000
SEED = 7


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=28)
    parser.add_argument("--one-role", action="store_true")
    parser.add_argument("--statements", action="store_true", help="also print the dearest statements of the import")
    return parser.parse_args()


class Cluster:
    """A server of PostgreSQL in a folder of its own."""

    def __init__(self, folder):
        self.folder, self.data = folder, folder / "data"
        self.user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        if self.user:
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        self.run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D", self.data)
        settings = f"""
            listen_addresses = ''
            unix_socket_directories = '{folder}'
            fsync = off
            shared_buffers = 1GB
            max_wal_size = 8GB
            shared_preload_libraries = 'pg_stat_statements'
            pg_stat_statements.track_planning = on
            pg_stat_statements.track = top
        """
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(settings)
        self.run("pg_ctl", "-D", self.data, "-l", folder / "log", "-w", "start")

    def run(self, program, *rest):
        become = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        command = [str(PROGRAMS / program), *map(str, rest)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **become)

    def sql(self, text, role="postgres", database="stile", file=None):
        command = ["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", role, "-d", database]
        done = subprocess.run(
            [*map(str, command), "-c", text] if file else list(map(str, command)),
            input=None if file else text.encode(), stdin=file, stdout=subprocess.PIPE, check=True,
        )
        return done.stdout.decode().strip()

    def address(self, role):
        return f"postgres://{role}@{urllib.parse.quote(str(self.folder), safe='')}/stile"

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-m", "fast", "stop")


def messages(count, words):
    """Yields messages in the order of their times, with keys in no order: a few words are in most of them."""
    chance = random.Random(SEED)
    names = [f"w{number:x}" for number in range(VOCABULARY)]
    for number in range(count):
        chosen = [names[min(int(chance.paretovariate(0.35)) - 1, VOCABULARY - 1) % VOCABULARY] for _ in range(words)]
        chosen[0] = f"rare{number}"
        if number % 1000 == 0 and words > 3:
            chosen[1:3] = ["amber", "birch"]
        day, second = number * 60 // 86_400, number * 60 % 86_400
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_600_000_000 + day * 86_400 + second))
        yield {"id": chance.getrandbits(48), "at": at, "text": " ".join(chosen)}


def milliseconds(cluster, condition="true"):
    text = f"""SELECT round(sum(total_exec_time + total_plan_time)::numeric, 2), sum(calls) FROM pg_stat_statements
               WHERE {condition}"""
    took, calls = cluster.sql(text).split("|")
    return float(took or 0), int(calls or 0)


def room(cluster):
    """The bytes of tables with their indexes, by the name of the table or of the parent of a partition."""
    text = """SELECT coalesce(p.relname, c.relname), sum(pg_total_relation_size(c.oid)) FROM pg_class c
              LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
              WHERE c.relkind = 'r' AND c.relnamespace IN ('stile'::regnamespace, 'public'::regnamespace)
              GROUP BY 1 HAVING sum(pg_total_relation_size(c.oid)) > 0"""
    return {name: int(size) for name, size in (row.split("|") for row in cluster.sql(text).splitlines())}


def plain_table(cluster, rows, file):
    """Stores the messages in a plain table, in batches, as a role that row-level security holds for."""
    cluster.sql("""
        CREATE TABLE plain (tenant bigint NOT NULL, id text NOT NULL, at timestamptz NOT NULL, text text NOT NULL,
            words tsvector GENERATED ALWAYS AS (to_tsvector('simple', text)) STORED, PRIMARY KEY (tenant, id));
        CREATE INDEX plain_by_time ON plain (tenant, at);
        CREATE INDEX plain_words ON plain USING gin (words) WITH (fastupdate = on);
        GRANT ALL ON plain TO stile;
    """)
    for start in range(0, len(rows), 10_000):
        with open(file, "w") as out:
            for row in rows[start:start + 10_000]:
                out.write(f"1\t{row['id']}\t{row['at']}\t{row['text']}\n")
        with open(file, "rb") as lines:
            cluster.sql("COPY plain (tenant, id, at, text) FROM STDIN", role="stile", file=lines)


def search_plain(cluster, query):
    words = {"amber birch phrase": "'amber' <-> 'birch'", "prefix": "'rare12':*"}.get(query)
    words = words or " & ".join(f"'{word}'" for word in query.split())
    text = f"""SELECT id, text FROM plain WHERE tenant = 1 AND words @@ $${words}$$::tsquery
               ORDER BY at DESC LIMIT 25"""
    cluster.sql(text)
    cluster.sql("SELECT pg_stat_statements_reset()")
    cluster.sql(text)
    return milliseconds(cluster, "query LIKE '%FROM plain%'")


def main():
    options = arguments()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="stile-growth-"))
    program = str(pathlib.Path(options.program).resolve())
    cluster, server = Cluster(folder), None
    try:
        owner = "stile" if options.one_role else "stile_owner"
        for role in {owner, "stile"}:
            cluster.sql(f"CREATE ROLE {role} LOGIN", database="postgres")
        cluster.sql(f"CREATE DATABASE stile OWNER {owner}", database="postgres")
        cluster.sql("CREATE EXTENSION pg_stat_statements")
        home = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        if not options.one_role:
            owned = {**home, "STILE_DATABASE": cluster.address(owner)}
            subprocess.run([program, "database", "prepare", "--servers-role", "stile"], env=owned, check=True)
        env = {**home, "STILE_DATABASE": cluster.address("stile")}
        rows = list(messages(options.records, options.words))
        file = folder / "messages.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))

        cluster.sql("SELECT pg_stat_statements_reset()")
        began = time.monotonic()
        subprocess.run([program, "import", file, "--connection", "c", "--stream", "messages"], env=env, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print(f"import: {time.monotonic() - began:.1f} s in all, PostgreSQL {milliseconds(cluster)[0] / 1000:.1f} s "
              f"in {milliseconds(cluster)[1]} statements")
        top = """SELECT round(total_exec_time + total_plan_time), round(total_plan_time), calls,
                 left(regexp_replace(query, '\\s+', ' ', 'g'), 90) FROM pg_stat_statements ORDER BY 1 DESC LIMIT 6"""
        if options.statements:
            print(cluster.sql(top))
        cluster.sql("SELECT pg_stat_statements_reset()")
        plain_table(cluster, rows, folder / "copy.tsv")
        copied, _ = milliseconds(cluster, "query LIKE 'COPY%'")
        print(f"plain table: COPY took PostgreSQL {copied / 1000:.1f} s")
        cluster.sql("VACUUM ANALYZE")
        sizes = room(cluster)
        own = sum(size for name, size in sizes.items() if name != "plain")
        print(f"room: {own / len(rows):.0f} bytes a message, plain table {sizes['plain'] / len(rows):.0f}, "
              f"ratio {own / sizes['plain']:.2f}")
        for name, size in sorted(sizes.items(), key=lambda pair: -pair[1])[:7]:
            print(f"  {name}: {size / len(rows):.0f}")

        token = subprocess.run([program, "token", "--owner"], env=env, check=True, stdout=subprocess.PIPE, text=True)
        space = folder / "space"
        space.mkdir()
        server = subprocess.Popen(
            [program, "serve", "--listen", "127.0.0.1:0", "--rate-per-second", "100000", "--rate-burst", "100000",
             str(space)],
            env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        origin = next(word for line in server.stderr for word in line.split() if word.startswith("http://127.0.0.1"))

        def get(path):
            headers = {"Authorization": f"Bearer {token.stdout.strip()}"}
            with urllib.request.urlopen(urllib.request.Request(origin + path, headers=headers)) as answer:
                return json.load(answer)

        common = "w0"
        queries = {
            "common word": (common, common), "rare word": ("rare77", "rare77"),
            "rare and common": (f"rare77 {common}", f"rare77 {common}"),
            "two in 1 of 1,000": ("amber birch", "amber birch"),
            "phrase in 1 of 1,000": ('"amber birch"', "amber birch phrase"), "prefix": ("rare12*", "prefix"),
        }
        print("search: what, hits, Stile's ms and statements of PostgreSQL, plain table's ms")
        for name, (query, plain) in queries.items():
            path = "/v1/search?order=newest&limit=25&q=" + urllib.parse.quote(query)
            for _ in range(7):
                get(path)
            cluster.sql("SELECT pg_stat_statements_reset()")
            hits = [len(get(path)["data"]) for _ in range(5)]
            own = "query NOT LIKE '%pg_stat%' AND query ~ 'records|word|pieces|streams|grants'"
            took, calls = milliseconds(cluster, own)
            if options.statements:
                print(cluster.sql(top.replace("LIMIT 6", "LIMIT 2")))
            print(f"  {name}: {hits[0]}, {took / 5:.1f} ms in {calls / 5:.0f}, {search_plain(cluster, plain)[0]:.1f} ms")
        for name, path in {"page of 25": "/v1/streams/messages/records?limit=25", "streams": "/v1/streams"}.items():
            for _ in range(7):
                get(path)
            cluster.sql("SELECT pg_stat_statements_reset()")
            for _ in range(20):
                get(path)
            took, calls = milliseconds(cluster, "query ~ 'records|pieces|streams'")
            print(f"  {name}: {took / 20:.2f} ms in {calls / 20:.0f}")
    finally:
        if server:
            server.terminate()
            server.wait()
        cluster.stop()
        shutil.rmtree(folder)


main()
