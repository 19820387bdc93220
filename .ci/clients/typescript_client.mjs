// Drives a running Stile with the official TypeScript SDKs: 1.x, and 2.x in both protocol eras.
//
//     typescript_client.mjs --http URL --token FILE --reader-token FILE
//     typescript_client.mjs --stdio COMMAND [ARGUMENT...]
//
// Makes files only below folders of its own. On stdio the reader is the same command with
// `--scope read:/` added. Prints one `ok` line for each step and stops at the first that fails.

import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import Ajv from 'ajv/dist/2020.js';
import * as v1 from '@modelcontextprotocol/sdk/client/index.js';
import * as v1http from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as v1stdio from '@modelcontextprotocol/sdk/client/stdio.js';
import * as v2 from '@modelcontextprotocol/client';
import * as v2stdio from '@modelcontextprotocol/client/stdio';

const NOTE_TOOLS = ['get_document_tree', 'get_metadata_facets', 'get_note_outline', 'get_section_source'];
const READING = ['file.find', 'file.list', 'file.read', 'file.search', ...NOTE_TOOLS, 'note.find', 'note.links', 'note.tags', 'text.gather', 'text.read', 'text.search'];
const TOOLS = [
  ...READING, 'file.append', 'file.copy', 'file.create', 'file.move', 'file.remove', 'folder.create',
  'folder.move', 'folder.remove', 'note.set_property', 'text.append', 'text.edit', 'text.insert', 'text.replace',
].sort();
const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'];
const [LEGACY, MODERN] = ['2025-11-25', '2026-07-28'];
export const ANSWER_MS = 20_000;
const STORY_MS = 60_000;
const PLAN = '# Plan\n\nfirst\nsecond\n';

export const SDKS = [
  {
    name: 'SDK 1, legacy',
    revision: LEGACY,
    notFound: -32002,
    client: () => new v1.Client({ name: 'stile-check', version: '1' }),
    Http: v1http.StreamableHTTPClientTransport,
    Stdio: v1stdio.StdioClientTransport,
  },
  ...[['legacy', LEGACY], ['auto', MODERN]].map(([mode, revision]) => ({
    name: `SDK 2, ${mode}`,
    revision,
    notFound: -32602, // Its own name for -32002, too.
    client: () => new v2.Client({ name: 'stile-check', version: '1' }, { versionNegotiation: { mode } }),
    Http: v2.StreamableHTTPClientTransport,
    Stdio: v2stdio.StdioClientTransport,
  })),
];

/** What a server did, where the contract says something else. */
export class Failed extends Error {}

export function expect(condition, said) {
  if (!condition) throw new Failed(said);
}

export function equal(what, got, wanted) {
  expect(isDeepStrictEqual(got, wanted), `${what} is ${JSON.stringify(got)}, expected ${JSON.stringify(wanted)}`);
}

const sha256 = (data) => createHash('sha256').update(data).digest('hex');
const dotted = (name) => (name.includes('.') || NOTE_TOOLS.includes(name) ? name : name.replace('_', '.'));
export const settled = (promise) => promise.then((value) => ({ value }), (error) => ({ error }));

export async function step(label, name, run) {
  let result;
  try {
    result = await run();
  } catch (error) {
    throw new Failed(`${label}: ${name}: ${error instanceof Failed ? error.message : error}`);
  }
  console.log(`ok ${label}: ${name}`);
  return result;
}

/** Calls tools in one of the two spellings and holds every answer against its advertised schema. */
class Caller {
  constructor(client, schemas, separator = '.') {
    Object.assign(this, { client, schemas, separator });
  }

  async #call(tool, args) {
    const name = tool.replace('.', this.separator);
    const answer = await this.client.callTool({ name, arguments: args }, undefined, { timeout: ANSWER_MS });
    const content = answer.structuredContent;
    expect(content !== undefined, `${tool} answered without structuredContent: ${JSON.stringify(answer)}`);
    const fits = this.schemas.get(tool);
    expect(fits(content), `${tool} breaks its own outputSchema: ${JSON.stringify([fits.errors, content])}`);
    return { answer, content, texts: answer.content.filter((block) => block.type === 'text') };
  }

  async succeeds(tool, args) {
    const { answer, content, texts } = await this.#call(tool, args);
    expect(!answer.isError, `${tool} refused: ${JSON.stringify(content)}`);
    equal(`the number of text blocks of ${tool}`, texts.length, 1);
    return content;
  }

  async refused(code, tool, args) {
    const { answer, content } = await this.#call(tool, args);
    expect(answer.isError, `${tool} succeeded where ${code} was due: ${JSON.stringify(content)}`);
    equal(`the code of ${tool}`, content.error.code, code);
    return content.error;
  }
}

async function listing(client, uri) {
  const { contents } = await client.readResource({ uri }, { timeout: ANSWER_MS });
  equal('the URI of the answer', contents.map((content) => content.uri), [uri]);
  equal('the MIME type', contents[0].mimeType, 'application/json');
  return JSON.parse(contents[0].text);
}

