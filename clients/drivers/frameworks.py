"""A framework for agents in Python, told what to do: see rig/driver.py.

    frameworks.py langchain|pydantic-ai|llama-index|openai-agents URL

STILE_TOKEN is the token that was pasted. No model takes part: each call is made on the tool object
that the framework hands to its model.
"""

import asyncio
import contextlib
import json
import os
import sys

TOKEN = {"Authorization": f"Bearer {os.environ['STILE_TOKEN']}"}


def say(**line):
    print(json.dumps(line), flush=True)


def named(names, name):
    """The name in the list that means this tool."""
    return next(each for each in names if each.replace(".", "_") == name)


class LangChain:
    """Opens a session for each call."""

    @contextlib.asynccontextmanager
    async def connected(self, url):
        from langchain_mcp_adapters.client import MultiServerMCPClient

        server = {"transport": "streamable_http", "url": url, "headers": TOKEN}
        self.client = MultiServerMCPClient({"stile": server})
        yield

    async def list(self):
        self.tools = {tool.name: tool for tool in await self.client.get_tools()}
        return list(self.tools)

    async def call(self, name, arguments):
        call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
        message = await self.tools[named(self.tools, name)].ainvoke(call)
        blocks = message.content if isinstance(message.content, list) else [{"type": "text", "text": message.content}]
        text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        if message.status == "error":
            raise RuntimeError(f"refused: {text}")
        kind = next((block.get("mime_type") for block in blocks if block["type"] == "image"), None)
        return text, kind

    async def resource(self, uri):
        blobs = await self.client.get_resources("stile", uris=[uri])
        return blobs[0].as_string()


class PydanticAi:
    """Its toolset, as an agent would enter it."""

    @contextlib.asynccontextmanager
    async def connected(self, url):
        from pydantic_ai import RunContext, RunUsage
        from pydantic_ai.mcp import MCPToolset
        from pydantic_ai.models.test import TestModel

        self.context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
        self.toolset = MCPToolset(url, headers=TOKEN)
        async with self.toolset:
            yield

    async def list(self):
        self.tools = await self.toolset.get_tools(self.context)
        return list(self.tools)

    async def call(self, name, arguments):
        full = named(self.tools, name)
        tool = self.tools[full]
        valid = tool.args_validator.validate_python(arguments)
        answer = await self.toolset.call_tool(full, valid, self.context, tool)
        parts = answer if isinstance(answer, list) else [answer]
        kind = next((part.media_type for part in parts if hasattr(part, "media_type")), None)
        return answer if isinstance(answer, str) else json.dumps(answer, default=str, ensure_ascii=False), kind

    async def resource(self, uri):
        return await self.toolset.read_resource(uri)


class LlamaIndex:
    """Opens a session for each call."""

    @contextlib.asynccontextmanager
    async def connected(self, url):
        from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

        self.client = BasicMCPClient(url, headers=TOKEN)
        self.spec = McpToolSpec(client=self.client)
        yield

    async def list(self):
        self.tools = {tool.metadata.get_name(): tool for tool in await self.spec.to_tool_list_async()}
        return list(self.tools)

    async def call(self, name, arguments):
        output = await self.tools[named(self.tools, name)].acall(**arguments)
        raw = output.raw_output
        if getattr(raw, "isError", None) or getattr(raw, "is_error", None):
            raise RuntimeError(f"refused: {output.content}")
        blocks = getattr(raw, "content", [])
        image = next((block for block in blocks if getattr(block, "type", "") == "image"), None)
        return output.content, image and (getattr(image, "mimeType", None) or getattr(image, "mime_type", None))

    async def resource(self, uri):
        return (await self.client.read_resource(uri)).contents[0].text


class OpenAiAgents:
    """Keeps one session."""

    @contextlib.asynccontextmanager
    async def connected(self, url):
        from agents import Agent, RunContextWrapper
        from agents.mcp import MCPServerStreamableHttp, MCPUtil

        self.util = MCPUtil
        self.context = RunContextWrapper(context=None)
        async with MCPServerStreamableHttp(params={"url": url, "headers": TOKEN}, client_session_timeout_seconds=30,
                                           name="stile") as self.server:
            self.agent = Agent(name="check", mcp_servers=[self.server])
            yield

    async def list(self):
        tools = await self.util.get_all_function_tools([self.server], False, self.context, self.agent)
        self.tools = [tool.name for tool in tools]
        return self.tools

    async def call(self, name, arguments):
        answer = await self.server.call_tool(named(self.tools, name), arguments)
        text = "\n".join(block.text for block in answer.content if block.type == "text")
        if answer.isError:
            raise RuntimeError(f"refused: {text}")
        return text, next((block.mimeType for block in answer.content if block.type == "image"), None)

    async def resource(self, uri):
        return (await self.server.read_resource(uri)).contents[0].text


KINDS = {"langchain": LangChain, "pydantic-ai": PydanticAi, "llama-index": LlamaIndex, "openai-agents": OpenAiAgents}


async def do(client, asked):
    what = asked["do"]
    if what == "list":
        return await client.list()
    if what == "call":
        return (await client.call(asked["name"], asked["arguments"]))[0]
    if what == "image":
        return (await client.call(asked["name"], asked["arguments"]))[1]
    if what == "resource":
        return await client.resource(asked["uri"])
    if what == "cancel":
        calling = asyncio.create_task(client.call(asked["name"], asked["arguments"]))
        await asyncio.sleep(0)
        calling.cancel()
        await asyncio.wait({calling})
        return None
    raise RuntimeError(f"unknown: {what}")


def describe(error):
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"


async def main():
    kind, url = sys.argv[1:]
    client = KINDS[kind]()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await lines.readline()
    try:
        async with client.connected(url):
            say(ok=None)
            async for line in lines:
                try:
                    say(ok=await do(client, json.loads(line)))
                except Exception as error:
                    say(error=describe(error))
    except Exception as error:
        say(error=describe(error))
    os._exit(0)


asyncio.run(main())
