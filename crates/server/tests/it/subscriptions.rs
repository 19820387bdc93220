//! Subscriptions: a client is told of changes that its token covers, and of nothing else.

use std::fs;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{BOB, Client, NOTHING, PATIENCE, READ, Server, WORK, call, meta, request};

/// A token that may read all but one folder.
const MOST: &str = "ann;-;read:/_deny:/work/secret;3600";

/// Opens the event stream of a session.
async fn stream(server: &Server, token: &str, session: &str) -> Client {
    let headers = [("mcp-session-id", session), ("accept", "text/event-stream")];
    let mut stream = server.connect().await;
    stream.send(format!("{}\r\n", Client::head("GET", "/mcp", token, &headers))).await;
    assert_eq!(stream.reply_head().await.unwrap().status, 200);
    stream
}

/// Opens a `subscriptions/listen`.
async fn listen(server: &Server, token: &str, uris: &[&str]) -> Client {
    let params = json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": meta() });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let body = request(7, "subscriptions/listen", params).to_string();
    let mut stream = server.connect().await;
    stream.send(Client::post_bytes(token, &headers, body.as_bytes())).await;
    assert_eq!(stream.reply_head().await.unwrap().status, 200);
    let first = next(&mut stream).await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    let accepted = first["params"]["notifications"]["resourceSubscriptions"].clone();
    // Each address is told once, since it may have changed before it was watched.
    let mut told = Vec::new();
    for _ in accepted.as_array().unwrap() {
        told.push(changed(&mut stream).await);
    }
    assert!(uris.iter().filter(|uri| !uri.starts_with("pdpp:")).eq(told.iter()) || told.len() == 2);
    stream
}

/// Reads the next message of an event stream; `None` at its end.
async fn next(stream: &mut Client) -> Option<Value> {
    loop {
        let piece = timeout(PATIENCE, stream.piece()).await.expect("the stream is silent")?;
        let data = piece.lines().find_map(|line| line.strip_prefix("data: "));
        if let Some(message) = data.and_then(|data| serde_json::from_str(data).ok()) {
            return Some(message);
        }
    }
}

/// Waits for the notification of a change, and returns its address.
async fn changed(stream: &mut Client) -> String {
    let message = next(stream).await.expect("the stream ended");
    assert_eq!(message["method"], "notifications/resources/updated", "{message}");
    message["params"]["uri"].as_str().unwrap().to_owned()
}

async fn subscribe(server: &Server, token: &str, session: &str, uri: &str) -> Value {
    let body = request(1, "resources/subscribe", json!({ "uri": uri }));
    let reply = server.in_session(token, session, &body).await;
    let data = reply.body.lines().find_map(|line| line.strip_prefix("data: {"));
    data.map_or_else(|| reply.json(), |data| serde_json::from_str(&format!("{{{data}")).unwrap())
}

async fn start() -> Server {
    let server = Server::start().await;
    fs::create_dir_all(server.root().join("work/secret")).unwrap();
    fs::write(server.root().join("work/plan.md"), "plan\n").unwrap();
    server
}

