// The owner's page in Chromium: sign-in, consent, clients, activity, undo, files, connect, imports,
// grants, backup, health, with a script and without, at 320 and 390 px, in both colour schemes, for
// hostile names, and a whole day of an owner by the keyboard alone. Each control is at least 24
// pixels high and wide, and each label stands beside its control.
//
//     pages.mjs ORIGIN PASSWORD_FILE PICTURES_FOLDER
//
// ORIGIN is http://localhost:PORT of a server whose owner has the password in the file.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync, mkdirSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [origin, passwordFile, pictures] = process.argv.slice(2);
const password = readFileSync(passwordFile, "utf8").trim();
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
mkdirSync(pictures, { recursive: true });

const HOSTILE = [
  "<script>document.title='owned'</script>",
  "Claude\u202egro.live//:sptth",
  "x".repeat(4096),
];

// The client: takes the browser back, as a client on this machine does.
const answers = [];
const client = http.createServer((request, response) => {
  answers.push(new URL(request.url, "http://127.0.0.1"));
  response.end("<!doctype html><html lang=en><title>Client</title><h1>Back at the client</h1>");
});
await new Promise((done) => client.listen(0, "127.0.0.1", done));
const redirect = `http://127.0.0.1:${client.address().port}/callback`;

// An empty console belongs to every page, so every message fails the run.
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const said = [];
let expectedStatus = 0;
async function open(options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on("console", (message) => {
    const refused = /Failed to load resource.*status of (\d+)/.exec(message.text());
    if (refused && Number(refused[1]) === expectedStatus) return;
    said.push(`${page.url()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => said.push(`${page.url()}: ${error}`));
  return page;
}

// Runs in the page. A link within a sentence may be as high as its line.
function smallControls() {
  const all = document.querySelectorAll("a, button, input, select, textarea, summary");
  const isSmall = (control) => {
    const { width, height } = control.getBoundingClientRect();
    const isInSentence = control.tagName === "A" && getComputedStyle(control).display === "inline";
    return control.checkVisibility() && width > 0 && !isInSentence && (width < 24 || height < 24);
  };
  return [...all].filter(isSmall).map((control) => control.outerHTML.slice(0, 120));
}

// Runs in the page. A label that nobody sees is for a screen reader.
function strayLabels() {
  const isStray = (label) => {
    const control = label.control;
    if (!control || label.contains(control)) return false;
    if (!label.checkVisibility() || !control.checkVisibility()) return false;
    const [of, it] = [label.getBoundingClientRect(), control.getBoundingClientRect()];
    if (of.width <= 1) return false;
    const across = Math.max(0, it.left - of.right, of.left - it.right);
    const down = Math.max(0, it.top - of.bottom, of.top - it.bottom);
    return across > 16 || down > 16 || (across > 0 && down > 0);
  };
  return [...document.querySelectorAll("label")].filter(isStray)
    .map((label) => label.outerHTML.slice(0, 120));
}

// From a phone to a desk, with everything open that opens.
async function sweep(page, name) {
  const closed = await page.evaluateHandle(() => {
    const closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
    return closed;
  });
  const wide = [];
  for (let width = 320; width <= 1400; width += 36) {
    await page.setViewportSize({ width, height: 800 });
    const found = await page.evaluate(() => document.documentElement.scrollWidth);
    if (found > width) wide.push(`${found} px at ${width} px`);
  }
  assert.deepEqual(wide, [], `${name} scrolls sideways`);
  await closed.evaluate((closed) => closed.forEach((details) => { details.open = false; }));
}

let number = 0;
async function inspect(page, name) {
  await sweep(page, name);
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const width of scheme === "light" ? [1000, 390, 320] : [1000, 320]) {
      await page.setViewportSize({ width, height: 800 });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${name} scrolls sideways at ${width} px: ${wide} px`);
      assert.deepEqual(await page.evaluate(strayLabels), [], `${name} at ${width} px: labels apart`);
      const file = `${String(number++).padStart(2, "0")}-${name}-${scheme}-${width}.png`;
      await page.screenshot({ path: `${pictures}/${file}`, fullPage: true });
    }
    // Injected by the debugger, so the content security policy stays in force.
    await page.evaluate(axe);
    assert.deepEqual(await page.evaluate(smallControls), [], `${name}: controls below 24 pixels`);
    const { violations } = await page.evaluate(() => window.axe.run());
    const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html)}`);
    assert.deepEqual(found, [], `${name} in ${scheme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1000, height: 800 });
  console.log(`ok ${name}: no violation, no sideways scroll`);
}

