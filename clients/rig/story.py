"""What is tried with each client: the columns of the table, in the order in which they are tried."""

import contextlib
import hashlib
import json
import re
import time
import urllib.parse

from driver import Failed, None_
from owner import Owner
from server import NOTE

STEPS = {
    "find": "find", "register": "register", "consent": "consent", "token": "token", "list": "list",
    "names": "names", "call": "call", "image": "image", "resource": "resource", "subscribe": "subscribe",
    "cancel": "cancel", "renew": "renew", "restart": "restart", "idle": "idle", "narrowed": "narrowed",
    "approval": "approval", "client": "client", "undone": "undone",
}
# What the interfaces of the models take as the name of a tool.
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
PLAN, BUTT = "space:///plan.md", "space:///notes/butt.md"
IDLE_SECONDS = 2
# For so long after its end a token is still taken, since clocks differ.
LEEWAY_SECONDS = 5
# How long a client may take to open its event stream again after the server was started.
LISTENS_AGAIN_SECONDS = 5
PASTED = "the token is pasted"
# A client that never opens another session by itself is of no use until somebody starts it again.
ANEW = "only in a new session, which a person, or the program that uses the client, has to open"


class Story:
    """Tries everything with one client at a server of its own. `cells` has what came of each step."""

    def __init__(self, client, server, say):
        self.client = client
        self.server = server
        self.say = say
        self.owner = Owner(server)
        self.cells = {}
        self.text = NOTE
        self.name = None
        self.client_id = None

    def cell(self, step, state, note=""):
        self.cells[step] = {"state": state, **({"note": note} if note else {})}
        self.say(step, state, note)

    def step(self, name, run):
        """Tries one step. Returns whether it went well."""
        try:
            note = run()
        except None_ as none:
            self.cell(name, "none", str(none))
        except Exception as error:  # What a client does wrong is what the table is for.
            self.cell(name, "fails", " ".join(f"{error}".split())[:300] or type(error).__name__)
        else:
            self.cell(name, "anew" if note == ANEW else "ok", note or "")
            return True
        return False

    def tell(self):
        idle = ("--session-idle-seconds", str(IDLE_SECONDS))
        self.server.start("--access-token-seconds", str(self.client.token_seconds))
        if not self.begin():
            for step in STEPS:
                if step not in self.cells:
                    self.cell(step, "fails", "it did not connect")
            return
        self.step("list", self.list)
        self.step("names", self.names)
        self.step("call", self.read_and_change)
        self.step("image", self.image)
        self.step("resource", self.resource)
        self.step("subscribe", self.subscribe)
        self.step("cancel", self.cancel)
        self.step("renew", self.renew)
        self.step("restart", lambda: self.restart(idle))
        self.step("idle", self.idle)
        self.step("undone", self.undone)
        self.step("narrowed", self.narrowed)
        self.step("approval", lambda: self.ended_and_back(self.end_approval))
        self.step("client", lambda: self.ended_and_back(self.end_client))

    def begin(self):
        """From the address to a token, by the client alone; or a token of `stile token`."""
        if not self.client.signs_in:
            for step in ("find", "register", "consent", "token"):
                self.cell(step, "none", PASTED)
            self.name = self.client.label
            token = self.server.command("token", "--scope", "write:/", "--client", self.name).strip()
            try:
                self.client.start(self.server, self.owner, token)
            except Exception as error:
                self.cell("list", "fails", " ".join(f"{error}".split())[:300])
                return False
            return True
        failure = None
        try:
            self.client.start(self.server, self.owner, None)
        except Exception as error:
            failure = " ".join(f"{error}".split())[:300] or type(error).__name__
        opened = self.client.rig.last_opened
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(opened or "").query)
        found = bool(opened and opened.startswith(self.server.origin))
        self.client_id = asked.get("client_id", [None])[0] or self.only_client()
        for step, went_well in (("find", found), ("register", self.client_id is not None),
                                ("consent", self.owner.decisions == 1), ("token", failure is None)):
            self.cell(step, "ok" if went_well else "fails", "" if went_well else failure or "it asked for nothing")
        if self.client_id:
            self.name = json.loads(self.server.command("client", "show", self.client_id))["name"]
        return failure is None

    def only_client(self):
        """The identifier of the only client that the owner sees."""
        found = [row["client_id"] for row in json.loads(self.server.command("client", "list", "--json"))]
        return found[0] if len(found) == 1 else None

    def list(self):
        self.listed = self.client.tools()
        known = [name for name in self.listed if name.endswith(("file_create", "file.create"))]
        if not known:
            raise Failed(f"file_create is not listed: {self.listed[:5]}")
        return f"{len(self.listed)} tools"

    def names(self):
        if not getattr(self.client, "has_model", True):
            raise None_("it passes names to no model")
        refused = [name for name in self.listed if not NAME.match(name)]
        if refused:
            raise Failed(f"{len(refused)} of {len(self.listed)} names are refused, as {refused[0]}")

    def read(self):
        text = self.client.call("text_read", {"path": "/plan.md"})
        if "water butt" not in text:
            raise Failed(f"text_read answered {text[:200]}")
        return text

    def read_in_a_session(self):
        """Reads; where the session ended with what was taken, in a new one, as a program opens it."""
        try:
            self.read()
        except Failed as failed:
            if "ession" not in str(failed):
                raise
            self.client.connect_again()
            self.read()
            return ANEW
        return ""

    def change(self, line):
        """Adds a line to the note by a call, and looks at the file."""
        added = line if self.client.one_line else f"{line}\n"
        self.client.call("text_append", {"path": "/plan.md", "hash": self.hash(), "content": added})
        # What is added begins a line, also where the one before it was not ended.
        added = added if self.text.endswith("\n") else f"\n{added}"
        if (self.server.space / "plan.md").read_text() != self.text + added:
            raise Failed("the file is not what was asked for")
        self.text += added

    def hash(self):
        return hashlib.sha256(self.text.encode()).hexdigest()

    def read_and_change(self):
        self.read()
        self.change("And a lid.")

    def image(self):
        kind = self.client.image("file_read", {"path": "/red.png"})
        if kind != "image/png":
            raise Failed(f"the picture came as {kind}")

    def resource(self):
        text = self.client.resource(PLAN)
        if "water butt" not in (text or ""):
            raise Failed(f"the resource is {text!r:.200}")

    def subscribe(self):
        def change():
            (self.server.space / "notes/butt.md").write_text("# Butt\n\nBlue.\n")

        self.client.subscribe(BUTT, change)

    def cancel(self):
        self.client.cancel("text_search", {"q": "water"})
        self.read()

    def renew(self):
        if not self.client.signs_in:
            raise None_(PASTED)
        before = self.access_tokens()
        time.sleep(self.client.token_seconds - self.client.renews_before + LEEWAY_SECONDS + 1)
        self.read()
        if self.owner.decisions != 1:
            raise Failed("the owner was asked again")
        if self.access_tokens() == before:
            raise Failed("it got no other token")

    def access_tokens(self):
        """How many access tokens there have been."""
        return len(json.loads(self.server.command("token", "list", "--json")))

    def restart(self, idle):
        self.server.kill()
        self.server.start(*idle)
        self.read()
        self.change("After the restart.")

    def idle(self):
        time.sleep(IDLE_SECONDS + 2)
        self.read()

    def undone(self):
        """The owner finds what the client did under its name, and takes it back."""
        if not self.name:
            raise Failed("it has no name")
        root = ("--root", str(self.server.space))
        seen = self.server.command("history", "--client", self.name, "--json", *root)
        if "/plan.md" not in seen:
            raise Failed(f"stile history --client {self.name} shows nothing")
        self.server.command("undo", "--client", self.name, "--since", "1h", "--yes", *root)
        self.text = (self.server.space / "plan.md").read_text()
        if "After the restart." in self.text or "And a lid." in self.text:
            raise Failed("the change is still there")
        return f"as {self.name}"

    def narrowed(self):
        if not self.client.signs_in:
            raise None_("a token of `stile token` is not narrowed, but revoked")
        # Sessions idle as usual again, and a client that listens does so again.
        self.server.kill()
        self.server.start()
        self.read()
        time.sleep(LISTENS_AGAIN_SECONDS)
        # Some clients ask the owner again at once, who stays with what was decided.
        self.owner.allows_changes = False
        try:
            self.owner.narrow(self.name)
            note = self.read_in_a_session()
            with contextlib.suppress(Failed):
                self.client.call("text_append", {"path": "/plan.md", "hash": self.hash(), "content": "Refused.\n"})
            if (self.server.space / "plan.md").read_text() != self.text:
                raise Failed("it still changes files")
            self.read()
        finally:
            self.owner.allows_changes = True
        return note

    def ended_and_back(self, end):
        if not self.client.signs_in:
            return self.revoked_and_back()
        decisions = self.owner.decisions
        end()
        self.client.sign_in_again()
        note = self.read_in_a_session()
        if self.owner.decisions == decisions:
            raise Failed("it read on without being allowed again")
        return note

    def revoked_and_back(self):
        raise None_(PASTED)

    def end_approval(self):
        shown = json.loads(self.server.command("client", "show", self.client_id))
        live = [given["id"] for given in shown["authorizations"] if given["state"] == "live"]
        for authorization in live:
            self.server.command("client", "end", authorization)

    def end_client(self):
        self.server.command("client", "end", self.client_id)
