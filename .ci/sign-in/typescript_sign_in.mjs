// Signs in to a running Stile with the OAuth client of the official TypeScript SDK, and reads a file.
//
//     typescript_sign_in.mjs URL PATH EXPECTED [--expect-refusal]
//
// Prints the address that the owner must open, and receives the answer on a port of this machine. Then
// it loses its access token, and reads again. With --expect-refusal the owner must have said no.

import { createServer } from 'node:http';

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

const [url, path, expected, flag] = process.argv.slice(2);

function fail(why) {
  console.error(`FAILED ${why}`);
  process.exit(1);
}

/** The port where the browser delivers the answers. */
async function callback() {
  const answers = [];
  let arrived;
  const first = new Promise((resolve) => { arrived = resolve; });
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url, 'http://127.0.0.1');
    response.writeHead(200, { 'Content-Type': 'text/plain' }).end('The client has its answer.');
    if (searchParams.has('state')) {
      answers.push(searchParams);
      arrived(searchParams);
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { answers, first, url: `http://127.0.0.1:${server.address().port}/callback` };
}

/** Keeps everything for as long as the process runs. */
class Provider {
  constructor(redirectUrl) {
    this.redirectUrl = redirectUrl;
    this.kept = {};
    this.asked = 0;
  }

  get clientMetadata() {
    return {
      client_name: 'TypeScript SDK',
      redirect_uris: [this.redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    };
  }

  state() { return (this.kept.state ??= crypto.randomUUID()); }
  clientInformation() { return this.kept.client; }
  saveClientInformation(client) { this.kept.client = client; }
  tokens() { return this.kept.tokens; }
  saveTokens(tokens) { this.kept.tokens = tokens; }
  codeVerifier() { return this.kept.verifier; }
  saveCodeVerifier(verifier) { this.kept.verifier = verifier; }
  saveDiscoveryState(state) { this.kept.discovery = state; }
  discoveryState() { return this.kept.discovery; }

  redirectToAuthorization(address) {
    this.asked += 1;
    console.error(`open ${address}\n`);
  }
}

async function read(provider) {
  const client = new Client({ name: 'stile-sign-in', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider: provider }));
  const answer = await client.callTool({ name: 'text.read', arguments: { path } });
  await client.close();
  if (answer.structuredContent?.content !== expected) fail(`the answer is ${JSON.stringify(answer)}`);
}

const { answers, first, url: redirect } = await callback();
const provider = new Provider(redirect);
const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
try {
  await new Client({ name: 'stile-sign-in', version: '1' }).connect(transport);
  fail('the client connected without a token');
} catch (error) {
  if (!(error instanceof UnauthorizedError)) fail(error.stack);
}
const answer = await first;
if (answer.get('state') !== provider.state()) fail('the answer has another state');
if (flag === '--expect-refusal') {
  if (answer.get('error') !== 'access_denied' || !answer.get('iss')) fail(`the answer is ${answer}`);
  console.log('ok typescript: learned that the owner said no');
  process.exit(0);
}
await transport.finishAuth(answer);
await read(provider);
console.log(`ok typescript: signed in and read ${path}`);

const { refresh_token: before } = provider.kept.tokens;
provider.kept.tokens = { ...provider.kept.tokens, access_token: 'of-yesterday' };
await read(provider);
if (provider.asked !== 1 || answers.length !== 1) fail('the owner was asked again');
if (provider.kept.tokens.refresh_token === before) fail('the refresh token was not replaced');
console.log('ok typescript: renewed its token');
process.exit(0);
