#!/usr/bin/env python3
"""Drives a running Stile with the official Python SDK, in both protocol eras.

    python_client.py --http URL --token FILE --reader-token FILE
    python_client.py --stdio COMMAND [ARGUMENT...]

Makes files only below a folder of its own and leaves the rest of the space alone. On stdio the
reader is the same command with `--scope read:/` added. Prints one `ok` line for each step and stops
at the first that fails.
"""

import argparse
import asyncio
import base64
import contextlib
import hashlib
import json
import logging
import secrets
import sys
import urllib.error
import urllib.request
from pathlib import Path

import httpx2
from jsonschema import Draft202012Validator
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

CHANGING = {
    "file.append", "file.copy", "file.create", "file.move", "file.remove", "folder.create", "folder.move",
    "folder.remove", "note.set_property", "text.append", "text.edit", "text.insert", "text.replace",
}
FINDING = {
    "file.find", "file.list", "file.search", "note.find", "note.links", "note.tags", "text.gather", "text.search"
}
READING = FINDING | {
    "file.read", "get_document_tree", "get_metadata_facets", "get_note_outline", "get_section_source", "text.read",
}
# Their text is made to be read, and is not the structure as JSON.
WITH_TEXT_OF_THEIR_OWN = FINDING | {"text.edit"}
TOOLS = CHANGING | READING
DOTTED = {name.replace(".", "_"): name for name in TOOLS if "." in name}
HINTS = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")
LEGACY, MODERN = "2025-11-25", "2026-07-28"
# How the SDK is asked to connect, and the revision that must come of it.
MODES = {"legacy": LEGACY, "auto": MODERN, MODERN: MODERN}
NOT_FOUND = {LEGACY: -32002, MODERN: -32602}
FORBIDDEN = -31403
ANSWER_SECONDS, MODE_SECONDS = 20, 60

PLAN = "# Plan\n\nfirst\nsecond\n"


class Failed(Exception):
    """What a server did, where the contract says something else."""


def expect(condition, said):
    if not condition:
        raise Failed(said)


def equal(what, got, wanted):
    expect(got == wanted, f"{what} is {got!r}, expected {wanted!r}")


def sha256(data):
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()


class Steps:
    """Names what is being tried, for the `ok` line and for the complaint."""

    def __init__(self, transport, mode):
        self.label = f"python {transport}"
        self.mode = mode

    @contextlib.contextmanager
    def step(self, name):
        try:
            yield
        except Exception as error:
            raise Failed(f"{self.label}: {self.mode}: {name}: {describe(error)}") from error
        print(f"ok {self.label}: {self.mode}: {name}", flush=True)


def describe(error):
    if isinstance(error, Failed):
        return str(error)
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"


class Caller:
    """Calls tools in one of the two spellings and holds every answer against its advertised schema."""

    def __init__(self, client, schemas, separator="."):
        self.client = client
        self.schemas = schemas
        self.separator = separator

    async def _call(self, tool, arguments):
        answer = await self.client.call_tool(tool.replace(".", self.separator), arguments)
        content = answer.structured_content
        expect(content is not None, f"{tool} answered without structuredContent: {answer!r}")
        problem = next(Draft202012Validator(self.schemas[tool]).iter_errors(content), None)
        expect(problem is None, f"{tool} breaks its own outputSchema: {problem and problem.message}: {content!r}")
        texts = [block.text for block in answer.content if block.type == "text"]
        equal(f"the number of text blocks of {tool}", len(texts), 1)
        return answer, content, texts[0]

    async def succeeds(self, tool, **arguments):
        answer, content, text = await self._call(tool, arguments)
        expect(not answer.is_error, f"{tool} refused: {content!r}")
        if tool == "text.read":
            equal("the text block after its one-line header", text.partition("\n")[2], content["content"])
        elif tool not in WITH_TEXT_OF_THEIR_OWN:
            equal(f"the text block of {tool}", json.loads(text), content)
        return content

    async def refused(self, code, tool, **arguments):
        answer, content, text = await self._call(tool, arguments)
        expect(answer.is_error, f"{tool} succeeded where {code} was due: {content!r}")
        equal(f"the code of {tool}", content["error"]["code"], code)
        equal(f"the text block of the refusal by {tool}", text, content["error"]["message"])
        return content["error"]


async def listing(client, uri):
    contents = (await client.read_resource(uri)).contents
    equal("the number of contents", len(contents), 1)
    equal("the URI of the answer", contents[0].uri, uri)
    equal("the MIME type", contents[0].mime_type, "application/json")
    return json.loads(contents[0].text)


