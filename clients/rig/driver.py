"""A client as the story sees it: a program of its own that is told what to do, a line of JSON at a time.

The program reads `{"do": "call", "name": …, "arguments": …}` and answers `{"ok": …}`, `{"error": "…"}`
or `{"none": "why this client has no such thing"}`. In between it may say `{"open": "https://…"}`: the
owner opens that address. Or `{"decided": "https://…"}`: the owner has decided there, in its browser.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading

ANSWER_SECONDS = 60


class None_(Exception):
    """This client has no such thing. The text says why."""


class Failed(Exception):
    """What the client did, where the story says something else."""


class Client:
    """What the story asks of a client. A client without a thing says why with `None_`."""

    # Whether it signs in by itself, or is given a token.
    signs_in = True
    # The seconds that an access token lives in its story, and how long a step may take.
    token_seconds = 6
    # How many seconds before the end of its token it gets another one.
    renews_before = 0
    # Whether a person fills in an argument on one line.
    one_line = False
    # How long a program of its own may take to answer.
    answer_seconds = ANSWER_SECONDS

    def __init__(self, rig):
        self.rig = rig

    def start(self, server, owner, token):
        raise NotImplementedError

    def stop(self):
        raise NotImplementedError

    def sign_in_again(self):
        """Does what a person does when the client says that its access has ended: nothing, with clients
        that ask by themselves at the next call."""

    def connect_again(self):
        """Opens a new session with the tokens that it has."""
        raise Failed("it opens no new session")

    def tools(self):
        """Returns the names of the server's tools as the client's model gets them."""
        raise NotImplementedError

    def call(self, tool, arguments):
        """Calls a tool by its name without a prefix and returns its text; a refusal is `Failed`."""
        raise NotImplementedError

    def image(self, tool, arguments):
        """Calls a tool and returns the media type of the picture in its answer."""
        raise NotImplementedError

    def resource(self, uri):
        raise NotImplementedError

    def subscribe(self, uri, change):
        """Subscribes to a resource, makes the change, and returns once the client was told of it."""
        raise NotImplementedError

    def cancel(self, tool, arguments):
        """Calls a tool and gives the call up at once."""
        raise NotImplementedError


class Driver(Client):
    """A client in a program of its own."""

    def __init__(self, rig, command, signs_in=True, environment=None, lacks=None, starts_again=None):
        super().__init__(rig)
        self.command = command
        self.signs_in = signs_in
        self.environment = environment or {}
        # Steps that this client has no notion of, with the reason.
        self.lacks = lacks or {}
        # If set, a person starts it again when its access has ended.
        self.starts_again = starts_again
        self.process = None

    def start(self, server, owner, token):
        self.owner = owner
        environment = {**server.environment(), "PYTHONDONTWRITEBYTECODE": "1", **self.rig.quiet(server),
                       "STILE": str(server.program), "STILE_STATE": str(server.state), **self.environment}
        if token:
            environment["STILE_TOKEN"] = token
        log = open(server.folder / "client.log", "ab")
        self.process = subprocess.Popen([*map(str, self.command), server.address], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=log, env=environment, cwd=server.home, text=True,
                                        start_new_session=True)
        log.close()
        self.answers = queue.Queue()
        threading.Thread(target=self.hear, args=(self.process, self.answers), daemon=True).start()
        self.ask("connect")

    def hear(self, process, answers):
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            said = json.loads(line)
            if "decided" in said:
                self.rig.opened(said["decided"])
                self.owner.decisions += 1
            elif "open" in said:
                threading.Thread(target=self.decide, args=(said["open"],), daemon=True).start()
            else:
                answers.put(said)
        answers.put({"error": "the client's program ended"})

    def decide(self, url):
        self.rig.opened(url)
        try:
            self.owner.decide(url)
        except Exception as error:  # The owner's side runs beside the client, and the step reports it.
            self.answers.put({"error": f"the owner could not decide: {error}"})

    def ask(self, do, **given):
        if do in self.lacks:
            raise None_(self.lacks[do])
        try:
            self.process.stdin.write(json.dumps({"do": do, **given}) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Failed("the client's program ended") from error
        try:
            said = self.answers.get(timeout=self.answer_seconds)
        except queue.Empty:
            raise Failed(f"no answer in {self.answer_seconds} s") from None
        if "none" in said:
            raise None_(said["none"])
        if "error" in said:
            raise Failed(said["error"])
        return said.get("ok")

    def stop(self):
        if self.process is None:
            return
        try:
            self.process.stdin.close()
            self.process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait(5)
        # What it started, as a browser, must not stay and answer the next client.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process = None

    def sign_in_again(self):
        if self.starts_again:
            self.ask("again")

    def connect_again(self):
        self.ask("again")

    def tools(self):
        return self.ask("list")

    def call(self, tool, arguments):
        return self.ask("call", name=tool, arguments=arguments)

    def image(self, tool, arguments):
        return self.ask("image", name=tool, arguments=arguments)

    def resource(self, uri):
        return self.ask("resource", uri=uri)

    def subscribe(self, uri, change):
        self.ask("subscribe", uri=uri)
        change()
        self.ask("told", uri=uri)

    def cancel(self, tool, arguments):
        self.ask("cancel", name=tool, arguments=arguments)
