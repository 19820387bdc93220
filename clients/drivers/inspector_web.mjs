// The Inspector's pages in Chromium, told what to do: see rig/driver.py.
//
//     inspector_web.mjs INSPECTOR URL
//
// The owner decides in the same browser, with a link of `stile sign-in`. STILE and STILE_STATE name the
// program and its state, CHROMIUM the module that speaks with the browser.

import { execFileSync, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const { Browser, pause } = await import(process.env.CHROMIUM);
const [inspector, url] = process.argv.slice(2);
const origin = new URL(url).origin;
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const quoted = JSON.stringify;
let browser;
let pages;

/** Waits until one of the expressions is true of the page, and returns its name. */
async function either(expressions) {
  const cases = Object.entries(expressions).map(([name, test]) => `(${test}) ? ${quoted(name)}`);
  return browser.until(Object.keys(expressions).join(' or '), `${cases.join(' : ')} : ''`);
}

const CONNECTED = `[...document.querySelectorAll('input[id$="-Tools"]')].length > 0`;
const SIGN_IN = `location.origin === ${quoted(origin)} && document.querySelector('input[name=code]')`;
const CONSENT = `location.origin === ${quoted(origin)} && document.querySelector('button[name=decision]')`;
const titled = (title) => `[...document.querySelectorAll('*')].find((each) => !each.children.length && each.textContent === ${quoted(title)})`;
const below = (title) => `${titled(title)}?.closest('.mantine-Card-root, .mantine-Paper-root')?.innerText`;
const RESULTS = titled('Results');
const ANSWER = below('Results');
const ASKS_FOR_MORE = `document.body.innerText.includes('SEP-2350')`;

/** Flips the switch of the server, and decides as the owner where the browser is led there. */
async function connect() {
  await browser.press('input[role=switch]');
  for (;;) {
    const page = await either({ consent: CONSENT, signIn: SIGN_IN, connected: CONNECTED });
    if (page === 'connected') return;
    if (page === 'signIn') {
      const words = execFileSync(process.env.STILE, ['sign-in', '--state', process.env.STILE_STATE, '--address', origin], { encoding: 'utf8' });
      const code = new URL(words.match(/https?:\S+/)[0]).searchParams.get('code');
      await browser.evaluate(`document.querySelector('input[name=code]').value = ${quoted(code)}`);
      await browser.press('form:has(input[name=code]) button');
      await browser.until('the page of consent', CONSENT);
    } else {
      await browser.evaluate(`document.querySelectorAll('input[type=checkbox]').forEach((box) => { box.checked = true; })`);
      say({ decided: await browser.evaluate('location.href') });
      // Until its styles are there, the button stands elsewhere.
      await browser.until('the whole page', `document.readyState === 'complete'`);
      await browser.press('button[name=decision][value=approve]');
      await browser.until('the page of the Inspector', `location.origin !== ${quoted(origin)}`);
    }
  }
}

/** Clicks the first element of a kind whose text fits. */
async function click(selector, pattern) {
  const find = `[...document.querySelectorAll(${quoted(selector)})].find((each) => ${pattern}.test(each.innerText.trim()))`;
  await browser.until(`${selector} with ${pattern}`, `Boolean(${find})`);
  await browser.evaluate(`${find}.click()`);
}

async function tools() {
  await browser.evaluate(`document.querySelector('input[id$="-Tools"]').click()`);
  const names = `[...document.querySelectorAll('button')].map((each) => each.innerText.trim().split(/\\n+/)[1]).filter((name) => /^[a-z_.]+$/.test(name ?? ''))`;
  await browser.until('the list of tools', `${names}.length > 5`);
  return browser.evaluate(names);
}

/** Selects the tool, fills in its arguments, executes it, and returns what the page shows. */
async function call(tool, args) {
  const name = (await tools()).find((each) => each.replace('.', '_') === tool);
  // The answer of the last call hides the fields of its tool until it is closed.
  await browser.evaluate(`${RESULTS}?.parentElement.querySelector('button')?.click()`);
  await pause(500);
  await click('button', new RegExp(`\\n${name.replace('.', '\\.')}$`));
  await pause(500);
  for (const [argument, value] of Object.entries(args)) {
    const field = `(() => {
      const label = [...document.querySelectorAll('label')].find((each) => each.innerText.replace(/[\\s*]+$/, '').trim() === ${quoted(argument)});
      return label && document.getElementById(label.htmlFor);
    })()`;
    await browser.until(`a field for ${argument}`, `Boolean(${field})`);
    await browser.evaluate(`(() => {
      const field = ${field};
      const kind = field instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
      Object.getOwnPropertyDescriptor(kind.prototype, 'value').set.call(field, ${quoted(value)});
      field.dispatchEvent(new Event('input', { bubbles: true }));
    })()`);
  }
  await pause(300);
  await click('button', /^Execute Tool$/);
  const page = await either({ answer: ANSWER, asksForMore: ASKS_FOR_MORE });
  if (page === 'asksForMore') {
    for (const type of ['keyDown', 'keyUp']) {
      await browser.send('Input.dispatchKeyEvent', { type, key: 'Escape', code: 'Escape', windowsVirtualKeyCode: 27 });
    }
    await browser.until('the end of its question', `!(${ASKS_FOR_MORE})`);
    throw new Error('refused: it asks for more');
  }
  return browser.evaluate(ANSWER);
}

/** Opens a resource by the name that its list shows, which is the file's. */
async function open(uri) {
  await browser.evaluate(`document.querySelector('input[id$="-Resources"]').click()`);
  await click('button', new RegExp(`^${uri.split('/').pop().replace('.', '\\.')}$`));
  await browser.until('the resource', `${below('Resource')}?.includes(${quoted(uri)})`);
}

const does = {
  connect: async () => {
    pages = spawn(process.execPath, [inspector, '--web', '--transport', 'http', '--server-url', url], {
      env: { ...process.env, MCP_AUTO_OPEN_ENABLED: 'false' },
    });
    let said = '';
    pages.stdout.on('data', (bytes) => { said += bytes; });
    pages.stderr.on('data', (bytes) => { said += bytes; });
    for (let tries = 0; tries < 200 && !/API_TOKEN=\S+\s/.test(said); tries += 1) await pause(200);
    browser = await Browser.start();
    const size = { width: 1600, height: 1400, deviceScaleFactor: 1, mobile: false };
    await browser.send('Emulation.setDeviceMetricsOverride', size);
    await browser.send('Page.navigate', { url: said.match(/http:\/\/\S+API_TOKEN=\S+/)[0] });
    await connect();
  },
  list: tools,
  call: async ({ name, arguments: args }) => {
    const shown = await call(name, args);
    if (process.env.STILE_TRACE) console.error(shown);
    if (/not_found|insufficient_scope|Error calling|Tool Error|-31403|\b401\b|Not Found/.test(shown)) {
      throw new Error(`refused: ${shown.slice(0, 300)}`);
    }
    return shown;
  },
  image: async ({ name, arguments: args }) => {
    await call(name, args);
    return browser.evaluate(`document.querySelector('img[src^="data:image"]')?.src.match(/data:([a-z/]+)/)?.[1]`);
  },
  resource: async ({ uri }) => {
    await open(uri);
    return browser.evaluate(below('Resource'));
  },
  subscribe: async ({ uri }) => {
    await open(uri);
    await click('button', /^Subscribe$/);
    await browser.until('the subscription', `document.body.innerText.includes('Subscriptions (1)')`);
  },
  told: () => browser.until('the message', `/notifications.resources.updated/i.test(document.body.innerText)`),
  again: async () => {
    await browser.evaluate(`document.querySelector('input[id$="-Servers"]')?.click()`);
    await pause(1000);
    if (await browser.evaluate(CONNECTED)) {
      await browser.press('input[role=switch]');
      await browser.until('the end of the connection', `!(${CONNECTED})`);
    }
    await connect();
  },
};

process.on('exit', () => pages?.kill());
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  try {
    say({ ok: (await does[asked.do](asked)) ?? null });
  } catch (error) {
    say({ error: String(error?.message ?? error) });
  }
}
await browser?.close();
process.exit(0);
