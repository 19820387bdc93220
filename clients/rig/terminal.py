"""A program in a terminal of its own, as a person sees it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

CONTROLS = re.compile(r"\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78]|[\x00-\x08\x0b-\x1f]")


class Terminal:
    """Starts a command in a pseudo-terminal, keeps what it shows, and types for the person."""

    def __init__(self, command, environment, folder, columns=2000):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.shown = ""
        self.process = subprocess.Popen([*map(str, command)], stdin=slave, stdout=slave, stderr=slave, cwd=folder,
                                        env={**environment, "TERM": "xterm-256color"}, start_new_session=True)
        os.close(slave)
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self):
        while True:
            try:
                ready, _, _ = select.select([self.master], [], [], 0.5)
                said = os.read(self.master, 65536) if ready else None
            except (OSError, ValueError):
                return
            if said == b"":
                return
            self.shown += (said or b"").decode("utf-8", "replace")

    def text(self):
        return CONTROLS.sub("", self.shown)

    def forget(self):
        self.shown = ""

    def wait_for(self, pattern, seconds=60):
        """Returns the match in what is shown, once it is there."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, self.text()):
                return found
            if self.process.poll() is not None:
                time.sleep(0.3)
                if found := re.search(pattern, self.text()):
                    return found
                break
            time.sleep(0.1)
        raise TimeoutError(f"the terminal does not show {pattern}, but {self.text()[-400:]}")

    def type(self, words, enter=True):
        # Some programs take what comes at once for something pasted.
        for letter in words:
            os.write(self.master, letter.encode())
            time.sleep(0.03)
        if enter:
            time.sleep(2)
            os.write(self.master, b"\r")

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(5)
        os.close(self.master)
