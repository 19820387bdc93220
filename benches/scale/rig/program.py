"""The program as commands, as a server over HTTP, and as a server over standard input and output."""

import http.client
import json
import os
import statistics
import subprocess
import time
import urllib.parse


class Failed(Exception):
    """An answer was wrong, so there is no figure."""


class State:
    """A folder of files, and the state of the program beside it."""

    def __init__(self, program, place):
        self.program, self.place = program, place
        self.space, self.state = place / "space", place / "state"
        self.space.mkdir(parents=True, exist_ok=True)
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("STILE_")}
        self.env |= {"HOME": str(place), "XDG_STATE_HOME": str(place / "xdg")}

    def command(self, *words):
        return [str(self.program), *map(str, words), "--state", str(self.state)]

    def say(self, *words, expected=(0,)):
        """Runs a command, and returns what it prints."""
        done = subprocess.run(self.command(*words), env=self.env, capture_output=True, text=True)
        if done.returncode not in expected:
            raise Failed(f"{words}: {done.stderr[-400:]}")
        return done.stdout

    def run(self, *words, expected=(0,)):
        """Runs a command, and returns its seconds, its processor seconds, and what it prints."""
        began = time.perf_counter()
        process = subprocess.Popen(self.command(*words), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        text = process.stdout.read()
        _, status, use = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in expected:
            raise Failed(f"{words}: exit code {process.returncode}")
        took = time.perf_counter() - began
        return Run(took, use.ru_utime + use.ru_stime, text)

    def memory(self, *words):
        """Runs a command again, and returns the most memory that it had, as far as looks every few milliseconds see."""
        process = subprocess.Popen(self.command(*words), env=self.env, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        most = 0
        while process.poll() is None:
            most = max(most, memory_of(process.pid, "VmHWM:", most))
            time.sleep(0.003)
        return most

    def token(self, *words):
        return self.say("token", *words).strip()

    def serve(self, *flags):
        return HttpServer(self, flags)

    def stdio(self, client="rig"):
        return StdioServer(self, client)


class Run:
    """What a command took and said."""

    def __init__(self, seconds, processor, text):
        self.seconds, self.processor, self.text = seconds, processor, text

    def lines(self):
        return self.text.count(b"\n")


class HttpServer:
    """`stile serve` on a port of its own."""

    def __init__(self, state, flags):
        began = time.perf_counter()
        command = state.command("serve", state.space, "--listen", "127.0.0.1:0", "--rate-per-second", "1000000",
                                "--rate-burst", "1000000", *flags)
        self.process = subprocess.Popen(command, env=state.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.address = None
        for line in self.process.stderr:
            found = [word for word in line.decode().split() if word.startswith("http://127.0.0.1:")]
            if found:
                self.address = urllib.parse.urlsplit(found[0]).netloc.rstrip(",.")
                break
        if not self.address:
            raise Failed("the server did not start")
        self.started = time.perf_counter() - began
        self.silence = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.silence.wait()

    def client(self, token=None):
        return HttpClient(self.address, token)

    def memory(self):
        return memory_of(self.process.pid)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class HttpClient:
    """One kept connection."""

    def __init__(self, address, token=None):
        self.connection = http.client.HTTPConnection(address)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, method, path, body=None, headers=()):
        self.connection.request(method, path, body, self.headers | dict(headers))
        answer = self.connection.getresponse()
        return answer, answer.read()

    def get(self, path, headers=()):
        answer, body = self.ask("GET", path, None, headers)
        if answer.status != 200:
            raise Failed(f"{path}: {answer.status} {body[:200]}")
        return body

    def call(self, tool, arguments):
        """Calls a tool without a session. Returns the structured content of the answer."""
        status, result = self.try_call(tool, arguments)
        if status != 200 or result.get("isError"):
            raise Failed(f"{tool}: {status} {str(result)[:300]}")
        return result["structuredContent"]

    def try_call(self, tool, arguments):
        answer, body = self.ask("POST", "/mcp", call_body(tool, arguments), CALL_HEADERS | {"Mcp-Name": tool})
        message = json.loads(body) if body else {}
        return answer.status, message.get("result", message)


CALL_HEADERS = {
    "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
}


def call_body(tool, arguments):
    about = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "scale-rig", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": about}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


class StdioServer:
    """`stile stdio` with one client."""

    def __init__(self, state, client):
        self.began = time.perf_counter()
        command = state.command("stdio", state.space, "--client", client)
        self.process = subprocess.Popen(command, env=state.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": client, "version": "1"}}
        self.ask("initialize", opening)
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def write(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.write({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise Failed("the server ended")
            message = json.loads(line)
            if message.get("id") == 1 and "method" not in message:
                return message["result"]

    def call(self, tool, arguments):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise Failed(f"{tool}: {str(result)[:300]}")
        return result["structuredContent"]

    def memory(self):
        return memory_of(self.process.pid)


def memory_of(pid, what="VmRSS:", otherwise=0):
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith(what)), otherwise)
    except (FileNotFoundError, ProcessLookupError):
        return otherwise


def timed(function, *arguments):
    """Returns the milliseconds that a function takes, and what it returns."""
    began = time.perf_counter()
    returned = function(*arguments)
    return 1000 * (time.perf_counter() - began), returned


class Figures:
    """The figures of each line at each size, one for each round."""

    def __init__(self):
        self.lines = {}

    def add(self, title, unit, size, figure):
        line = self.lines.setdefault(title, {"unit": unit, "rounds": {}})
        line["rounds"].setdefault(str(size), []).append(figure)

    def medians(self):
        return {
            title: {
                "unit": line["unit"],
                "medians": {size: statistics.median(figures) for size, figures in line["rounds"].items()},
                "rounds": {size: [round(figure, 4) for figure in figures] for size, figures in line["rounds"].items()},
            }
            for title, line in self.lines.items()
        }


def floor(program, figures, sizes):
    """The start of the program that does nothing else, once in each round for each size."""
    for size in sizes:
        took, _ = timed(lambda: subprocess.run([program, "--version"], stdout=subprocess.DEVNULL, check=True))
        figures.add("floor: the program says its version", "ms", size, took)
