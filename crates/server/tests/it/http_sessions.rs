//! Sessions: whose they are, how they end, and how many there may be.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{
    BOB, Client, PATIENCE, READ, Server, WRITE, call, end_waits, initialize, meta, request,
    waits_began,
};

const STREAM: (&str, &str) = ("accept", "text/event-stream");

#[tokio::test]
async fn session_ids_are_random_uuids() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    let parsed = uuid::Uuid::parse_str(&session).unwrap();
    assert_eq!(parsed.get_version_num(), 4);
    assert_ne!(session, server.open(READ).await);
}

#[tokio::test]
async fn an_unknown_session_is_404_for_every_method() {
    let server = Server::start().await;
    for session in ["bogus", "00000000-0000-4000-8000-000000000000", ""] {
        let id = ("mcp-session-id", session);
        let ping = server.post(READ, &[id], &request(1, "ping", json!({}))).await;
        let get = server.connect().await.get("/mcp", READ, &[id, STREAM]).await;
        let delete = server.connect().await.delete(READ, &[id]).await;
        for reply in [ping, get, delete] {
            assert_eq!(
                (reply.status, reply.body.as_str()),
                (404, "Not Found: Session not found"),
                "{session:?}"
            );
        }
    }
}

#[tokio::test]
async fn another_callers_session_does_not_exist() {
    let server = Server::start().await;
    let session = server.open(WRITE).await;
    let id = ("mcp-session-id", session.as_str());
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    for token in [BOB, "ann;inspector;write:/;3600"] {
        for body in [request(1, "ping", json!({})), initialized.clone()] {
            for headers in [vec![id], vec![id, ("mcp-protocol-version", "2025-11-25")]] {
                assert_eq!(server.post(token, &headers, &body).await.status, 404, "{token} {body}");
            }
        }
        assert_eq!(server.connect().await.get("/mcp", token, &[id, STREAM]).await.status, 404);
        assert_eq!(server.connect().await.delete(token, &[id]).await.status, 404);
    }
    assert_eq!(
        server.in_session(WRITE, &session, &request(1, "ping", json!({}))).await.status,
        200
    );
    assert_eq!(
        server
            .in_session("ann;-;read:/;3600", &session, &request(1, "ping", json!({})))
            .await
            .status,
        200
    );
}

/// Clients whose session was lost send its id with the next `initialize`.
#[tokio::test]
async fn an_initialize_that_carries_a_session_id_opens_another_session() {
    let server = Server::start().await;
    let session = server.open(WRITE).await;
    let bodies = [
        initialize("2025-11-25", "test"),
        initialize("2026-07-28", "test"),
        // What only looks sessionless.
        request(
            1,
            "initialize",
            json!({ "protocolVersion": "2026-07-28", "capabilities": {},
            "clientInfo": { "name": "x", "version": "1" }, "_meta": meta() }),
        ),
    ];
    for carried in [session.as_str(), "bogus", "00000000-0000-4000-8000-000000000000", ""] {
        for (token, body) in
            [WRITE, BOB].into_iter().flat_map(|t| bodies.iter().map(move |b| (t, b)))
        {
            let opened = server.post(token, &[("mcp-session-id", carried)], body).await;
            assert_eq!(opened.status, 200, "{token} {carried:?} {body}");
            let id = opened.header("mcp-session-id").unwrap();
            assert_ne!(id, carried);
            let ping = request(1, "ping", json!({}));
            assert_eq!(server.in_session(token, id, &ping).await.status, 200);
        }
    }
    let ping = request(1, "ping", json!({}));
    assert_eq!(server.in_session(WRITE, &session, &ping).await.status, 200);
    assert_eq!(server.in_session(BOB, &session, &ping).await.status, 404);
}

#[tokio::test]
async fn a_request_with_two_session_ids_has_no_session() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    let id = ("mcp-session-id", session.as_str());
    assert_eq!(server.post(READ, &[id, id], &request(1, "ping", json!({}))).await.status, 404);
}

#[tokio::test]
async fn a_deleted_session_is_gone() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    let id = ("mcp-session-id", session.as_str());
    let deleted = server.connect().await.delete(READ, &[id]).await;
    assert_eq!(deleted.status, 204);
    assert_eq!(server.in_session(READ, &session, &request(1, "ping", json!({}))).await.status, 404);
    assert_eq!(server.connect().await.delete(READ, &[id]).await.status, 404);
}

#[tokio::test]
async fn a_refused_delete_deletes_nothing() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    let id = ("mcp-session-id", session.as_str());
    assert_eq!(
        server
            .connect()
            .await
            .delete(READ, &[id, ("mcp-protocol-version", "1999-01-01")])
            .await
            .status,
        400
    );
    assert_eq!(server.in_session(READ, &session, &request(1, "ping", json!({}))).await.status, 200);
}

#[tokio::test]
async fn the_older_lifecycle_without_a_session_is_asked_to_open_one() {
    let server = Server::start().await;
    assert_eq!(server.post(READ, &[], &request(1, "ping", json!({}))).await.status, 400);
    assert_eq!(server.connect().await.delete(READ, &[]).await.status, 400);
    assert_eq!(server.connect().await.get("/mcp", READ, &[STREAM]).await.status, 400);
}

