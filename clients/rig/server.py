"""A server of its own for each client: an empty home, a space with four files, a state."""

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import zlib
from pathlib import Path

NOTE = "# Plan\n\nBuy a water butt.\n"
START_SECONDS = 20


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def picture():
    """A red square as PNG, which no file has to hold."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\xff\0\0" * 16 for _ in range(16))
    head = struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Server:
    """`stile serve` on a port that stays the same when the server is killed and started again."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = Path(folder)
        self.space = self.folder / "space"
        self.state = self.folder / "state"
        self.home = self.folder / "home"
        for made in (self.space, self.home):
            made.mkdir(parents=True)
        (self.space / "plan.md").write_text(NOTE)
        (self.space / "red.png").write_bytes(picture())
        (self.space / "notes").mkdir()
        (self.space / "notes" / "butt.md").write_text("# Butt\n\nGreen.\n")
        self.port = free_port()
        self.origin = f"http://127.0.0.1:{self.port}"
        self.address = f"{self.origin}/mcp"
        self.process = None

    def start(self, *flags):
        log = open(self.folder / "server.log", "ab")
        command = [self.program, "serve", self.space, "--state", self.state, "--listen", f"127.0.0.1:{self.port}",
                   "--log", "debug", *flags]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment())
        log.close()
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended: {self.log()[-800:]}")
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the server does not listen")

    def kill(self):
        """Ends the server as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)

    def log(self):
        return (self.folder / "server.log").read_text(errors="replace")

    def environment(self):
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "STILE_TRACE") if name in os.environ}
        return {**kept, "HOME": str(self.home)}

    def command(self, *arguments):
        """Runs a command of the owner and returns what it prints."""
        done = subprocess.run([self.program, *arguments, "--state", self.state], capture_output=True, text=True,
                              timeout=60, env=self.environment())
        if done.returncode != 0:
            raise RuntimeError(f"stile {' '.join(map(str, arguments))}: {done.stderr.strip()[-400:]}")
        return done.stdout

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