async def resource_refused(client, uri):
    try:
        await client.read_resource(uri)
    except MCPError as error:
        return error
    raise Failed(f"{uri} was read")


async def check_handshake(steps, client, mode):
    with steps.step("initialize"):
        equal("the protocol version", client.protocol_version, MODES[mode])
        if mode == MODERN:
            return  # Adopted without asking: the server has not been heard yet.
        expect(client.server_info and client.server_info.name and client.server_info.version, "no server name")
        expect(client.server_capabilities.tools is not None, "tools are not declared")
        expect(client.server_capabilities.resources is not None, "resources are not declared")


async def check_tools(steps, client):
    with steps.step("list tools"):
        tools = (await client.list_tools()).tools
        names = [tool.name for tool in tools]
        equal("the list of names", names, sorted(names))
        equal("the set of tools", {DOTTED.get(name, name) for name in names}, TOOLS)
        for tool in tools:
            expect(tool.output_schema is not None, f"{tool.name} has no outputSchema")
            Draft202012Validator.check_schema(tool.output_schema)
            Draft202012Validator.check_schema(tool.input_schema)
            for hint in HINTS:
                expect(getattr(tool.annotations, hint) is not None, f"{tool.name} does not state {hint}")
    return {DOTTED.get(tool.name, tool.name): tool.output_schema for tool in tools}


async def check_files(steps, call, folder):
    """Create, read, edit, collide and remove, all in one spelling of the tool names."""
    spelled = {".": "dotted", "_": "underscored"}[call.separator]
    path = f"{folder}/notes/plan.md"

    with steps.step(f"create ({spelled})"):
        made = await call.succeeds("file.create", path=path, content=PLAN)
        equal("the path", made["path"], path)
        equal("the hash", made["hash"], sha256(PLAN))
        equal("size_bytes", made["size_bytes"], len(PLAN))
        equal("total_lines", made["total_lines"], 4)
        again = await call.refused("already_exists", "file.create", path=path, content="other")
        expect("\n" not in again["message"], "the refusal is not one line")
        blob = bytes([0, 159, 146, 150])
        encoded = base64.b64encode(blob).decode()
        made = await call.succeeds("file.create", path=f"{folder}/.blob", content=encoded, encoding="base64")
        equal("the hash of the bytes", made["hash"], sha256(blob))

    with steps.step(f"read ({spelled})"):
        seen = await call.succeeds("text.read", path=path.lstrip("/"))
        equal("the path", seen["path"], path)
        equal("the content", seen["content"], PLAN)
        equal("the hash", seen["hash"], sha256(PLAN))
        equal("total_lines", seen["total_lines"], 4)
        equal("truncated", seen["truncated"], False)
        tail = await call.succeeds("text.read", path=path, lines=[-2, 0])
        equal("the last two lines", tail["content"], "first\nsecond\n")
        await call.refused("not_text", "text.read", path=f"{folder}/.blob")

    text = PLAN
    with steps.step(f"edit by text.replace ({spelled})"):
        edited = await call.succeeds(
            "text.replace", path=path, hash=sha256(text), lines=[1, 0], old="first", new="1st\n1st again"
        )
        text = text.replace("first", "1st\n1st again")
        equal("the hash", edited["hash"], sha256(text))
        equal("total_lines", edited["total_lines"], 5)

    with steps.step(f"edit by text.insert ({spelled})"):
        edited = await call.succeeds(
            "text.insert", path=path, hash=sha256(text), line=-1, anchor="second", content="between"
        )
        text = text.replace("second", "between\nsecond")
        equal("the hash", edited["hash"], sha256(text))

    with steps.step(f"edit by text.append ({spelled})"):
        edited = await call.succeeds("text.append", path=path, hash=sha256(text), content="third: ümlaut")
        text += "third: ümlaut"
        equal("the hash", edited["hash"], sha256(text))
        seen = await call.succeeds("text.read", path=path)
        equal("the content", seen["content"], text)
        equal("total_lines", seen["total_lines"], 7)

    with steps.step(f"collide ({spelled})"):
        stale = sha256(PLAN)
        for tool, change in {
            "text.append": {"content": "lost"},
            "text.insert": {"line": 1, "anchor": "# Plan", "content": "lost"},
            "text.replace": {"lines": [1, 0], "old": "# Plan", "new": "lost"},
            "file.remove": {},
        }.items():
            refusal = await call.refused("stale", tool, path=path, hash=stale, **change)
            expect(sha256(text) not in json.dumps(refusal), f"{tool} gave the current hash away")
            expect("read" in refusal["message"], f"{tool} does not say to read again: {refusal!r}")
        equal("the content", (await call.succeeds("text.read", path=path))["content"], text)

    with steps.step(f"find, search and edit ({spelled})"):
        found = await call.succeeds("file.find", pattern=path.rsplit("/", 1)[1])
        expect(path in [match["path"] for match in found["matches"]], f"{path} is not found: {found!r}")
        hits = (await call.succeeds("text.search", q="UMLAUT", case="insensitive", path=path))["hits"]
        equal("the hits of a text that is not there", hits, [])
        hit = (await call.succeeds("text.search", q="ümlaut", path=path))["hits"][0]
        edits = [{"old": "ümlaut", "new": "umlaut"}, {"old": "# Plan", "new": "# The plan"}]
        plan = {"path": hit["path"], "hash": hit["hash"], "edits": edits}
        tried = await call.succeeds("text.edit", dry_run=True, **plan)
        edited = await call.succeeds("text.edit", **plan)
        text = text.replace("ümlaut", "umlaut").replace("# Plan", "# The plan")
        equal("the hashes", [tried["hash"], edited["hash"]], [sha256(text)] * 2)
        expect("+# The plan" in edited["diff"], f"the diff is {edited['diff']!r}")

    with steps.step(f"copy and move ({spelled})"):
        base = path.removesuffix(".md")
        await call.succeeds("file.copy", path=path, hash=sha256(text), to=f"{base}/copy.md")
        moved = {"path": f"{base}/copy.md", "hash": sha256(text), "to": f"{base}/moved.md"}
        equal("the new path", (await call.succeeds("file.move", **moved))["path"], f"{base}/moved.md")
        await call.refused("folder_not_empty", "folder.remove", path=base)
        await call.succeeds("file.remove", path=f"{base}/moved.md", hash=sha256(text))
        await call.succeeds("folder.remove", path=base)

    with steps.step(f"see a picture ({spelled})"):
        picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(64)).decode()
        made = await call.succeeds("file.create", path=f"{path}.png", content=picture, encoding="base64")
        shown = await call.client.call_tool("file.read".replace(".", call.separator), {"path": f"{path}.png"})
        image = next(block for block in shown.content if block.type == "image")
        equal("the picture", (image.mime_type, image.data), ("image/png", picture))
        await call.succeeds("file.remove", path=f"{path}.png", hash=made["hash"])

    with steps.step(f"remove ({spelled})"):
        await call.succeeds("file.remove", path=path, hash=sha256(text))
        await call.refused("not_found", "text.read", path=path)
        await call.refused("not_found", "file.remove", path=path, hash=sha256(text))


