//! Requests of older revisions, of programs that probe a server, and of careless clients.

use serde_json::{Value, json};

use crate::support::{Client, READ, Reply, Server, initialize, meta, request};

/// Opens a session of a revision, and returns its id with the response.
async fn open(server: &Server, version: &str) -> (String, Reply) {
    let reply = server.post(READ, &[], &initialize(version, "test")).await;
    (reply.header("mcp-session-id").unwrap().to_owned(), reply)
}

/// Returns the event stream of a session up to the notification that a folder has changed.
async fn begin_of_stream(server: &Server, session: &str, version: &str) -> String {
    let mut client = server.connect().await;
    let headers = [
        ("accept", "text/event-stream"),
        ("mcp-session-id", session),
        ("mcp-protocol-version", version),
    ];
    client.send(format!("{}\r\n", Client::head("GET", "/mcp", READ, &headers))).await;
    assert_eq!(client.reply_head().await.unwrap().status, 200);
    let subscribe = request(1, "resources/subscribe", json!({ "uri": "list:///" }));
    let subscribed = server.in_session(READ, session, &subscribe).await;
    assert_eq!(subscribed.json()["result"], json!({}), "{subscribed:?}");
    std::fs::write(server.root().join("new.md"), "x").unwrap();
    let mut read = String::new();
    while !read.contains("resources/updated") {
        read.push_str(&client.piece().await.expect("the stream continues"));
    }
    read
}

/// Returns the events without data in a stream.
fn empty_events(stream: &str) -> usize {
    stream.lines().filter(|line| line.trim_end() == "data:" || line.trim_end() == "data").count()
}

/// Gemini CLI 0.61 asks for revision 2025-06-18 and parses each event as a message.
#[tokio::test]
async fn no_stream_of_a_revision_before_2025_11_25_has_an_event_without_data() {
    let server = Server::start().await;
    for asked in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let (session, opened) = open(&server, asked).await;
        let version = "2025-06-18";
        let list = request(1, "tools/list", json!({}));
        let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", version)];
        let listed = server.post(READ, &headers, &list).await;
        assert!(listed.json()["result"]["tools"].is_array(), "{listed:?}");
        for stream in [opened.body, listed.body, begin_of_stream(&server, &session, version).await]
        {
            assert_eq!(empty_events(&stream), 0, "{asked} {stream}");
        }
    }
}

/// Claude Code and the SDKs of revision 2025-11-25 connect again with the id of this event.
#[tokio::test]
async fn a_stream_of_revision_2025_11_25_begins_with_an_event_that_has_an_id_and_no_data() {
    let server = Server::start().await;
    let (session, _) = open(&server, "2025-11-25").await;
    let list = request(1, "tools/list", json!({}));
    let listed = server.in_session(READ, &session, &list).await.body;
    let stream = begin_of_stream(&server, &session, "2025-11-25").await;
    for stream in [listed, stream] {
        let first = stream.split("\n\n").next().unwrap();
        assert_eq!(empty_events(first), 1, "{stream}");
        assert!(first.contains("id:") && first.contains("retry:"), "{stream}");
        assert_eq!(empty_events(&stream), 1, "{stream}");
    }
}

/// The probe of claude.ai is an `initialize` of 2025-11-25 with `Accept: */*`.
#[tokio::test]
async fn a_client_that_accepts_everything_gets_both_forms() {
    let server = Server::start().await;
    let body = initialize("2025-11-25", "Anthropic");
    for accept in ["*/*", "application/*, text/*", "application/json;q=0.9, */*;q=0.1"] {
        let opened = server.post(READ, &[("accept", accept)], &body).await;
        assert_eq!(opened.status, 200, "{accept} {opened:?}");
        let unknown = server.post("", &[("accept", accept)], &body).await;
        assert_eq!(unknown.status, 401, "{accept}");
        assert!(unknown.header("www-authenticate").unwrap().contains("resource_metadata"));
    }
    let (session, _) = open(&server, "2025-11-25").await;
    let mut client = server.connect().await;
    let headers = [("accept", "*/*"), ("mcp-session-id", session.as_str())];
    client.send(format!("{}\r\n", Client::head("GET", "/mcp", READ, &headers))).await;
    let head = client.reply_head().await.unwrap();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
}

/// Revision 2026-07-28 answers most requests with JSON, so a client may name nothing else.
#[tokio::test]
async fn a_request_without_a_session_needs_json_only() {
    let server = Server::start().await;
    for (accept, status) in [("application/json", 200), ("*/*", 200), ("text/event-stream", 406)] {
        for (method, name) in
            [("server/discover", ""), ("tools/list", ""), ("tools/call", "file.list")]
        {
            let mut params = json!({ "_meta": meta() });
            let mut headers = vec![
                ("accept", accept),
                ("mcp-protocol-version", "2026-07-28"),
                ("mcp-method", method),
            ];
            if !name.is_empty() {
                params["name"] = name.into();
                headers.push(("mcp-name", name));
            }
            let reply = server.post(READ, &headers, &request(1, method, params)).await;
            assert_eq!(reply.status, status, "{accept} {method} {reply:?}");
            assert!(reply.header("content-type").unwrap().starts_with("application/json"));
        }
    }
}

/// Programs that serialize their optional members send them as null, in every revision.
#[tokio::test]
async fn optional_members_that_are_null_are_as_if_absent() {
    let server = Server::start().await;
    let begin = |params: Value| request(0, "initialize", params);
    let client = json!({ "name": "x", "version": "1" });
    for params in [
        json!({ "protocolVersion": "2025-11-25", "capabilities": null, "clientInfo": client }),
        json!({ "protocolVersion": "2025-11-25", "clientInfo": client, "_meta": null }),
    ] {
        let opened = server.post(READ, &[], &begin(params)).await;
        assert_eq!(opened.json()["result"]["protocolVersion"], "2025-11-25", "{opened:?}");
    }
    let (session, _) = open(&server, "2025-11-25").await;
    for params in [json!({ "cursor": null }), json!({ "_meta": null }), Value::Null] {
        let listed = server.in_session(READ, &session, &request(1, "tools/list", params)).await;
        assert!(listed.json()["result"]["tools"].is_array(), "{listed:?}");
    }
    let listed = server.sessionless(READ, "tools/list", json!({ "cursor": null })).await;
    assert!(listed.json()["result"]["tools"].is_array(), "{listed:?}");
}

#[tokio::test]
async fn an_initialize_that_does_not_fit_names_what_it_must_have() {
    let server = Server::start().await;
    for params in [
        json!({ "protocolVersion": "2025-11-25", "capabilities": {} }),
        json!({ "protocolVersion": "2025-11-25", "capabilities": 7, "clientInfo": {} }),
        json!({}),
    ] {
        let refused = server.post(READ, &[], &request(3, "initialize", params)).await;
        let error = &refused.json()["error"];
        assert_eq!((refused.status, &error["code"]), (400, &json!(-32602)), "{refused:?}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("`capabilities`") && message.contains("`clientInfo`"),
            "{message}"
        );
    }
}
