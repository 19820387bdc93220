// Chromium without a window, spoken to over its debugging protocol.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PATIENCE_MS = 60_000;

export class Failed extends Error {}
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** One browser with one page. */
export class Browser {
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
