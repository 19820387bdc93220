// Reads a file of a running Stile through `mcp-remote`, which signs in by itself.
//
//     remote_sign_in.mjs PROXY URL PATH EXPECTED
//
// `mcp-remote` prints the address that the owner must open to standard error, which is passed on.

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [proxy, url, path, expected] = process.argv.slice(2);
const transport = new StdioClientTransport({
  command: process.execPath,
  args: [proxy, url],
  // There is nothing that opens a browser: the owner reads the address.
  env: { HOME: process.env.HOME, MCP_REMOTE_CONFIG_DIR: process.env.HOME, PATH: '/nonexistent' },
  stderr: 'pipe',
});
const client = new Client({ name: 'stile-sign-in', version: '1' });
const connecting = client.connect(transport, { timeout: 100_000 });
transport.stderr.pipe(process.stderr);
await connecting;
const answer = await client.callTool({ name: 'text.read', arguments: { path } });
const content = answer.structuredContent?.content;
if (content !== expected) {
  console.error(`FAILED the answer is ${JSON.stringify(answer)}`);
  process.exit(1);
}
console.log(`ok mcp-remote: signed in and read ${path}`);
await client.close();
process.exit(0);
