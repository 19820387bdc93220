#!/usr/bin/env python3
"""Drives the tools about records with the official Python SDK, in both protocol eras.

    records_client.py --rows FILE
    records_client.py --http URL --token FILE --other-token FILE
    records_client.py --stdio COMMAND [ARGUMENT...]

The first writes the rows that the others expect to be imported as the stream `mail` of the connection `own`. The
others go from a question to the sentence after it in a body of a megabyte, by calls and by resources, and hold every
answer and every refusal against the schema that was advertised for it. The token is for records; the other one is for
files alone. Prints one `ok` line for each step and stops at the first that fails.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import logging
import re
import sys
from pathlib import Path

from jsonschema import Draft202012Validator
from mcp import MCPError

from python_client import (
    FORBIDDEN, MODE_SECONDS, MODES, Failed, Steps, complaint, equal, expect, over_http, over_stdio,
)

TOOLS = {"aggregate", "fetch", "query_records", "read_record_field", "schema", "search"}
TEMPLATES = {"pdpp://record/{handle}", "pdpp://field-window/{handle}"}
NEXT = "pdpp/next_uri"
ID = "own/mail:https:%2F%2Fmail.example%2F%3Fid%3D7"
KEY = "https://mail.example/?id=7"
QUESTION, PHRASE = '"seventeen brass lanterns"', "seventeen brass lanterns"
ANSWER = "The eighteenth hangs in Inês's kitchen 🏮, behind the blue door."
MEGABYTE = 1024 * 1024
FILLER = (
    "Nothing of note was said at the table. Die Fähre nach Grünau fährt wieder. 港の灯台は雨の中でも見えた。 "
    "She had seventeen reasons, and a brass key, and no lanterns 🚢. "
)
PICTURE = b"".join(hashlib.sha256(bytes([number % 256, number // 256])).digest() for number in range(4000))


def rows():
    """The mails: one of a megabyte, and some that have single words of the question."""
    half = FILLER * (MEGABYTE // 2 // len(FILLER.encode()) + 1)
    # Long enough that the answer is not in the first window.
    long = "and then the pier, " * 230
    body = f"{half}At dusk the {PHRASE} were counted, {long}and that was that. {ANSWER} {half}"
    yield {"id": KEY, "subject": "Inventory", "body": body, "picture": base64.b64encode(PICTURE).decode()}
    for number in range(60):
        word = ["seventeen", "brass", "lanterns"][number % 3]
        yield {"id": f"d-{number}", "subject": f"Mail {number}", "body": f"About {word}. {FILLER * (number % 8)}"}


class Caller:
    """Calls tools and holds every answer, refusals too, against its advertised schema. So does the SDK itself."""

    def __init__(self, client, schemas):
        self.client = client
        self.schemas = schemas

    async def _call(self, tool, arguments):
        answer = await self.client.call_tool(tool, arguments)
        content = answer.structured_content
        expect(content is not None, f"{tool} answered without structuredContent: {answer!r}")
        problem = next(Draft202012Validator(self.schemas[tool]).iter_errors(content), None)
        expect(problem is None, f"{tool} breaks its own outputSchema: {problem and problem.message}: {content!r}")
        texts = [block.text for block in answer.content if block.type == "text"]
        equal(f"the number of text blocks of {tool}", len(texts), 1)
        return answer, content, texts[0]

    async def succeeds(self, tool, **arguments):
        """The structure, the text and the addresses of the links."""
        answer, content, text = await self._call(tool, arguments)
        expect(not answer.is_error, f"{tool} refused: {content!r}")
        return content, text, [block.uri for block in answer.content if block.type == "resource_link"]

    async def refused(self, code, tool, **arguments):
        answer, content, text = await self._call(tool, arguments)
        expect(answer.is_error, f"{tool} succeeded where {code} was due: {content!r}")
        equal(f"the code of {tool}", content["error"]["code"], code)
        equal(f"the text block of the refusal by {tool}", json.loads(text), content)
        return content["error"]


async def listed(steps, client):
    with steps.step("list the tools about records"):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        expect(TOOLS <= set(tools), f"some are missing: {sorted(tools)}")
        for name in TOOLS:
            Draft202012Validator.check_schema(tools[name].output_schema)
            Draft202012Validator.check_schema(tools[name].input_schema)
            expect(tools[name].annotations.read_only_hint, f"{name} is not said to read only")
        templates = (await client.list_resource_templates()).resource_templates
        expect(TEMPLATES <= {template.uri_template for template in templates}, f"got {templates!r}")
    return {name: tools[name].output_schema for name in TOOLS}


def sentence_after(text, is_end):
    """The one after the question's, if all of it is there."""
    _, found, rest = text.partition(PHRASE)
    parts = re.split(r"(?<=\.) ", rest, maxsplit=2)
    return parts[1] if found and len(parts) > (1 if is_end else 2) else None


