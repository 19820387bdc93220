"""A server over standard input and output: one line, one message."""

import json
import subprocess
import time


class Failed(Exception):
    """A server gave no answer, or a wrong one."""


class Server:
    """A process that serves one client."""

    def __init__(self, command, name="peer-benchmark"):
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.next = 0
        self.received = 0
        opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
        self.ask("initialize", opening)
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def write(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method, params):
        """Sends a request and does not wait."""
        self.next += 1
        self.write({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        return self.next

    def receive(self):
        """Returns the next answer as it came, without notifications and questions of the server."""
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise Failed("the server ended")
            if b'"method"' in line[:200] and b'"result"' not in line[:200]:
                message = json.loads(line)
                if "method" in message:
                    if "id" in message:
                        self.write({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}})
                    continue
            self.received = len(line)
            return line

    def ask(self, method, params):
        self.send(method, params)
        answer = json.loads(self.receive())
        if "result" not in answer:
            raise Failed(f"{method}: {answer.get('error')}")
        return answer["result"]

    def call(self, call):
        """Calls a tool, and returns the result, which must not be an error."""
        tool, arguments = call
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise Failed(f"{tool}: {result}")
        return result

    def timed(self, call):
        """Calls a tool, and returns the seconds to the last byte of its answer."""
        tool, arguments = call
        began = time.perf_counter()
        self.send("tools/call", {"name": tool, "arguments": arguments})
        self.receive()
        return time.perf_counter() - began

    def resident(self):
        """The memory of the process, in bytes."""
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0


def text_of(result):
    """All that a result says, in either form."""
    parts = [block.get("text", "") for block in result.get("content", [])]
    return "\n".join(parts) or json.dumps(result.get("structuredContent", {}), ensure_ascii=False)
