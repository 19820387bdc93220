// Drives the tools about records with the official TypeScript SDKs: 1.x, and 2.x in both protocol eras.
//
//     records_client.mjs --http URL --token FILE --other-token FILE
//     records_client.mjs --stdio COMMAND [ARGUMENT...]
//
// The rows are those that `records_client.py --rows` writes. From a question to the sentence after it, by calls and by
// resources; every answer and every refusal fits its schema, as the SDK says and as Ajv says. The token is for
// records; the other one is for files alone. Prints one `ok` line for each step and stops at the first that fails.

import { readFileSync } from 'node:fs';
import Ajv from 'ajv/dist/2020.js';
import { ANSWER_MS, Failed, connected, equal, expect, settled, step, tell } from './typescript_client.mjs';

const TOOLS = ['aggregate', 'fetch', 'query_records', 'read_record_field', 'schema', 'search'];
const TEMPLATES = ['pdpp://field-window/{handle}', 'pdpp://record/{handle}'];
const NEXT = 'pdpp/next_uri';
const ID = 'own/mail:https:%2F%2Fmail.example%2F%3Fid%3D7';
const [QUESTION, PHRASE] = ['"seventeen brass lanterns"', 'seventeen brass lanterns'];
const ANSWER = "The eighteenth hangs in Inês's kitchen 🏮, behind the blue door.";
const options = { timeout: ANSWER_MS };

class Caller {
  constructor(client, schemas) {
    Object.assign(this, { client, schemas });
  }

  async #call(tool, args) {
    const answer = await this.client.callTool({ name: tool, arguments: args }, undefined, options);
    const content = answer.structuredContent;
    expect(content !== undefined, `${tool} answered without structuredContent: ${JSON.stringify(answer)}`);
    const fits = this.schemas.get(tool);
    expect(fits(content), `${tool} breaks its own outputSchema: ${JSON.stringify([fits.errors, content])}`);
    const texts = answer.content.filter((block) => block.type === 'text').map((block) => block.text);
    equal(`the number of text blocks of ${tool}`, texts.length, 1);
    return { answer, content, text: texts[0] };
  }

  /** The structure, the text and the addresses of the links. */
  async succeeds(tool, args) {
    const { answer, content, text } = await this.#call(tool, args);
    expect(!answer.isError, `${tool} refused: ${JSON.stringify(content)}`);
    return { content, text, links: answer.content.filter((block) => block.type === 'resource_link').map((link) => link.uri) };
  }

  async refused(code, tool, args) {
    const { answer, content, text } = await this.#call(tool, args);
    expect(answer.isError, `${tool} succeeded where ${code} was due: ${JSON.stringify(content)}`);
    equal(`the code of ${tool}`, content.error.code, code);
    equal(`the text block of the refusal by ${tool}`, JSON.parse(text), content);
    return content.error;
  }

  /** The one part of a resource. */
  async part(uri) {
    const { contents } = await this.client.readResource({ uri }, options);
    equal('the address of what was read', contents.map((content) => content.uri), [uri]);
    return contents[0];
  }
}

async function listed(client) {
  const { tools } = await client.listTools(undefined, options);
  const shown = tools.filter((tool) => TOOLS.includes(tool.name));
  equal('the tools about records', shown.map((tool) => tool.name), TOOLS);
  const { resourceTemplates } = await client.listResourceTemplates(undefined, options);
  const templates = resourceTemplates.map((template) => template.uriTemplate).filter((uri) => uri.startsWith('pdpp:'));
  equal('the templates', templates.sort(), TEMPLATES);
  const ajv = new Ajv();
  return new Map(shown.map((tool) => [tool.name, ajv.compile(tool.outputSchema)]));
}

/** The sentence after the question's, if all of it is there. */
function sentenceAfter(text, isEnd) {
  const at = text.indexOf(PHRASE);
  if (at < 0) return undefined;
  const parts = text.slice(at).split(/(?<=\.) /);
  return parts.length > (isEnd ? 1 : 2) ? parts[1] : undefined;
}

async function checkTools(call) {
  expect(JSON.stringify((await call.succeeds('schema', {})).content).includes('mail'), 'there is no stream');
  const page = await call.succeeds('query_records', { stream: 'mail', limit: 3 });
  await call.succeeds('query_records', { stream: 'mail', limit: 3, cursor: page.content.data.next_cursor });
  expect((await call.succeeds('aggregate', { stream: 'mail', metric: 'count' })).text.includes('61'), 'not 61 records');
  const record = await call.succeeds('fetch', { id: ID });
  equal('the id', record.content.id, ID);
  equal('the record as its resource', JSON.parse((await call.part(record.content.url)).text).id, ID);
}