async def check_tools(steps, call):
    with steps.step("see what there is"):
        content, text, _ = await call.succeeds("schema")
        expect("mail" in text and "mail" in json.dumps(content), f"no stream in {text!r}")
        await call.succeeds("schema", stream="mail")

    with steps.step("list and count records"):
        content, text, _ = await call.succeeds("query_records", stream="mail", limit=3)
        cursor = content["data"]["next_cursor"]
        expect(cursor in text or "cursor" in text, "the text does not say how to go on")
        await call.succeeds("query_records", stream="mail", limit=3, cursor=cursor)
        content, text, _ = await call.succeeds("aggregate", stream="mail", metric="count")
        expect("61" in text, f"61 records are counted as {text!r}")

    with steps.step("fetch a record"):
        content, text, links = await call.succeeds("fetch", id=ID)
        equal("the id", content["id"], ID)
        expect(len(text) <= 16 * 1024 and links, f"{len(text)} bytes of text, {len(links)} links")
        equal("the record as its resource", json.loads(await whole(call.client, content["url"]))["id"], ID)


async def whole(client, uri):
    return (await client.read_resource(uri)).contents[0].text


async def check_windows(steps, call):
    with steps.step("search, and read on by cursors"):
        content, text, _ = await call.succeeds("search", q=QUESTION)
        equal("the first hit", content["results"][0]["id"], ID)
        expect(text.startswith("search: 1 hit(s).") and f"first_fetch_id={ID}" in text, f"got {text[:200]!r}")
        read = content["results"][0]["match_windows"][0]["read"]
        window, _, _ = await call.succeeds(read["tool"], **read["args"])
        shown, answer, calls = window["window"]["text"], None, 2
        while (answer := sentence_after(shown, window["window"]["complete"])) is None:
            cursor = window["window"]["next_cursor"]
            window, _, _ = await call.succeeds("read_record_field", id=ID, field_path="body", cursor=cursor)
            shown, calls = shown + window["window"]["text"], calls + 1
        equal("the sentence", answer, ANSWER)
        expect(2 < calls <= 6, f"it took {calls} calls")
    return shown


async def check_resources(steps, call, shown):
    with steps.step("search, and read on by resources"):
        _, _, links = await call.succeeds("search", q=QUESTION)
        uri, text = links[0], ""
        while sentence_after(text, uri is None) is None:
            contents = (await call.client.read_resource(uri)).contents
            equal("the address of what was read", [part.uri for part in contents], [uri])
            text, uri = text + contents[0].text, (contents[0].meta or {}).get(NEXT)
        equal("the sentence", sentence_after(text, False), ANSWER)
        equal("what the tool reads, as resources", text, shown)

    with steps.step("read bytes"):
        error = await call.refused("field_not_text", "read_record_field", id=ID, field_path="picture")
        uri, read, pieces = error["resource"]["uri"], b"", 0
        while uri:
            contents = (await call.client.read_resource(uri)).contents
            piece = base64.b64decode(contents[0].blob, validate=True)
            expect(len(piece) <= 64 * 1024, f"a piece has {len(piece)} bytes")
            read, pieces, uri = read + piece, pieces + 1, (contents[0].meta or {}).get(NEXT)
        expect(read == PICTURE and pieces > 1, f"{len(read)} bytes in {pieces} pieces")


