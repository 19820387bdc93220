"""Gets Stile as people do, with the clients of PyPI and of npm, from an index on loopback.

    installed.py WAY INDEX PUBLISHED SECOND TOOLS FIRST_VERSION SECOND_VERSION

In an empty home: runs it once without installing, installs it, serves a folder, connects a client,
reads a note over both transports, upgrades to a second version with the state kept, and uninstalls
it. INDEX is the address of the index, PUBLISHED its folder, SECOND the folder
with the second version, which is published when its turn comes, and TOOLS the folder with `uv`.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import mcp_calls

way, index, published, second, tools, FIRST, SECOND = sys.argv[1:]
NAME, COMMAND = "stile-mcp", "stile"
temporary = tempfile.TemporaryDirectory()
home = pathlib.Path(temporary.name)
space = home / "notes"
space.mkdir()
(space / "plan.md").write_text("the plan\n", encoding="utf-8")

WAYS = {
    "npm": {
        "once": ["npx", "--yes", NAME],
        "install": ["npm", "install", "--global", NAME],
        "upgrade": ["npm", "install", "--global", f"{NAME}@latest"],
        "list": ["npm", "ls", "--global", NAME],
        "uninstall": ["npm", "uninstall", "--global", NAME],
    },
    "uv": {
        "once": ["uvx", NAME],
        "install": ["uv", "tool", "install", NAME],
        "upgrade": ["uv", "tool", "upgrade", NAME],
        "list": ["uv", "tool", "list"],
        "uninstall": ["uv", "tool", "uninstall", NAME],
    },
}
commands = WAYS[way]
environment = {
    "HOME": str(home),
    "PATH": os.pathsep.join(
        [f"{home}/.local/bin", tools, os.path.dirname(shutil.which("npm")), "/usr/bin", "/bin"]
    ),
    # The index on loopback is the only one: nothing else is downloaded.
    "UV_DEFAULT_INDEX": f"{index}/simple",
    "UV_PYTHON": sys.executable,
    "UV_PYTHON_DOWNLOADS": "never",
    "npm_config_registry": index,
    "npm_config_prefix": f"{home}/.local",
    "npm_config_ignore_scripts": "true",
    "npm_config_update_notifier": "false",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
}


def run(command, expected=0):
    """Runs a command in the empty home, and returns what it printed."""
    done = subprocess.run(
        command, env=environment, cwd=home, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == expected, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def serve(listen):
    """Starts a server, and returns its process and its address."""
    server = subprocess.Popen(
        [COMMAND, "serve", str(space), "--listen", listen], env=environment, cwd=home, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )
    for line in server.stderr:
        if found := re.search(r"listening on \w+://(\S+)", line):
            return server, found[1]
    raise AssertionError(f"the server ended with {server.wait()}")


def stop(server):
    """Ends a server through what started it, and holds that it ended well."""
    server.send_signal(signal.SIGTERM)
    rest = server.stderr.read()
    assert server.wait(timeout=30) == 0, (server.returncode, rest)


def entry():
    with open(home / ".cursor/mcp.json", encoding="utf-8") as file:
        return json.load(file)["mcpServers"]["stile"]


# Once, without installing anything. The exit code passes through.
assert "stile" in run([*commands["once"], "--version"])
run([*commands["once"], "sreve"], expected=2)

run(commands["install"])
assert FIRST in run(commands["list"])
program = pathlib.Path(shutil.which(COMMAND, path=environment["PATH"]))
assert home in program.parents, program
server, listen = serve("127.0.0.1:0")
run([COMMAND, "connect", "cursor", "--write"])
assert "the plan" in mcp_calls.read_over_http(entry(), "/plan.md")
client = mcp_calls.Stdio([COMMAND, "stdio", str(space)], env=environment, cwd=home)
assert "the plan" in client.read("/plan.md")
client.end()
stop(server)

for file in pathlib.Path(second).iterdir():
    shutil.copy(file, published)
run(commands["upgrade"])
assert SECOND in run(commands["list"])
# The token of the first version opens the second one, so the state was kept.
server, _ = serve(listen)
assert "the plan" in mcp_calls.read_over_http(entry(), "/plan.md")
stop(server)

run(commands["uninstall"])
assert not shutil.which(COMMAND, path=str(program.parent)), "the command is still there"
assert (home / ".local/state/stile/key.json").exists(), "the state is gone with the program"
assert (space / "plan.md").read_text(encoding="utf-8") == "the plan\n"
print(f"ok {way}: ran once, installed, served, connected, upgraded to {SECOND}, uninstalled")
