//! Stopping: what runs is finished, what listens is ended, and it does not take long.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::TcpStream;

use crate::support::{Client, READ, Server, call, end_waits, meta, request, waits_began};

#[tokio::test]
async fn stopping_answers_running_calls_and_ends_streams() {
    let mut server = Server::start().await;
    let session = server.open(READ).await;
    let id = ("mcp-session-id", session.as_str());
    let mut stream = server.connect().await;
    stream
        .send(format!(
            "{}\r\n",
            Client::head("GET", "/mcp", READ, &[id, ("accept", "text/event-stream")])
        ))
        .await;
    assert_eq!(stream.reply_head().await.unwrap().status, 200);
    let mut idle = server.connect().await;
    assert_eq!(idle.get("/health", "", &[]).await.status, 200);

    let mut legacy = server.connect().await;
    let name = "a server that stops";
    let slow = json!({ "name": name });
    legacy
        .send(Client::post_bytes(
            READ,
            &[id],
            call(1, "test.waits", slow.clone()).to_string().as_bytes(),
        ))
        .await;
    let mut modern = server.connect().await;
    let params = json!({ "name": "test.waits", "arguments": slow, "_meta": meta() });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "test.waits"),
    ];
    modern
        .send(Client::post_bytes(
            READ,
            &headers,
            request(1, "tools/call", params).to_string().as_bytes(),
        ))
        .await;
    waits_began(name, 2).await;

    // The rest of this call comes after the server was told to stop.
    let mut late = server.connect().await;
    let sent = Client::post_bytes(
        READ,
        &headers,
        request(
            2,
            "tools/call",
            json!({
                "name": "test.waits", "arguments": { "name": name }, "_meta": meta()
            }),
        )
        .to_string()
        .as_bytes(),
    );
    let (begun, rest) = sent.split_at(sent.len() - 10);
    late.send(begun.to_vec()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;

    let start = Instant::now();
    server.tell_to_stop();
    while TcpStream::connect(server.address).await.is_ok() {}
    late.send(rest.to_vec()).await;
    waits_began(name, 3).await;
    end_waits(name);
    let late = late.reply().await;
    assert_eq!((late.status, late.header("connection")), (200, Some("close")));
    let address = server.address;
    let (legacy, modern, (), ()) =
        tokio::join!(legacy.reply(), modern.reply(), stream.closed(), idle.closed());
    // The head of an event stream was sent before the server was told to stop.
    for answered in [&legacy, &modern] {
        let is_stream = answered.header("content-type") == Some("text/event-stream");
        assert_eq!(answered.header("connection").is_none(), is_stream);
    }
    assert_eq!(legacy.json()["result"]["structuredContent"]["done"], true);
    assert_eq!(modern.json()["result"]["structuredContent"]["done"], true);
    server.stopped().await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn stopping_waits_only_so_long_for_a_call_that_does_not_end() {
    let mut server =
        Server::with(|options| options.timeouts.drain = Duration::from_millis(300)).await;
    let mut client = server.connect().await;
    let session = server.open(READ).await;
    let name = "a call that does not end";
    let slow = call(1, "test.waits", json!({ "name": name }));
    client
        .send(Client::post_bytes(
            READ,
            &[("mcp-session-id", &session)],
            slow.to_string().as_bytes(),
        ))
        .await;
    let mut half = server.connect().await;
    half.send("GET /he").await;
    waits_began(name, 1).await;
    let start = Instant::now();
    server.tell_to_stop();
    server.stopped().await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}
