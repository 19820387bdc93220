//! How long does the owner's first page take, with a long journal and many tokens?
//!
//! Writes 100,000 lines of a journal and 1,000 tokens, starts the program, signs in, and asks for
//! the page of clients, beside the page on which a visitor signs in, which reads nothing of them.
//! Says how many bytes the page has; a page has at most 60 KB, and a run of more fails. The first
//! request counts the lines of the journal. It is named apart, and the other numbers are of those
//! after it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints its figures and fails by panicking"
)]

use std::time::{Duration, SystemTime};

use stile_domain::journal::JournalLine;
use stile_domain::path::SpacePath;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_server::auth::{MintRequest, Minter};
use stile_store::journal::Journal;
use stile_store::state::{StateDir, TokenKey, TokenStore};
use stile_testkit::bench::{Plan, compare, timed};
use stile_testkit::client::{Http, Reply};
use stile_testkit::process::{Rig, Server};

/// The most bytes of a page.
const MOST_BYTES: usize = 60_000;

fn main() {
    let plan = Plan::from_arguments();
    let (lines, tokens) = if plan.smoke { (500, 40) } else { (100_000, 1_000) };
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    std::fs::write(rig.root.join("a.md"), "one\n").unwrap();
    fill(&rig, lines, tokens);
    let server = rig.serve(&["--rate-per-second", "1000000", "--rate-burst", "1000000"]);
    let cookie = sign_in(&rig, &server);
    let mut http = Http::new(server.address, "");
    let mut get = |path: &str, cookie: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n", server.address);
        http.send(format!("{head}{cookie}Content-Length: 0\r\n\r\n").as_bytes()).unwrap()
    };
    let mut page = None;
    let first = timed(|| page.insert(get("/owner/clients", &cookie)).status);
    let page = page.unwrap();
    assert_eq!(page.status, 200);
    let bytes = page.body.len();
    println!("the first page: {bytes} bytes, first of all in {first:.1?}");
    assert!(bytes < MOST_BYTES, "a page has at most {MOST_BYTES} bytes");
    let times = std::cell::RefCell::new(get);
    compare(
        &format!("the page of clients, {lines} lines, {tokens} tokens"),
        plan.rounds(100),
        || timed(|| (*times.borrow_mut())("/owner/clients", &cookie)),
        "the page of the sign-in",
        || timed(|| (*times.borrow_mut())("/sign-in", "")),
    );
}

/// Writes the journal and the tokens.
fn fill(rig: &Rig, lines: usize, tokens: usize) {
    // The space is known before its tokens are.
    rig.token(&["read:/"], &["--client", "client 0"]);
    let state = StateDir::open(&rig.state).unwrap();
    let (key, store) = (TokenKey::open(&state).unwrap(), TokenStore::open(&state).unwrap());
    let audience = store.only_space().unwrap().unwrap();
    let minter = Minter { key: &key, tokens: &store, audience: &audience };
    for number in 1..tokens {
        let order = MintRequest {
            subject: "ann".to_owned(),
            scopes: Scopes::from_claim("read:/ write:/work/ deny:/work/secrets"),
            client: Some(format!("client {number}")),
            records: RecordsClaim::None,
            life: Duration::from_secs(86_400),
        };
        minter.mint(&order, SystemTime::now()).unwrap();
    }
    let journal = Journal::open(&state).unwrap();
    for number in 0..lines {
        let line = JournalLine {
            tool: if number % 7 == 0 { "text.edit" } else { "text.read" }.to_owned(),
            outcome: "ok".to_owned(),
            subject: Some("ann".to_owned()),
            client: Some(format!("client {}", number % tokens)),
            path: SpacePath::parse(&format!("/work/{}.md", number % 5000)).ok(),
            ..JournalLine::default()
        };
        journal.append(line).unwrap();
    }
}

/// Signs in with a link of the terminal, and returns the head with the cookie.
fn sign_in(rig: &Rig, server: &Server) -> String {
    let address = format!("http://{}", server.address);
    let mut command = rig.command(&["sign-in", "--address", &address]);
    let output = command.arg("--state").arg(&rig.state).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let (_, code) = printed.lines().next().unwrap().split_once("code=").unwrap();
    let form = format!("code={code}");
    let request = format!(
        "POST /sign-in HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{form}",
        server.address,
        form.len()
    );
    let reply: Reply = Http::new(server.address, "").send(request.as_bytes()).unwrap();
    let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    format!("Cookie: {cookie}\r\n")
}
