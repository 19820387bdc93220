//! Clients that mean harm, or are merely broken: each gets a clear answer and nobody else notices.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::json;

use crate::support::{Client, READ, Server, WRITE, request};

/// Python SDK 2.3.0 sends head and body one after the other, and its next request, with the token
/// that it fetched meanwhile, on the same connection.
#[test]
fn a_connection_is_used_again_after_a_refusal_that_came_before_the_body() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    let mut stream = std::net::TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    for number in 0..3 {
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer none\r\n\
                    Content-Type: application/json\r\nContent-Length: 2\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(b"{}").unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"}") {
            let mut piece = [0; 1024];
            let read = stream.read(&mut piece).unwrap();
            assert_ne!(read, 0, "request {number}: the connection was closed");
            said.extend_from_slice(&piece[..read]);
        }
        assert!(said.starts_with(b"HTTP/1.1 401 "), "{}", String::from_utf8_lossy(&said));
    }
}

#[tokio::test]
async fn a_body_that_is_not_a_message_gets_the_json_rpc_error_code() {
    let server = Server::start().await;
    let session = server.open(WRITE).await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}1{}}}}}"#,
        "[".repeat(100),
        "]".repeat(100)
    );
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("null", -32600),
        ("\u{feff}{}", -32700),
        (r#"{"jsonrpc":"2.0","id":1e999,"method":"ping"}"#, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} {}"#, -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":["ping"]}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, -32602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text.read","name":"file.create"}}"#,
            -32600,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping"}"#, -32600),
        (deep.as_str(), -32600),
    ] {
        let reply =
            server.connect().await.post_text(WRITE, &[("mcp-session-id", &session)], body).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(code)), "{body}");
        assert_ne!(reply.json().get("id"), Some(&json!(null)), "{body}");
    }
    assert_eq!(
        server.in_session(WRITE, &session, &request(1, "ping", json!({}))).await.status,
        200
    );
}

#[tokio::test]
async fn unrequested_answers_do_no_harm() {
    let server = Server::start().await;
    let session = server.open(WRITE).await;
    for body in [
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "x", "result": { "anything": [1] } }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -1, "message": "no" } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 99 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {} }),
        json!({ "jsonrpc": "2.0", "method": "tools/call", "params": { "name": "file.create" } }),
        json!({ "jsonrpc": "2.0", "method": "anything", "params": { "x": 1 } }),
    ] {
        let reply = server.in_session(WRITE, &session, &body).await;
        assert_eq!(reply.status, 202, "{body} {reply:?}");
    }
    assert_eq!(
        server.in_session(WRITE, &session, &request(1, "ping", json!({}))).await.status,
        200
    );
}

