"""The calls of the smallest client there is, over standard input and output and over HTTP."""

import json
import subprocess
import urllib.request

BEGIN = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "package-check", "version": "1"},
}


def _request(identifier, method, params):
    return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}


def _read_call(path):
    return {"name": "text_read", "arguments": {"path": path}}


class Stdio:
    """A server that the client starts itself."""

    def __init__(self, command, **options):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **options)
        self.ask("initialize", BEGIN)
        self.process.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, method, params):
        self.process.stdin.write(json.dumps(_request(1, method, params)) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == 1 and "result" in answer, answer
        return answer["result"]

    def read(self, path):
        return json.dumps(self.ask("tools/call", _read_call(path)))

    def end(self):
        """Ends standard input, and holds that the server ends well then."""
        self.process.stdin.close()
        assert self.process.wait(timeout=20) == 0, self.process.returncode


def read_over_http(entry, path):
    """Reads a file with the entry that `stile connect` wrote for a client."""
    session = {}

    def send(message):
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        headers |= entry["headers"] | session
        request = urllib.request.Request(entry["url"], json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            if identifier := answer.headers.get("Mcp-Session-Id"):
                session["Mcp-Session-Id"] = identifier
            return answer.read().decode()

    send(_request(1, "initialize", BEGIN))
    session["MCP-Protocol-Version"] = BEGIN["protocolVersion"]
    send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return send(_request(2, "tools/call", _read_call(path)))
