"""Starts a static program where there is nothing else: no library, no /proc, no /dev, no /etc.

    empty_root.py PROGRAM [EMULATOR]

The root is a folder with the program and one note, in a namespace of its own. EMULATOR is a static
qemu-user for a program of another processor. Reads the note over standard input and output and over
HTTP, as a client does.
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / ".ci/package"))
import mcp_calls  # noqa: E402

# It is in a folder that the search path of an ordinary user of Debian lacks.
CHROOT = shutil.which("chroot") or shutil.which("chroot", path="/usr/sbin:/sbin")
assert CHROOT, "there is no chroot on this machine"

program, emulator = sys.argv[1], sys.argv[2:]
with tempfile.TemporaryDirectory() as temporary:
    root = pathlib.Path(temporary)
    shutil.copy(program, root / "stile")
    (root / "notes").mkdir()
    (root / "notes/plan.md").write_text("the plan\n", encoding="utf-8")
    inside = ["/stile"]
    if emulator:
        shutil.copy(emulator[0], root / "emulator")
        inside = ["/emulator", "/stile"]
    # Root of a namespace of its own may change the root, whoever starts this.
    enter = ["unshare", "--map-root-user", "--mount", CHROOT, str(root), *inside]
    clean = {"PATH": os.environ["PATH"], "HOME": "/"}

    said = subprocess.run([*enter, "--version"], env=clean, capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout.startswith("stile "), said
    client = mcp_calls.Stdio([*enter, "stdio", "/notes", "--state", "/state"], env=clean)
    assert "the plan" in client.read("/plan.md")
    client.end()

    serve = [*enter, "serve", "/notes", "--state", "/state", "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(
        serve, env=clean, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        listening = (re.search(r"listening on (\S+)", line) for line in server.stderr)
        origin = next(found[1] for found in listening if found)
        mint = [*enter, "token", "--scope", "read:/", "--state", "/state"]
        token = subprocess.run(mint, env=clean, check=True, capture_output=True, text=True).stdout
        headers = {"Authorization": f"Bearer {token.strip()}"}
        read = mcp_calls.read_over_http({"url": f"{origin}/mcp", "headers": headers}, "/plan.md")
        assert "the plan" in read, json.dumps(read)
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0, server.returncode
    finally:
        server.kill()
print("ok the program answers on an empty root file system, over standard input and over HTTP")