#[tokio::test]
async fn requests_that_two_parsers_may_read_differently_are_refused_and_the_connection_closed() {
    let server = Server::start().await;
    let body = request(1, "ping", json!({})).to_string();
    let length = body.len();
    let auth = format!("authorization: Bearer {READ}\r\n");
    for head in [
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n{auth}content-length: {length}\r\n\r\n"
        ),
        format!("POST /mcp HTTP/1.1\r\n{auth}content-length: {length}\r\n\r\n"),
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{auth}content-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n"
        ),
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{auth}transfer-encoding: chunked\r\ncontent-length: {length}\r\n\r\n"
        ),
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{auth}content-length: {length}\r\ncontent-length: 0\r\n\r\n"
        ),
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{auth}content-length: {length}\r\ncontent-length: {length}\r\n\r\n"
        ),
        format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{auth}content_length: {length}\r\n\r\n"),
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{auth}Transfer_Encoding: chunked\r\n\r\n"
        ),
        format!("POST http://localhost/mcp HTTP/1.1\r\nhost: localhost\r\n{auth}\r\n"),
        format!("CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n{auth}\r\n"),
        format!("OPTIONS * HTTP/1.1\r\nhost: localhost\r\n{auth}\r\n"),
        format!("GET localhost:80 HTTP/1.1\r\nhost: localhost\r\n{auth}\r\n"),
        format!("POST /mcp HTTP/1.1\nhost: localhost\n{auth}\n"),
        format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{auth}x: 1\r\n y: 2\r\n\r\n"),
        format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{auth}content-length : {length}\r\n\r\n"),
    ] {
        let mut client = server.connect().await;
        client.send(format!("{head}{body}GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        let reply = client.reply().await;
        assert_eq!(reply.status, 400, "{head} {reply:?}");
        assert!(client.reply_head().await.is_none(), "a second request was answered after {head}");
    }
}

#[tokio::test]
async fn a_chunked_request_is_answered_and_ends_its_connection() {
    let server = Server::start().await;
    let body = crate::support::initialize("2025-11-25", "test").to_string();
    let mut head = Client::head("POST", "/mcp", READ, &[("content-type", "application/json")]);
    head.push_str(
        "accept: application/json, text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    let mut client = server.connect().await;
    client
        .send(format!(
            "{head}{:x}\r\n{body}\r\n0\r\n\r\nGET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
            body.len()
        ))
        .await;
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert!(client.reply_head().await.is_none());
}

#[tokio::test]
async fn pipelined_requests_are_all_answered() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let one = Client::post_bytes(
        READ,
        &[],
        request(1, "x", json!({ "_meta": crate::support::meta() })).to_string().as_bytes(),
    );
    let health = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec();
    client.send([health.clone(), one, health].concat()).await;
    assert_eq!(client.reply().await.status, 200);
    assert_eq!(client.reply().await.status, 400);
    assert_eq!(client.reply().await.status, 200);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let long = "x".repeat(20 * 1024);
    client.send(format!("GET /health HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n")).await;
    let refused = client.reply().await;
    assert_eq!((refused.status, refused.header("connection")), (431, Some("close")));
    assert_eq!(refused.json()["error"], "headers_too_large");
    // A browser gets a page, most often because of the cookies of other programs.
    let mut browser = server.connect().await;
    let head = "GET / HTTP/1.1\r\nhost: localhost\r\naccept: text/html\r\ncookie: ";
    browser.send(format!("{head}{long}\r\n\r\n")).await;
    let page = browser.reply().await;
    assert_eq!(page.status, 431);
    assert!(page.body.contains("cookies") && page.body.contains("16 KB"), "{}", page.body);
    // The HTTP library reads no more than that.
    let mut endless = server.connect().await;
    endless.send(format!("{head}{}\r\n\r\n", long.repeat(4))).await;
    assert_eq!(endless.reply().await.status, 431);
}

#[tokio::test]
async fn the_rest_of_a_head_that_is_too_large_has_the_time_of_a_head() {
    let server = Server::with(|options| {
        options.timeouts.head = std::time::Duration::from_millis(200);
        options.timeouts.idle = std::time::Duration::from_secs(600);
    })
    .await;
    let mut client = server.connect().await;
    let long = "x".repeat(20 * 1024);
    client.send(format!("GET /health HTTP/1.1\r\nhost: localhost\r\nx: {long}")).await;
    client.closed().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_announced_or_not() {
    let server = Server::with(|options| options.max_body_bytes = 10_000).await;
    let large = "x".repeat(300_000);
    let announced = server.connect().await.post_text(READ, &[], &large).await;
    assert_eq!((announced.status, announced.header("connection")), (413, Some("close")));
    let mut client = server.connect().await;
    let mut head = Client::head("POST", "/mcp", READ, &[("content-type", "application/json")]);
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    client.send(format!("{head}{:x}\r\n{large}\r\n0\r\n\r\n", large.len())).await;
    assert_eq!(client.reply().await.status, 413);
    let fits = server.connect().await.post_text(READ, &[], &format!("{:<10000}", "7")).await;
    assert_eq!(fits.status, 400);
}

#[tokio::test]
async fn half_sent_heads_are_dropped_in_time_even_when_they_drip() {
    let server = Server::with(|options| options.timeouts.head = Duration::from_millis(300)).await;
    let mut silent = server.connect().await;
    let mut half = server.connect().await;
    half.send("GET /health HTTP/1.1\r\nhost: ").await;
    let mut dripping = server.connect().await;
    let drip = async {
        for _ in 0..100 {
            use tokio::io::AsyncWriteExt as _;
            if dripping.stream_mut().write_all(b"G").await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("a head that drips was waited for");
    };
    tokio::join!(silent.closed(), half.closed(), drip);
    let mut kept = server.connect().await;
    assert_eq!(kept.get("/health", "", &[]).await.status, 200);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(
        kept.get("/health", "", &[]).await.status,
        200,
        "an idle connection is not a half-sent head"
    );
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_a_while_and_a_busy_one_is_not() {
    let server = Server::with(|options| options.timeouts.idle = Duration::from_millis(300)).await;
    let mut idle = server.connect().await;
    assert_eq!(idle.get("/health", "", &[]).await.status, 200);
    idle.closed().await;
    let mut busy = server.connect().await;
    let slow = json!({ "name": "test.sleeps", "arguments": { "milliseconds": 1200 } });
    assert_eq!(busy.sessionless(READ, "tools/call", slow).await.status, 200);
    assert_eq!(busy.get("/health", "", &[]).await.status, 200);
}

#[tokio::test]
async fn a_body_that_stalls_or_drips_is_abandoned() {
    let server = Server::with(|options| {
        options.timeouts.stall = Duration::from_millis(300);
        options.timeouts.body = Duration::from_millis(900);
    })
    .await;
    let head = |length: usize| {
        let head = Client::head("POST", "/mcp", READ, &[("content-type", "application/json")]);
        format!("{head}content-length: {length}\r\n\r\n")
    };
    let mut stalled = server.connect().await;
    stalled.send(format!("{}{{", head(100))).await;
    let mut dripping = server.connect().await;
    dripping.send(head(100)).await;
    let drip = async {
        for _ in 0..8 {
            dripping.send(" ").await;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        dripping.reply().await.status
    };
    let (stalled, dripping) = tokio::join!(stalled.reply(), drip);
    assert_eq!((stalled.status, dripping), (408, 408));
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_disconnected() {
    let server = Server::with(|options| options.timeouts.stall = Duration::from_millis(300)).await;
    let session = server.open(READ).await;
    let flood = crate::support::call(2, "test.floods", json!({ "bytes": 5_000_000 }));
    // On a busy machine the server may not have written anything yet when this begins to read; then
    // it waits longer the next time.
    for pause in [1, 4, 16] {
        let mut client = server.connect().await;
        for _ in 0..4 {
            client
                .send(Client::post_bytes(
                    READ,
                    &[("mcp-session-id", &session)],
                    flood.to_string().as_bytes(),
                ))
                .await;
        }
        tokio::time::sleep(Duration::from_millis(1500) * pause).await;
        // What was sent before is still there to be read, and then the connection ends early.
        let mut whole = 0;
        while let Some(head) = client.reply_head().await {
            assert_eq!(head.status, 200);
            while client.piece().await.is_some() {}
            whole += 1;
        }
        if whole < 4 {
            return;
        }
    }
    panic!("it was given all the time it wanted");
}
