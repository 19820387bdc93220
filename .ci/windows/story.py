"""Runs the program for Windows under Wine, and does with files what an agent and their owner do.

    story.py WINE PROGRAM FOLDER

The program is copied into FOLDER, beside what Wine lacks. Everything is made below FOLDER.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

WINE, PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
ENVIRONMENT = os.environ | {"WINEPREFIX": str(FOLDER / "prefix"), "WINEDEBUG": "-all"}
SPACE, STATE = FOLDER / "space", FOLDER / "state"


def windows_path(path):
    """Returns a path as programs under Wine name it, which find the root of the machine as Z:."""
    return "Z:" + str(path).replace("/", "\\")


def command(*arguments):
    return [WINE, str(FOLDER / "stile.exe"), *arguments]


def say(*arguments):
    """Runs a command, which must succeed, and returns what it printed."""
    ran = subprocess.run(
        command(*arguments), env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, (arguments, ran.returncode, ran.stdout, ran.stderr)
    return ran.stdout


class Server:
    """`stile serve` and the smallest client of it."""

    def __init__(self):
        arguments = ["serve", windows_path(SPACE), "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            command(*arguments, "--state", windows_path(STATE)), env=ENVIRONMENT, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        self.said, self.address = [], None
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        until = time.monotonic() + 120
        while self.address is None:
            assert self.process.poll() is None and time.monotonic() < until, self.said
            reader.join(0.05)
        scopes = ["--scope", "read:/", "--scope", "write:/"]
        places = ["--state", windows_path(STATE), "--root", windows_path(SPACE)]
        self.headers = {
            "Authorization": f"Bearer {say('token', *places, *scopes).strip()}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        self._send("initialize", {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "story", "version": "1"},
        })
        self._send("notifications/initialized", {})

    def _read(self):
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"listening on (http://\S+)", line):
                self.address = found[1]

    def _send(self, method, params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            message["id"] = 1
        request = urllib.request.Request(
            f"{self.address}/mcp", json.dumps(message).encode(), self.headers
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            if session := answer.headers.get("Mcp-Session-Id"):
                self.headers["Mcp-Session-Id"] = session
            text = answer.read().decode()
        for line in text.splitlines():
            line = line.removeprefix("data:").strip()
            if line.startswith("{") and "id" in (found := json.loads(line)):
                return found["result"]
        return None

    def call(self, tool, **arguments):
        """Calls a tool, which must succeed, and returns its answer."""
        answer = self._send("tools/call", {"name": tool, "arguments": arguments})
        assert not answer["isError"], (tool, arguments, answer)
        return answer["structuredContent"]

    def refused(self, tool, **arguments):
        """Calls a tool, which must refuse, and returns the code of the refusal."""
        answer = self._send("tools/call", {"name": tool, "arguments": arguments})
        assert answer["isError"], (tool, arguments, answer)
        return answer["structuredContent"]["error"]["code"]

    def hash_of(self, path):
        return self.call("text_read", path=path)["hash"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def files(server):
    """Reads, creates, changes, appends, copies, moves, finds and removes."""
    read = server.call("text_read", path="/old.md")
    assert read["content"] == "# Old\n\nalpha beta\n", read
    server.call("file_create", path="/new/plan.md", content="one\ntwo\n")
    first = server.hash_of("/new/plan.md")
    edit = {"path": "/new/plan.md", "hash": first, "lines": [2, 3], "old": "two\n", "new": "TWO\n"}
    server.call("text_replace", **edit)
    assert server.refused("text_replace", **edit) == "stale"
    second = server.hash_of("/new/plan.md")
    server.call("text_append", path="/new/plan.md", hash=second, content="three\n")
    assert (SPACE / "new/plan.md").read_bytes() == b"one\nTWO\nthree\n"
    assert names(SPACE / "new") == ["plan.md"], names(SPACE / "new")
    # What somebody else saved is compared by its content.
    third = server.hash_of("/new/plan.md")
    (SPACE / "new/plan.md").write_bytes(b"of another program\n")
    late = {"hash": third, "lines": [1, 2], "old": "one\n", "new": "1\n"}
    assert server.refused("text_replace", path="/new/plan.md", **late) == "stale"
    now = server.hash_of("/new/plan.md")
    server.call("file_copy", path="/new/plan.md", to="/copy.md", hash=now)
    server.call("file_move", path="/new/plan.md", to="/moved.md", hash=now)
    assert server.refused("file_create", path="/moved.md", content="") == "already_exists"
    assert len(server.call("text_search", path="/", q="alpha")["hits"]) == 1
    assert server.call("file_find", path="/", pattern="moved")["matches"]
    listed = [entry["path"] for entry in server.call("file_list", path="/")["entries"]]
    assert listed == ["/new", "/copy.md", "/moved.md", "/old.md"], listed
    server.call("file_remove", path="/copy.md", hash=now)
    server.call("file_create", path="/new/deep/a.md", content="x")
    (SPACE / "locked.md").write_text("nobody changes this\n")
    (SPACE / "locked.md").chmod(0o444)
    locked = {"hash": server.hash_of("/locked.md"), "lines": [1, 2], "new": "x\n"}
    locked["old"] = "nobody changes this\n"
    code = server.refused("text_replace", path="/locked.md", **locked)
    assert code == "not_permitted", code
    assert names(SPACE) == ["locked.md", "moved.md", "new", "old.md"], names(SPACE)


def special_names(server):
    """No path has a name that Windows reads as something else, or finds by another spelling."""
    for path in ("/NUL", "/con.md", "/old.md:stream", "/old.md::$DATA", "/old.md.", "/what?.md"):
        assert server.refused("text_read", path=path) == "invalid_path", path
    assert server.refused("file_create", path="/x.md:hidden", content="x") == "invalid_path"
    for path in ("/OLD.md", "/OLD~1.MD", "/NEW/deep/a.md"):
        assert server.refused("text_read", path=path) == "not_found", path
    assert server.refused("file_create", path="/OLD.md", content="x") == "already_exists"


def owner(server):
    """What the owner of the files asks at the command line, beside the running server."""
    state = ["--state", windows_path(STATE)]
    changes = say("history", *state)
    assert "/moved.md" in changes and "/copy.md" in changes, changes
    number = re.search(r"(\d+)\D[^\n]*removed[^\n]*/copy\.md", changes)
    assert number, changes
    say("undo", number[1], "--yes", *state)
    assert (SPACE / "copy.md").read_bytes() == b"of another program\n"
    assert "created /new/plan.md" in say("audit", *state)
    assert "FAIL" not in (checked := say("doctor", *state, "--root", windows_path(SPACE))), checked
    assert "space: a folder whose path" not in checked, checked
    assert "<Exec>" in say("service", "install", windows_path(SPACE), "--print")


def main():
    shutil.copy(PROGRAM, FOLDER / "stile.exe")
    for folder in (SPACE, STATE):
        shutil.rmtree(folder, ignore_errors=True)
    SPACE.mkdir()
    (SPACE / "old.md").write_bytes(b"# Old\n\nalpha beta\n")
    assert say("version").startswith("stile ")
    server = Server()
    assert any("cannot exchange two files" in line for line in server.said), server.said
    for part in (files, special_names, owner):
        part(server)
        print(f"ok  {part.__doc__}")
    # What a killed server left is cleaned up by the next one, which serves the same files.
    server.process.kill()
    server.process.wait(timeout=60)
    server = Server()
    assert server.call("text_read", path="/moved.md")["content"] == "of another program\n"
    assert not [name for name in names(SPACE) if name.startswith(".stile-")], names(SPACE)
    print("ok  A killed server is followed by one that serves the same files.")


try:
    main()
finally:
    subprocess.run(["wineserver", "--kill"], env=ENVIRONMENT, check=False)
