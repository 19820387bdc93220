// One of the official TypeScript SDKs, told what to do: see rig/driver.py.
//
//     typescript.mjs 1|2|2-legacy|remote URL
//
// With STILE_TOKEN it sends that token; else it signs in. `remote` is SDK 2 in front of mcp-remote, the
// program that MCP_REMOTE names, which signs in and prints the address.

import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const [kind, url] = process.argv.slice(2);
const first = kind === '1';
const sdk = first
  ? {
      ...(await import('@modelcontextprotocol/sdk/client/index.js')),
      ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
      ...(await import('@modelcontextprotocol/sdk/client/auth.js')),
      ...(await import('@modelcontextprotocol/sdk/types.js')),
    }
  : await import('@modelcontextprotocol/client');
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** The port where the browser delivers the answers, and the next of them. */
const arrived = [];
let wanted;
const callback = createServer((request, response) => {
  const { searchParams } = new URL(request.url, 'http://127.0.0.1');
  response.writeHead(200, { 'Content-Type': 'text/plain' }).end('The client has its answer.');
  if (!searchParams.has('code')) return;
  if (wanted) wanted(searchParams);
  else arrived.push(searchParams);
  wanted = undefined;
});
await new Promise((resolve) => callback.listen(0, '127.0.0.1', resolve));
const answer = () => (arrived.length ? arrived.shift() : new Promise((resolve) => { wanted = resolve; }));
const redirectUrl = `http://127.0.0.1:${callback.address().port}/callback`;

/** Keeps everything for as long as the process runs. */
const kept = {};
const provider = {
  redirectUrl,
  clientMetadata: {
    client_name: `TypeScript SDK ${kind}`,
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  },
  state: () => (kept.state ??= crypto.randomUUID()),
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  saveDiscoveryState: (state) => { kept.discovery = state; },
  discoveryState: () => kept.discovery,
  invalidateCredentials: (what) => {
    if (what === 'all' || what === 'client') delete kept.client;
    if (what === 'all' || what === 'tokens') delete kept.tokens;
  },
  redirectToAuthorization: (address) => {
    // An answer to an earlier question is of no use.
    arrived.length = 0;
    say({ open: String(address) });
  },
};

const token = process.env.STILE_TOKEN;
const options = token
  ? { requestInit: { headers: { Authorization: `Bearer ${token}` } } }
  : { authProvider: provider };
const remote = kind === 'remote';
const { StdioClientTransport } = remote ? await import('@modelcontextprotocol/client/stdio') : {};
let client;
let transport;
const told = new Map();

async function connect() {
  const made = { name: `typescript-sdk-${kind}`, version: '1' };
  const updated = ({ uri }) => told.get(uri)?.();
  if (first) {
    client = new sdk.Client(made);
    client.setNotificationHandler(sdk.ResourceUpdatedNotificationSchema, ({ params }) => updated(params));
  } else {
    client = new sdk.Client(made, { versionNegotiation: { mode: kind === '2' ? 'auto' : 'legacy' } });
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => updated(params));
  }
  if (remote) {
    const env = { HOME: process.env.HOME, MCP_REMOTE_CONFIG_DIR: process.env.HOME, PATH: '/nonexistent' };
    const args = [process.env.MCP_REMOTE, url];
    transport = new StdioClientTransport({ command: process.execPath, args, env, stderr: 'pipe' });
    transport.stderr.on('data', (bytes) => {
      process.stderr.write(bytes);
      const found = String(bytes).match(/https?:\/\/\S+\/oauth\/authorize\?\S+/);
      if (found) say({ open: found[0] });
    });
    await client.connect(transport, { timeout: 50_000 });
    return;
  }
  transport = new sdk.StreamableHTTPClientTransport(new URL(url), options);
  await client.connect(transport, { timeout: 30_000 });
}

/** Does it, and once more after the owner was asked: a program that uses the SDK has to do that. */
async function signingIn(run) {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof sdk.UnauthorizedError)) throw error;
    const given = await answer();
    await transport.finishAuth(first ? given.get('code') : given);
    return await run();
  }
}

const patience = { timeout: 30_000 };
const invoke = (name, args, given = patience) =>
  first ? client.callTool({ name, arguments: args }, undefined, given) : client.callTool({ name, arguments: args }, given);

async function call(name, args) {
  const got = await signingIn(() => invoke(name, args));
  const text = got.content.filter((block) => block.type === 'text').map((block) => block.text).join('\n');
  if (got.isError) throw new Error(`refused: ${text}`);
  return { got, text };
}

const does = {
  connect: () => signingIn(connect),
  again: async () => {
    await client.close().catch(() => {});
    await signingIn(connect);
  },
  list: async () => (await signingIn(() => client.listTools(undefined, patience))).tools.map((tool) => tool.name),
  call: async ({ name, arguments: args }) => (await call(name, args)).text,
  image: async ({ name, arguments: args }) =>
    (await call(name, args)).got.content.find((block) => block.type === 'image')?.mimeType,
  resource: async ({ uri }) => (await signingIn(() => client.readResource({ uri }, patience))).contents[0].text,
  subscribe: async ({ uri }) => {
    told.set(uri, undefined);
    kept.told = new Promise((resolve) => told.set(uri, resolve));
    if (kind === '2') kept.listening = await client.listen({ resourceSubscriptions: [uri] });
    else await client.subscribeResource({ uri }, patience);
  },
  told: async () => {
    const late = new Promise((_, reject) => setTimeout(() => reject(new Error('no event came in 10 s')), 10_000));
    await Promise.race([kept.told, late]);
    await kept.listening?.close?.();
  },
  cancel: async ({ name, arguments: args }) => {
    const stop = new AbortController();
    const calling = invoke(name, args, { ...patience, signal: stop.signal });
    stop.abort('enough');
    const ended = await calling.then(() => 'answered', () => 'given up');
    if (ended !== 'given up') throw new Error('the call that was given up was answered');
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  try {
    say({ ok: (await does[asked.do](asked)) ?? null });
  } catch (error) {
    say({ error: String(error?.message ?? error) });
    if (process.env.STILE_TRACE) console.error(error);
  }
}
process.exit(0);
