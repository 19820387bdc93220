// A framework for agents in JavaScript, told what to do: see rig/driver.py.
//
//     frameworks.mjs ai-sdk|mastra|openai-agents URL
//
// STILE_TOKEN is the token that was pasted. No model takes part: each call is made on the tool object
// that the framework hands to its model.

import { createInterface } from 'node:readline';

const [kind, url] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.STILE_TOKEN}` };
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const named = (names, name) => names.find((each) => each.replace('stile_', '').replace('.', '_') === name);

function read(answer) {
  // Some frameworks hand on the structured answer alone.
  const content = Array.isArray(answer?.content) ? answer.content : [];
  const text = content.filter((block) => block.type === 'text').map((block) => block.text).join('\n');
  if (answer?.isError) throw new Error(`refused: ${text}`);
  return { text: text || JSON.stringify(answer), image: content.find((block) => block.type === 'image')?.mimeType };
}

async function aiSdk() {
  const { createMCPClient } = await import('@ai-sdk/mcp');
  const client = await createMCPClient({ transport: { type: 'http', url, headers } });
  let tools;
  return {
    list: async () => Object.keys((tools = await client.tools())),
    call: async (name, args, signal) =>
      read(await tools[named(Object.keys(tools), name)].execute(args, { toolCallId: '1', messages: [], abortSignal: signal })),
    resource: async (uri) => (await client.readResource({ uri })).contents[0].text,
  };
}

async function mastra() {
  const { MCPClient } = await import('@mastra/mcp');
  const client = new MCPClient({ servers: { stile: { url: new URL(url), requestInit: { headers } } } });
  let tools;
  return {
    list: async () => Object.keys((tools = await client.listTools())),
    call: async (name, args, signal) => {
      const tool = tools[named(Object.keys(tools), name)];
      const answer = await tool.execute(args, { abortSignal: signal });
      // What the model gets of an answer with a structured part is the text, or that part.
      const shown = tool.toModelOutput?.(answer);
      return shown ? { text: shown.type === 'text' ? shown.value : JSON.stringify(shown.value) } : read(answer);
    },
    resource: async (uri) => (await client.resources.read('stile', uri)).contents[0].text,
  };
}

async function openaiAgents() {
  const { Agent, MCPServerStreamableHttp, RunContext, getAllMcpTools } = await import('@openai/agents');
  const server = new MCPServerStreamableHttp({ url, name: 'stile', requestInit: { headers } });
  await server.connect();
  const runContext = new RunContext({});
  const agent = new Agent({ name: 'check', mcpServers: [server] });
  let tools;
  return {
    list: async () => {
      tools = await getAllMcpTools({ mcpServers: [server], runContext, agent });
      return tools.map((tool) => tool.name);
    },
    call: async (name, args) => {
      const content = await server.callTool(named(tools.map((tool) => tool.name), name), args);
      return read({ content });
    },
    resource: async (uri) => (await server.readResource(uri)).contents[0].text,
  };
}

let client;
const does = {
  connect: async () => { client = await { 'ai-sdk': aiSdk, mastra, 'openai-agents': openaiAgents }[kind](); },
  list: () => client.list(),
  call: async ({ name, arguments: args }) => (await client.call(name, args)).text,
  image: async ({ name, arguments: args }) => {
    const { image } = await client.call(name, args);
    if (!image && kind === 'mastra') {
      throw new Error('it hands its model the text of an answer and no picture, where the tool has an output schema');
    }
    return image;
  },
  resource: ({ uri }) => client.resource(uri),
  cancel: async ({ name, arguments: args }) => {
    const stop = new AbortController();
    const calling = client.call(name, args, stop.signal);
    stop.abort('enough');
    await calling.catch(() => {});
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  try {
    say({ ok: (await does[asked.do](asked)) ?? null });
  } catch (error) {
    say({ error: String(error?.message ?? error) });
  }
}
process.exit(0);