async function readByCursors(call) {
  const found = await call.succeeds('search', { q: QUESTION });
  equal('the first hit', found.content.results[0].id, ID);
  expect(found.text.includes(`first_fetch_id=${ID}`), `the text says ${found.text}`);
  const { tool, args } = found.content.results[0].match_windows[0].read;
  let { window } = (await call.succeeds(tool, args)).content;
  let shown = window.text;
  let calls = 2;
  while (sentenceAfter(shown, !window.next_cursor) === undefined) {
    const next = { id: ID, field_path: 'body', cursor: window.next_cursor };
    ({ window } = (await call.succeeds('read_record_field', next)).content);
    shown += window.text;
    calls += 1;
  }
  equal('the sentence', sentenceAfter(shown, false), ANSWER);
  expect(calls > 2 && calls <= 6, `it took ${calls} calls`);
  return shown;
}

async function readByResources(call, shown) {
  let uri = (await call.succeeds('search', { q: QUESTION })).links[0];
  let text = '';
  while (sentenceAfter(text, !uri) === undefined) {
    const part = await call.part(uri);
    text += part.text;
    uri = part._meta?.[NEXT];
  }
  equal('the sentence', sentenceAfter(text, false), ANSWER);
  equal('what the tool reads, as resources', text, shown);
}

async function readBytes(call) {
  let { uri } = (await call.refused('field_not_text', 'read_record_field', { id: ID, field_path: 'picture' })).resource;
  const pieces = [];
  while (uri) {
    const part = await call.part(uri);
    pieces.push(Buffer.from(part.blob, 'base64'));
    uri = part._meta?.[NEXT];
  }
  equal('the sizes of the pieces', pieces.map((piece) => piece.length), [65536, 62464]);
}

async function checkRefusals(call) {
  const body = { id: ID, field_path: 'body' };
  for (const [code, tool, args] of [
    ['not_found', 'fetch', { id: 'own/mail:none' }],
    ['invalid_id', 'fetch', { id: 'own/..:x' }],
    ['invalid_arguments', 'fetch', { id: ID, page: 2 }],
    ['invalid_arguments', 'search', { q: 7 }],
    ['invalid_arguments', 'query_records', {}],
    ['grant_stream_not_allowed', 'query_records', { stream: 'secrets' }],
    ['invalid_filter', 'query_records', { stream: 'mail', filter: 'id=1' }],
    ['invalid_cursor', 'search', { q: QUESTION, cursor: 'x' }],
    ['invalid_field_window_selector', 'read_record_field', { ...body, q: 'a', cursor: 'b' }],
    ['query_not_found', 'read_record_field', { ...body, q: 'no such words' }],
    ['invalid_arguments', 'schema', { nothing: 1 }],
    ['invalid_arguments', 'aggregate', { nothing: 1 }],
  ]) {
    await call.refused(code, tool, args);
  }
  for (const uri of ['pdpp://record/none', 'pdpp://field-window/none']) {
    const { error } = await settled(call.part(uri));
    equal('data.code and data.reason', [error?.data?.code, error?.data?.reason], ['invalid_cursor', 'malformed']);
  }
}

/** A caller who has nothing to do with records. */
async function checkOther(client, answers) {
  const { tools } = await client.listTools(undefined, options);
  equal('the tools about records', tools.filter((tool) => TOOLS.includes(tool.name)), []);
  const { error } = await settled(client.callTool({ name: 'search', arguments: { q: QUESTION } }, undefined, options));
  expect(error && !(error instanceof Failed), `search was not refused by HTTP: ${error}`);
  const { status, body } = answers.at(-1);
  const said = JSON.parse(body).error;
  equal('the status and the codes', [status, said?.code, said?.data?.code], [403, -31403, 'insufficient_scope']);
}

async function story(sdk, place) {
  const label = `typescript records ${place.url ? 'http' : place.command[1]}: ${sdk.name}`;
  await connected(sdk, place, false, async (client) => {
    const call = new Caller(client, await step(label, 'list the tools about records', () => listed(client)));
    await step(label, 'ask each tool', () => checkTools(call));
    const shown = await step(label, 'search, and read on by cursors', () => readByCursors(call));
    await step(label, 'search, and read on by resources', () => readByResources(call, shown));
    await step(label, 'read bytes', () => readBytes(call));
    await step(label, 'be refused', () => checkRefusals(call));
  });
  if (place.url) {
    await connected(sdk, place, true, (client, answers) =>
      step(label, 'be shown nothing without a grant', () => checkOther(client, answers)));
  }
}

function placeFrom(args) {
  const after = (flag) => (args.includes(flag) ? args[args.indexOf(flag) + 1] : undefined);
  if (args[0] === '--stdio' && args.length > 1) return { command: args.slice(1) };
  const [url, token, other] = ['--http', '--token', '--other-token'].map(after);
  if (!url || !token || !other) {
    console.error('usage: --http URL --token FILE --other-token FILE, or --stdio COMMAND...');
    process.exit(2);
  }
  const read = (path) => readFileSync(path, 'utf8').trim();
  return { url, token: read(token), readerToken: read(other) };
}

await tell(story, placeFrom(process.argv.slice(2)));
