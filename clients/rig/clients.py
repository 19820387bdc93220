"""Every client that is driven, with how it is started."""

import json
import subprocess

import agents
import commands
import remade
from driver import Driver


class Kind:
    """One row of the table."""

    def __init__(self, key, name, version, make):
        self.key = key
        self.name = name
        self.version = version
        self.make = make


def npm(folder, package):
    """The version of a package that is installed."""
    return lambda rig: json.loads((rig.installed / folder / "node_modules" / package / "package.json").read_text())["version"]


def pypi(folder, package):
    def version(rig):
        python = rig.installed / folder / "venv/bin/python"
        command = [python, "-c", f"import importlib.metadata as m; print(m.version({package!r}))"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    return version


def node(rig, folder):
    """The Node that is installed there."""
    return next((rig.installed / folder / "node_modules").glob("node-linux-*/bin/node"))


def typescript(key, name, package, kind):
    def make(rig):
        return Driver(rig, [node(rig, "agents"), rig.installed / "libraries/typescript.mjs", kind])

    return Kind(key, name, npm("libraries", package), make)


def remote():
    def make(rig):
        program = rig.installed / "agents/node_modules/mcp-remote/dist/proxy.js"
        return Driver(rig, [node(rig, "agents"), rig.installed / "libraries/typescript.mjs", "remote"],
                      environment={"MCP_REMOTE": str(program)}, starts_again="a new process")

    return Kind("mcp-remote", "mcp-remote", npm("agents", "mcp-remote"), make)


def inspector_web():
    def make(rig):
        package = "@modelcontextprotocol/inspector"
        program = rig.installed / "libraries/node_modules" / package / "clients/launcher/build/index.js"
        driver = Driver(rig, [node(rig, "agents"), rig.drivers / "inspector_web.mjs", program],
                        environment={"CHROMIUM": str(rig.drivers.parent.parent / ".ci/sign-in/chromium.mjs")},
                        lacks={"cancel": "a person does not give up what is answered at once"},
                        starts_again="connects anew")
        driver.one_line = True
        # A call by a person takes seconds, and a token should outlive it.
        driver.token_seconds = 20
        # Chromium's page is waited for as long as other clients' answers, and may be waited for twice.
        driver.answer_seconds = 150
        driver.has_model = False
        return driver

    return Kind("inspector-web", "Inspector, in Chromium", npm("libraries", "@modelcontextprotocol/inspector"), make)


def python(key, name, folder, package, mode):
    def make(rig):
        return Driver(rig, [rig.installed / folder / "venv/bin/python", rig.drivers / "python_sdk.py", mode])

    return Kind(key, name, pypi(folder, package), make)


NO_EVENTS = "it has no subscriptions"
NO_CANCEL = "it has no way to give up a call"


def framework(key, name, folder, package, kind, **lacks):
    def make(rig):
        if folder == "libraries":
            command = [node(rig, "agents"), rig.installed / "libraries/frameworks.mjs", kind]
        else:
            command = [rig.installed / folder / "venv/bin/python", rig.drivers / "frameworks.py", kind]
        return Driver(rig, command, signs_in=False, lacks={"subscribe": NO_EVENTS, **lacks})

    version = (npm if folder == "libraries" else pypi)(folder, package)
    return Kind(key, name, version, make)


def hosted():
    """Their version is the revision of the protocol that is spoken."""
    def kind(key, name, registration, redirect, called, revision, scope):
        def make(rig):
            return remade.Remade(rig, registration, redirect, called, revision, scope)

        return Kind(key, name, lambda rig: revision, make)

    return [kind(*row) for row in remade.HOSTED]


def all():
    return [
        typescript("typescript-1", "TypeScript SDK 1", "@modelcontextprotocol/sdk", "1"),
        typescript("typescript-2", "TypeScript SDK 2, 2026-07-28", "@modelcontextprotocol/client", "2"),
        typescript("typescript-2-legacy", "TypeScript SDK 2, 2025-11-25", "@modelcontextprotocol/client", "2-legacy"),
        python("python", "Python `mcp`, 2026-07-28", "fastmcp", "mcp", "auto"),
        python("python-legacy", "Python `mcp`, 2025-11-25", "fastmcp", "mcp", "legacy"),
        python("fastmcp", "fastmcp", "fastmcp", "fastmcp", "fastmcp"),
        Kind("claude-code", "Claude Code", npm("agents", "@anthropic-ai/claude-code"), agents.ClaudeCode),
        Kind("codex", "Codex", npm("agents", "@openai/codex"), agents.Codex),
        Kind("opencode", "OpenCode", npm("agents", "opencode-linux-x64"), agents.OpenCode),
        Kind("gemini-cli", "Gemini CLI, in a terminal", npm("agents", "@google/gemini-cli"), agents.GeminiCli),
        remote(),
        Kind("inspector", "Inspector, command line", npm("libraries", "@modelcontextprotocol/inspector"),
             commands.Inspector),
        inspector_web(),
        framework("ai-sdk", "AI SDK (token)", "libraries", "@ai-sdk/mcp", "ai-sdk"),
        framework("langchain", "LangChain (token)", "frameworks", "langchain-mcp-adapters", "langchain"),
        framework("pydantic-ai", "pydantic-ai (token)", "frameworks", "pydantic-ai-slim", "pydantic-ai"),
        framework("llama-index", "llama-index (token)", "llama-index", "llama-index-tools-mcp", "llama-index"),
        framework("openai-agents-python", "openai-agents, Python (token)", "frameworks", "openai-agents", "openai-agents"),
        framework("openai-agents-js", "openai-agents, JavaScript (token)", "libraries", "@openai/agents",
                  "openai-agents", cancel=NO_CANCEL),
        framework("mastra", "Mastra (token)", "libraries", "@mastra/mcp", "mastra"),
        Kind("mcporter", "mcporter (token)", npm("agents", "mcporter"), commands.Mcporter),
        *hosted(),
    ]
