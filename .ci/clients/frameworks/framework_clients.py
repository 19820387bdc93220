#!/usr/bin/env python3
"""Drives a running Stile with the tool adapters of two agent frameworks, which show tools only.

    framework_clients.py --http URL --token FILE

No model takes part: each call is made on the tool object that the framework would hand to its
model. Makes files only below a folder of its own. Prints one `ok` line for each step and stops at
the first that fails.
"""

import argparse
import asyncio
import json
import secrets
import sys
from pathlib import Path

from langchain_mcp_adapters.client import MultiServerMCPClient
from pydantic_ai import RunContext, RunUsage
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel

ADAPTER_SECONDS = 60
WANTED = {"file.create", "file.find", "file.move", "text.edit", "text.read", "text.search"}


class Failed(Exception):
    """What a server did, where the contract says something else."""


class Refused(Exception):
    """A refusal, as the framework shows it to its model."""


def expect(condition, said):
    if not condition:
        raise Failed(said)


class LangChain:
    """The tools of langchain-mcp-adapters."""

    label = "langchain"

    def __init__(self, url, token):
        headers = {"Authorization": f"Bearer {token}"}
        server = {"transport": "streamable_http", "url": url, "headers": headers}
        self.client = MultiServerMCPClient({"stile": server})

    async def list(self):
        self.tools = {tool.name: tool for tool in await self.client.get_tools()}
        return {name: (tool.description, tool.args_schema) for name, tool in self.tools.items()}

    async def call(self, name, arguments):
        call = {"type": "tool_call", "id": secrets.token_hex(4), "name": name, "args": arguments}
        message = await self.tools[name].ainvoke(call)
        text = "\n".join(block["text"] for block in message.content if block["type"] == "text")
        if message.status == "error":
            raise Refused(text)
        return message.artifact["structured_content"], text


class PydanticAi:
    """The tools of the MCP toolset of Pydantic AI."""

    label = "pydantic-ai"

    def __init__(self, url, token):
        self.toolset = MCPToolset(url, headers={"Authorization": f"Bearer {token}"})
        self.context = RunContext(deps=None, model=TestModel(), usage=RunUsage())

    async def list(self):
        self.tools = await self.toolset.get_tools(self.context)
        definitions = {name: tool.tool_def for name, tool in self.tools.items()}
        return {name: (tool.description, tool.parameters_json_schema) for name, tool in definitions.items()}

    async def call(self, name, arguments):
        tool = self.tools[name]
        valid = tool.args_validator.validate_python(arguments)
        try:
            answer = await self.toolset.call_tool(name, valid, self.context, tool)
        except ModelRetry as refused:
            raise Refused(refused.message) from refused
        return (answer, json.dumps(answer)) if isinstance(answer, dict) else (json.loads(answer), answer)


async def story(adapter):
    names = {}

    async def call(tool, **arguments):
        return (await adapter.call(names[tool], arguments))[0]

    def passed(step):
        print(f"ok {adapter.label}: {step}", flush=True)

    listed = await adapter.list()
    for name, (description, schema) in listed.items():
        expect(description and schema.get("type") == "object", f"{name} has no description or no schema")
        names[name if "." in name else name.replace("_", ".", 1)] = name
    expect(WANTED <= names.keys(), f"the tools are {sorted(listed)}")
    passed("list tools")

    folder = f"/frameworks-{secrets.token_hex(4)}"
    await call("file.create", path=f"{folder}/plans/water butt.md", content="# Water butt\n\nA tap.\nA lid.\n")
    found = await call("file.find", pattern="waterbut", path=folder)
    path = found["matches"][0]["path"]
    expect(path == f"{folder}/plans/water butt.md", f"found {found}")
    passed("find a file by a part of its name")

    hit = (await call("text.search", q="a tap", path=folder))["hits"][0]
    expect((hit["path"], hit["line"]) == (path, 3), f"the hit is {hit}")
    edits = [{"old": "A tap.", "new": "A brass tap."}, {"old": "A lid.", "new": "Two lids."}]
    edited = await call("text.edit", path=path, hash=hit["hash"], edits=edits)
    expect("+A brass tap." in edited["diff"], f"the diff is {edited['diff']}")
    passed("search a text and edit the hit")

    to = f"{folder}/plans/water barrel.md"
    await call("file.move", path=path, hash=edited["hash"], to=to)
    _, text = await adapter.call(names["text.read"], {"path": to})
    expect("A brass tap." in text and "Two lids." in text, f"read {text!r}")
    passed("move the file")

    try:
        await call("text.read", path=path)
    except Refused as refused:
        # The model must see what to do next.
        expect("there is no" in str(refused) and names["file.find"] in str(refused), f"refused with {refused}")
    else:
        raise Failed("a file that was moved away was read")
    passed("be refused with what to do next")


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", required=True)
    parser.add_argument("--token", type=Path, required=True)
    arguments = parser.parse_args()
    for kind in (LangChain, PydanticAi):
        adapter = kind(arguments.http, arguments.token.read_text().strip())
        await asyncio.wait_for(story(adapter), ADAPTER_SECONDS)


try:
    asyncio.run(main())
except Failed as failed:
    sys.exit(f"FAILED {failed}")
