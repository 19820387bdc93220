//! Clients that are told when the tools or resources that they see have changed, and that a call
//! is still being worked on.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{
    BOB, Client, PATIENCE, READ, Reply, Server, WORK, call, initialize, meta, request,
};

/// What both notifications of a change of rights are.
pub const BOTH: [&str; 2] =
    ["notifications/resources/list_changed", "notifications/tools/list_changed"];

/// Opens a session and its event stream.
async fn stream(server: &Server, token: &str) -> Client {
    let session = server.open(token).await;
    stream_of(server.connect().await, token, &session).await
}

/// Opens the event stream of a session on a connection.
pub async fn stream_of(mut stream: Client, token: &str, session: &str) -> Client {
    let headers = [("mcp-session-id", session), ("accept", "text/event-stream")];
    stream.send(format!("{}\r\n", Client::head("GET", "/mcp", token, &headers))).await;
    assert_eq!(stream.reply_head().await.unwrap().status, 200);
    stream
}

/// Opens a `subscriptions/listen` and returns what was accepted of it.
async fn listen(server: &Server, token: &str, notifications: Value) -> (Client, Value) {
    let params = json!({ "notifications": notifications, "_meta": meta() });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let body = request(7, "subscriptions/listen", params).to_string();
    let mut stream = server.connect().await;
    stream.send(Client::post_bytes(token, &headers, body.as_bytes())).await;
    assert_eq!(stream.reply_head().await.unwrap().status, 200);
    let first = next(&mut stream).await.unwrap();
    (stream, first["params"]["notifications"].clone())
}

pub async fn next(stream: &mut Client) -> Option<Value> {
    loop {
        let piece = timeout(PATIENCE, stream.piece()).await.expect("the stream is silent")?;
        let data = piece.lines().find_map(|line| line.strip_prefix("data: "));
        if let Some(message) = data.and_then(|data| serde_json::from_str(data).ok()) {
            return Some(message);
        }
    }
}

pub async fn two_methods(stream: &mut Client) -> [String; 2] {
    let mut methods = [(); 2].map(|()| String::new());
    for method in &mut methods {
        *method = next(stream).await.expect("the stream ended")["method"].as_str().unwrap().into();
    }
    methods.sort();
    methods
}

#[tokio::test]
async fn both_lifecycles_declare_that_lists_may_change() {
    let server = Server::start().await;
    let legacy = server.post(READ, &[], &initialize("2025-06-18", "test")).await.json();
    let modern = server.sessionless(READ, "server/discover", json!({})).await.json();
    for answer in [legacy, modern] {
        let capabilities = &answer["result"]["capabilities"];
        assert_eq!(capabilities["tools"]["listChanged"], true, "{answer}");
        assert_eq!(capabilities["resources"]["listChanged"], true, "{answer}");
    }
}

#[tokio::test]
async fn a_client_is_told_when_its_own_lists_change_and_nobody_else_is() {
    let server = Server::start().await;
    let wanted = json!({ "toolsListChanged": true, "resourcesListChanged": true });
    let mut session = stream(&server, WORK).await;
    let (mut request, accepted) = listen(&server, WORK, wanted.clone()).await;
    assert_eq!(accepted, wanted);
    let mut others = [stream(&server, BOB).await, listen(&server, BOB, wanted).await.0];
    // Of a client without a session nobody knows what it was shown last.
    for listening in [&mut request, &mut others[1]] {
        assert_eq!(two_methods(listening).await, BOTH);
    }
    for scopes in ["write:/work/", "read:/work/"] {
        server.rights.lock().unwrap().insert("ann".to_owned(), scopes);
        assert_eq!(two_methods(&mut session).await, BOTH, "{scopes}");
        assert_eq!(two_methods(&mut request).await, BOTH, "{scopes}");
    }
    for other in &mut others {
        let silent = timeout(Duration::from_millis(10), next(other)).await;
        assert!(silent.is_err(), "{silent:?}");
    }
}

#[tokio::test]
async fn a_client_is_told_of_the_lists_that_it_asked_for_only() {
    let server = Server::start().await;
    let (mut tools, accepted) = listen(&server, WORK, json!({ "toolsListChanged": true })).await;
    assert_eq!(accepted, json!({ "toolsListChanged": true }));
    for scopes in ["read:/work/", "write:/work/", "read:/work/"] {
        server.rights.lock().unwrap().insert("ann".to_owned(), scopes);
        let told = next(&mut tools).await.unwrap();
        assert_eq!(told["method"], "notifications/tools/list_changed");
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    }
}