function checkHandshake(client, revision, transport) {
  const negotiated = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
  if (negotiated !== undefined) equal('the protocol version', negotiated, revision);
  expect(client.getServerVersion()?.name && client.getServerVersion().version, 'the server has no name');
  expect(client.getServerCapabilities()?.tools, 'tools are not declared');
  expect(client.getServerCapabilities().resources, 'resources are not declared');
}

async function checkTools(client) {
  const { tools } = await client.listTools(undefined, { timeout: ANSWER_MS });
  equal('the set of tools', tools.map((tool) => dotted(tool.name)).sort(), TOOLS);
  for (const tool of tools) {
    expect(tool.outputSchema, `${tool.name} has no outputSchema`);
    for (const hint of HINTS) {
      equal(`${hint} of ${tool.name}`, typeof tool.annotations?.[hint], 'boolean');
    }
  }
  const ajv = new Ajv();
  return new Map(tools.map((tool) => [dotted(tool.name), ajv.compile(tool.outputSchema)]));
}

/** Create, read, edit, collide and remove, all in one spelling of the tool names. */
async function checkFiles(label, call, folder) {
  const spelled = call.separator === '.' ? 'dotted' : 'underscored';
  const path = `${folder}/notes/plan.md`;

  await step(label, `create (${spelled})`, async () => {
    const made = await call.succeeds('file.create', { path, content: PLAN });
    equal('path, hash and size', [made.path, made.hash, made.size_bytes], [path, sha256(PLAN), PLAN.length]);
    await call.refused('already_exists', 'file.create', { path, content: 'other' });
  });

  await step(label, `read (${spelled})`, async () => {
    const seen = await call.succeeds('text.read', { path });
    equal('content, hash and lines', [seen.content, seen.hash, seen.total_lines], [PLAN, sha256(PLAN), 4]);
    const tail = await call.succeeds('text.read', { path, lines: [-2, 0] });
    equal('the last two lines', tail.content, 'first\nsecond\n');
  });

  let text = PLAN;
  await step(label, `edit (${spelled})`, async () => {
    const edits = [
      ['text.replace', { lines: [1, 0], old: 'first', new: '1st\n1st again' }, (old) => old.replace('first', '1st\n1st again')],
      ['text.insert', { line: 1, anchor: '# Plan', content: 'preface' }, (old) => `preface\n${old}`],
      ['text.append', { content: 'third: ümlaut' }, (old) => `${old}third: ümlaut`],
    ];
    for (const [tool, change, effect] of edits) {
      const edited = await call.succeeds(tool, { path, hash: sha256(text), ...change });
      text = effect(text);
      equal(`the hash after ${tool}`, edited.hash, sha256(text));
    }
    equal('the content', (await call.succeeds('text.read', { path })).content, text);
  });

  await step(label, `collide (${spelled})`, async () => {
    const hash = sha256(PLAN);
    const refusal = await call.refused('stale', 'text.append', { path, hash, content: 'lost' });
    expect(!JSON.stringify(refusal).includes(sha256(text)), 'the refusal gives the current hash away');
    await call.refused('stale', 'text.replace', { path, hash, lines: [1, 0], old: '# Plan', new: 'lost' });
    await call.refused('stale', 'text.insert', { path, hash, line: 1, anchor: 'preface', content: 'lost' });
    await call.refused('stale', 'file.remove', { path, hash });
    equal('the content', (await call.succeeds('text.read', { path })).content, text);
  });

  await step(label, `find, edit and move (${spelled})`, async () => {
    const { hits } = await call.succeeds('text.search', { q: 'ümlaut', path });
    equal('the hit', [hits[0].path, hits[0].hash], [path, sha256(text)]);
    const edits = [{ old: 'ümlaut', new: 'umlaut' }];
    text = text.replace('ümlaut', 'umlaut');
    equal('the hash', (await call.succeeds('text.edit', { path, hash: hits[0].hash, edits })).hash, sha256(text));
    const to = path.replace('.md', ' moved.md');
    await call.succeeds('file.move', { path, hash: sha256(text), to });
    const { matches } = await call.succeeds('file.find', { pattern: 'moved.md' });
    expect(matches.some((match) => match.path === to), `${to} is not found`);
    await call.succeeds('file.move', { path: to, hash: sha256(text), to: path });
  });

  await step(label, `remove (${spelled})`, async () => {
    await call.succeeds('file.remove', { path, hash: sha256(text) });
    await call.refused('not_found', 'text.read', { path });
  });
}

async function checkListing(label, call, folder, notFound) {
  const { client } = call;
  await step(label, 'list the resource template', async () => {
    const { resourceTemplates } = await client.listResourceTemplates(undefined, { timeout: ANSWER_MS });
    expect(resourceTemplates.some((template) => template.uriTemplate === 'list://{+path}'), 'list://{+path} is missing');
    await client.listResources(undefined, { timeout: ANSWER_MS });
  });

  await step(label, 'list folders', async () => {
    for (const name of ['My Folder/é #1.md', '.hidden', 'b.md']) {
      await call.succeeds('file.create', { path: `${folder}/${name}`, content: 'bee' });
    }
    equal('the path of the root', (await listing(client, 'list:///')).path, '/');
    const page = await listing(client, `list://${folder}`);
    const entries = page.entries.map((entry) => [entry.name, entry.type]);
    equal('the entries', entries, [['My Folder', 'directory'], ['.hidden', 'file'], ['b.md', 'file']]);
    const inner = await listing(client, `list://${folder}/My%20Folder`);
    equal('the entries', inner.entries.map((entry) => entry.name), ['é #1.md']);
  });

  await step(label, 'list what is not there', async () => {
    const { error } = await settled(listing(client, `list://${folder}/nothing`));
    equal('the JSON-RPC code', error?.code, notFound);
    const plain = await settled(listing(client, `list://${folder}/b.md`));
    equal('data.code', plain.error?.data?.code, 'not_a_directory');
  });
}

