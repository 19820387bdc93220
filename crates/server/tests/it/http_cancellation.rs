//! A change that waits for a locked folder writes nothing once its client gives it up, or once the
//! owner takes away the right to make it.

use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{Client, Ground, Server, WRITE, call, meta, request};

/// How long a line of the journal may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the journal has a change of this file with this outcome.
fn journal_has(state: &Path, path: &str, outcome: &str) -> bool {
    // The first line makes the folder.
    let files = std::fs::read_dir(state.join("journal")).into_iter().flatten();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap_or_default());
    texts.collect::<String>().lines().any(|line| {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        line["path"] == path && line["outcome"] == outcome
    })
}

#[tokio::test]
async fn a_change_that_is_cancelled_while_it_waits_writes_nothing_in_either_lifecycle() {
    let ground = Ground::real();
    let root = ground.root();
    let state = root.with_file_name("state");
    let server = Server::on(ground, |_| {}).await;
    let locked = open(&root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    flock(&locked, FlockOperation::NonBlockingLockExclusive).unwrap();
    let arguments = |path: &str| json!({ "path": path, "content": "text\n" });

    // In a session, the client sends a notification.
    let session = server.open(WRITE).await;
    let headers = [("mcp-session-id", session.as_str())];
    let body = call(7, "file.create", arguments("/session.md"));
    let mut waiting = server.connect().await;
    waiting.send(Client::post_bytes(WRITE, &headers, body.to_string().as_bytes())).await;
    let notice = json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": 7, "reason": "the user stopped it" }
    });
    let began = Instant::now();
    while !journal_has(&state, "/session.md", "cancelled") {
        assert!(began.elapsed() < PATIENCE, "the notification had no effect");
        // The notification may overtake the request, so it is sent again.
        server.in_session(WRITE, &session, &notice).await;
        sleep(Duration::from_millis(20)).await;
    }

    // Without sessions, the client hangs up.
    let mut params = json!({ "name": "file.create", "arguments": arguments("/sessionless.md") });
    params["_meta"] = meta();
    let body = request(8, "tools/call", params).to_string();
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "file.create"),
    ];
    let mut leaving = server.connect().await;
    leaving.send(Client::post_bytes(WRITE, &headers, body.as_bytes())).await;
    drop(leaving);
    let began = Instant::now();
    while !journal_has(&state, "/sessionless.md", "cancelled") {
        assert!(began.elapsed() < PATIENCE, "hanging up had no effect");
        sleep(Duration::from_millis(20)).await;
    }

    drop(locked);
    let after = json!({ "name": "file.create", "arguments": arguments("/after.md") });
    // On a busy machine a cancelled call may still be at the folder for a moment.
    let began = Instant::now();
    let made = loop {
        let made = server.sessionless(WRITE, "tools/call", after.clone()).await.json();
        let is_busy = made["result"]["structuredContent"]["error"]["code"] == "busy";
        if !is_busy || began.elapsed() > PATIENCE {
            break made;
        }
    };
    assert_eq!(made["result"]["structuredContent"]["path"], "/after.md", "{made}");
    let names = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> =
        names.filter(|name| !name.to_string_lossy().starts_with(".stile-")).collect();
    assert_eq!(names, ["after.md"]);
}

#[tokio::test]
async fn a_change_whose_right_is_taken_away_while_it_waits_writes_nothing_in_either_lifecycle() {
    let ground = Ground::real();
    let root = ground.root();
    let server = Server::on(ground, |_| {}).await;
    let locked = open(&root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    flock(&locked, FlockOperation::NonBlockingLockExclusive).unwrap();
    let arguments = |path: &str| json!({ "path": path, "content": "text\n" });
    let session = server.open(WRITE).await;
    let in_session = call(7, "file.create", arguments("/session.md"));
    let plain = json!({ "name": "file.create", "arguments": arguments("/plain.md") });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "file.create"),
    ];
    let mut told = json!({ "name": "file.create", "arguments": arguments("/told.md") });
    told["_meta"] = meta();
    told["_meta"]["progressToken"] = json!(1);
    let told = request(9, "tools/call", told);
    let narrowed = async {
        // The change that tells its progress has begun when its client hears of it.
        let mut client = server.connect().await;
        client.send(Client::post_bytes(WRITE, &headers, told.to_string().as_bytes())).await;
        assert_eq!(client.reply_head().await.unwrap().status, 200);
        server.rights.lock().unwrap().insert("ann".to_owned(), "read:/");
        let mut last = String::new();
        while let Some(piece) = client.piece().await {
            last = piece;
        }
        last
    };
    let (in_session, plain, told) = tokio::join!(
        server.in_session(WRITE, &session, &in_session),
        server.sessionless(WRITE, "tools/call", plain),
        narrowed,
    );
    for answer in [in_session.json(), plain.json()] {
        assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "cancelled", "{answer}");
    }
    assert!(told.contains(r#""code":"cancelled""#), "{told}");
    drop(locked);
    let names = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> =
        names.filter(|name| !name.to_string_lossy().starts_with(".stile-")).collect();
    assert_eq!(names, Vec::<std::ffi::OsString>::new());
}