async function register(name) {
  const response = await fetch(`${origin}/oauth/register`, {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ client_name: name, redirect_uris: [redirect],
      token_endpoint_auth_method: "none", grant_types: ["authorization_code", "refresh_token"] }) });
  return { status: response.status, ...(await response.json()) };
}

function authorizeUrl(clientId) {
  const verifier = randomBytes(32).toString("base64url");
  const challenge = createHash("sha256").update(verifier).digest("base64url");
  const query = new URLSearchParams({ response_type: "code", client_id: clientId,
    redirect_uri: redirect, code_challenge: challenge, code_challenge_method: "S256",
    state: randomBytes(8).toString("hex"), scope: "read:/work/ write:/journal/",
    resource: `${origin}/mcp` });
  return { url: `${origin}/oauth/authorize?${query}`, verifier, state: query.get("state") };
}

async function redeem(clientId, code, verifier) {
  const response = await fetch(`${origin}/oauth/token`, { method: "POST",
    body: new URLSearchParams({ grant_type: "authorization_code", client_id: clientId, code,
      redirect_uri: redirect, code_verifier: verifier }) });
  return response.json();
}

async function signIn(page, text) {
  await page.getByLabel("Password", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}

async function approve(page, clientId) {
  const { url, verifier, state } = authorizeUrl(clientId);
  await page.goto(url);
  return { verifier, state };
}

async function pressApprove(page, clientId, { verifier, state }) {
  answers.length = 0;
  await page.getByRole("button", { name: /^(Allow|Approve)/ }).click();
  await page.waitForURL(`${redirect}*`);
  const [answer] = answers;
  assert.equal(answer.searchParams.get("state"), state);
  assert.equal(answer.searchParams.get("iss"), origin);
  const tokens = await redeem(clientId, answer.searchParams.get("code"), verifier);
  assert.ok(tokens.access_token && tokens.refresh_token, JSON.stringify(tokens));
  return tokens;
}

async function withScript() {
  const page = await open({ timezoneId: "America/Los_Angeles" });
  await page.goto(`${origin}/owner/clients`);
  await page.waitForURL(/sign-in/);
  await inspect(page, "sign-in");
  expectedStatus = 403;
  await signIn(page, "not the password at all");
  await page.getByRole("alert").filter({ hasText: /\S/ }).first().waitFor();
  await inspect(page, "sign-in refused");
  expectedStatus = 0;
  await signIn(page, password);
  await page.getByRole("heading", { name: "Who may do what" }).waitFor();
  console.log("ok a password signs in");

  const plain = await register("A client of a test");
  const asked = await approve(page, plain.client_id);
  await inspect(page, "consent");
  // What is opened follows the ticks.
  const row = (folder) => page.locator(".tree li").filter({ hasText: folder });
  await page.getByLabel(/^read, change, make and remove the files in \/journal/).uncheck();
  await row("/journal/").locator(".none").waitFor();
  // And each folder by itself. The choice keeps the focus while the page follows it.
  await page.getByLabel("/work/").focus();
  await page.getByLabel("/work/").selectOption("nothing");
  await row("/work/").locator(".none").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "SELECT");
  await page.getByLabel("/work/").selectOption("read");
  await row("/work/").locator(".read").waitFor();
  // A folder that is typed counts, also where it has a row, which then says the same.
  await page.getByLabel("Another folder").fill("journal");
  await page.getByLabel("It sees there").selectOption("nothing");
  await row("/journal/").locator("option[value=nothing]:checked").waitFor({ state: "attached" });
  assert.equal(await page.getByLabel("Another folder").inputValue(), "");
  await inspect(page, "consent narrowed");
  await pressApprove(page, plain.client_id, asked);
  console.log("ok the button of the consent page leads to the client under the policy");

  for (const [index, name] of HOSTILE.entries()) {
    const hostile = await register(name);
    // A name may be refused; a name that is accepted must do no harm.
    if (hostile.status >= 400) continue;
    const asked = await approve(page, hostile.client_id);
    await inspect(page, `consent for hostile name ${index}`);
    await pressApprove(page, hostile.client_id, asked);
  }
  await page.goto(`${origin}/owner/clients`);
  assert.doesNotMatch(await page.title(), /owned/);
  assert.doesNotMatch(await page.content(), /[\u202a-\u202e\u2066-\u2069]/);
  await inspect(page, "clients");
  await page.goto(`${origin}/pages/design`);
  await inspect(page, "design");
  await page.goto(`${origin}/owner/clients`);
  const lines = page.locator("details.client");
  const before = await lines.count();
  assert.ok(before >= 1);
  const line = lines.filter({ hasText: "A client of a test" }).first();
  await line.locator("summary").first().click();
  await line.getByText("End this access…").click();
  await inspect(page, "a client opened");
  await line.getByRole("button", { name: "End the access of A client of a test" }).click();
  await page.getByRole("status").waitFor();
  assert.equal(await lines.count(), before - 1);
  await page.getByText(/^Ended and expired/).waitFor();
  console.log("ok a client is ended on the page, which asks once");
  return page;
}

