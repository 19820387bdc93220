"""A stand-in for the interfaces of models, on loopback: it says what the story wants said.

It speaks what Claude Code (messages), Codex (responses), OpenCode (chat completions) and Gemini CLI
(generateContent) speak, refuses tools whose names the real interfaces refuse, and holds each request
until the story says which tool is to be called. So the client stays alive for the whole story.
"""

import json
import queue
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
PATIENCE_SECONDS = 90


class Model:
    """One conversation. `offered` are the names of the tools that the client offers its model."""

    def __init__(self):
        self.offered = []
        self.refused = []
        self.orders = queue.Queue()
        self.results = queue.Queue()
        self.waits = 0
        self.calls = 0
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.answer(200, {})

            def do_GET(self):
                self.answer(200, {"data": [{"id": "stand-in", "object": "model"}], "models": [], "object": "list"})

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                try:
                    asked = json.loads(body or b"{}")
                except ValueError:
                    asked = {}
                asked["as_stream"] = "alt=sse" in self.path
                status, kind, said = model.say(self.path, asked)
                self.answer(status, said, kind)

            def answer(self, status, said, kind="application/json"):
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.orders.put(None)
        self.server.shutdown()
        self.server.server_close()

    def say(self, path, asked):
        """Returns the status, the media type and the body of the answer to one request."""
        for dialect in DIALECTS:
            if dialect.speaks(path):
                break
        else:
            return 200, "application/json", {}
        names = dialect.tools(asked)
        if dialect.is_aside(path, asked, names):
            if "Bash" in names and self.waits < 10:
                # Claude Code asks before its servers are connected; the next question may name them.
                self.waits += 1
                return dialect.call("Bash", {"command": "sleep 2", "description": "Wait"}, f"wait_{self.waits}", asked)
            return dialect.text("none", asked)
        refused = [name for name in names if not NAME.match(name)]
        self.offered = names
        if refused:
            self.refused = refused
            return 400, "application/json", dialect.error(f"the tool name {refused[0]} does not match {NAME.pattern}")
        self.results.put(dialect.result(asked))
        try:
            order = self.orders.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            order = None
        if order is None:
            return dialect.text("done", asked)
        tool, arguments = order
        self.calls += 1
        full = next((name for name in names if re.sub(r"\.", "_", name).endswith(tool)), None)
        if full is None:
            self.results.put(("error", f"{tool} is not offered to the model"))
            return dialect.text("done", asked)
        return dialect.call(full, arguments, f"call_{self.calls}", asked)

    def call(self, tool, arguments, seconds=PATIENCE_SECONDS):
        """Has the model call a tool, and returns the kind and the content of what the client sent back."""
        self.orders.put((tool, arguments))
        try:
            return self.results.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError("the client sent no result to its model") from None


def events(pairs):
    """Server-sent events, named or not."""
    lines = [f"event: {name}\ndata: {json.dumps(data)}\n\n" if name else f"data: {json.dumps(data)}\n\n"
             for name, data in pairs]
    return 200, "text/event-stream", "".join(lines).encode()