#[tokio::test]
async fn the_longest_idle_session_ends_when_a_subject_has_too_many() {
    let server = Server::with(|options| options.sessions_per_subject = 3).await;
    let bobs = server.open(BOB).await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(server.open(READ).await);
    }
    let ping = request(1, "ping", json!({}));
    assert_eq!(server.in_session(READ, &sessions[0], &ping).await.status, 200);
    let mut stream = server.connect().await;
    stream
        .send(format!(
            "GET /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {READ}\r\naccept: text/event-stream\r\nmcp-session-id: {}\r\n\r\n",
            sessions[2]
        ))
        .await;
    assert_eq!(stream.reply_head().await.unwrap().status, 200);
    sessions.push(server.open(READ).await);
    let mut statuses = Vec::new();
    for session in &sessions {
        statuses.push(server.in_session(READ, session, &ping).await.status);
    }
    assert_eq!(statuses, [200, 404, 200, 200]);
    assert_eq!(server.in_session(BOB, &bobs, &ping).await.status, 200);
}

#[tokio::test]
async fn a_session_that_idles_too_long_ends_and_can_be_replaced() {
    let server = Server::with(|options| options.session_idle = Duration::from_millis(300)).await;
    let session = server.open(READ).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(server.in_session(READ, &session, &request(1, "ping", json!({}))).await.status, 404);
    server.open(READ).await;
}

#[tokio::test]
async fn a_second_request_under_an_id_that_is_being_answered_is_refused() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    let name = "an id that is being answered";
    let slow = call(7, "test.waits", json!({ "name": name }));
    let (first, second) = tokio::join!(server.in_session(READ, &session, &slow), async {
        waits_began(name, 1).await;
        let second = server.in_session(READ, &session, &request(7, "ping", json!({}))).await;
        end_waits(name);
        second
    });
    assert_eq!(first.json()["result"]["structuredContent"]["done"], true);
    assert_eq!((second.status, &second.json()["error"]["code"]), (400, &json!(-32600)));
    assert_eq!(server.in_session(READ, &session, &request(7, "ping", json!({}))).await.status, 200);
}

/// Sends a call that outlasts the test, and waits until the server works on it.
async fn begin(server: &Server, session: &str, id: i64) -> Client {
    let body = call(id, "test.sleeps", json!({ "milliseconds": 600_000 })).to_string();
    let mut client = server.connect().await;
    let headers = [("mcp-session-id", session)];
    client.send(Client::post_bytes(READ, &headers, body.as_bytes())).await;
    assert_eq!(client.reply_head().await.unwrap().status, 200);
    client
}

/// Returns the messages of the rest of an event stream, which must end.
async fn rest(client: &mut Client) -> Vec<Value> {
    let mut text = String::new();
    while let Some(piece) = timeout(PATIENCE, client.piece()).await.expect("the stream goes on") {
        text.push_str(&piece);
    }
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect()
}

#[tokio::test]
async fn a_call_that_waits_when_its_session_ends_gets_an_error_unless_its_client_cancelled_it() {
    let server = Server::start().await;
    for revision in ["2025-06-18", "2025-11-25"] {
        let opened = server.post(READ, &[], &initialize(revision, "test")).await;
        let session = opened.header("mcp-session-id").unwrap().to_owned();
        let mut cancelled = begin(&server, &session, 6).await;
        let mut waiting = begin(&server, &session, 7).await;
        let cancel = json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": { "requestId": 6 }
        });
        assert_eq!(server.in_session(READ, &session, &cancel).await.status, 202);
        assert_eq!(rest(&mut cancelled).await, Vec::<Value>::new(), "{revision}");
        let id = ("mcp-session-id", session.as_str());
        assert_eq!(server.connect().await.delete(READ, &[id]).await.status, 204);
        let messages = rest(&mut waiting).await;
        let [error] = messages.as_slice() else { panic!("{revision}: {messages:?}") };
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!(7), &json!(-31410)));
        let text = error["error"]["message"].as_str().unwrap();
        assert!(text.contains("begin a new session"), "{text}");
    }
}

/// mcp-remote 0.1, Gemini CLI 0.61 and fastmcp 3 wait for ever for a request without an answer.
#[tokio::test]
async fn every_request_beside_the_end_of_its_session_is_answered_or_404() {
    let server = Server::start().await;
    for round in 0..12 {
        let session = server.open(READ).await;
        let ask = async |lane: i64| {
            let mut client = server.connect().await;
            for number in 0.. {
                let id = lane * 100_000 + number;
                let headers = [("mcp-session-id", session.as_str())];
                let reply =
                    client.post(READ, &headers, &request(id, "tools/list", json!({}))).await;
                match reply.status {
                    200 => assert_eq!(reply.json()["id"], id, "round {round}: {reply:?}"),
                    404 => return,
                    _ => panic!("round {round}: {reply:?}"),
                }
            }
        };
        let lanes = futures::future::join_all((1..=8).map(ask));
        let (_, deleted) = tokio::join!(lanes, async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            let id = ("mcp-session-id", session.as_str());
            server.connect().await.delete(READ, &[id]).await
        });
        assert_eq!(deleted.status, 204);
    }
}

#[tokio::test]
async fn a_call_whose_caller_may_do_less_meanwhile_ends_with_an_error_in_either_lifecycle() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    let mut waiting = begin(&server, &session, 7).await;
    let arguments = json!({ "name": "test.sleeps", "arguments": { "milliseconds": 600_000 } });
    let (messages, sessionless, ()) = tokio::join!(
        rest(&mut waiting),
        server.sessionless(READ, "tools/call", arguments),
        async {
            server.rights.lock().unwrap().insert("ann".to_owned(), "read:/work/");
        }
    );
    let ended = json!(-31410);
    let last = messages.last().unwrap();
    assert_eq!((&last["id"], &last["error"]["code"]), (&json!(7), &ended), "{messages:?}");
    assert_eq!((sessionless.status, &sessionless.json()["error"]["code"]), (200, &ended));
}
