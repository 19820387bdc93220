//! Bounds that clients meet without doing wrong: rate, number, time.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use serde_json::json;

use stile_store::space::Space;
use stile_tools::tool::ToolEntry;

use crate::support::{
    BOB, Ground, PATIENCE, READ, Server, WALKS_BEGUN, WALKS_END, WRITE, Walks, call, end_waits,
    request, waits_began,
};

#[tokio::test]
async fn too_many_requests_of_one_subject_are_refused_with_a_time_to_retry() {
    let server = Server::with(|options| {
        options.rate_per_second = 1;
        options.rate_burst = 3;
    })
    .await;
    let ping = request(1, "ping", json!({}));
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(server.post(READ, &[], &ping).await);
    }
    assert_eq!(statuses.iter().map(|reply| reply.status).collect::<Vec<_>>(), [400, 400, 400, 429]);
    assert_eq!(statuses[3].header("retry-after"), Some("1"));
    assert_eq!(server.post(BOB, &[], &ping).await.status, 400, "another subject is not held back");
    let begun = Instant::now();
    let mut after = server.post(READ, &[], &ping).await;
    while after.status == 429 && begun.elapsed() < PATIENCE {
        after = server.post(READ, &[], &ping).await;
    }
    assert_eq!(after.status, 400);
}

/// With delayed acknowledgements and no `TCP_NODELAY`, the second piece of each event stream waits
/// 40 ms.
#[tokio::test]
async fn event_streams_on_one_connection_do_not_wait_for_acknowledgements() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    let mut client = server.connect().await;
    let mut times = Vec::new();
    for id in 0..20 {
        let start = Instant::now();
        let reply = client
            .post(READ, &[("mcp-session-id", &session)], &request(id, "ping", json!({})))
            .await;
        times.push(start.elapsed());
        assert!(reply.header("content-type").unwrap().starts_with("text/event-stream"));
    }
    times.sort();
    assert!(times[10] < Duration::from_millis(20), "{times:?}");
}

#[tokio::test]
async fn a_full_server_drops_the_longest_idle_and_keeps_the_busy() {
    let server = Server::with(|options| options.max_connections = 8).await;
    let session = server.open(READ).await;
    let mut busy = server.connect().await;
    let name = "a full server";
    let slow = call(1, "test.waits", json!({ "name": name }));
    busy.send(crate::support::Client::post_bytes(
        READ,
        &[("mcp-session-id", &session)],
        slow.to_string().as_bytes(),
    ))
    .await;
    waits_began(name, 1).await;
    let mut half_open = Vec::new();
    for _ in 0..40 {
        let mut client = server.connect().await;
        client.send("POST /mcp HTT").await;
        half_open.push(client);
    }
    for _ in 0..10 {
        let start = Instant::now();
        assert_eq!(server.connect().await.get("/health", "", &[]).await.status, 200);
        assert!(start.elapsed() < Duration::from_secs(1));
    }
    end_waits(name);
    assert_eq!(busy.reply().await.json()["result"]["structuredContent"]["done"], true);
}

#[tokio::test]
async fn many_half_sent_requests_do_not_slow_the_rest() {
    let server = Server::start().await;
    let mut half_open = Vec::new();
    for _ in 0..400 {
        let mut client = server.connect().await;
        client.send("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx").await;
        half_open.push(client);
    }
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(server.connect().await.get("/health", "", &[]).await.status, 200);
    }
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_listening_stream_ends_when_its_token_expires() {
    let server = Server::start().await;
    let token = "ann;-;read:/;2";
    let session = server.open(token).await;
    let mut stream = server.connect().await;
    let head = crate::support::Client::head(
        "GET",
        "/mcp",
        token,
        &[("accept", "text/event-stream"), ("mcp-session-id", &session)],
    );
    stream.send(format!("{head}\r\n")).await;
    assert_eq!(stream.reply_head().await.unwrap().status, 200);
    let start = Instant::now();
    let ended = async { while stream.piece().await.is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the stream goes on");
    assert!(start.elapsed() < Duration::from_secs(3));
    // A renewed token of the same caller goes on with the session.
    assert_eq!(server.in_session(READ, &session, &request(1, "ping", json!({}))).await.status, 200);
    assert_eq!(
        server.in_session(token, &session, &request(1, "ping", json!({}))).await.status,
        401
    );
}

/// The changes are more than all callers together may use threads.
#[tokio::test]
async fn changes_that_wait_for_a_lock_keep_neither_their_caller_nor_others_waiting() {
    let ground = Ground::real();
    let root = ground.root();
    let server = Server::on(ground, |_| {}).await;
    let call = async |token: &str, tool: &str, arguments| {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = server.sessionless(token, "tools/call", params).await;
        assert_eq!(reply.status, 200);
        assert_ne!(reply.json()["result"]["isError"], true, "{}", reply.json());
    };
    call(WRITE, "file.create", json!({ "path": "/free/a.md", "content": "text\n" })).await;
    let locked = open(&root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    flock(&locked, FlockOperation::NonBlockingLockExclusive).unwrap();
    let changes = join_all((0..26).map(|n| {
        let arguments = json!({ "path": format!("/{n}.md"), "content": "text\n" });
        call(WRITE, "file.create", arguments)
    }));
    let reads = async {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            for token in [WRITE, BOB] {
                let asked = Instant::now();
                call(token, "text.read", json!({ "path": "/free/a.md" })).await;
                assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
            }
        }
        drop(locked);
    };
    tokio::join!(changes, reads);
}

/// A search keeps a processor busy, so one client searches with as many threads as there are
/// processors, however many searches it begins.
#[tokio::test]
async fn searches_of_a_greedy_client_take_turns_and_keep_no_neighbour_waiting() {
    static WALKING: [ToolEntry<Space>; 1] = [ToolEntry::new::<Walks>()];
    let server = Server::on(Ground::with_tools(&WALKING), |_| {}).await;
    std::fs::write(server.root().join("a.md"), "text\n").unwrap();
    let of_client = std::thread::available_parallelism().map_or(2, |count| count.get()).max(2);
    let call = async |token: &str, tool: &str, arguments| {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = server.sessionless(token, "tools/call", params).await;
        assert_eq!(reply.json()["result"]["isError"], false, "{reply:?}");
    };
    let greedy = join_all((0..3 * of_client).map(|_| call(READ, "test.walks", json!({}))));
    let neighbour = async {
        while WALKS_BEGUN.load(Ordering::SeqCst) < of_client {
            tokio::task::yield_now().await;
        }
        // Whoever reads waits for no search, and another caller searches at once.
        for token in [READ, BOB] {
            call(token, "text.read", json!({ "path": "/a.md" })).await;
        }
        call(BOB, "text.search", json!({ "q": "text" })).await;
        assert_eq!(WALKS_BEGUN.load(Ordering::SeqCst), of_client, "the others wait");
        WALKS_END.close();
    };
    tokio::join!(greedy, neighbour);
    assert_eq!(WALKS_BEGUN.load(Ordering::SeqCst), 3 * of_client);
}
