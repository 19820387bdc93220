"""Starts an installed program as its own unit says, and ends it, as a service manager would.

Where a service manager runs, it would start the unit of a person who does not exist on a machine of
tests. So the command, the variables and the umask of the unit are applied here, and the rest of the
unit is read by `systemd-analyze verify`.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

program, folder = sys.argv[1:]
home = os.environ["HOME"]

# A port of our own: the one of the unit may be in use on this machine.
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    listen = f"127.0.0.1:{free.getsockname()[1]}"
state = f"{home}/.local/state/stile"
os.makedirs(state, mode=0o700)
with open(f"{state}/stile.toml", "w") as file:
    file.write(f'listen = "{listen}"\n')

clean = {"HOME": home, "PATH": "/usr/bin:/bin"}
unit = subprocess.run(
    [program, "service", "install", folder, "--print"],
    env=clean, check=True, capture_output=True, text=True,
).stdout
if shutil.which("systemd-analyze"):
    with open(f"{home}/stile.service", "w") as file:
        file.write(unit)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", f"{home}/stile.service"],
        env={**clean, "XDG_RUNTIME_DIR": home}, capture_output=True, text=True,
    )
    assert checked.returncode == 0 and "stile.service" not in checked.stderr, checked.stderr
    print("ok systemd-analyze finds nothing wrong with the unit")
else:
    print("NOT RUN: systemd-analyze is not here")

settings = dict(re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE))
assert settings["Type"] == "notify" and settings["UMask"] == "0077", settings
command = [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(settings["ExecStart"])]
assert command[0] == program, command

with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
    notify.bind(f"{home}/notify")
    notify.settimeout(20)

    def wait_for(word):
        while word not in (heard := notify.recv(4096).decode()):
            pass
        return heard

    server = subprocess.Popen(
        command, umask=0o077, stdin=subprocess.DEVNULL, start_new_session=True,
        env={**clean, "NOTIFY_SOCKET": f"{home}/notify", "WATCHDOG_USEC": "1000000"},
    )
    try:
        wait_for("READY=1")
        try:
            urllib.request.urlopen(f"http://{listen}/mcp", timeout=10)
            raise AssertionError("a request without a token was answered")
        except urllib.error.HTTPError as refused:
            assert refused.code == 401, refused.code
        wait_for("WATCHDOG=1")
        server.send_signal(signal.SIGTERM)
        wait_for("STOPPING=1")
        assert server.wait(timeout=30) == 0, server.returncode
    finally:
        server.kill()
print("ok the service was ready, alive, and ended when it was asked to")