#[tokio::test]
async fn a_session_is_told_of_a_person_s_change_and_of_an_agent_s() {
    let server = start().await;
    let session = server.open(READ).await;
    let mut events = stream(&server, READ, &session).await;
    for uri in ["list:///work", "list:///work/plan.md"] {
        let answer = subscribe(&server, READ, &session, uri).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    fs::write(server.root().join("work/new.md"), "").unwrap();
    assert_eq!(changed(&mut events).await, "list:///work");
    let writer = server.open("ann;other;write:/;3600").await;
    let append = json!({
        "path": "/work/plan.md", "content": "more",
        "hash": stile_domain::hash::ContentHash::digest(b"plan\n"),
    });
    let append = call(2, "text.append", append);
    let edited = server.in_session("ann;other;write:/;3600", &writer, &append).await;
    assert_eq!(edited.status, 200);
    let mut told = [changed(&mut events).await, changed(&mut events).await];
    told.sort();
    assert_eq!(told, ["list:///work", "list:///work/plan.md"]);
    let body = request(3, "resources/unsubscribe", json!({ "uri": "list:///work" }));
    assert_eq!(server.in_session(READ, &session, &body).await.status, 200);
    fs::write(server.root().join("work/plan.md"), "by a person\n").unwrap();
    assert_eq!(changed(&mut events).await, "list:///work/plan.md");
}

#[tokio::test]
async fn a_client_that_only_listens_keeps_its_session_and_its_subscriptions() {
    let idle = std::time::Duration::from_millis(300);
    let server = Server::with(|options| options.session_idle = idle).await;
    fs::create_dir_all(server.root().join("work")).unwrap();
    let session = server.open(READ).await;
    let mut events = stream(&server, READ, &session).await;
    let answer = subscribe(&server, READ, &session, "space:///work").await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    tokio::time::sleep(idle * 4).await;
    // A session that opens puts those away that are idle.
    server.open(READ).await;
    fs::write(server.root().join("work/new.md"), "").unwrap();
    assert_eq!(changed(&mut events).await, "space:///work");
    assert_eq!(server.in_session(READ, &session, &request(2, "ping", json!({}))).await.status, 200);
}

#[tokio::test]
async fn the_address_of_a_file_or_a_folder_is_watched_in_both_lifecycles() {
    let server = start().await;
    let uris = ["space:///work", "space:///work/plan.md"];
    let session = server.open(MOST).await;
    let mut of_session = stream(&server, MOST, &session).await;
    for uri in uris {
        let answer = subscribe(&server, MOST, &session, uri).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    let mut of_request = listen(&server, MOST, &uris).await;
    // The scopes hide this change.
    fs::write(server.root().join("work/secret/hidden.md"), "").unwrap();
    fs::write(server.root().join("work/plan.md"), "changed\n").unwrap();
    for events in [&mut of_session, &mut of_request] {
        let mut told = [changed(events).await, changed(events).await];
        told.sort();
        assert_eq!(told, uris);
    }
    for uri in ["space:///work/secret", "space:///work/secret/hidden.md", "space:///work/secret/x"]
    {
        let body = request(1, "resources/subscribe", json!({ "uri": uri }));
        assert_eq!(server.in_session(MOST, &session, &body).await.status, 403, "{uri}");
    }
}

#[tokio::test]
async fn without_a_session_one_request_listens_to_several_addresses() {
    let server = start().await;
    let mut events = listen(&server, READ, &["list:///work", "list:///", "pdpp://record/x"]).await;
    fs::write(server.root().join("work/new.md"), "").unwrap();
    let told = next(&mut events).await.unwrap();
    assert_eq!(told["params"]["uri"], "list:///work");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7, "{told}");
    fs::write(server.root().join("top.md"), "").unwrap();
    assert_eq!(changed(&mut events).await, "list:///");
}

#[tokio::test]
async fn what_the_token_does_not_cover_is_refused_before_it_is_looked_up() {
    let server = start().await;
    let session = server.open(NOTHING).await;
    for uri in ["list:///work", "list:///none"] {
        let body = request(1, "resources/subscribe", json!({ "uri": uri }));
        let reply = server.in_session(NOTHING, &session, &body).await;
        assert_eq!(reply.status, 403, "{reply:?}");
    }
    for uri in ["list:///other", "list:///none"] {
        let params = json!({ "notifications": { "resourceSubscriptions": ["list:///work", uri] } });
        let reply = server.sessionless(WORK, "subscriptions/listen", params).await;
        assert_eq!(reply.status, 403, "{reply:?}");
    }
    let session = server.open(READ).await;
    for (uri, code) in [("list:///none", "not_found"), ("pdpp://record/x", "not_watched")] {
        let answer = subscribe(&server, READ, &session, uri).await;
        assert_eq!(answer["error"]["data"]["code"], code, "{answer}");
    }
}

#[tokio::test]
async fn a_change_that_the_scopes_hide_is_not_told() {
    let server = start().await;
    let mut events = listen(&server, MOST, &["list:///work"]).await;
    // Others are told of the hidden change, so it has been dealt with.
    let mut all = listen(&server, READ, &["list:///work", "list:///work/secret"]).await;
    fs::remove_dir(server.root().join("work/secret")).unwrap();
    changed(&mut all).await;
    fs::write(server.root().join("work/open.md"), "").unwrap();
    changed(&mut events).await;
    let mut more = listen(&server, MOST, &["list:///work/plan.md"]).await;
    fs::write(server.root().join("work/plan.md"), "changed\n").unwrap();
    assert_eq!(changed(&mut more).await, "list:///work/plan.md");
}

#[tokio::test]
async fn a_stream_with_other_scopes_than_the_subscription_is_not_told() {
    let server = start().await;
    let session = server.open(READ).await;
    // The same user with a token that may read less.
    let mut narrow = stream(&server, NOTHING, &session).await;
    subscribe(&server, READ, &session, "list:///work").await;
    let mut other = listen(&server, READ, &["list:///work"]).await;
    fs::write(server.root().join("work/new.md"), "").unwrap();
    changed(&mut other).await;
    let body = request(9, "ping", json!({}));
    assert_eq!(server.in_session(READ, &session, &body).await.status, 200);
    let silent = timeout(std::time::Duration::from_millis(500), next(&mut narrow)).await;
    assert!(silent.is_err(), "{silent:?}");
}

#[tokio::test]
async fn a_stream_begins_with_nothing_that_another_one_was_told() {
    let server = start().await;
    let session = server.open(READ).await;
    let mut first = stream(&server, READ, &session).await;
    subscribe(&server, READ, &session, "list:///work").await;
    fs::write(server.root().join("work/new.md"), "").unwrap();
    assert_eq!(changed(&mut first).await, "list:///work");
    drop(first);
    let mut all = listen(&server, READ, &["list:///work"]).await;
    fs::write(server.root().join("work/newer.md"), "").unwrap();
    changed(&mut all).await;
    // The same user with a token that may read less.
    let mut narrow = stream(&server, NOTHING, &session).await;
    let told = timeout(std::time::Duration::from_millis(500), async {
        while next(&mut narrow).await.unwrap()["method"] != "notifications/resources/updated" {}
    });
    assert!(told.await.is_err(), "a narrower token is told what another one was told");
}

#[tokio::test]
async fn a_guarded_file_is_watched_by_nobody_who_may_not_read_it() {
    let server = start().await;
    fs::write(server.root().join("work/.env"), "KEY=1\n").unwrap();
    let session = server.open(READ).await;
    // Whether a file is there or not, the answer is the same.
    for uri in ["space:///work/.env", "space:///work/.env.local"] {
        let answer = subscribe(&server, READ, &session, uri).await;
        assert_eq!(answer["error"]["data"]["code"], "guarded", "{answer}");
    }
}

#[tokio::test]
async fn a_subscription_that_came_after_rights_were_added_reaches_the_stream_from_before() {
    let server = start().await;
    let session = server.open(WORK).await;
    let mut events = stream(&server, WORK, &session).await;
    server.rights.lock().unwrap().insert("ann".to_owned(), "read:/work/ read:/other/");
    fs::create_dir_all(server.root().join("other")).unwrap();
    let widened = "ann;-;read:/work/_read:/other/;3600";
    subscribe(&server, widened, &session, "list:///other").await;
    fs::write(server.root().join("other/new.md"), "").unwrap();
    // Its lists have changed, too.
    while next(&mut events).await.unwrap()["method"] != "notifications/resources/updated" {}
}

#[tokio::test]
async fn a_subscription_goes_on_with_the_rights_that_are_left_in_both_lifecycles() {
    let server = start().await;
    let session = server.open(READ).await;
    let mut of_session = stream(&server, READ, &session).await;
    for uri in ["space:///work", "space:///"] {
        subscribe(&server, READ, &session, uri).await;
    }
    let mut of_request = listen(&server, READ, &["space:///work", "space:///"]).await;
    server.rights.lock().unwrap().insert("ann".to_owned(), "read:/work/");
    fs::write(server.root().join("work/plan.md"), "changed\n").unwrap();
    fs::write(server.root().join("top.md"), "").unwrap();
    for events in [&mut of_session, &mut of_request] {
        let uri = loop {
            if let Some(uri) = changed_or_lists(events).await {
                break uri;
            }
        };
        assert_eq!(uri, "space:///work", "the other one is covered no longer");
    }
}

/// Waits for a message, and returns the address that it names; `None` for one about lists.
async fn changed_or_lists(stream: &mut Client) -> Option<String> {
    let message = next(stream).await.expect("the stream ended");
    message["params"]["uri"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_subscription_ends_with_its_token() {
    let server = start().await;
    let mut events = listen(&server, "ann;-;read:/;1.5", &["list:///work"]).await;
    while next(&mut events).await.is_some() {}
}

#[tokio::test]
async fn a_server_that_stops_ends_a_subscription_with_its_result() {
    let mut server = start().await;
    let mut events = listen(&server, BOB, &["list:///work"]).await;
    server.tell_to_stop();
    let last = next(&mut events).await.unwrap();
    assert_eq!((&last["id"], last["result"].is_object()), (&json!(7), true), "{last}");
    server.stopped().await;
}

#[tokio::test]
async fn a_subscription_holds_no_share_of_the_calls() {
    let server = start().await;
    let mut open = Vec::new();
    for _ in 0..40 {
        open.push(listen(&server, READ, &["list:///work"]).await);
    }
    let listed = server.sessionless(READ, "tools/list", json!({})).await;
    assert_eq!(listed.status, 200);
    let read = json!({ "name": "text.read", "arguments": { "path": "/work/plan.md" } });
    assert_eq!(server.sessionless(READ, "tools/call", read).await.status, 200);
}