// Calls file.create as an agent with this token does.
async function create(token, path) {
  const called = await fetch(`${origin}/mcp`, { method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json",
      Accept: "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": "tools/call", "Mcp-Name": "file.create" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: {
      name: "file.create", arguments: { path, content: "made\n" },
      _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": {} } } }) });
  assert.equal(called.status, 200, await called.text());
}

// An agent makes a file with a token of the page, and the owner takes it back.
async function tokenAndUndo(page) {
  await page.goto(`${origin}/owner/connect`);
  await inspect(page, "connect");
  await page.getByLabel("Name of the client").fill("editor");
  const tokenForm = page.getByRole("region", { name: "Anything else: a token" });
  await tokenForm.getByLabel("It may").selectOption("write");
  await page.getByRole("button", { name: "Make the token", exact: true }).click();
  const token = await page.getByLabel("The token").inputValue();
  await inspect(page, "token made");
  await create(token, "/made by an agent.md");
  for (const path of ["activity", "files", "file?path=%2Fmade%20by%20an%20agent.md", "health"]) {
    await page.goto(`${origin}/owner/${path}`);
    await inspect(page, path.split("?")[0]);
  }
  await page.goto(`${origin}/owner/activity`);
  await page.getByText("New calls show here as they come.").waitFor();
  await create(token, "/while the page is open.md");
  await page.getByText("1 since you loaded the page.").waitFor();
  const came = page.getByRole("listitem").filter({ hasText: "while the page is open" });
  assert.equal(await came.count(), 1);
  await inspect(page, "activity as it comes");
  await page.goto(`${origin}/owner/activity`);
  const call = page.getByRole("listitem").filter({ hasText: "created /made by an agent.md" });
  await call.getByRole("link", { name: "What it changed" }).click();
  await page.getByText("+made").waitFor();
  await inspect(page, "call");
  await page.getByRole("link", { name: "Side by side" }).click();
  await inspect(page, "call side by side");
  await page.getByRole("link", { name: "Take it back" }).click();
  await inspect(page, "undo");
  await page.getByRole("button", { name: "Take it back: one step" }).click();
  await page.getByRole("heading", { name: "Taken back" }).waitFor();
  await inspect(page, "taken back");
  await page.goto(`${origin}/owner/files`);
  assert.equal(await page.locator(".files").getByText("made by an agent").count(), 0);
  console.log("ok a token of the page works, and what its client made is taken back");
}

const account = "id,booked,amount,iban\n1,2026-01-15,4.50,XX00 1234\n2,2026-02-20,7.25,XX00 <b>5678\n";

// A file is dropped on the page, shown as it will be stored, and stored.
async function importByDropping(page) {
  await page.goto(`${origin}/owner/import`);
  await inspect(page, "import");
  const dropped = await page.evaluateHandle((text) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], "Bank 2026.csv", { type: "text/csv" }));
    transfer.items.add(new File([text], "Bank 2025.csv", { type: "text/csv" }));
    return transfer;
  }, account);
  await page.locator("form.drop").dispatchEvent("drop", { dataTransfer: dropped });
  await page.getByRole("button", { name: "Store all rows" }).waitFor();
  await inspect(page, "import preview");
  assert.match(await page.locator("main").innerText(), /XX00 <b>5678/);
  await page.getByLabel("Where the rows come from").fill("bank");
  await page.getByLabel("What they are").fill("payments");
  await page.getByLabel("What they are").blur();
  // The preview follows the choices, and what was looked at goes with the form.
  await page.locator('input[name=seen][value*="connection=bank&stream=payments"]')
    .waitFor({ state: "attached" });
  await page.getByRole("button", { name: "Store all rows" }).click();
  await page.getByText("2 new rows").waitFor();
  await inspect(page, "import stored");
  // The second of the files takes its turn.
  await page.getByRole("button", { name: "Go on to the next file" }).click();
  await page.locator("main").getByText("Bank 2025.csv").waitFor();
  await page.getByRole("button", { name: "Leave this file out" }).click();
  await page.getByLabel("Files").waitFor();
  await page.getByRole("heading", { name: "The last imports on this page" }).waitFor();
  await inspect(page, "import after another");
  console.log("ok dropped files are shown one after the other, stored and reported");
}

