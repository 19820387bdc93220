"""Agents in a terminal, each with a stand-in for its model: Claude Code, Codex, OpenCode, Gemini CLI."""

import json
import re
import subprocess
import threading
import time

from driver import Client, Failed, None_
from model import Model
from terminal import Terminal

SIGN_IN_SECONDS = 60
READY_SECONDS = 90
BROWSERS = ("xdg-open", "open", "sensible-browser", "www-browser", "x-www-browser")
PROMPT = "Do with my notes what you are asked for."


class Agent(Client):
    """What all have in common: a browser that tells the owner, and a model that the story leads."""

    # Tools take seconds to come and go, and the token must outlive one start.
    token_seconds = 45

    def start(self, server, owner, token):
        self.server = server
        self.owner = owner
        self.model = None
        self.process = None
        folder = server.home / "bin"
        folder.mkdir()
        self.opened = server.home / "opened"
        for name in BROWSERS:
            (folder / name).write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >>"{self.opened}"\n')
            (folder / name).chmod(0o755)
        self.environment = {
            **server.environment(), **self.rig.quiet(server), "PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin",
            "BROWSER": str(folder / "xdg-open"), "DISPLAY": ":99",
        }
        self.environment.pop("CI", None)
        self.configure()
        self.sign_in()
        self.begin()

    def configure(self):
        raise NotImplementedError

    def login(self):
        """The command that signs in, which opens a browser."""
        raise NotImplementedError

    def command(self):
        """The command that talks with the model until that has nothing more to say."""
        raise NotImplementedError

    def run(self, *command, seconds=60):
        done = subprocess.run([*map(str, command)], env=self.environment, cwd=self.server.home, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=seconds)
        if done.returncode != 0:
            raise Failed(f"{command[1:3]} ended with {done.returncode}: {done.stdout[-300:]} {done.stderr[-300:]}")
        return done.stdout

    def sign_in(self):
        self.opened.unlink(missing_ok=True)
        terminal = Terminal(self.login(), self.environment, self.server.home)
        try:
            self.decide(terminal)
            try:
                terminal.process.wait(SIGN_IN_SECONDS)
            except subprocess.TimeoutExpired:
                raise Failed(f"signing in does not end: {terminal.text()[-300:]}") from None
            if terminal.process.returncode != 0:
                raise Failed(f"signing in failed: {terminal.text()[-300:]}")
        finally:
            terminal.close()

    def decide(self, terminal):
        """Opens what the client opens, as the owner."""
        end = time.monotonic() + SIGN_IN_SECONDS
        while not (self.opened.exists() and self.opened.read_text().endswith("\n")):
            if "Re-authenticate?" in terminal.text():
                # The first choice is yes.
                terminal.forget()
                terminal.type("")
            if time.monotonic() > end or terminal.process.poll() is not None:
                raise Failed(f"it opens no browser: {terminal.text()[-300:]}")
            time.sleep(0.1)
        url = self.opened.read_text().split()[-1]
        self.opened.unlink()
        self.rig.opened(url)
        self.owner.decide(url)

    def begin(self):
        """Starts the conversation, and waits until the model is asked."""
        self.end()
        self.model = Model()
        self.environment.update(self.at_model())
        self.process = self.converse()
        try:
            self.model.results.get(timeout=READY_SECONDS)
        except Exception:
            raise Failed(f"it does not ask its model: {self.said()}") from None

    def at_model(self):
        """The environment that leads to the stand-in."""
        return {}

    def converse(self):
        log = open(self.server.folder / "client.log", "ab")
        process = subprocess.Popen([*map(str, self.command())], env=self.environment, cwd=self.server.home,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        return process

    def said(self):
        log = self.server.folder / "client.log"
        return log.read_text(errors="replace")[-400:] if log.exists() else ""

    def end(self):
        if self.model:
            self.model.close()
            self.model = None
        if self.process and self.process.poll() is None:
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        self.process = None

    def stop(self):
        self.end()

    def sign_in_again(self):
        """Its tools now say that the access has ended; a person signs in and goes on."""
        self.sign_in()
        self.begin()

    def tools(self):
        if self.model.refused:
            return self.model.refused
        ours = [name for name in self.model.offered if "stile" in name]
        return ours

    def result(self, tool, arguments):
        kind, content = self.model.call(tool, arguments)
        if kind == "error":
            raise Failed(f"refused: {json.dumps(content)[:300]}")
        return content

    def call(self, tool, arguments):
        content = self.result(tool, arguments)
        return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)

    def image(self, tool, arguments):
        said = json.dumps(self.result(tool, arguments))
        return "image/png" if "image/png" in said and "iVBOR" in said else None

    def resource(self, uri):
        raise None_("it does not offer resources to its model")

    def subscribe(self, uri, change):
        raise None_("it does not subscribe")

    def cancel(self, tool, arguments):
        raise None_("a person gives up a whole turn, not a call")


class ClaudeCode(Agent):
    def __init__(self, rig):
        super().__init__(rig)
        self.program = next((rig.installed / "agents/node_modules/@anthropic-ai").glob("claude-code-linux-*/claude"))

    def configure(self):
        self.environment.update({
            "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "ENABLE_TOOL_SEARCH": "false", "IS_SANDBOX": "1",
        })
        self.run(self.program, "mcp", "add", "--transport", "http", "stile", self.server.address)

    def login(self):
        return [self.program, "mcp", "login", "stile"]

    def at_model(self):
        return {"ANTHROPIC_BASE_URL": self.model.address}

    def command(self):
        return [self.program, "-p", PROMPT, "--permission-mode", "bypassPermissions"]

    def resource(self, uri):
        return self.call("ReadMcpResourceTool", {"server": "stile", "uri": uri})


