//! Clients whose rights the owner narrows while they run: what each is sent, and how it goes on.
//!
//! A narrowed session ends: a 404 to the next request that names it leads the client to begin
//! another. But a client that listens is told, and its session goes on with what is left, since
//! most SDKs never begin another. No request is left without an answer.

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use serde_json::{Value, json};
use stile_testkit::client::Reply as PageReply;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::list_changes::{BOTH, next, stream_of, two_methods};
use crate::sign_in_kit::{Browser, Place, ScriptedClient, form_to};
use crate::support::{Client, PATIENCE, call, initialize, request};

/// The clients that have sessions, with the revision that each asks for.
const CLIENTS: [(&str, &str); 6] = [
    // Claude Code 2.1.332.
    ("claude-code", "2025-11-25"),
    // Codex 0.171.0.
    ("codex-mcp-client", "2025-06-18"),
    // Gemini CLI 0.61.0.
    ("gemini-cli-mcp-client", "2025-06-18"),
    // mcp-remote 0.15.1, for its client.
    ("mcp-remote", "2025-11-25"),
    // The SDKs, TypeScript 1.32.2 and Python 2.3.0.
    ("typescript-sdk", "2025-11-25"),
    ("mcp", "2025-11-25"),
];

/// The access of a client that signed in, and the browser of the owner.
struct Access {
    place: Place,
    browser: Browser,
    token: String,
}

impl Access {
    fn new() -> Self {
        let place = Place::new();
        let mut browser = place.signed_in_browser();
        let client = ScriptedClient::connect(&place.url());
        let tokens = client.tokens(&mut browser, "write:/work/ read:/journal/");
        let token = tokens["access_token"].as_str().unwrap().to_owned();
        Self { place, browser, token }
    }

    async fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.place.server.address).await.unwrap())
    }

    /// Sends a message on a connection of its own, in a session if one is named.
    async fn post(&self, session: &str, body: &Value) -> crate::support::Reply {
        let header = [("mcp-session-id", session)];
        let headers = if session.is_empty() { &[][..] } else { &header[..] };
        self.connect().await.post(&self.token, headers, body).await
    }

    async fn open(&self, client: &str, revision: &str) -> String {
        let opened = self.post("", &initialize(revision, client)).await;
        let session = opened.header("mcp-session-id").unwrap().to_owned();
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&session, &done).await.status, 202);
        session
    }

    /// Returns whether the list of tools has one that changes files.
    async fn may_write(&self, session: &str) -> bool {
        let listed = self.post(session, &request(1, "tools/list", json!({}))).await;
        assert_eq!(listed.status, 200, "{listed:?}");
        listed.body.contains("file_create")
    }

    /// Takes the right to change files away, on the owner's page.
    fn narrow(&mut self) {
        let url = |path: &str| self.place.url().replace("/mcp", path);
        let page: PageReply = self.browser.get(&url("/owner/clients"));
        let form = form_to(&page, "/owner/clients/narrow");
        let kept = form.fields.iter().filter(|(_, value)| value != "write:/work/");
        let kept: Vec<(&str, &str)> =
            kept.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(self.browser.post(&url("/owner/clients/narrow"), &kept).status, 303);
    }
}