// A grant is made by choosing. What the client will see follows the ticks.
async function grantByChoosing(page) {
  await page.goto(`${origin}/owner/grant`);
  await inspect(page, "grant streams");
  await page.getByRole("link", { name: "payments of bank" }).click();
  const seen = page.locator("#seen-0");
  // At first nothing but the key is proposed.
  await seen.getByText("It would see nothing of this.").waitFor();
  await page.getByLabel(/^amount/).check();
  await seen.getByText(/may see (amount|id, amount|amount, id) of payments/).waitFor();
  // A day is the same day in the zone of this browser, which is eight hours behind UTC.
  await page.getByLabel(/^Only since/).fill("2026-02-20");
  await page.getByLabel(/^Only since/).blur();
  await seen.getByText(/since .*2026/).waitFor();
  await inspect(page, "grant chosen");
  await page.getByLabel("Name of the client").fill("budget");
  await page.getByRole("button", { name: "Make the grant and its token" }).click();
  const token = await page.getByLabel("The token").inputValue();
  const answer = await fetch(`${origin}/v1/streams/payments/records`, {
    headers: { Authorization: `Bearer ${token}` } });
  const text = await answer.text();
  assert.ok(text.includes("7.25") && !text.includes("4.5") && !text.includes("XX00"), text);
  await inspect(page, "grant made");
  await page.goto(`${origin}/owner/clients`);
  await page.locator("details.client").filter({ hasText: "May see" }).first().locator("summary")
    .first().click();
  await inspect(page, "clients with a grant");
  // Sixteen clients fit on two screens of a phone.
  for (let made = 0; made < 16; made++) {
    await page.goto(`${origin}/owner/connect`);
    await page.getByLabel("Name of the client").fill(`client ${made}`);
    await page.getByRole("button", { name: "Make the token", exact: true }).click();
    await page.getByLabel("The token").waitFor();
  }
  // Those of this test: what others left shares names, which takes lines of its own.
  await page.goto(`${origin}/owner/clients?q=client`);
  await page.setViewportSize({ width: 390, height: 844 });
  const sixteenth = page.locator("[aria-labelledby=clients] details.client").nth(15);
  const { y, height } = await sixteenth.boundingBox();
  assert.ok(y + height <= 2 * 844, `the sixteenth client ends at ${y + height} px`);
  await inspect(page, "clients, many");
  console.log("ok a grant is made by choosing, and its client sees that and no more");
}

