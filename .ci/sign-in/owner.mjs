// The owner at a browser: starts a client, opens the address that it prints in Chromium, signs in with
// a link of the terminal, and presses the button.
//
//     owner.mjs --stile PROGRAM --state FOLDER [--decision approve|deny] -- COMMAND [ARGUMENT...]
//
// Ends as the client ends. Prints `ok` lines of its own and the client's standard output.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PATIENCE_MS = 60_000;

const args = process.argv.slice(2);
const command = args.splice(args.indexOf('--')).slice(1);
const option = (name, otherwise) => (args.includes(name) ? args[args.indexOf(name) + 1] : otherwise);
const [stile, state] = [option('--stile'), option('--state')];
const decision = option('--decision', 'approve');
if (!stile || !state || command.length === 0) {
  console.error('usage: --stile PROGRAM --state FOLDER -- COMMAND [ARGUMENT...]');
  process.exit(2);
}

class Failed extends Error {}
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Chromium, spoken to over its debugging protocol. */
class Browser {
  #next = 1;
  #waiting = new Map();

  static async start() {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), 'owner-'));
    browser.child = spawn('chromium', [
      '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync',
      '--disable-dev-shm-usage', '--remote-debugging-port=0', `--user-data-dir=${browser.profile}`,
      'about:blank',
    ], { stdio: ['ignore', 'ignore', 'pipe'] });
    const address = await new Promise((resolve, reject) => {
      let said = '';
      browser.child.stderr.on('data', (bytes) => {
        said += bytes;
        const found = said.match(/DevTools listening on (ws:\S+)/);
        if (found) resolve(found[1]);
      });
      browser.child.on('exit', () => reject(new Failed(`Chromium ended: ${said}`)));
      setTimeout(() => reject(new Failed(`Chromium did not start: ${said}`)), PATIENCE_MS);
    });
    browser.socket = new WebSocket(address);
    await new Promise((resolve, reject) => {
      browser.socket.onopen = resolve;
      browser.socket.onerror = reject;
    });
    browser.socket.onmessage = ({ data }) => {
      const { id, result, error } = JSON.parse(data);
      const answer = browser.#waiting.get(id);
      browser.#waiting.delete(id);
      if (answer) error ? answer.reject(new Failed(error.message)) : answer.resolve(result);
    };
    const { targetId } = await browser.send('Target.createTarget', { url: 'about:blank' });
    const attached = await browser.send('Target.attachToTarget', { targetId, flatten: true });
    browser.session = attached.sessionId;
    await browser.send('Page.enable');
    return browser;
  }

  send(method, params = {}) {
    const id = this.#next++;
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    this.socket.send(JSON.stringify({ id, method, params, sessionId: this.session }));
    return answer;
  }

  /** Evaluates in the page; nothing while the page is being replaced. */
  async evaluate(expression) {
    const evaluated = await this.send('Runtime.evaluate', { expression, returnByValue: true, userGesture: true })
      .catch(() => undefined);
    return evaluated?.result?.value;
  }

  /** Waits until an expression is true of the page. */
  async until(what, expression) {
    const end = Date.now() + PATIENCE_MS;
    while (Date.now() < end) {
      const value = await this.evaluate(`document.readyState !== 'loading' && (${expression})`);
      if (value) return value;
      await pause(50);
    }
    const page = await this.evaluate('location.href + "\\n" + document.body?.innerText');
    throw new Failed(`${what} did not come; the page is ${page}`);
  }

  /** Presses what a selector finds with the mouse, as a person does. */
  async press(selector) {
    const place = await this.until(selector, `(() => {
      const found = document.querySelector(${JSON.stringify(selector)});
      found?.scrollIntoView({ block: 'center' });
      const box = found?.getBoundingClientRect();
      return box && box.width > 0 && { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    })()`);
    for (const type of ['mousePressed', 'mouseReleased']) {
      await this.send('Input.dispatchMouseEvent', { type, ...place, button: 'left', clickCount: 1 });
    }
  }

  async close() {
    this.child.removeAllListeners('exit');
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.session = undefined;
    this.send('Browser.close').catch(() => {});
    await Promise.race([ended, pause(5000).then(() => this.child.kill('SIGKILL'))]);
    try {
      rmSync(this.profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    } catch {
      // A process of Chromium still writes there. The caller removes the folder above.
    }
  }
}

/** Signs in if the page asks for that, reads what is asked, and decides. */
async function decide(browser, url) {
  const origin = new URL(url).origin;
  await browser.send('Page.navigate', { url });
  const either = `document.querySelector('button[name=decision]') ? 'consent'
    : document.querySelector('input[name=code]') ? 'sign-in' : ''`;
  if ((await browser.until('a page of the server', either)) === 'sign-in') {
    const link = execFileSync(stile, ['sign-in', '--state', state, '--address', origin], { encoding: 'utf8' });
    const code = new URL(link.trim().split('\n')[0]).searchParams.get('code');
    await browser.evaluate(`document.querySelector('input[name=code]').value = ${JSON.stringify(code)}`);
    // The page has a form for each way of signing in.
    await browser.press('form:has(input[name=code]) button');
    await browser.until('the page of the decision', `document.querySelector('button[name=decision]')`);
    console.log('ok the owner signed in');
  }
  const words = await browser.evaluate('document.body.innerText');
  if (!/read/i.test(words)) throw new Failed(`the page does not say what is asked: ${words}`);
  if (await browser.evaluate('document.scripts.length')) throw new Failed('the page has a script');
  await browser.press(`button[name=decision][value=${decision}]`);
  await browser.until('the answer of the client', `!location.href.startsWith(${JSON.stringify(origin)})`);
  console.log(`ok the owner pressed ${decision}`);
}

const client = spawn(command[0], command.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] });
const ended = new Promise((resolve) => client.on('exit', (code, signal) => resolve(code ?? signal)));
let said = '';
const asked = new Promise((resolve) => {
  const hear = (bytes) => {
    said += bytes;
    // The last line may not be whole.
    const found = said.match(/(https?:\/\/\S+\/oauth\/authorize\?\S+)\s/);
    if (found) resolve(found[1]);
  };
  client.stdout.on('data', hear);
  client.stderr.on('data', hear);
});
client.stdout.pipe(process.stdout);

let browser;
let status = 1;
try {
  const patience = pause(PATIENCE_MS).then(() => { throw new Failed('the client asked for nothing'); });
  const before = ended.then((code) => { throw new Failed(`the client ended with ${code} and asked for nothing`); });
  patience.catch(() => {});
  before.catch(() => {});
  const url = await Promise.race([asked, patience, before]);
  browser = await Browser.start();
  await decide(browser, url);
  const late = pause(PATIENCE_MS).then(() => 'late');
  status = await Promise.race([ended, late]);
  if (status !== 0) throw new Failed(`the client ended with ${status}`);
} catch (error) {
  console.error(said);
  console.error(`FAILED ${error instanceof Failed ? error.message : error.stack}`);
  status = 1;
} finally {
  client.kill();
  await browser?.close();
}
process.exit(status);
