//! The server is killed at random instants while it takes records in and others read, and started
//! again.
//!
//! Law: what was stored are whole batches, every record is whole, and a reader never sees half of
//! one. Each row says the same thing in a short field and, many times over, in a long one that is
//! kept in pieces.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use stile_testkit::chance::{Chance, scaled, seed};
use stile_testkit::process::{Rig, Server};

use crate::doors::binary;

/// Rows of a batch of the server.
const BATCH: u64 = 1000;

fn get(server: &Server, token: &str, target: &str) -> Option<Value> {
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        server.address
    );
    let reply = server.client(token).send(head.as_bytes()).ok()?;
    assert!(reply.status == 200 || reply.status == 404, "{}", String::from_utf8_lossy(&reply.body));
    (reply.status == 200).then(|| reply.json())
}

/// Sends rows until the server is gone or all are sent.
fn ingest(server: &Server, token: &str, first: u64, rows: u64) {
    let Ok(mut stream) = TcpStream::connect(server.address) else { return };
    let head = format!(
        "POST /v1/ingest/rows?connection_id=rig HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        server.address
    );
    let _ = stream.write_all(head.as_bytes());
    for row in first..first + rows {
        let long = format!("{row} ").repeat(300);
        let line = format!("{{\"data\":{{\"id\":\"r{row}\",\"n\":{row},\"long\":\"{long}\"}}}}\n");
        if stream.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes()).is_err() {
            return;
        }
    }
    let _ = stream.write_all(b"0\r\n\r\n");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
}

/// Reads a page and checks that each record says one thing.
fn check_page(page: &Value) {
    for record in page["data"].as_array().unwrap() {
        let number = record["data"]["n"].as_u64().unwrap();
        assert_eq!(record["data"]["long"], format!("{number} ").repeat(300), "a record is whole");
        assert_eq!(record["id"], format!("r{number}"));
    }
}

#[test]
fn a_killed_ingest_leaves_whole_batches() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut chance = Chance::of(seed);
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), binary());
    let token = rig.token(&[], &["--owner"]);
    let mut stored = 0;
    // The kill comes at a random instant below this. It is doubled while nothing was stored, since
    // a slow machine may need longer than this for the first batch.
    let mut longest = Duration::from_secs(2);
    let mut rounds = scaled(6, 40);
    while rounds > 0 {
        rounds -= 1;
        let server = rig.serve(&[]);
        let wait = longest.mul_f64(chance.below(1_000_000) as f64 / 1e6);
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| ingest(&server, &token, stored, 20 * BATCH));
            scope.spawn(|| {
                while !killed.load(Ordering::Relaxed) {
                    let Some(page) = get(&server, &token, "/v1/streams/rows/records?limit=5")
                    else {
                        continue;
                    };
                    check_page(&page);
                }
            });
            let until = Instant::now() + wait;
            while Instant::now() < until {
                std::thread::yield_now();
            }
            killed.store(true, Ordering::Relaxed);
            let id = rustix::process::Pid::from_raw(server.id().try_into().unwrap()).unwrap();
            rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        });
        drop(server);
        let server = rig.serve(&[]);
        if let Some(page) = get(&server, &token, "/v1/streams/rows/records?limit=100") {
            check_page(&page);
            let streams = get(&server, &token, "/v1/streams").unwrap();
            let count = streams["data"][0]["record_count"].as_u64().unwrap();
            assert_eq!(count % BATCH, 0, "whole batches: {count}");
            assert!(count >= stored, "nothing that was there is gone");
            stored = count;
        }
        if stored == 0 && longest < Duration::from_secs(60) {
            longest *= 2;
            rounds = rounds.max(1);
        }
        let (status, log) = server.stop();
        assert!(status.success(), "{}", String::from_utf8_lossy(&log));
    }
    assert!(stored > 0, "something was stored between two kills");
}