// Records that a client did not ask for are added where it is allowed something, and changed later.
// The form keeps what was typed, and the focus.
async function recordsOnConsent(page) {
  const { client_id: id } = await register("A client with records");
  const asked = await approve(page, id);
  // By the keyboard alone: an arrow chooses, the button adds, and the focus is in what came.
  await page.getByLabel("Add records of").selectOption({ label: "payments of bank, 2 records" });
  assert.equal(await page.locator("#stream-of-0").count(), 0, "a choice alone adds nothing");
  await page.getByRole("button", { name: "Add", exact: true }).press("Enter");
  await page.locator("#stream-of-0 input:focus").waitFor();
  const seen = page.locator("#seen-0");
  await seen.getByText("It would see nothing of this.").waitFor();
  await page.getByLabel(/^amount/).check();
  await seen.getByText(/may see .*amount.* of payments/).waitFor();
  await page.getByLabel(/^Only since/).fill("2026-02-20");
  await page.getByLabel(/^Only since/).blur();
  await seen.getByText(/since .*2026/).waitFor();
  await page.getByLabel(/^booked/).focus();
  await page.keyboard.press("Space");
  await seen.getByText(/booked/).first().waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.name), "field-0-booked");
  assert.equal(await page.getByLabel(/^Only since/).inputValue(), "2026-02-20");
  await inspect(page, "consent with records");
  const tokens = await pressApprove(page, id, asked);
  const read = async () => (await fetch(`${origin}/v1/streams/payments/records`, {
    headers: { Authorization: `Bearer ${tokens.access_token}` } })).text();
  const text = await read();
  assert.ok(text.includes("7.25") && !text.includes("4.5") && !text.includes("XX00"), text);
  await page.goto(`${origin}/owner/records`);
  await inspect(page, "records");
  await page.goto(`${origin}/owner/clients`);
  const line = page.locator("details.client").filter({ hasText: "A client with records" }).first();
  await line.locator("summary").first().click();
  await line.getByText(/was shown/).waitFor();
  await inspect(page, "a client that saw records");
  await line.getByRole("link", { name: "Change it, folder by folder" }).click();
  await page.getByLabel(/^iban/).check();
  await page.locator("#seen-0").getByText(/iban/).first().waitFor();
  await inspect(page, "access with records");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("status").waitFor();
  assert.ok((await read()).includes("XX00"), "the other grant counts at once");
  console.log("ok records are added to a request for files, and changed later");
}

// Names of fields as long as a page shows them, beside long values, take no page sideways.
async function wideRecords(page) {
  const names = [...Array(9).keys()].map((at) => `${at}${"x".repeat(90)}`);
  const rows = `id,${names.join(",")}\n1,${names.map(() => "v".repeat(400)).join(",")}\n`;
  await page.goto(`${origin}/owner/import`);
  await page.getByLabel("Files").setInputFiles(
    { name: "wide.csv", mimeType: "text/csv", buffer: Buffer.from(rows) });
  await page.getByRole("button", { name: "Send and look" }).click();
  await inspect(page, "import of long names");
  await page.getByRole("button", { name: "Store all rows" }).click();
  await page.getByText("1 new row").waitFor();
  await page.goto(`${origin}/owner/grant`);
  await page.getByRole("link", { name: "records of wide" }).click();
  await page.getByLabel(/^0x/).check();
  await page.locator("#seen-0 dl").first().waitFor();
  await inspect(page, "grant of long names");
  const narrowest = await page.locator("#seen-0 dd").evaluateAll(
    (values) => Math.min(...values.map((value) => value.getBoundingClientRect().width)));
  assert.ok(narrowest > 60, `a value is ${narrowest} px wide`);
  console.log("ok long names of fields leave room for their values");
}

// An approval changes while its page is open in another tab: the page says so, shows what is true
// now, and saves that.
async function changedMeanwhile(page) {
  await page.goto(`${origin}/owner/clients`);
  const line = page.locator("details.client").filter({ hasText: "A client with records" }).first();
  await line.locator("summary").first().click();
  const edit = await line.getByRole("link", { name: "Change it, folder by folder" }).getAttribute("href");
  await page.goto(origin + edit);
  const other = await page.context().newPage();
  await other.goto(origin + edit);
  await other.getByLabel(/^iban/).uncheck();
  await other.getByRole("button", { name: "Save" }).click();
  await other.getByRole("status").waitFor();
  await other.close();
  await page.getByLabel(/^booked/).uncheck();
  await page.getByRole("alert").filter({ hasText: "changed since you opened this page" }).waitFor();
  assert.equal(await page.getByLabel(/^iban/).isChecked(), false, "what is true now");
  assert.equal(await page.getByLabel(/^booked/).isChecked(), true, "what is true now");
  await inspect(page, "access that changed meanwhile");
  await page.getByLabel(/^booked/).uncheck();
  await page.locator("#seen-0").getByText(/may see (?!.*booked)/).first().waitFor();
  assert.equal(await page.getByRole("alert").count(), 1, "it stays until the form is sent");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("status").waitFor();
  console.log("ok an approval that changed meanwhile is shown anew and can be changed");
}

