"""One `stile serve` over a collection, with a client that asks `file_search`."""

import http.client
import json
import subprocess
import tempfile
import time
from pathlib import Path

START_SECONDS = 60
ANSWER_SECONDS = 60

# An answer that was not finished goes on with its cursor at most so often.
MOST_CALLS = 20

VERSION = "2025-06-18"


class Failed(Exception):
    """The program did not start, or refused a question."""


class Answer:
    """What one question got: the paths best first, calls, bytes as sent and as text, seconds."""

    def __init__(self):
        self.found, self.calls, self.sent_bytes, self.text_bytes, self.seconds = [], 0, 0, 0, 0.0


class Server:
    """`stile serve` with an empty state on a port that the system chooses. Use it with `with`."""

    def __init__(self, program, space, scopes=("read:/",)):
        self.program, self.space, self.scopes = program, space, scopes
        self.folder = tempfile.TemporaryDirectory(prefix="stile-recall-")
        self.state = Path(self.folder.name) / "state"
        self.log = Path(self.folder.name) / "server.log"
        self.process = self.connection = self.session = None
        self.number = 0

    def __enter__(self):
        try:
            with open(self.log, "wb") as log:
                self.process = subprocess.Popen(
                    [self.program, "serve", self.space, "--state", self.state, "--listen", "127.0.0.1:0"],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            address = self.address()
            self.token = self.owner("token", *(part for scope in self.scopes for part in ("--scope", scope))).strip()
            self.connection = http.client.HTTPConnection(address, timeout=ANSWER_SECONDS)
            self.request("initialize", {"protocolVersion": VERSION, "capabilities": {},
                                        "clientInfo": {"name": "recall", "version": "1"}})
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.connection:
            self.connection.close()
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.folder.cleanup()

    def address(self):
        """Waits for the line that says where the server listens, and returns host and port."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            log = self.log.read_text(errors="replace")
            for line in log.splitlines(keepends=True):
                if "listening on http://" in line and line.endswith("\n"):
                    return line.split("listening on http://")[1].strip().rstrip("/")
            if self.process.poll() is not None:
                raise Failed(f"the server ended: {log.strip()[-400:]}")
            time.sleep(0.02)
        raise Failed("the server does not say where it listens")

    def owner(self, *arguments):
        done = subprocess.run([self.program, *arguments, "--state", self.state],
                              capture_output=True, text=True, timeout=START_SECONDS)
        if done.returncode != 0:
            raise Failed(f"stile {arguments[0]}: {done.stderr.strip()[-400:]}")
        return done.stdout

    def post(self, message):
        """Sends a message and returns the bytes of what is answered."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json",
                   "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        self.connection.request("POST", "/mcp", json.dumps(message), headers)
        response = self.connection.getresponse()
        body = response.read()
        if response.status >= 300:
            raise Failed(f"HTTP {response.status}: {body.decode(errors='replace')[:400]}")
        self.session = response.getheader("Mcp-Session-Id", self.session)
        return body

    def request(self, method, parameters):
        """Returns the result of a request, and the number of bytes of its answer."""
        self.number += 1
        body = self.post({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        answer = message_of(body, self.number)
        if "error" in answer:
            raise Failed(f"{parameters.get('name', method)}: {answer['error'].get('message')}")
        return answer["result"], len(body)

    def ask(self, question, limit):
        """Asks until the answer is finished. The last one has ranked everything that was read."""
        answer, arguments = Answer(), {"q": question, "limit": limit}
        started = time.monotonic()
        while True:
            result, size = self.request("tools/call", {"name": "file_search", "arguments": arguments})
            text = "".join(part.get("text", "") for part in result.get("content", []))
            answer.calls += 1
            answer.sent_bytes += size
            answer.text_bytes += len(text.encode())
            if result.get("isError"):
                raise Failed(f"file_search: {text[:400]}")
            content = result["structuredContent"]
            answer.found = [one["path"].removeprefix("/") for one in content["results"]]
            cursor = content.get("next_cursor") or content.get("cursor")
            if not is_unfinished(content) or not cursor or answer.calls == MOST_CALLS:
                answer.seconds = time.monotonic() - started
                return answer
            arguments = {"q": question, "limit": limit, "cursor": cursor}


def message_of(body, number):
    """Returns the answer with a number from a body, which is JSON or a stream of events."""
    text = body.decode()
    if text.lstrip().startswith("{"):
        return json.loads(text)
    for line in text.splitlines():
        if line.startswith("data:") and line[5:].strip():
            message = json.loads(line[5:])
            if message.get("id") == number:
                return message
    raise Failed("the answer has no message for the request")


def is_unfinished(content):
    """Whether an answer says outside of its results that it is `not_finished`, by name or as a reason."""
    def says(part):
        if isinstance(part, dict):
            return bool(part.get("not_finished")) or any(says(value) for value in part.values())
        if isinstance(part, list):
            return any(says(value) for value in part)
        return part == "not_finished"

    return says({name: value for name, value in content.items() if name not in ("results", "matched", "nowhere")})