#[tokio::test]
async fn each_client_that_listens_is_told_and_its_session_goes_on_with_what_is_left() {
    let mut access = Access::new();
    let journal = access.place.rig.root.join("journal");
    std::fs::create_dir_all(&journal).unwrap();
    let mut open = Vec::new();
    for (client, revision) in CLIENTS {
        let session = access.open(client, revision).await;
        assert!(access.may_write(&session).await, "{client}");
        let stream = stream_of(access.connect().await, &access.token, &session).await;
        let watch = request(4, "resources/subscribe", json!({ "uri": "space:///journal" }));
        assert_eq!(access.post(&session, &watch).await.status, 200, "{client}");
        open.push((client, session, stream));
    }
    access.narrow();
    for (client, session, stream) in &mut open {
        // Whether the client asks before it was told or after.
        assert!(!access.may_write(session).await, "{client}");
        // Nobody touched what it watches.
        assert_eq!(two_methods(stream).await, BOTH, "{client}");
        assert!(!access.may_write(session).await, "{client}");
        let change = call(5, "file.create", json!({ "path": "/work/x.md", "content": "x" }));
        assert_eq!(access.post(session, &change).await.status, 403, "{client}");
    }
    std::fs::write(journal.join("today.md"), "x").unwrap();
    for (client, session, stream) in &mut open {
        let told = next(stream).await.unwrap();
        assert_eq!(told["params"]["uri"], "space:///journal", "{client}: {told}");
        let header = [("mcp-session-id", session.as_str())];
        let ended = access.connect().await.delete(&access.token, &header).await;
        assert_eq!(ended.status, 204, "{client}");
        let refused = access.post(session, &request(6, "ping", json!({}))).await;
        assert_eq!(refused.status, 404, "{client}: it was deleted");
    }
}

#[tokio::test]
async fn each_client_that_does_not_listen_gets_404_and_begins_another_session() {
    let mut access = Access::new();
    let mut open = Vec::new();
    for (client, revision) in CLIENTS {
        open.push((client, revision, access.open(client, revision).await));
    }
    access.narrow();
    for (client, revision, session) in open {
        for method in ["tools/list", "ping"] {
            let refused = access.post(&session, &request(2, method, json!({}))).await;
            assert_eq!(refused.status, 404, "{client} {method}");
            assert_eq!(refused.body, "Not Found: Session not found", "{client}");
        }
        // Clients that lost a session send its id once more.
        let begun = access.post(&session, &initialize(revision, client)).await;
        let another = begun.header("mcp-session-id").unwrap();
        assert!(begun.status == 200 && another != session, "{client} {begun:?}");
        assert!(!access.may_write(another).await, "{client}");
    }
}

#[tokio::test]
async fn a_request_in_flight_is_answered_when_its_session_ends_by_narrowing() {
    let mut access = Access::new();
    let session = access.open("claude-code", "2025-11-25").await;
    let root = access.place.rig.root.join("work");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let locked = open(&root, flags, Mode::empty()).unwrap();
    flock(&locked, FlockOperation::NonBlockingLockExclusive).unwrap();
    let mut waiting = Vec::new();
    for (id, meta) in [(7, json!({})), (8, json!({ "progressToken": "p" }))] {
        let arguments = json!({ "path": format!("/work/{id}.md"), "content": "x\n" });
        let mut body = call(id, "file.create", arguments);
        body["params"]["_meta"] = meta;
        let headers = [("mcp-session-id", session.as_str())];
        let mut client = access.connect().await;
        client.send(Client::post_bytes(&access.token, &headers, body.to_string().as_bytes())).await;
        waiting.push((id, client));
    }
    // The second one has begun once its client hears of its progress.
    let begun = waiting[1].1.reply_head().await.unwrap();
    assert_eq!(begun.header("content-type"), Some("text/event-stream"));
    let told = next(&mut waiting[1].1).await.unwrap();
    assert_eq!(told["method"], "notifications/progress", "{told}");
    access.narrow();
    let (_, mut second) = waiting.pop().unwrap();
    let (_, mut first) = waiting.pop().unwrap();
    let answers = async {
        let first = first.reply().await;
        let mut last = Value::Null;
        while let Some(message) = next(&mut second).await {
            last = message;
        }
        (first, last)
    };
    let (first, last) = timeout(PATIENCE, answers).await.unwrap();
    assert!(first.body.contains("cancelled"), "{first:?}");
    assert!(last["id"] == 8 && last.to_string().contains("cancelled"), "{last}");
    drop(locked);
    assert!(!root.join("7.md").exists() && !root.join("8.md").exists());
}
