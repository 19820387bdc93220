"""The official Python SDK, or fastmcp, told what to do: see rig/driver.py.

    python_sdk.py legacy|auto|fastmcp URL

With STILE_TOKEN it sends that token; else it signs in.
"""

import asyncio
import contextlib
import json
import os
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

ANSWER_SECONDS = 30


def say(**line):
    print(json.dumps(line), flush=True)


class Lacking(Exception):
    """This client has no such thing. The text says why."""


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
    """The port where the browser delivers the answers."""

    def __init__(self, loop):
        arrived = self.arrived = asyncio.Queue()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"The client has its answer.")
                loop.call_soon_threadsafe(arrived.put_nowait, {name: values[0] for name, values in query.items()})

            def log_message(self, *arguments):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/callback"

    async def wait(self):
        answer = await self.arrived.get()
        known = {"code", "state", "iss"}
        return AuthorizationCodeResult(**{name: answer[name] for name in known if name in answer})


class Sdk:
    """`mcp.Client`, in one of the two lifecycles."""

    def __init__(self, mode, url):
        self.mode = mode
        self.url = url
        self.told = asyncio.Event()
        self.memory = Memory()
        self.callback = None

    @contextlib.asynccontextmanager
    async def connected(self):
        async def show(address):
            say(open=address)

        async def hear(message):
            if "updated" in type(message).__name__.lower() or "ResourceUpdated" in repr(message):
                self.told.set()

        given = {}
        if token := os.environ.get("STILE_TOKEN"):
            given["headers"] = {"Authorization": f"Bearer {token}"}
        else:
            callback = self.callback = self.callback or Callback(asyncio.get_running_loop())
            metadata = OAuthClientMetadata(
                client_name=f"Python SDK {self.mode}", redirect_uris=[callback.url],
                grant_types=["authorization_code", "refresh_token"], token_endpoint_auth_method="none")
            given["auth"] = OAuthClientProvider(
                server_url=self.url, client_metadata=metadata, storage=self.memory,
                redirect_handler=show, callback_handler=callback.wait)
        async with httpx2.AsyncClient(timeout=ANSWER_SECONDS, **given) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=self.mode, message_handler=hear,
                              read_timeout_seconds=ANSWER_SECONDS) as self.client:
                yield

    async def list(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, name, arguments):
        answer = await self.client.call_tool(name, arguments)
        text = "\n".join(block.text for block in answer.content if block.type == "text")
        if answer.is_error:
            raise RuntimeError(f"refused: {text}")
        return answer, text

    async def resource(self, uri):
        return (await self.client.read_resource(uri)).contents[0].text

    async def subscribe(self, uri):
        self.told.clear()
        if self.mode == "legacy":
            await self.client.subscribe_resource(uri)
            return
        ready = asyncio.Event()

        async def listen():
            async with self.client.listen(resource_subscriptions=[uri]) as events:
                ready.set()
                async for _ in events:
                    self.told.set()
                    return

        self.listening = asyncio.create_task(listen())
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({self.listening, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if self.listening.done():
            self.listening.result()


class FastMcp(Sdk):
    """`fastmcp.Client`, which signs in by itself."""

    @contextlib.asynccontextmanager
    async def connected(self):
        import fastmcp
        from fastmcp.client.auth import OAuth

        class Shown(OAuth):
            """Prints the address where it would open a browser."""

            async def redirect_handler(self, authorization_url):
                say(open=authorization_url)

        token = os.environ.get("STILE_TOKEN")
        auth = token or Shown(self.url, client_name="fastmcp")

        async def hear(message):
            if "ResourceUpdated" in repr(message):
                self.told.set()

        async with fastmcp.Client(self.url, auth=auth, message_handler=hear, timeout=ANSWER_SECONDS) as self.client:
            yield

    async def list(self):
        return [tool.name for tool in await self.client.list_tools()]

    async def call(self, name, arguments):
        answer = await self.client.call_tool(name, arguments, raise_on_error=False)
        text = "\n".join(block.text for block in answer.content if block.type == "text")
        if answer.is_error:
            raise RuntimeError(f"refused: {text}")
        return answer, text

    async def resource(self, uri):
        return (await self.client.read_resource(uri))[0].text

    async def subscribe(self, uri):
        raise Lacking("it has no call for subscriptions")


async def do(client, asked):
    what = asked.pop("do")
    if what == "list":
        return await client.list()
    if what == "call":
        return (await client.call(asked["name"], asked["arguments"]))[1]
    if what == "image":
        answer, _ = await client.call(asked["name"], asked["arguments"])
        return next((getattr(block, "mime_type", None) or getattr(block, "mimeType", None)
                     for block in answer.content if block.type == "image"), None)
    if what == "resource":
        return await client.resource(asked["uri"])
    if what == "subscribe":
        return await client.subscribe(asked["uri"])
    if what == "told":
        return await asyncio.wait_for(client.told.wait(), 10) and None
    if what == "cancel":
        calling = asyncio.create_task(client.call(asked["name"], asked["arguments"]))
        await asyncio.sleep(0)
        calling.cancel()
        await asyncio.wait({calling})
        if not calling.cancelled():
            raise RuntimeError("the call that was given up was answered")
        return None
    raise RuntimeError(f"unknown: {what}")


def describe(error):
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"


async def session(client, lines):
    """Answers what is asked in one session. Returns the line that asks for another one."""
    try:
        async with client.connected():
            say(ok=None)
            async for line in lines:
                if json.loads(line)["do"] == "again":
                    return line
                try:
                    say(ok=await do(client, json.loads(line)))
                except Lacking as lacking:
                    say(none=str(lacking))
                except Exception as error:
                    say(error=describe(error))
    except Exception as error:
        say(error=describe(error))
    return b""


async def main():
    mode, url = sys.argv[1:]
    client = FastMcp(mode, url) if mode == "fastmcp" else Sdk(mode, url)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    line = await lines.readline()
    # With `again` the old session is left, and a new one is opened with the same tokens.
    while line:
        line = await session(client, lines)
    os._exit(0)


asyncio.run(main())