async function backup(page) {
  await page.goto(`${origin}/owner/health`);
  await page.getByRole("button", { name: "Back up now" }).click();
  await page.getByText("The state is copied").waitFor();
  await page.getByText("in the last 24 hours").waitFor();
  await inspect(page, "backup made");
  console.log("ok a backup is made on the page, which says its age");
}

// A second browser is named in words, and signed out from the first.
async function sessions(page) {
  const phone = await open({ userAgent: "Mozilla/5.0 (Android 16; Mobile; rv:150.0) Gecko/150.0 Firefox/150.0" });
  await phone.goto(`${origin}/owner/account`);
  await signIn(phone, password);
  await phone.getByRole("heading", { name: "Signing in" }).waitFor();
  await page.goto(`${origin}/owner/account`);
  await page.getByRole("heading", { name: "Firefox on Android" }).waitFor();
  await inspect(page, "account with another browser");
  await page.getByRole("button", { name: "Sign out Firefox on Android" }).click();
  await page.getByText("That browser is signed out").waitFor();
  await phone.goto(`${origin}/owner/account`);
  await phone.waitForURL(/sign-in/);
  console.log("ok a browser is listed by its name, and signed out");
}

async function passkeys(page) {
  const debuggerOf = await page.context().newCDPSession(page);
  await debuggerOf.send("WebAuthn.enable");
  await debuggerOf.send("WebAuthn.addVirtualAuthenticator", { options: { protocol: "ctap2",
    transport: "internal", hasResidentKey: true, hasUserVerification: true,
    isUserVerified: true, automaticPresenceSimulation: true } });
  await page.goto(`${origin}/owner/account`);
  await inspect(page, "account");
  await page.getByRole("button", { name: "Register a passkey" }).click();
  await page.getByRole("status").waitFor();
  await page.getByRole("button", { name: "Remove this passkey" }).waitFor();
  await inspect(page, "account with a passkey");
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await page.goto(`${origin}/owner/account`);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await page.getByRole("heading", { name: "Signing in" }).waitFor();
  console.log("ok a passkey is registered and signs in");
}

async function withoutScript() {
  const page = await open({ javaScriptEnabled: false });
  const { client_id: id } = await register("A client without a script");
  const asked = await approve(page, id);
  await signIn(page, password);
  await pressApprove(page, id, asked);
  await page.goto(`${origin}/owner`);
  for (const name of ["Activity", "Files", "Records", "Connect", "Import", "Health", "Clients"]) {
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }).click();
    await page.waitForLoadState();
  }
  await page.locator("details.client summary").first().click();
  await page.getByRole("heading", { name: "What it may do" }).first().waitFor();
  // A plain form sends a file, and shows how far its import is when it is loaded again.
  await page.goto(`${origin}/owner/import`);
  await page.getByLabel("Files").setInputFiles(
    { name: "plain.csv", mimeType: "text/csv", buffer: Buffer.from(account) });
  await page.getByRole("button", { name: "Send and look" }).click();
  await page.getByRole("button", { name: "Store all rows" }).click();
  while (await page.getByRole("link", { name: "Look again" }).count()) {
    await page.getByRole("link", { name: "Look again" }).click();
  }
  await page.getByText("2 new rows").waitFor();
  // A button shows what the ticks of a grant mean.
  await page.goto(`${origin}/owner/grant`);
  await page.getByRole("link", { name: "records of plain" }).click();
  await page.getByLabel(/^iban/).check();
  // A day has no zone, and is chosen as a day.
  assert.equal(await page.getByLabel(/^Only since/).getAttribute("type"), "date");
  await page.getByLabel(/^Only since/).fill("2026-02-20");
  await page.getByRole("button", { name: "Show what it will see" }).click();
  await page.locator("#seen-0").getByText("since 2026-02-20.").waitFor();
  await page.locator("#seen-0").getByText(/may see (iban|id, iban|iban, id) of records/).waitFor();
  await page.goto(`${origin}/owner/account`);
  assert.equal(await page.getByRole("button", { name: "Register a passkey" }).count(), 0);
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await page.goto(`${origin}/owner/clients`);
  await page.waitForURL(/sign-in/);
  console.log("ok everything but passkeys works without a script");
}

