//! The program itself, as a person and their agents use it: every tool against every kind of
//! caller, the day that the README promises, and the search for what must never be given away.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::journal::JournalLine;
use stile_store::state::{StateDir, TokenKey};
use stile_testkit::client::{Http, McpClient as _, Reply, read_reply};
use stile_testkit::hosted::{Lifecycle, Peer};
use stile_testkit::leaks::Canaries;
use stile_testkit::process::{Rig, Server};

const NOTE: &str = "canary-of-the-body 5b1c\nsecond line\n";

struct Stage {
    _folder: tempfile::TempDir,
    rig: Rig,
    server: Server,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        std::fs::create_dir(rig.root.join("notes")).unwrap();
        std::fs::write(rig.root.join("notes/a.md"), NOTE).unwrap();
        let server = rig.serve(&["--log", "trace"]);
        Self { _folder: folder, rig, server }
    }

    fn client(&self, scopes: &[&str]) -> Http {
        self.server.client(&self.rig.token(scopes, &[]))
    }

    fn state(&self) -> StateDir {
        StateDir::open(&self.rig.state).unwrap()
    }
}

/// Every file of the space that is not ours, by name.
pub(crate) fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.file_name().unwrap().to_string_lossy().starts_with(".stile-") {
                found.insert(path.to_string_lossy().into_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Reads a note with the tool.
fn read(client: &mut Http) -> Reply {
    let arguments = json!({ "path": "/notes/a.md" });
    client.post("tools/call", json!({ "name": "text.read", "arguments": arguments })).unwrap()
}

/// Revokes a token with the command line.
pub(crate) fn revoke(rig: &Rig, token: &str) {
    use base64::Engine as _;
    let claims = token.split('.').nth(1).unwrap();
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    let mut command = rig.command(&["token", "revoke", claims["jti"].as_str().unwrap(), "--state"]);
    assert!(command.arg(&rig.state).status().unwrap().success());
}

#[test]
fn a_stream_ends_soon_after_its_token_was_revoked() {
    use std::io::{Read as _, Write as _};
    let stage = Stage::new();
    let token = stage.rig.token(&["write:/"], &[]);
    let address = stage.server.address;
    let mut peer = Peer::new(address, &token, Lifecycle::Session("2025-11-25"));
    let opened = peer.initialize().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let session = opened.header("mcp-session-id").unwrap();
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Accept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\
         Mcp-Session-Id: {session}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    revoke(&stage.rig, &token);
    let revoked = Instant::now();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(revoked.elapsed() < Duration::from_secs(10), "{:?}", revoked.elapsed());
}

#[test]
fn a_client_that_sends_a_body_before_it_reads_sees_that_it_is_too_large() {
    use std::io::Write as _;
    let stage = Stage::new();
    let token = stage.rig.token(&["write:/"], &[]);
    for megabytes in [5, 40] {
        let body = vec![b' '; megabytes << 20];
        let mut stream = TcpStream::connect(stage.server.address).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            stage.server.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        let reply = read_reply(&mut std::io::BufReader::new(stream)).unwrap();
        assert_eq!(reply.status, 413);
    }
}

#[test]
fn a_server_whose_folder_or_state_was_moved_is_not_ready_until_it_is_back() {
    let stage = Stage::new();
    let health = || {
        let head = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", stage.server.address);
        let reply = stage.server.client("").send(head.as_bytes()).unwrap();
        (reply.status, reply.json()["status"].clone())
    };
    assert_eq!(health(), (200, json!("ok")));
    let mut client = stage.client(&["write:/"]);
    let moved = stage.rig.root.with_file_name("moved");
    std::fs::rename(&stage.rig.root, &moved).unwrap();
    assert_eq!(health(), (503, json!("root_moved")));
    let arguments = json!({ "path": "/new.md", "content": "x" });
    let refused = client.tool("file.create", arguments.clone()).unwrap();
    assert_eq!(refused.pointer("/error/code"), Some(&json!("root_moved")));
    std::fs::rename(&moved, &stage.rig.root).unwrap();
    assert_eq!(health(), (200, json!("ok")));
    assert!(client.tool("file.create", arguments).unwrap().get("error").is_none());
    let away = stage.rig.state.with_file_name("away");
    std::fs::rename(&stage.rig.state, &away).unwrap();
    assert_eq!(health(), (503, json!("journal_not_writable")));
    std::fs::rename(&away, &stage.rig.state).unwrap();
    assert_eq!(health(), (200, json!("ok")));
}

#[test]
fn a_day_with_an_agent_leaves_only_its_journal_lines() {
    let stage = Stage::new();
    let token = stage.rig.token(&["write:/notes/"], &["--client", "a test"]);
    let mut agent = stage.server.client(&token);
    let made = agent
        .tool("file.create", json!({ "path": "/notes/plan.md", "content": "# Plan\none\n" }))
        .unwrap();
    let read = agent.tool("text.read", json!({ "path": "/notes/plan.md" })).unwrap();
    assert_eq!(read["hash"], made["hash"]);
    let edit = json!({ "path": "/notes/plan.md", "hash": read["hash"], "lines": [1, 0], "old": "one", "new": "two" });
    let changed = agent.tool("text.replace", edit.clone()).unwrap();

    // The person saves; the agent's next edit is refused, and so is its old one.
    let file = stage.rig.root.join("notes/plan.md");
    std::fs::write(&file, "# Plan\nmine\n").unwrap();
    for hash in [&read["hash"], &changed["hash"]] {
        let mut stale = edit.clone();
        stale["hash"] = hash.clone();
        assert_eq!(agent.tool("text.replace", stale).unwrap()["error"]["code"], "stale");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "# Plan\nmine\n");

    // Over standard input and output the same space is seen, by a process of its own.
    let mut local = stage.rig.stdio(&["--scope", "read:/"]);
    let seen = local.tool("text.read", json!({ "path": "/notes/plan.md" })).unwrap();
    assert_eq!(seen["content"], "# Plan\nmine\n");
    let refused = local
        .tool("file.remove", json!({ "path": "/notes/plan.md", "hash": seen["hash"] }))
        .unwrap();
    assert_eq!(refused["error"]["code"], "insufficient_scope");
    assert!(local.finish().unwrap().success());

    let listing = agent.request("resources/read", json!({ "uri": "list:///notes" })).unwrap();
    assert!(
        listing.pointer("/result/contents/0/text").unwrap().as_str().unwrap().contains("plan.md")
    );
    agent.tool("file.remove", json!({ "path": "/notes/plan.md", "hash": seen["hash"] })).unwrap();
    let (status, _) = stage.server.stop();
    assert!(status.success());

    let lines =
        stile_store::journal::read_all(&StateDir::open(&stage.rig.state).unwrap()).unwrap().lines;
    let calls: Vec<(&str, &str)> =
        lines.iter().map(|line| (line.tool.as_str(), line.outcome.as_str())).collect();
    assert_eq!(
        calls,
        [
            ("file.create", "ok"),
            ("text.read", "ok"),
            ("text.replace", "ok"),
            ("text.replace", "stale"),
            ("text.replace", "stale"),
            ("text.read", "ok"),
            ("file.remove", "insufficient_scope"),
            ("list", "ok"),
            ("file.remove", "ok"),
        ]
    );
    let of = |line: &JournalLine| {
        (line.before.map(|hash| hash.to_string()), line.after.map(|hash| hash.to_string()))
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    assert_eq!(of(&lines[2]), (text(&read["hash"]), text(&changed["hash"])));
    assert!(
        lines[..5]
            .iter()
            .all(|line| line.client.as_deref() == Some("a test") && line.token.is_some())
    );
    let left: Vec<_> = contents(&stage.rig.root).into_keys().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(
        std::fs::read_dir(stage.rig.root.join("notes")).unwrap().count(),
        1,
        "nothing of ours is left"
    );
}

#[test]
fn a_token_opens_its_own_space_and_no_other_of_the_same_state() {
    let stage = Stage::new();
    let private = Rig { root: stage.rig.root.with_file_name("private"), ..stage.rig.clone() };
    std::fs::create_dir_all(private.root.join("notes")).unwrap();
    std::fs::write(private.root.join("notes/a.md"), NOTE).unwrap();
    // Without a folder, the token is for the only one that this state knows.
    let unnamed = |more: &[&str]| {
        let mut command = stage.rig.command(&["token", "--scope", "write:/", "--state"]);
        command.arg(&stage.rig.state).args(more).output().unwrap()
    };
    let minted = unnamed(&[]);
    let token = String::from_utf8(minted.stdout).unwrap().trim().to_owned();
    let server = private.serve(&[]);

    let read = |server: &Server, token: &str| read(&mut server.client(token));
    assert_eq!(read(&stage.server, &token).status, 200);
    let refused = read(&server, &token);
    assert_eq!(refused.status, 401);
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.contains("the token is for another space of this owner"), "{challenge}");
    let theirs = private.token(&["write:/"], &[]);
    assert_eq!((read(&server, &theirs).status, read(&stage.server, &theirs).status), (200, 401));

    // Now the folder has to be named. A scope that is not what was typed is shown.
    let root = stage.rig.root.to_str().unwrap();
    let shown = unnamed(&["--scope", "read:notes//x", "--root", root]);
    let message = String::from_utf8(shown.stderr).unwrap();
    assert_eq!(
        message,
        "--scope: `read:notes//x` means `read:/notes/x`\n\
         note: nothing is at `/notes/x` now, so `read:/notes/x` concerns nothing that exists\n"
    );
    let ambiguous = unnamed(&[]);
    assert_eq!((ambiguous.status.code(), ambiguous.stdout.len()), (Some(2), 0));
    let message = String::from_utf8(ambiguous.stderr).unwrap();
    for root in [&stage.rig.root, &private.root] {
        assert!(message.contains(root.canonicalize().unwrap().to_str().unwrap()), "{message}");
    }

    // A folder keeps its tokens when it is renamed, and leaves none to the next one at its path.
    drop(server);
    let renamed = Rig { root: private.root.with_file_name("renamed"), ..private.clone() };
    std::fs::rename(&private.root, &renamed.root).unwrap();
    assert_eq!(read(&renamed.serve(&[]), &theirs).status, 200);
    std::fs::create_dir(&private.root).unwrap();
    assert_eq!(read(&private.serve(&[]), &theirs).status, 401);
}

#[test]
fn no_request_reveals_a_secret() {
    let stage = Stage::new();
    let (writer, reader) =
        (stage.rig.token(&["write:/notes/"], &[]), stage.rig.token(&["read:/notes/"], &[]));
    let key = TokenKey::open(&stage.state()).unwrap();
    let hex: String = key.secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let everywhere = Canaries::new()
        .plant("a token", &writer)
        .plant("the signature of a token", writer.rsplit('.').next().unwrap())
        .plant("the other token", &reader)
        .plant("the key", &hex)
        .plant("the root", stage.rig.root.to_str().unwrap())
        .plant("the state folder", stage.rig.state.to_str().unwrap())
        .plant("the query", "canary-of-a-query 77aa")
        .plant("what an agent sent", "canary-of-an-argument 90ee");
    let body = Canaries::new().plant("the body", "canary-of-the-body 5b1c");

    let note = ContentHash::digest(NOTE.as_bytes());
    let wrong = ContentHash::digest(b"something else");
    let argument = "canary-of-an-argument 90ee";
    let mut client = stage.server.client(&writer);
    let mut narrow = stage.server.client(&reader);
    for (tool, arguments) in [
        ("text.read", json!({ "path": "/notes/a.md", "q": "canary-of-a-query 77aa" })),
        ("text.read", json!({ "path": "/notes/a.md", "lines": [90, 99] })),
        ("text.read", json!({ "path": "/notes/a.md", "cursor": argument })),
        ("text.read", json!({ "path": argument, argument: 1 })),
        ("text.read", json!({ "path": format!("/notes/{argument}\\") })),
        ("text.read", json!({ "path": "/other/a.md" })),
        ("text.read", json!({ "path": "/notes" })),
        ("text.read", json!({ "path": "/notes/missing/x" })),
        ("file.create", json!({ "path": "/notes/a.md", "content": argument })),
        ("file.create", json!({ "path": "/notes/b", "content": argument, "encoding": "base64" })),
        ("file.remove", json!({ "path": "/notes/a.md", "hash": wrong })),
        ("text.append", json!({ "path": "/notes/a.md", "hash": wrong, "content": argument })),
        (
            "text.insert",
            json!({ "path": "/notes/a.md", "hash": note, "line": 9, "anchor": argument, "content": argument }),
        ),
        ("text.append", json!({ "path": "/notes/a.md", "hash": argument, "content": argument })),
        ("text.append", json!({ "path": "/notes/new.md", "hash": note, "content": argument })),
        (argument, json!({})),
    ] {
        for (who, client) in [("writer", &mut client), ("reader", &mut narrow)] {
            let reply =
                client.post("tools/call", json!({ "name": tool, "arguments": arguments })).unwrap();
            let place =
                format!("{tool} for the {who}: {}", String::from_utf8_lossy(&reply.bytes()));
            everywhere.assert_absent(&place, &reply.bytes());
            body.assert_absent(&place, &reply.bytes());
        }
    }
    // A failed match shows its lines, to one who may read them and to nobody else.
    let mismatch = json!({ "path": "/notes/a.md", "hash": note, "lines": [1, 0], "old": argument, "new": argument });
    let shown = client
        .post("tools/call", json!({ "name": "text.replace", "arguments": mismatch }))
        .unwrap();
    assert!(!body.find(&shown.bytes()).is_empty());
    everywhere.assert_absent("a failed match", &shown.bytes());
    let refused = narrow
        .post("tools/call", json!({ "name": "text.replace", "arguments": mismatch }))
        .unwrap();
    body.assert_absent("a failed match without leave", &refused.bytes());
    // A read gives the body, and nothing else of what is secret.
    let read = client
        .post("tools/call", json!({ "name": "text.read", "arguments": { "path": "/notes/a.md" } }))
        .unwrap();
    assert!(!body.find(&read.bytes()).is_empty());
    everywhere.assert_absent("a read", &read.bytes());

    for uri in [
        "list:///notes", "list:///other", "list:///missing", "list:///%zz", "file:///etc/passwd",
        argument,
    ] {
        let reply = client.post("resources/read", json!({ "uri": uri })).unwrap();
        body.assert_absent(uri, &reply.bytes());
        // A resource error echoes the URI that was asked for, as the protocol wants.
        if uri != argument {
            everywhere.assert_absent(uri, &reply.bytes());
        }
    }
    for raw in [
        format!(
            "GET /mcp?access_token={writer} HTTP/1.1\r\nHost: {}\r\n\r\n",
            stage.server.address
        ),
        format!("GET /{argument} HTTP/1.1\r\nHost: {}\r\n\r\n", stage.server.address),
        format!(
            "GET /health HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {argument}\r\n\r\n",
            stage.server.address
        ),
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {writer}x\r\nContent-Length: 2\r\n\r\n{{}}",
            stage.server.address
        ),
        format!("POST /mcp HTTP/1.1\r\nHost: {argument}\r\n\r\n"),
    ] {
        let reply = stage.server.client("").send(raw.as_bytes()).unwrap();
        everywhere.assert_absent(&raw, &reply.bytes());
    }

    let (_, log) = stage.server.stop();
    assert!(!log.is_empty());
    // The first lines tell the person who started it where the state is; the log begins after them.
    let log = String::from_utf8_lossy(&log);
    let logged: String =
        log.lines().filter(|line| !line.starts_with("mint a token with:")).collect();
    everywhere.assert_absent("the log", logged.as_bytes());
    body.assert_absent("the log", logged.as_bytes());
    let journal =
        stile_store::journal::read_all(&StateDir::open(&stage.rig.state).unwrap()).unwrap().lines;
    let journal = serde_json::to_string(&journal).unwrap();
    body.assert_absent("the journal", journal.as_bytes());
    Canaries::new()
        .plant("a token", &writer)
        .plant("the key", &hex)
        .plant("the root", stage.rig.root.to_str().unwrap())
        .assert_absent("the journal", journal.as_bytes());
}