async def check_listing(steps, call, folder, revision):
    client = call.client
    with steps.step("list the resource template"):
        templates = (await client.list_resource_templates()).resource_templates
        expect("list://{+path}" in [template.uri_template for template in templates], f"got {templates!r}")
        await client.list_resources()

    for name, content in {"My Folder/é #1.md": "x", "z/deep.md": "x", ".hidden": "x", "b.md": "bee"}.items():
        await call.succeeds("file.create", path=f"{folder}/{name}", content=content)

    with steps.step("list the root"):
        uri, names = "list:///", []
        while uri:
            page = await listing(client, uri)
            equal("the path", page["path"], "/")
            names += [(entry["name"], entry["type"]) for entry in page["entries"]]
            uri = page.get("next_uri")
        expect((folder[1:], "directory") in names, f"no {folder} in {names!r}")

    with steps.step("list a folder"):
        page = await listing(client, f"list://{folder}")
        equal("the path", page["path"], folder)
        equal("truncated", page["truncated"], False)
        names = [(entry["name"], entry["type"]) for entry in page["entries"]]
        wanted = [("My Folder", "directory"), ("z", "directory"), (".hidden", "file"), ("b.md", "file")]
        equal("the entries", names, wanted)
        page = await listing(client, f"list://{folder}/My%20Folder")
        equal("the entries", [entry["name"] for entry in page["entries"]], ["é #1.md"])

    with steps.step("list what is not there"):
        missing = await resource_refused(client, f"list://{folder}/nothing")
        equal("the JSON-RPC code", missing.code, NOT_FOUND[revision])
        equal("data.code", missing.data and missing.data.get("code"), "not_found")
        plain = await resource_refused(client, f"list://{folder}/b.md")
        equal("data.code", plain.data and plain.data.get("code"), "not_a_directory")