class Messages:
    """What Claude Code speaks."""

    def speaks(self, path):
        return path.split("?")[0].endswith("/messages") or "count_tokens" in path

    def is_aside(self, path, asked, names):
        return "count_tokens" in path or not any("stile" in name for name in names)

    def tools(self, asked):
        return [tool["name"] for tool in asked.get("tools", [])]

    def error(self, said):
        return {"type": "error", "error": {"type": "invalid_request_error", "message": said}}

    def result(self, asked):
        for message in reversed(asked.get("messages", [])):
            if isinstance(message.get("content"), list):
                for block in reversed(message["content"]):
                    if block.get("type") == "tool_result":
                        return ("error" if block.get("is_error") else "ok"), block.get("content")
        return "ok", None

    def begin(self):
        usage = {"input_tokens": 1, "output_tokens": 1}
        return ("message_start", {"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "stand-in", "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": usage}})

    def stream(self, asked, block, delta, reason):
        if "stream" not in asked:
            content = [{"type": "text", "text": "none"}]
            return 200, "application/json", {"id": "msg_1", "type": "message", "role": "assistant",
                                             "model": "stand-in", "content": content, "stop_reason": "end_turn",
                                             "usage": {"input_tokens": 1, "output_tokens": 1}, "input_tokens": 1}
        return events([
            self.begin(),
            ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}),
            ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
            ("content_block_stop", {"type": "content_block_stop", "index": 0}),
            ("message_delta", {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
                               "usage": {"output_tokens": 1}}),
            ("message_stop", {"type": "message_stop"}),
        ])

    def text(self, words, asked):
        return self.stream(asked, {"type": "text", "text": ""}, {"type": "text_delta", "text": words}, "end_turn")

    def call(self, name, arguments, call, asked):
        block = {"type": "tool_use", "id": f"toolu_{call}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        return self.stream(asked, block, delta, "tool_use")


class Responses:
    """What Codex speaks."""

    def speaks(self, path):
        return path.split("?")[0].endswith("/responses")

    def is_aside(self, path, asked, names):
        return not names

    def tools(self, asked):
        """The names of functions; those of a namespace follow its name."""
        self.spaces = {}
        names = []
        for tool in asked.get("tools", []):
            if tool.get("type") == "function":
                names.append(tool["name"])
            elif tool.get("type") == "namespace":
                for inner in tool.get("tools", []):
                    full = f"{tool['name']}{inner['name']}"
                    self.spaces[full] = (tool["name"], inner["name"])
                    names.append(full)
        return names

    def error(self, said):
        return {"error": {"message": said, "type": "invalid_request_error", "param": "tools", "code": None}}

    def result(self, asked):
        for item in reversed(asked.get("input", [])):
            if isinstance(item, dict) and item.get("type") == "function_call_output":
                output = item.get("output")
                failed = isinstance(output, str) and (output.startswith("err") or "tool call error" in output)
                return ("error" if failed else "ok"), output
        return "ok", None

    def stream(self, item):
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": None,
                 "output_tokens_details": None}
        done = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
        return events([
            ("response.created", {"type": "response.created", "response": {"id": "resp_1"}}),
            ("response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}),
            ("response.completed", {"type": "response.completed", "response": done}),
        ])

    def text(self, words, asked):
        return self.stream({"type": "message", "role": "assistant", "id": "msg_1",
                            "content": [{"type": "output_text", "text": words}]})

    def call(self, name, arguments, call, asked):
        item = {"type": "function_call", "id": f"fc_{call}", "call_id": call, "name": name,
                "arguments": json.dumps(arguments)}
        if name in self.spaces:
            item["namespace"], item["name"] = self.spaces[name]
        return self.stream(item)


class Generate:
    """What Gemini CLI speaks."""

    def speaks(self, path):
        return ":generateContent" in path or ":streamGenerateContent" in path or ":countTokens" in path

    def is_aside(self, path, asked, names):
        return "countTokens" in path or not any("stile" in name for name in names)

    def tools(self, asked):
        return [function["name"] for tool in asked.get("tools", []) for function in tool.get("functionDeclarations", [])]

    def error(self, said):
        return {"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}

    def result(self, asked):
        for content in reversed(asked.get("contents", [])):
            for part in content.get("parts", []):
                if "functionResponse" in part:
                    said = part["functionResponse"].get("response", {})
                    return ("error" if "error" in said else "ok"), content["parts"]
        return "ok", None

    def stream(self, part, asked):
        said = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
                "totalTokens": 1}
        if asked.get("as_stream"):
            return events([(None, said)])
        return 200, "application/json", said

    def text(self, words, asked):
        return self.stream({"text": words}, asked)

    def call(self, name, arguments, call, asked):
        return self.stream({"functionCall": {"name": name, "args": arguments}}, asked)


DIALECTS = [Messages(), Responses(), Generate()]
