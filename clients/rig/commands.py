"""Clients that are a process for each call: the Inspector's command line, and mcporter."""

import json
import re
import subprocess
import threading

from driver import Client, Failed, None_

ANSWER_SECONDS = 60
AUTHORIZE = re.compile(r"https?://\S+/oauth/authorize\?\S+(?=\s)")
EACH_CALL = "each call is a process of its own"


class Command(Client):
    """What both have in common."""

    def start(self, server, owner, token):
        self.server = server
        self.owner = owner
        self.environment = {**server.environment(), **self.rig.quiet(server)}
        self.prepare(token)
        self.listed = self.list()

    def stop(self):
        pass

    def answer(self, *arguments):
        """Returns what it prints, which is JSON."""
        printed, failure = self.printed(*arguments)
        try:
            return json.loads(printed)
        except ValueError:
            raise Failed(failure) from None

    def printed(self, *arguments):
        """Runs it, and shows the owner what it wants opened. Returns what it prints, and what to say if
        that is not good."""
        process = subprocess.Popen([*map(str, self.program), *map(str, arguments)], env=self.environment,
                                   cwd=self.server.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        said = []

        def hear():
            for line in process.stderr:
                said.append(line)
                if found := AUTHORIZE.search(line):
                    self.rig.opened(found.group(0))
                    threading.Thread(target=self.owner.decide, args=(found.group(0),), daemon=True).start()

        listening = threading.Thread(target=hear, daemon=True)
        listening.start()
        timer = threading.Timer(ANSWER_SECONDS, process.kill)
        timer.start()
        printed = process.stdout.read()
        process.wait()
        timer.cancel()
        listening.join(5)
        return printed, f"status {process.returncode}: {printed[-200:]} {AUTHORIZE.sub('', ''.join(said))[-300:]}"

    def tools(self):
        self.listed = self.list()
        return self.listed

    def named(self, tool):
        return next(name for name in self.listed if name.replace(".", "_") == tool)

    def read(self, result):
        text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        if result.get("isError"):
            raise Failed(f"refused: {text}")
        return text

    def image(self, tool, arguments):
        result = self.called(tool, arguments)
        return next((block["mimeType"] for block in result["content"] if block["type"] == "image"), None)

    def call(self, tool, arguments):
        return self.read(self.called(tool, arguments))

    def subscribe(self, uri, change):
        raise None_(EACH_CALL)

    def cancel(self, tool, arguments):
        raise None_(EACH_CALL)


class Inspector(Command):
    """Its command line. It finds no browser, prints the address, and keeps its tokens."""

    has_model = False

    def prepare(self, token):
        modules = self.rig.installed / "libraries/node_modules"
        node = next((self.rig.installed / "agents/node_modules").glob("node-linux-*/bin/node"))
        program = modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        from server import free_port
        self.program = [node, program, "--cli", "--format", "json"]
        self.tail = ["--transport", "http", "--callback-url", f"http://127.0.0.1:{free_port()}/oauth/callback"]
        # Without a keychain, as here, it keeps tokens in memory, so each call would sign in anew. A person
        # without one chooses its file.
        self.environment.update({"MCP_AUTO_OPEN_ENABLED": "true", "PATH": "/nonexistent",
                                 "MCP_INSPECTOR_SECRET_STORE": "file"})

    def ask(self, *arguments):
        said = self.answer(self.server.address, *self.tail, *arguments)
        if "result" not in said:
            raise Failed(f"{said}"[:300])
        return said["result"]

    def list(self):
        return [tool["name"] for tool in self.ask("--method", "tools/list")["tools"]]

    def called(self, tool, arguments):
        return self.ask("--method", "tools/call", "--tool-name", self.named(tool), "--tool-args-json", json.dumps(arguments))

    def resource(self, uri):
        return self.ask("--method", "resources/read", "--uri", uri)["contents"][0]["text"]


class Mcporter(Command):
    signs_in = False

    def prepare(self, token):
        modules = self.rig.installed / "agents/node_modules"
        node = next(modules.glob("node-linux-*/bin/node"))
        config = self.server.home / "mcporter.json"
        config.write_text(json.dumps({"imports": [], "mcpServers": {"stile": {
            "url": self.server.address, "headers": {"Authorization": f"Bearer {token}"}}}}))
        self.program = [node, modules / "mcporter/dist/cli.js", "--config", config]

    def list(self):
        return [tool["name"] for tool in self.answer("list", "stile", "--json")["tools"]]

    def call(self, tool, arguments):
        """Its raw output is no JSON, but how Node shows an object."""
        command = ("call", "--server", "stile", "--tool", self.named(tool), "--args", json.dumps(arguments))
        printed, failure = self.printed(*command, "--output", "raw")
        if "isError: false" not in printed:
            raise Failed(f"refused: {failure}")
        return printed

    def image(self, tool, arguments):
        found = re.search(r"mimeType: '(image/[a-z]+)'", self.call(tool, arguments))
        return found and found.group(1)

    def resource(self, uri):
        said = self.answer("resource", "stile", uri, "--json")
        return json.dumps(said, ensure_ascii=False)