async def check_reader(steps, reader, schemas, folder, answers):
    """A caller with `read:/` only. `answers` are the HTTP answers so far, or None on stdio."""
    call = Caller(reader, schemas)
    path = f"{folder}/b.md"
    change = {"path": path, "hash": sha256("bee"), "content": "refused"}

    with steps.step("list tools as a reader"):
        names = {DOTTED.get(tool.name, tool.name) for tool in (await reader.list_tools()).tools}
        equal("the set of tools", names, READING)

    with steps.step("be refused"):
        if answers is None:
            refusal = await call.refused("insufficient_scope", "text.append", **change)
            expect("write:" in refusal["message"], f"the scope that is needed is not named: {refusal!r}")
        else:
            for spelling in ("text.append", "text_append"):
                try:
                    await reader.call_tool(spelling, change)
                except MCPError as error:
                    equal("the JSON-RPC code", error.code, FORBIDDEN)
                    equal("data.code", error.data and error.data.get("code"), "insufficient_scope")
                    expect("write:" in error.message, f"the scope that is needed is not named: {error.message!r}")
                else:
                    raise Failed("text.append was allowed")
                status, challenge = answers[-1]
                equal("the HTTP status", status, 403)
                for part in ("Bearer", 'error="insufficient_scope"', "scope=", "write:", "resource_metadata="):
                    expect(part in challenge, f"WWW-Authenticate lacks {part}: {challenge!r}")

    with steps.step("read on after the refusal"):
        equal("the content", (await call.succeeds("text.read", path=path))["content"], "bee")
        await listing(reader, f"list://{folder}")


def check_no_token(steps, url):
    with steps.step("be refused without a token"):
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        try:
            urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=ANSWER_SECONDS)
        except urllib.error.HTTPError as error:
            equal("the HTTP status", error.code, 401)
            challenge = error.headers.get("WWW-Authenticate", "")
            expect("resource_metadata=" in challenge, f"WWW-Authenticate is {challenge!r}")
        else:
            raise Failed("tools/list was answered")


@contextlib.asynccontextmanager
async def over_http(url, token, mode):
    answers = []

    async def note(response):
        answers.append((response.status_code, response.headers.get("www-authenticate", "")))

    headers = {"Authorization": f"Bearer {token}"}
    hooks = {"response": [note]}
    async with httpx2.AsyncClient(headers=headers, timeout=ANSWER_SECONDS, event_hooks=hooks) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=ANSWER_SECONDS) as client:
            yield client, answers


@contextlib.asynccontextmanager
async def over_stdio(command, mode):
    transport = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
    async with Client(transport, mode=mode, read_timeout_seconds=ANSWER_SECONDS) as client:
        yield client, None


async def check_mode(steps, mode, connect_writer, connect_reader):
    revision = MODES[mode]
    folder = f"/python-{secrets.token_hex(4)}"
    async with connect_writer(mode) as (client, _):
        await check_handshake(steps, client, mode)
        schemas = await check_tools(steps, client)
        await check_files(steps, Caller(client, schemas, "."), f"{folder}-dotted")
        await check_files(steps, Caller(client, schemas, "_"), f"{folder}-underscored")
        await check_listing(steps, Caller(client, schemas), folder, revision)
    async with connect_reader(mode) as (reader, answers):
        await check_reader(steps, reader, schemas, folder, answers)


async def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--http", metavar="URL")
    options.add_argument("--token", type=Path, metavar="FILE")
    options.add_argument("--reader-token", type=Path, metavar="FILE")
    options.add_argument("--stdio", nargs=argparse.REMAINDER, metavar="COMMAND")
    given = options.parse_args()
    if given.http:
        token, reader_token = given.token.read_text().strip(), given.reader_token.read_text().strip()
        transport = "http"
        writer = lambda mode: over_http(given.http, token, mode)
        reader = lambda mode: over_http(given.http, reader_token, mode)
    elif given.stdio:
        transport = "stdio"
        writer = lambda mode: over_stdio(given.stdio, mode)
        reader = lambda mode: over_stdio([*given.stdio, "--scope", "read:/"], mode)
    else:
        options.error("give --http or --stdio")

    for mode in MODES:
        steps = Steps(transport, mode)
        try:
            async with asyncio.timeout(MODE_SECONDS):
                await check_mode(steps, mode, writer, reader)
        except TimeoutError as error:
            raise Failed(f"{steps.label}: {mode}: not done after {MODE_SECONDS} s") from error
    if given.http:
        check_no_token(Steps(transport, "any era"), given.http)


def complaint(error):
    """The first `Failed` inside: task groups wrap what they pass on."""
    if isinstance(error, BaseExceptionGroup):
        found = [complaint(inner) for inner in error.exceptions]
        return next((text for text in found if text.startswith("python ")), found[0])
    return describe(error)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    try:
        asyncio.run(main())
    except Exception as error:
        sys.exit(f"FAILED {complaint(error)}")