class Codex(Agent):
    def __init__(self, rig):
        super().__init__(rig)
        self.program = next((rig.installed / "agents/node_modules/@openai").glob("codex-linux-*/vendor/*/bin/codex"))

    def configure(self):
        self.home = self.server.home / ".codex"
        self.home.mkdir()
        self.environment["CODEX_HOME"] = str(self.home)
        self.write("http://127.0.0.1:9")

    def write(self, model):
        (self.home / "config.toml").write_text(f"""
model = "stand-in"
model_provider = "stand-in"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
mcp_oauth_credentials_store = "file"

[model_providers.stand-in]
name = "stand-in"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "STAND_IN_KEY"

[analytics]
enabled = false

[mcp_servers.stile]
url = "{self.server.address}"
""")

    def login(self):
        return [self.program, "mcp", "login", "stile"]

    def at_model(self):
        self.write(self.model.address)
        return {"STAND_IN_KEY": "none"}

    def command(self):
        return [self.program, "exec", "--skip-git-repo-check", PROMPT]

    def resource(self, uri):
        return self.call("read_mcp_resource", {"server": "stile", "uri": uri})

    def image(self, tool, arguments):
        raise None_("it shows pictures to models that it knows, and the stand-in is none")


class OpenCode(Agent):
    def __init__(self, rig):
        super().__init__(rig)
        self.program = next((rig.installed / "agents/node_modules").glob("opencode-linux-*/bin/opencode"))

    def configure(self):
        self.environment.update({"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
                                 "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"})
        self.write("http://127.0.0.1:9")

    def write(self, model):
        (self.server.home / "opencode.json").write_text(json.dumps({
            "autoupdate": False, "share": "disabled", "model": "anthropic/stand-in",
            "small_model": "anthropic/stand-in",
            "provider": {"anthropic": {
                "options": {"baseURL": f"{model}/v1", "apiKey": "none"},
                "models": {"stand-in": {"name": "stand-in", "tool_call": True, "attachment": True,
                                        "modalities": {"input": ["text", "image"], "output": ["text"]},
                                        "limit": {"context": 200000, "output": 8000}}}}},
            "mcp": {"stile": {"type": "remote", "url": self.server.address, "enabled": True}},
        }))

    def login(self):
        return [self.program, "mcp", "auth", "stile"]

    def at_model(self):
        self.write(self.model.address)
        return {}

    def command(self):
        return [self.program, "run", "--auto", "-m", "anthropic/stand-in", PROMPT]


class GeminiCli(Agent):
    """Talks in its terminal: `/mcp auth`, `/mcp list`, and then a question."""

    # It renews a token five minutes before its end. One that lives for less it would renew at each
    # request, of which there are several at once. Its model may be silent for a minute.
    renews_before = 5 * 60
    token_seconds = renews_before + 40

    def __init__(self, rig):
        super().__init__(rig)
        modules = rig.installed / "agents/node_modules"
        self.program = [next(modules.glob("node-linux-*/bin/node")), modules / "@google/gemini-cli/bundle/gemini.js"]

    def configure(self):
        folder = self.server.home / ".gemini"
        folder.mkdir()
        (folder / "settings.json").write_text(json.dumps({
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "disableUpdateNag": True},
            "ui": {"hideTips": True, "hideBanner": True, "useAlternateBuffer": False},
            "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}, "ide": {"enabled": False},
            "mcpServers": {"stile": {"httpUrl": self.server.address, "trust": True}},
        }))
        self.environment.update({"GEMINI_API_KEY": "none", "GEMINI_CLI_NO_RELAUNCH": "true"})

    def start(self, server, owner, token):
        self.terminal = None
        super().start(server, owner, token)

    def sign_in(self):
        if self.terminal is None:
            self.model = Model()
            environment = {**self.environment, "GOOGLE_GEMINI_BASE_URL": self.model.address}
            command = [*self.program, "--yolo", "-m", "gemini-2.5-flash"]
            self.terminal = Terminal(command, environment, self.server.home, columns=160)
            self.terminal.wait_for("Type your message", READY_SECONDS)
        else:
            self.model.orders.put(None)
            time.sleep(3)
        self.terminal.forget()
        self.opened.unlink(missing_ok=True)
        self.terminal.type("/mcp auth stile")
        # It asks whether it may open a browser; the first choice is yes.
        self.terminal.wait_for("Do you want to continue", SIGN_IN_SECONDS)
        self.terminal.type("")
        self.decide(self.terminal)
        # Before it has its tools again, it loses letters that are typed.
        self.terminal.wait_for("uccessfully authenticated and reloaded", SIGN_IN_SECONDS)
        self.terminal.wait_for("Type your message", READY_SECONDS)

    def begin(self):
        # The list must show that the server is there, with its tools.
        end = time.monotonic() + SIGN_IN_SECONDS
        while True:
            self.terminal.forget()
            self.terminal.type("/mcp list")
            time.sleep(2)
            if "Ready" in self.terminal.text() and re.search("file[_.]create", self.terminal.text()):
                break
            if time.monotonic() > end:
                raise Failed(f"/mcp list does not show the tools: {self.terminal.text()[-300:]}")
        while not self.model.results.empty():
            self.model.results.get()
        self.terminal.type(PROMPT)
        try:
            self.model.results.get(timeout=READY_SECONDS)
        except Exception:
            raise Failed(f"it does not ask its model: {self.terminal.text()[-300:]}") from None

    def stop(self):
        if getattr(self, "terminal", None):
            self.terminal.close()
        if self.model:
            self.model.close()
