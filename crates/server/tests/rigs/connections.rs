//! Many clients keep their connections open at once.
//!
//! Law: each of them is answered on the connection that it opened, again and again, a connection
//! takes at most 32 KB, and when all have gone the server has as many descriptors as before.
//!
//! No user may keep most of the connections, so the connections belong to many users. And known
//! callers share half of all connections only.

use std::time::{Duration, Instant};

use serde_json::json;
use stile_testkit::chance::scaled_long;
use stile_testkit::process::Rig;

use crate::doors::binary;
use crate::usage::Usage;

/// The memory that a connection may take, in bytes.
const MOST_EACH: u64 = 32 << 10;
/// How soon after the last client has gone everything is given back.
const SETTLES: Duration = Duration::from_secs(30);
/// How often each client asks.
const ROUNDS: usize = 3;
const USERS: usize = 20;

#[test]
fn clients_that_keep_their_connections_are_all_answered_and_leave_nothing() {
    let count = scaled_long(200, 2_000, 5_000);
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), binary());
    std::fs::write(rig.root.join("small.md"), "# Small\n").unwrap();
    let tokens: Vec<String> = (0..USERS)
        .map(|user| rig.token(&["read:/"], &["--user", &format!("user {user}")]))
        .collect();
    let most = (2 * (count + count / 5)).to_string();
    let server = rig.serve(&["--max-connections", &most, "--rate-per-second", "1000000"]);
    let read = || json!({ "name": "text.read", "arguments": { "path": "/small.md" } });
    assert_eq!(server.client(&tokens[0]).post("tools/call", read()).unwrap().status, 200);
    let idle = Usage::of(&server, &rig.state);
    let mut clients: Vec<_> =
        (0..count).map(|number| server.client(&tokens[number % USERS])).collect();
    let began = Instant::now();
    for round in 0..ROUNDS {
        for (number, client) in clients.iter_mut().enumerate() {
            let reply = client.post("tools/call", read()).unwrap();
            let content = &reply.json()["result"]["structuredContent"]["content"];
            assert_eq!(content, "# Small\n", "client {number}, round {round}: {reply:?}");
            assert_eq!(reply.header("connection"), None, "client {number}, round {round}");
        }
    }
    let took = began.elapsed();
    let most = Usage::of(&server, &rig.state);
    println!("{count} connections, {ROUNDS} calls on each in {took:.1?}: idle {idle}; held {most}");
    assert!(most.descriptors >= count, "{most}");
    assert!(most.memory <= idle.memory + (8 << 20) + MOST_EACH * count as u64, "{most}");
    drop(clients);
    let gone = Instant::now();
    loop {
        let now = Usage::of(&server, &rig.state);
        if now.descriptors <= idle.descriptors + 4 {
            break;
        }
        assert!(gone.elapsed() < SETTLES, "idle {idle}; afterwards {now}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.stop().0.success());
}