// Goes on with the Tab key until the control has the focus, and sees that the focus shows.
async function tabTo(page, control) {
  await control.first().waitFor();
  for (let pressed = 0; pressed < 200; pressed++) {
    await page.keyboard.press("Tab");
    if (await control.first().evaluate((found) => found === document.activeElement)) {
      const outline = await control.first().evaluate((found) => getComputedStyle(found).outlineStyle);
      assert.notEqual(outline, "none", "the focus shows");
      return;
    }
  }
  assert.fail(`the Tab key does not lead to ${control}`);
}

// A day of an owner on a phone with a keyboard: signs in, allows a client one folder, reads what it
// did, takes it back, narrows the client and ends it.
async function byKeyboard() {
  const page = await open({ viewport: { width: 390, height: 844 } });
  const press = async (control, key = "Enter") => {
    await tabTo(page, control);
    await page.keyboard.press(key);
  };
  const button = (name) => page.getByRole("button", { name, exact: true });
  await page.goto(`${origin}/owner/clients`);
  await tabTo(page, page.getByLabel("Password", { exact: true }));
  await page.keyboard.type(password);
  await press(button("Sign in"));
  await page.getByRole("heading", { name: "Who may do what" }).waitFor();

  const { client_id: id } = await register("A client by keyboard");
  const asked = await approve(page, id);
  // The request is for two folders: one is shut.
  await tabTo(page, page.getByLabel("/work/"));
  await page.keyboard.type("noth");
  await page.locator(".tree li").filter({ hasText: "/work/" }).locator(".none").waitFor();
  answers.length = 0;
  await press(button("Allow"));
  await page.waitForURL(`${redirect}*`);
  const tokens = await redeem(id, answers[0].searchParams.get("code"), asked.verifier);
  await create(tokens.access_token, "/journal/by keyboard.md");

  await page.goto(`${origin}/owner/clients`);
  const client = page.locator("details.client").filter({ hasText: "A client by keyboard" });
  await press(client.locator("summary").first());
  await client.getByText("made 1 file in /journal").waitFor();
  await press(client.getByRole("link", { name: /^Take back what it changed/ }));
  await press(page.getByRole("button", { name: /^Take it back/ }));
  await page.getByRole("heading", { name: "Taken back" }).waitFor();

  await page.goto(`${origin}/owner/clients`);
  await press(client.locator("summary").first());
  await press(client.getByRole("link", { name: "Change it, folder by folder" }));
  await tabTo(page, page.getByLabel("/journal/"));
  await page.keyboard.type("read o");
  await page.locator(".tree li").filter({ hasText: "/journal/" }).locator(".read").waitFor();
  await inspect(page, "access changed");
  await press(button("Save"));
  await page.getByRole("status").waitFor();
  await press(client.locator("summary").first());
  await press(client.getByText("End this access…"));
  await press(button("End the access of A client by keyboard"));
  await page.getByRole("status").filter({ hasText: "ended" }).waitFor();
  assert.equal(await client.count(), 0);
  console.log("ok an owner's day by the keyboard alone, on a phone");
}

async function inAFrame() {
  const page = await open();
  await page.goto(redirect);
  said.length = 0;
  for (const path of ["/sign-in", "/owner/clients"]) {
    await page.evaluate((url) => new Promise((done) => {
      const frame = document.createElement("iframe");
      frame.onload = frame.onerror = done;
      frame.src = url;
      document.body.append(frame);
    }), origin + path);
  }
  const shown = page.frames().filter((frame) => frame.url().startsWith(origin));
  assert.equal(shown.length, 0, "a foreign page shows a page of the server in a frame");
  said.length = 0;
  console.log("ok no page shows in a frame of another site");
}

try {
  const page = await withScript();
  await tokenAndUndo(page);
  await importByDropping(page);
  await grantByChoosing(page);
  await recordsOnConsent(page);
  await changedMeanwhile(page);
  await wideRecords(page);
  await backup(page);
  await sessions(page);
  await passkeys(page);
  await withoutScript();
  await byKeyboard();
  assert.deepEqual(said, [], "the console is not empty");
  await inAFrame();
} finally {
  await browser.close();
  client.close();
}
