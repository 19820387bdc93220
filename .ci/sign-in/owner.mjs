// The owner at a browser: starts a client, opens the address that it prints in Chromium, signs in with
// a link of the terminal, and presses the button.
//
//     owner.mjs --stile PROGRAM --state FOLDER [--decision approve|deny] -- COMMAND [ARGUMENT...]
//
// Ends as the client ends. Prints `ok` lines of its own and the client's standard output.

import { execFileSync, spawn } from 'node:child_process';

import { Browser, Failed, pause } from './chromium.mjs';

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
  const scripts = await browser.evaluate('[...document.scripts].map((script) => script.getAttribute("src")).join()');
  if (scripts && scripts !== '/pages/page.js') throw new Failed(`the page has another script: ${scripts}`);
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
