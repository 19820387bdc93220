"""Clients that run at their makers, re-made: what they send, request by request.

Sources of what each sends: the documents that Anthropic, OpenAI, Microsoft and Anysphere publish of
their clients, and the reports that the tests of sign-in name.

The names that ChatGPT, VS Code and Cursor give themselves in `clientInfo` were not checked against a source.
"""

import base64
import hashlib
import json
import secrets
import urllib.error
import urllib.parse
import urllib.request

from driver import Client, Failed, None_

ANSWER_SECONDS = 30
SESSIONLESS = "2026-07-28"
ACCEPT = "application/json, text/event-stream"


class Remade(Client):
    """One of them: its registration, where its answers go, and how it names itself."""

    def __init__(self, rig, registration, redirect, called, revision, scope):
        super().__init__(rig)
        self.registration = registration
        self.redirect = redirect
        self.called = called
        self.revision = revision
        self.scope = scope

    def start(self, server, owner, token):
        self.server = server
        self.owner = owner
        self.access = self.refresh = self.session = None
        self.next = 0
        self.find()
        status, _, registered = self.post(self.endpoints["registration_endpoint"], json.dumps(self.registration),
                                          {"Content-Type": "application/json"})
        if status not in (200, 201):
            raise Failed(f"the registration was answered {status}: {registered}")
        self.client_id = registered["client_id"]
        self.sign_in_again()

    def stop(self):
        pass

    def find(self):
        """From the 401 to the endpoints of the authorization server."""
        status, headers, _ = self.post(self.server.address, "{}", {"Content-Type": "application/json", "Accept": ACCEPT})
        challenge = headers.get("WWW-Authenticate", "")
        if status != 401 or "resource_metadata=" not in challenge:
            raise Failed(f"the first request was answered {status} {challenge}")
        resource = self.get(challenge.split('resource_metadata="')[1].split('"')[0])
        if resource["resource"] != self.server.address:
            raise Failed(f"the resource is {resource['resource']}")
        issuer = resource["authorization_servers"][0]
        self.endpoints = self.get(f"{issuer.rstrip('/')}/.well-known/oauth-authorization-server")

    def sign_in_again(self):
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {"response_type": "code", "client_id": self.client_id, "redirect_uri": self.redirect,
                 "code_challenge": challenge, "code_challenge_method": "S256", "state": "s",
                 "resource": self.server.address}
        if self.scope:
            asked["scope"] = self.scope
        url = f"{self.endpoints['authorization_endpoint']}?{urllib.parse.urlencode(asked)}"
        self.rig.opened(url)
        answer = urllib.parse.parse_qs(urllib.parse.urlsplit(self.owner.decide(url)).query)
        self.exchange({"grant_type": "authorization_code", "code": answer["code"][0], "redirect_uri": self.redirect,
                       "code_verifier": verifier})
        self.begin()

    def exchange(self, form):
        form = {**form, "client_id": self.client_id, "resource": self.server.address}
        status, _, given = self.post(self.endpoints["token_endpoint"], urllib.parse.urlencode(form),
                                     {"Content-Type": "application/x-www-form-urlencoded"})
        if status != 200:
            raise Failed(f"the token endpoint answered {status}: {given}")
        self.access, self.refresh = given["access_token"], given["refresh_token"]

    def connect_again(self):
        self.begin()

    def begin(self):
        """Says hello in its revision, and opens a session where that has one."""
        self.session = None
        if self.revision == SESSIONLESS:
            self.ask("server/discover", {})
            return
        self.ask("initialize", {"protocolVersion": self.revision, "capabilities": {},
                                "clientInfo": {"name": self.called, "version": "1.0.0"}})

    def ask(self, method, params, again=True):
        """Asks, and once more with a new token where the old one has ended."""
        self.next += 1
        headers = {"Content-Type": "application/json", "Accept": ACCEPT, "Authorization": f"Bearer {self.access}"}
        if self.revision == SESSIONLESS:
            about = {"io.modelcontextprotocol/protocolVersion": SESSIONLESS,
                     "io.modelcontextprotocol/clientInfo": {"name": self.called, "version": "1.0.0"},
                     "io.modelcontextprotocol/clientCapabilities": {}}
            params = {**params, "_meta": about}
            headers |= {"MCP-Protocol-Version": SESSIONLESS, "Mcp-Method": method}
            if name := params.get("name") or params.get("uri"):
                headers["Mcp-Name"] = name
        elif self.session:
            headers |= {"MCP-Protocol-Version": self.revision, "Mcp-Session-Id": self.session}
        message = {"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}
        status, answered, said = self.post(self.server.address, json.dumps(message), headers)
        if status == 401 and again:
            self.exchange({"grant_type": "refresh_token", "refresh_token": self.refresh})
            return self.ask(method, params, again=False)
        if method == "initialize" and status == 200:
            self.session = answered.get("Mcp-Session-Id")
        if status != 200 or "result" not in said:
            raise Failed(f"{method} was answered {status}: {json.dumps(said)[:300]}")
        return said["result"]

    def post(self, url, body, headers):
        return self.send(urllib.request.Request(url, body.encode(), headers))

    def get(self, url):
        status, _, said = self.send(urllib.request.Request(url))
        if status != 200:
            raise Failed(f"{url} was answered {status}")
        return said

    def send(self, request):
        try:
            answer = urllib.request.urlopen(request, timeout=ANSWER_SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        text = answer.read().decode()
        if "event-stream" in answer.headers.get("Content-Type", ""):
            data = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
            text = data[-1] if data else "{}"
        try:
            return answer.status, answer.headers, json.loads(text or "{}")
        except ValueError:
            return answer.status, answer.headers, {"text": text[:300]}

    def tools(self):
        return [tool["name"] for tool in self.ask("tools/list", {})["tools"]]

    def called_tool(self, tool, arguments):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        if result.get("isError"):
            raise Failed(f"refused: {text}")
        return result, text

    def call(self, tool, arguments):
        return self.called_tool(tool, arguments)[1]

    def image(self, tool, arguments):
        content = self.called_tool(tool, arguments)[0]["content"]
        return next((block["mimeType"] for block in content if block["type"] == "image"), None)

    def resource(self, uri):
        return self.ask("resources/read", {"uri": uri})["contents"][0]["text"]

    def subscribe(self, uri, change):
        raise None_("it does not subscribe")

    def cancel(self, tool, arguments):
        raise None_("re-made requests are not given up")


def registration(name, *redirects):
    return {"client_name": name, "redirect_uris": list(redirects), "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"]}


CURSOR = ("cursor://anysphere.cursor-mcp/oauth/callback", "https://www.cursor.com/agents/mcp/oauth/callback",
          "http://localhost:8787/callback")
VS_CODE = ("http://127.0.0.1:33418/", "https://vscode.dev/redirect")
CLAUDE = "https://claude.ai/api/mcp/auth_callback"
CHATGPT = "https://chatgpt.com/connector_platform_oauth_redirect"
# key, name in the table, registration, redirect address, clientInfo.name, revision, scope
HOSTED = [
    ("claude-ai", "claude.ai (re-made)", registration("Claude", CLAUDE), CLAUDE, "Anthropic/ClaudeAI",
     SESSIONLESS, "read:/ write:/"),
    ("claude-ai-legacy", "claude.ai (re-made)", registration("Claude", CLAUDE), CLAUDE, "Anthropic", "2025-11-25",
     "read:/ write:/"),
    ("chatgpt", "ChatGPT (re-made)", registration("ChatGPT", CHATGPT), CHATGPT, "openai-mcp", "2025-11-25", None),
    ("vs-code-web", "VS Code, web (re-made)", registration("Visual Studio Code", *VS_CODE), VS_CODE[1],
     "Visual Studio Code", "2025-11-25", "read:/"),
    ("cursor", "Cursor, agents (re-made)", registration("Cursor", *CURSOR), CURSOR[1], "cursor-vscode", "2025-11-25",
     "read:/"),
]
