// Adds a bearer token to every request on its way to a server, for tools that cannot send one:
//
//     proxy.mjs http://127.0.0.1:PORT TOKEN_FILE
//
// Prints its own origin once it listens, on loopback only. Everything is passed on as it comes, in
// both directions and without waiting. Only where a request names this proxy, in `Host` or `Origin`,
// does it name the server afterwards. A foreign `Host` or `Origin` stays what it was: the suite's
// rebinding scenario sends both, and since it arrives with a good token, only the server's own check
// of these two headers can refuse it.

import { readFileSync } from 'node:fs';
import http from 'node:http';

const [upstream, tokenFile] = process.argv.slice(2);
if (!tokenFile) {
  console.error('usage: proxy.mjs http://127.0.0.1:PORT TOKEN_FILE');
  process.exit(2);
}
const { hostname, port, host: serverHost, origin: serverOrigin } = new URL(upstream);
const token = readFileSync(tokenFile, 'utf8').trim();
// What concerns one connection and not the message on it.
const HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'proxy-connection']);

/** Raw headers as they came, without those of the connection. */
function* passed(rawHeaders) {
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (!HOP.has(name.toLowerCase())) yield [name, rawHeaders[at + 1]];
  }
}

function towardsServer(request, ownHost) {
  const renamed = { host: [ownHost, serverHost], origin: [`http://${ownHost}`, serverOrigin] };
  const headers = [...passed(request.rawHeaders)].map(([name, value]) => {
    const [own, servers] = renamed[name.toLowerCase()] ?? [];
    return [name, value === own ? servers : value];
  });
  if (request.headers.authorization === undefined) headers.push(['Authorization', `Bearer ${token}`]);
  if (request.headers['transfer-encoding'] !== undefined) headers.push(['Transfer-Encoding', 'chunked']);
  return headers.flat();
}

const proxy = http.createServer((request, response) => {
  const ownHost = `127.0.0.1:${proxy.address().port}`;
  const { method, url: path } = request;
  const onward = http.request({ hostname, port, method, path, agent: false, setHost: false, headers: towardsServer(request, ownHost) });
  onward.on('response', (answer) => {
    response.writeHead(answer.statusCode, [...passed(answer.rawHeaders)].flat());
    response.flushHeaders();
    answer.on('error', () => response.destroy());
    answer.pipe(response);
  });
  onward.on('error', () => {
    if (response.headersSent) response.destroy();
    else response.writeHead(502).end();
  });
  // A client that goes away takes its request with it: that is how 2026-07-28 cancels.
  response.on('close', () => onward.destroy());
  request.pipe(onward);
});
proxy.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${proxy.address().port}`));