#[tokio::test]
async fn what_changed_before_a_client_listens_is_told_when_it_does_in_both_lifecycles() {
    let server = Server::start().await;
    let session = server.open(WORK).await;
    let list = |method: &str| request(1, method, json!({}));
    for method in ["tools/list", "resources/list"] {
        assert_eq!(server.in_session(WORK, &session, &list(method)).await.status, 200);
        assert_eq!(server.sessionless(WORK, method, json!({})).await.status, 200);
    }
    server.rights.lock().unwrap().insert("ann".to_owned(), "write:/work/");
    let wanted = json!({ "toolsListChanged": true, "resourcesListChanged": true });
    let (mut without, _) = listen(&server, WORK, wanted).await;
    assert_eq!(two_methods(&mut without).await, BOTH);
    let mut told = stream_of(server.connect().await, WORK, &session).await;
    assert_eq!(two_methods(&mut told).await, BOTH);
    // Another one looked again before it listened, and is told of the next change alone.
    let widened = "ann;-;write:/work/;3600";
    let session = server.open(WORK).await;
    for token in [WORK, widened] {
        for method in ["tools/list", "resources/list"] {
            assert_eq!(server.in_session(token, &session, &list(method)).await.status, 200);
        }
    }
    let mut second = stream_of(server.connect().await, widened, &session).await;
    let more = "write:/work/ read:/other/";
    server.rights.lock().unwrap().insert("ann".to_owned(), more);
    let told = next(&mut second).await.unwrap();
    assert_eq!(told["method"], "notifications/resources/list_changed", "the tools are the same");
}

/// *Source*: MCP 2025-11-25, transports, "Multiple Connections".
#[tokio::test]
async fn of_two_streams_of_a_session_one_gets_each_message_and_the_other_after_it() {
    let server = Server::start().await;
    std::fs::create_dir_all(server.root().join("work")).unwrap();
    let session = server.open(WORK).await;
    let watch = request(3, "resources/subscribe", json!({ "uri": "space:///work" }));
    assert_eq!(server.in_session(WORK, &session, &watch).await.status, 200);
    // A client that was shown no list is told of no change of it.
    for method in ["tools/list", "resources/list"] {
        let list = request(4, method, json!({}));
        assert_eq!(server.in_session(WORK, &session, &list).await.status, 200);
    }
    let mut first = stream_of(server.connect().await, WORK, &session).await;
    let mut second = stream_of(server.connect().await, WORK, &session).await;
    server.rights.lock().unwrap().insert("ann".to_owned(), "write:/work/");
    std::fs::write(server.root().join("work/a.md"), "a").unwrap();
    let mut told = Vec::new();
    while told.len() < 3 {
        told.push(next(&mut second).await.unwrap()["method"].as_str().unwrap().to_owned());
    }
    told.sort();
    assert_eq!(told, [BOTH[0], "notifications/resources/updated", BOTH[1]]);
    for stream in [&mut first, &mut second] {
        let more = timeout(Duration::from_millis(1500), next(stream)).await;
        assert!(more.is_err(), "{more:?}");
    }
    drop(second);
    // The server learns at its next message that the stream has ended.
    let mut told = None;
    for number in 0.. {
        std::fs::write(server.root().join(format!("work/{number}.md")), "b").unwrap();
        if let Ok(message) = timeout(Duration::from_millis(500), next(&mut first)).await {
            told = message;
            break;
        }
    }
    assert_eq!(told.unwrap()["params"]["uri"], "space:///work");
}

/// Returns the messages of an answer that is an event stream.
fn messages(reply: &Reply) -> Vec<Value> {
    let data = reply.body.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect()
}

fn sleeping(milliseconds: u64, meta: Value) -> Value {
    let mut body = call(5, "test.sleeps", json!({ "milliseconds": milliseconds }));
    body["params"]["_meta"] = meta;
    body
}

fn assert_progress(messages: &[Value], token: &Value) {
    let (answer, told) = messages.split_last().unwrap();
    assert_eq!(answer["result"]["structuredContent"]["done"], true, "{messages:?}");
    let progress: Vec<f64> = told
        .iter()
        .map(|told| {
            assert_eq!(told["method"], "notifications/progress", "{told}");
            assert_eq!(&told["params"]["progressToken"], token);
            told["params"]["progress"].as_f64().unwrap()
        })
        .collect();
    assert!(progress.len() >= 2 && progress.is_sorted_by(|a, b| a < b), "{progress:?}");
}

#[tokio::test]
async fn a_call_that_works_longer_than_a_second_tells_its_progress_if_it_has_a_token() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    let of_session = |body: Value| {
        let (server, session) = (&server, session.as_str());
        async move { server.in_session(READ, session, &body).await }
    };
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "test.sleeps"),
    ];
    let with_token = |token: Value| {
        let mut meta = meta();
        meta["progressToken"] = token;
        meta
    };
    let json_only = [&headers[..], &[("accept", "application/json")]].concat();
    let told = json!("a token");
    let long_call = sleeping(2300, with_token(told.clone()));
    let brief_call = sleeping(100, with_token(told.clone()));
    let silent_call = sleeping(1300, meta());
    let (long, long_alone, silent, brief, plain) = tokio::join!(
        of_session(sleeping(2300, json!({ "progressToken": 3 }))),
        server.post(READ, &headers, &long_call),
        server.post(READ, &headers, &silent_call),
        server.post(READ, &headers, &brief_call),
        server.post(READ, &json_only, &long_call),
    );
    assert_progress(&messages(&long), &json!(3));
    assert_progress(&messages(&long_alone), &told);
    for reply in [silent, brief, plain] {
        assert!(reply.header("content-type").unwrap().starts_with("application/json"), "{reply:?}");
        assert_eq!(reply.json()["result"]["structuredContent"]["done"], true);
    }
}