async def check_refusals(steps, call):
    with steps.step("be refused by tools"):
        refused = call.refused
        await refused("not_found", "fetch", id="own/mail:none")
        await refused("invalid_id", "fetch", id="own/..:x")
        await refused("invalid_arguments", "fetch", id=ID, page=2)
        await refused("invalid_arguments", "search", q=7)
        await refused("invalid_arguments", "query_records")
        await refused("grant_stream_not_allowed", "query_records", stream="secrets")
        await refused("invalid_filter", "query_records", stream="mail", filter="id=1")
        await refused("invalid_cursor", "search", q=QUESTION, cursor="x")
        await refused("invalid_field_window_selector", "read_record_field", id=ID, field_path="body", q="a", cursor="b")
        error = await refused("query_not_found", "read_record_field", id=ID, field_path="body", q="no such words")
        expect(error["message"], "it does not say why")
        for name in ("schema", "aggregate"):
            await refused("invalid_arguments", name, nothing=1)

    with steps.step("be refused by resources"):
        for uri in ("pdpp://record/none", "pdpp://field-window/none"):
            try:
                await call.client.read_resource(uri)
            except MCPError as error:
                equal("data.code", error.data and error.data.get("code"), "invalid_cursor")
                equal("data.reason", error.data.get("reason"), "malformed")
            else:
                raise Failed(f"{uri} was read")


async def check_other(steps, client, answers):
    """A caller who has nothing to do with records."""
    with steps.step("be shown nothing without a grant"):
        names = {tool.name for tool in (await client.list_tools()).tools}
        expect(not names & TOOLS, f"got {sorted(names)}")
        try:
            await client.call_tool("search", {"q": QUESTION})
        except MCPError as error:
            equal("the JSON-RPC code", error.code, FORBIDDEN)
            equal("data.code", error.data and error.data.get("code"), "insufficient_scope")
        else:
            raise Failed("search was allowed")
        equal("the HTTP status", answers[-1][0], 403)


async def check_mode(steps, mode, connect, connect_other):
    async with connect(mode) as (client, _):
        equal("the protocol version", client.protocol_version, MODES[mode])
        call = Caller(client, await listed(steps, client))
        await check_tools(steps, call)
        shown = await check_windows(steps, call)
        await check_resources(steps, call, shown)
        await check_refusals(steps, call)
    if connect_other:
        async with connect_other(mode) as (client, answers):
            await check_other(steps, client, answers)


async def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=Path, metavar="FILE")
    options.add_argument("--http", metavar="URL")
    options.add_argument("--token", type=Path, metavar="FILE")
    options.add_argument("--other-token", type=Path, metavar="FILE")
    options.add_argument("--stdio", nargs=argparse.REMAINDER, metavar="COMMAND")
    given = options.parse_args()
    if given.rows:
        given.rows.write_text("".join(json.dumps(row) + "\n" for row in rows()))
        return
    if given.http:
        token, other_token = given.token.read_text().strip(), given.other_token.read_text().strip()
        name, connect = "records http", lambda mode: over_http(given.http, token, mode)
        other = lambda mode: over_http(given.http, other_token, mode)
    elif given.stdio:
        name, connect, other = f"records {given.stdio[1]}", lambda mode: over_stdio(given.stdio, mode), None
    else:
        options.error("give --rows, --http or --stdio")
    for mode in MODES:
        steps = Steps(name, mode)
        try:
            async with asyncio.timeout(MODE_SECONDS):
                await check_mode(steps, mode, connect, other)
        except TimeoutError as error:
            raise Failed(f"{steps.label}: {mode}: not done after {MODE_SECONDS} s") from error


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    try:
        asyncio.run(main())
    except Exception as error:
        sys.exit(f"FAILED {complaint(error)}")
