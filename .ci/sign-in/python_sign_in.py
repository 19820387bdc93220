#!/usr/bin/env python3
"""Signs in to a running Stile with the OAuth client of the official Python SDK, and reads a file.

    python_sign_in.py URL PATH EXPECTED

Prints the address that the owner must open to standard error, and receives the answer on a port of
this machine. Then it renews its token, and reads again.
"""

import asyncio
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata


class Memory:
    """Keeps tokens and the registration for as long as the process runs."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Callback:
    """The port where the browser delivers the answer."""

    def __init__(self):
        answers = self.answers = []
        arrived = self.arrived = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.end_headers()
                self.wfile.write(b"The client has its answer.")
                if "state" in query:
                    answers.append({name: values[0] for name, values in query.items()})
                    arrived.set()

            def log_message(self, *arguments):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/callback"

    async def wait(self):
        await asyncio.to_thread(self.arrived.wait, 100)
        answer = self.answers[-1]
        if "code" not in answer:
            raise SystemExit(f"FAILED the owner's answer is {answer}")
        known = {"code", "state", "iss"}
        return AuthorizationCodeResult(**{name: answer[name] for name in known if name in answer})


def provider(url, memory, callback):
    async def show(address):
        print(f"open {address}", file=sys.stderr, flush=True)

    metadata = OAuthClientMetadata(
        client_name="Python SDK",
        redirect_uris=[callback.url],
        grant_types=["authorization_code", "refresh_token"],
        token_endpoint_auth_method="none",
    )
    return OAuthClientProvider(
        server_url=url, client_metadata=metadata, storage=memory,
        redirect_handler=show, callback_handler=callback.wait)


async def main():
    url, path, expected = sys.argv[1:]
    memory, callback = Memory(), Callback()
    auth = provider(url, memory, callback)
    async with httpx2.AsyncClient(auth=auth, timeout=120) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:

            async def check():
                answer = await client.call_tool("text.read", {"path": path})
                content = answer.structured_content["content"]
                if content != expected:
                    raise SystemExit(f"FAILED the content is {content!r}")

            await check()
            print(f"ok python: signed in and read {path}")
            # The client believes that its token has expired, and has to renew it. The owner is not
            # asked again.
            before = memory.tokens.access_token
            auth.context.token_expiry_time = 1
            await check()
            if memory.tokens.access_token == before or len(callback.answers) != 1:
                raise SystemExit("FAILED the token was not renewed")
            print("ok python: renewed its token")


asyncio.run(main())