/** A caller with `read:/` only. `answers` are the HTTP answers so far, or undefined on stdio. */
async function checkReader(label, client, schemas, folder, answers) {
  const call = new Caller(client, schemas);
  const path = `${folder}/b.md`;
  const change = { path, hash: sha256('bee'), content: 'refused' };

  await step(label, 'be refused', async () => {
    const { tools } = await client.listTools(undefined, { timeout: ANSWER_MS });
    equal('the tools of a reader', tools.map((tool) => dotted(tool.name)), READING);
    if (answers) {
      const { error } = await settled(call.succeeds('text.append', change));
      expect(error && !(error instanceof Failed), `text.append was not refused by HTTP: ${error}`);
      const { status, challenge, body } = answers.at(-1);
      equal('the HTTP status', status, 403);
      const said = JSON.parse(body).error;
      equal('the code and data.code', [said?.code, said?.data?.code], [-31403, 'insufficient_scope']);
      for (const part of ['Bearer', 'error="insufficient_scope"', 'scope=', 'resource_metadata=']) {
        expect(challenge.includes(part), `WWW-Authenticate lacks ${part}: ${challenge}`);
      }
    } else {
      await call.refused('insufficient_scope', 'text.append', change);
    }
  });

  await step(label, 'read on after the refusal', async () => {
    equal('the content', (await call.succeeds('text.read', { path })).content, 'bee');
  });
}

/** `fetch` that keeps what the SDKs do not show: the status, the challenge and the body of errors. */
function noting(answers) {
  return async (url, init) => {
    const response = await fetch(url, init);
    const body = response.ok ? '' : await response.clone().text();
    answers.push({ status: response.status, challenge: response.headers.get('www-authenticate') ?? '', body });
    return response;
  };
}

export async function connected(sdk, place, reader, use) {
  const client = sdk.client();
  const answers = place.url && [];
  const scope = reader ? ['--scope', 'read:/'] : [];
  const transport = place.url
    ? new sdk.Http(new URL(place.url), {
        requestInit: { headers: { Authorization: `Bearer ${reader ? place.readerToken : place.token}` } },
        fetch: noting(answers),
      })
    : new sdk.Stdio({ command: place.command[0], args: [...place.command.slice(1), ...scope] });
  await client.connect(transport, { timeout: ANSWER_MS });
  try {
    return await use(client, answers, transport);
  } finally {
    await client.close();
  }
}

async function story(sdk, place) {
  const label = `typescript ${place.url ? 'http' : 'stdio'}: ${sdk.name}`;
  const folder = `/typescript-${randomBytes(4).toString('hex')}`;
  const schemas = await connected(sdk, place, false, async (client, _, transport) => {
    await step(label, 'initialize', () => checkHandshake(client, sdk.revision, transport));
    const schemas = await step(label, 'list tools', () => checkTools(client));
    await checkFiles(label, new Caller(client, schemas, '.'), `${folder}-dotted`);
    await checkFiles(label, new Caller(client, schemas, '_'), `${folder}-underscored`);
    await checkListing(label, new Caller(client, schemas), folder, sdk.notFound);
    return schemas;
  });
  await connected(sdk, place, true, (client, answers) => checkReader(label, client, schemas, folder, answers));
}

function placeFrom(args) {
  const after = (flag) => (args.includes(flag) ? args[args.indexOf(flag) + 1] : undefined);
  if (args[0] === '--stdio' && args.length > 1) return { command: args.slice(1) };
  const [url, token, readerToken] = ['--http', '--token', '--reader-token'].map(after);
  if (!url || !token || !readerToken) {
    console.error('usage: --http URL --token FILE --reader-token FILE, or --stdio COMMAND...');
    process.exit(2);
  }
  const read = (path) => readFileSync(path, 'utf8').trim();
  return { url, token: read(token), readerToken: read(readerToken) };
}

/** Tells the story to each SDK, and ends the process. */
export async function tell(story, place) {
  try {
    for (const sdk of SDKS) {
      let timer;
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Failed(`typescript: ${sdk.name}: not done after ${STORY_MS} ms`)), STORY_MS);
      });
      await Promise.race([story(sdk, place), late]);
      clearTimeout(timer);
    }
    process.exit(0);
  } catch (error) {
    console.error(`FAILED ${error instanceof Failed ? error.message : error.stack}`);
    process.exit(1);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await tell(story, placeFrom(process.argv.slice(2)));
