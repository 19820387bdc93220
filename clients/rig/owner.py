"""The owner at a browser without scripts: signs in, reads the page of consent, and presses its buttons."""

import http.cookiejar
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser

PAGE_SECONDS = 30
# How long a client may take to listen for the answer.
LISTENS_SECONDS = 10


class Form:
    """One form of a page, with what it would send as it stands."""

    def __init__(self, action):
        self.action = action
        self.fields = []
        # The boxes that are not ticked, which the owner may tick.
        self.unticked = []
        # The buttons, of which one is pressed: the others are not sent.
        self.buttons = []

    def names(self):
        return {name for name, _ in self.fields + self.unticked + self.buttons}

    def value(self, name):
        return dict(self.fields).get(name)


class Forms(HTMLParser):
    """Reads the forms of a page as a browser does."""

    def __init__(self):
        super().__init__()
        self.forms = []
        self.selected = None

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "form":
            self.forms.append(Form(given.get("action", "")))
        elif not self.forms:
            return
        elif tag == "option":
            if self.selected and ("selected" in given or self.selected[1] is None):
                self.selected[1] = given.get("value", "")
        elif tag == "select":
            self.selected = [given.get("name"), None]
        elif tag == "button" and given.get("name"):
            self.forms[-1].buttons.append((given["name"], given.get("value", "")))
        elif tag == "input" and given.get("name"):
            field = (given["name"], given.get("value", "on"))
            box = given.get("type") in ("checkbox", "radio") and "checked" not in given
            (self.forms[-1].unticked if box else self.forms[-1].fields).append(field)

    def handle_endtag(self, tag):
        if tag == "select" and self.selected:
            self.forms[-1].fields.append((self.selected[0], self.selected[1] or ""))
            self.selected = None


def forms_of(page):
    parser = Forms()
    parser.feed(page)
    return parser.forms


class Stay(urllib.request.HTTPRedirectHandler):
    """Shows where an answer leads, and does not go there."""

    def redirect_request(self, *arguments):
        return None


class Owner:
    """Decides at the pages of one server. `decisions` counts the pages of consent that were answered."""

    def __init__(self, server):
        self.server = server
        self.cookies = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies), Stay())
        self.decisions = 0
        self.allows_changes = True
        self.pages = []
        self.lock = threading.Lock()

    def request(self, address, fields=None):
        """Returns the status, where the answer leads, and the page."""
        url = urllib.parse.urljoin(self.server.origin, address)
        parts = urllib.parse.urlsplit(url)
        body = None if fields is None else urllib.parse.urlencode(fields).encode()
        headers = {"Origin": f"{parts.scheme}://{parts.netloc}"} if body is not None else {}
        try:
            answer = self.opener.open(urllib.request.Request(url, body, headers), timeout=PAGE_SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        return answer.status, answer.headers.get("Location"), answer.read().decode("utf-8", "replace")

    def follow(self, address):
        """Returns the page at the end of the redirects that stay at the server."""
        address = urllib.parse.urljoin(self.server.origin, address)
        for _ in range(5):
            status, location, page = self.request(address)
            to = urllib.parse.urljoin(address, location or "")
            if not location or urllib.parse.urlsplit(to).netloc != urllib.parse.urlsplit(address).netloc:
                return status, location, page
            address = to
        raise RuntimeError(f"the pages lead in a circle: {address}")

    def sign_in(self, origin):
        """Signs in with the code that the terminal shows."""
        said = self.server.command("sign-in", "--address", origin)
        link = re.search(r"https?://\S+", said).group(0)
        code = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)["code"][0]
        _, _, page = self.request(f"{origin}/sign-in")
        form = next(form for form in forms_of(page) if "code" in form.names())
        fields = [(name, value) for name, value in form.fields if name != "code"] + [("code", code)]
        self.request(urllib.parse.urljoin(f"{origin}/sign-in", form.action), fields)

    def decide(self, url):
        """Allows what a client asks for, with the right to change files, and brings the answer to the
        client where that listens on this machine. Returns where the answer went."""
        with self.lock:
            origin = "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(url))
            _, _, page = self.follow(url)
            if any("code" in form.names() for form in forms_of(page)):
                self.sign_in(origin)
                status, location, page = self.follow(url)
                if location:
                    raise RuntimeError(f"no page of consent, but {status} to {location}")
            form = next((form for form in forms_of(page) if "decision" in form.names()), None)
            if form is None:
                raise RuntimeError(f"the page of consent does not come: {text_of(page)[:400]}")
            self.pages.append(text_of(page))
            fields = form.fields
            fields = fields + form.unticked if self.allows_changes else read_only(fields)
            fields = [*fields, ("decision", "approve")]
            _, location, page = self.request(urllib.parse.urljoin(origin, form.action), fields)
            if not location:
                raise RuntimeError(f"the consent leads nowhere: {text_of(page)[:400]}")
            self.decisions += 1
        if urllib.parse.urlsplit(location).hostname in ("127.0.0.1", "localhost"):
            deliver(location)
        return location

    def narrow(self, name):
        """Takes every right to change files from the client of this name, at the page of access."""
        with self.lock:
            page = self.access_page()
            form = next((form for form in forms_of(page) if "narrow" in form.action), None)
            if form is None:
                raise RuntimeError(f"the page of access cannot narrow {name}: {text_of(page)[:600]}")
            status, location, page = self.request(form.action, read_only(form.fields))
            if "narrowed" not in (location or ""):
                raise RuntimeError(f"narrowing was answered {status} {location}: {text_of(page)[:300]}")

    def access_page(self):
        status, location, page = self.follow("/owner/clients")
        if location or not forms_of(page) or any("code" in form.names() for form in forms_of(page)):
            self.sign_in(self.server.origin)
            status, location, page = self.follow("/owner/clients")
        return page


def read_only(fields):
    """What is left of a form when everything that changes files is taken from it."""
    return [field for field in fields if not re.match(r"(line:)?(write|append):", f"{field[0]}={field[1]}")
            and not re.match(r"(write|append):", field[1])]


def deliver(location):
    """Opens the address of the client's answer, as the browser does. Some clients print the address of the
    page before they listen for its answer."""
    end = time.monotonic() + LISTENS_SECONDS
    while True:
        try:
            with urllib.request.urlopen(location, timeout=PAGE_SECONDS) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            error.read()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > end:
                raise
            time.sleep(0.2)
            continue
        return


def text_of(page):
    return " ".join(re.sub(r"<style.*?</style>|<[^>]+>", " ", page, flags=re.S).split())
