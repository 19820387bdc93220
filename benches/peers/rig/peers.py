"""The servers of the benchmark: how each is started, and which call does what."""

import json
import shutil
import subprocess

from driver import text_of

RUST_MCP_FILESYSTEM = "0.4.5"


class Stile:
    """This program. A client that nobody knows gets both forms of an answer."""

    name = "stile"
    # Beyond its default of 64 KiB, so that one answer has 100 KB as that of every peer.
    flags = ("--read-budget-bytes", "256KiB")

    def __init__(self, program):
        self.program = program

    def version(self):
        said = subprocess.run([str(self.program), "--version"], capture_output=True, text=True, check=True)
        return said.stdout.split()[-1]

    def command(self, root, state):
        return [self.program, "stdio", root, "--state", state, "--client", "peer-benchmark", *self.flags]

    def read(self, _, path):
        return "text_read", {"path": f"/{path}"}

    def whole(self, server, root, path):
        return said(server.call(self.read(root, path)))["content"]

    def list_pages(self, server, _, path):
        names, cursor = set(), None
        while True:
            arguments = {"path": f"/{path}"} | ({"cursor": cursor} if cursor else {})
            result = said(server.call(("file_list", arguments)))
            names |= {entry["path"].rsplit("/", 1)[-1] for entry in result["entries"]}
            cursor = result.get("next_cursor")
            if not cursor:
                return names

    def window(self, _, path, first):
        return "text_read", {"path": f"/{path}", "lines": [first, first + 20]}

    def edit(self, server, root, path, old, new):
        read = said(server.call(("text_read", {"path": f"/{path}", "lines": [1, 2]})))
        return "text_edit", {"path": f"/{path}", "hash": read["hash"], "edits": [{"old": old, "new": new}]}

    def search(self, _, query):
        return "text_search", {"q": query, "path": "/notes"}


class StileOneForm(Stile):
    """The same for a client that is known to show one form, as `--answers` says here."""

    name = "stile, one form"
    flags = (*Stile.flags, "--answers", "structured")


class Reference:
    """The reference server of the protocol, on Node."""

    name = "server-filesystem"

    def __init__(self, folder):
        self.folder = folder
        self.package = folder / "node_modules/@modelcontextprotocol/server-filesystem"

    def version(self):
        return json.loads((self.package / "package.json").read_text())["version"]

    def command(self, root, _):
        return ["node", self.package / "dist/index.js", root]

    def read(self, root, path):
        return "read_text_file", {"path": str(root / path)}

    def whole(self, server, root, path):
        return text_of(server.call(self.read(root, path)))

    def list_pages(self, server, root, path):
        text = text_of(server.call(("list_directory", {"path": str(root / path)})))
        return {line.removeprefix("[FILE] ").strip() for line in text.splitlines() if line.startswith("[FILE]")}

    # It has the first and the last lines of a file alone, so the whole file is read.
    def window(self, root, path, first):
        return self.read(root, path)

    def edit(self, _, root, path, old, new):
        return "edit_file", {"path": str(root / path), "edits": [{"oldText": old, "newText": new}]}

    # It finds names and no texts.
    search = None


class RustFilesystem(Reference):
    """A file server in Rust."""

    name = "rust-mcp-filesystem"

    def __init__(self, folder):
        self.program = folder / "bin/rust-mcp-filesystem"

    def version(self):
        return RUST_MCP_FILESYSTEM

    def command(self, root, _):
        return [self.program, "--allow-write", root]

    def window(self, root, path, first):
        return "read_file_lines", {"path": str(root / path), "offset": first - 1, "limit": 20}

    def search(self, root, query):
        return "search_files_content", {"path": str(root / "notes"), "pattern": "*.md", "query": query, "isRegex": False}


class McpVault:
    """A server of a folder of notes, on Node."""

    name = "mcpvault"

    def __init__(self, folder):
        self.package = folder / "node_modules/@bitbonsai/mcpvault"
        self.entry = folder / "node_modules/.bin/mcpvault"

    def version(self):
        return json.loads((self.package / "package.json").read_text())["version"]

    def command(self, root, _):
        return ["node", self.entry.resolve(), root]

    def read(self, _, path):
        return "read_note", {"path": path}

    def whole(self, server, root, path):
        return json.loads(text_of(server.call(self.read(root, path))))["content"]

    def list_pages(self, server, root, path):
        return set(json.loads(text_of(server.call(("list_directory", {"path": path}))))["files"])

    def window(self, _, path, first):
        return "read_note_lines", {"path": path, "startLine": first, "endLine": first + 19}

    def edit(self, _, root, path, old, new):
        return "patch_note", {"path": path, "oldString": old, "newString": new}

    def search(self, _, query):
        return "search_notes", {"query": query, "limit": 20}


def said(result):
    """The structured content of an answer of Stile's."""
    return result["structuredContent"]


def installed(here, folder, wanted):
    """Installs the peers that are wanted, all of them if none is named. Returns how to make each."""
    makers = {"server-filesystem": Reference, "rust-mcp-filesystem": RustFilesystem, "mcpvault": McpVault}
    chosen = [name for name in makers if not wanted or name in wanted]
    if {"server-filesystem", "mcpvault"} & set(chosen) and not (folder / "node_modules/.installed").exists():
        for name in ("package.json", "package-lock.json"):
            shutil.copy(here / name, folder / name)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)
        (folder / "node_modules/.installed").touch()
    if "rust-mcp-filesystem" in chosen and not (folder / "bin/rust-mcp-filesystem").exists():
        crate = f"rust-mcp-filesystem@{RUST_MCP_FILESYSTEM}"
        subprocess.run(["cargo", "install", "--locked", "--root", str(folder), crate], check=True)
    return [makers[name](folder) for name in chosen]


def all_peers(program, others):
    return [Stile(program), StileOneForm(program), *others]
