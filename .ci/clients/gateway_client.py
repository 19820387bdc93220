#!/usr/bin/env python3
"""Drives a deployment of the gateway with the official Python SDK, in both protocol eras.

    gateway_client.py STILE WORK_FOLDER

Three processes: an identity provider (this one, with keys of both kinds and a JWKS endpoint, made with other
libraries than Stile's), a server that has the notes, and the gateway. For each role and each era a client lists
the tools, asks all four about a note, and is refused what it may not have. Prints one `ok` line for each step and
stops at the first that fails.
"""

import asyncio
import http.server
import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jsonschema import Draft202012Validator
from mcp import MCPError

from python_client import MODES, Failed, Steps, equal, expect, over_http

TOOLS = ["get_document_tree", "get_metadata_facets", "get_note_outline", "get_section_source"]
ROLES = ["viewer", "editor", "evaluator", "admin", "somebody", None]
GATEWAY, ORIGIN = "https://gateway.example.org/mcp", "https://notes.example.org"
NOTE = "---\ntitle: Garden\ntags: [ferns, moss]\ndate: 2025-03-01\n---\n# Ferns\n\nqzxBODYxzq\n\n## Água\n\nqzxBODYxzq\n"


class Provider:
    """Signs tokens, and publishes the keys that they are signed with."""

    def __init__(self):
        self.keys = {"ES256": ec.generate_private_key(ec.SECP256R1()), "RS256": rsa.generate_private_key(65537, 2048)}
        keys = []
        for name, key in self.keys.items():
            algorithm = jwt.get_algorithm_by_name(name)
            keys.append(json.loads(algorithm.to_jwk(key.public_key())) | {"kid": name, "use": "sig", "alg": name})
        published = json.dumps({"keys": keys}).encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(published)))
                self.end_headers()
                self.wfile.write(published)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}"

    def token(self, name, role, vault=None, **more):
        now = int(time.time())
        claims = {"iss": self.url, "sub": "ann", "aud": [GATEWAY, ORIGIN], "iat": now, "exp": now + 600}
        claims |= {"scope": "read:/"} | ({"role": role} if role else {}) | ({"vault": vault} if vault else {}) | more
        return jwt.encode(claims, self.keys[name], algorithm=name, headers={"kid": name, "typ": "at+jwt"})


def start(log, *command):
    """A server, and where it listens."""
    with open(log, "wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
    for _ in range(200):
        found = re.search(r"listening on (http://\S+)", Path(log).read_text())
        if found:
            return process, found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    raise Failed(f"{command[1]} did not start: {Path(log).read_text()}")


async def check(steps, client):
    with steps.step("list the tools"):
        tools = (await client.list_tools()).tools
        equal("the tools", [tool.name for tool in tools], TOOLS)
        schemas = {tool.name: tool.output_schema for tool in tools}
    with steps.step("ask about a note"):
        for tool in TOOLS:
            answer = await client.call_tool(tool, {"path": " inbox\\one.md"})
            expect(not answer.is_error, f"{tool}: {answer!r}")
            content = answer.structured_content
            Draft202012Validator(schemas[tool]).validate(content)
            equal(f"the text of {tool}", json.loads(answer.content[0].text), content)
            equal("the path", content["path"], "inbox/one.md")
            expect("qzxBODYxzq" not in answer.content[0].text, f"{tool} tells the body")
        equal("the facets", answer.structured_content["schema"], "knowtation.section_source/v0")
    with steps.step("be refused"):
        for arguments, error in [
            ({"path": "inbox/none.md"}, "Upstream 404"),
            ({"path": "/inbox/one.md"}, "Invalid path"),
            ({"path": "inbox/one.md", "vault": "other"}, "Invalid arguments"),
        ]:
            for tool in TOOLS:
                answer = await client.call_tool(tool, arguments)
                expect(answer.is_error, f"{tool} answered {arguments!r}")
                equal(f"the refusal of {tool}", answer.structured_content, {"error": error, "code": "UPSTREAM_ERROR"})
                Draft202012Validator(schemas[tool]).validate(answer.structured_content)
    with steps.step("find nothing else"):
        try:
            await client.call_tool("text.read", {"path": "/inbox/one.md"})
        except MCPError as error:
            equal("the JSON-RPC code", error.code, -32602)
        else:
            raise Failed("text.read was called")


async def main():
    stile, folder = sys.argv[1], Path(sys.argv[2])
    (folder / "notes/inbox").mkdir(parents=True)
    (folder / "notes/inbox/one.md").write_text(NOTE)
    (folder / "secret").write_text("a secret that both know\n".replace(" ", "-"))
    provider = Provider()
    hosted = ["--jwks", f"{provider.url}/keys", "--issuer", provider.url, "--listen", "127.0.0.1:0"]
    hosted += ["--gateway-secret-file", str(folder / "secret"), "--vault", "team"]
    origin, origin_url = start(
        folder / "origin.log", stile, "serve", str(folder / "notes"), "--state", str(folder / "state"),
        "--audience", ORIGIN, *hosted,
    )
    gateway, gateway_url = start(
        folder / "gateway.log", stile, "gateway", "--upstream", origin_url, "--state", str(folder / "none"),
        "--audience", GATEWAY, "--upstream-audience", ORIGIN, *hosted,
    )
    try:
        for mode in MODES:
            for role in ROLES:
                steps = Steps("gateway", f"{mode}: {role}")
                algorithm = "RS256" if role in ("viewer", "admin") else "ES256"
                async with over_http(f"{gateway_url}/mcp", provider.token(algorithm, role), mode) as (client, _):
                    await check(steps, client)
            steps = Steps("gateway", f"{mode}: another vault")
            async with over_http(f"{gateway_url}/mcp", provider.token("ES256", "admin", "other"), mode) as (client, _):
                with steps.step("find no note there"):
                    answer = await client.call_tool("get_note_outline", {"path": "inbox/one.md"})
                    equal("the refusal", answer.structured_content, {"error": "Upstream 404", "code": "UPSTREAM_ERROR"})
            steps = Steps("gateway", f"{mode}: a token for the gateway alone")
            token = provider.token("RS256", "admin", aud=GATEWAY)
            async with over_http(f"{gateway_url}/mcp", token, mode) as (client, _):
                with steps.step("not be forwarded"):
                    answer = await client.call_tool("get_note_outline", {"path": "inbox/one.md"})
                    equal("the refusal", answer.structured_content, {"error": "Upstream 403", "code": "UPSTREAM_ERROR"})
    finally:
        for process in (gateway, origin):
            process.terminate()
            process.wait(timeout=20)


if __name__ == "__main__":
    try:
        asyncio.run(asyncio.wait_for(main(), 140))
    except Failed as failed:
        sys.exit(f"FAILED {failed}")
