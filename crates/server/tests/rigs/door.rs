//! Strangers without a token do what would keep a caller with a token out, or waiting.
//!
//! Law: whatever strangers do, no connection of the victim is reset, no request of the victim is
//! refused, and the 99th percentile is at most four times what it is alone in the same run. A test
//! run allows a second more, as for greedy neighbours; `STILE_RIG_BOUND=promised` asserts the
//! factor alone.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use stile_testkit::chance::scaled;
use stile_testkit::client::Http;
use stile_testkit::process::Server;

use crate::neighbours::{Attacker, Bound, assert_undisturbed_within};
use crate::sign_in_kit::{Place, ScriptedClient};

/// The connections that the victim keeps and uses in turn.
const CONNECTIONS: usize = 8;

const BOUND: Bound = Bound { factor: 4, promised_millis: 0 };

/// The most connections that one attacker has open at once.
fn at_once() -> usize {
    scaled(300, 4_300)
}

/// Opens a connection and sends the beginning of a request.
fn begin(server: &Server, bytes: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(server.address).ok()?;
    stream.write_all(bytes).ok()?;
    Some(stream)
}

/// Sends the beginning of a request again and again, and keeps so many connections.
fn half_sent(server: &Server, bytes: &[u8], most: usize, stop: &AtomicBool) {
    let mut held = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        held.push_back(begin(server, bytes));
        if held.len() > most {
            held.pop_front();
        }
    }
}

fn half_body(target: &str) -> Vec<u8> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n");
    let kind = "Content-Type: application/x-www-form-urlencoded\r\n\r\ngrant_type=";
    [head.as_bytes(), kind.as_bytes()].concat()
}

/// Sends requests one after another on kept connections, whatever the answers are.
fn repeat(server: &Server, request: impl Fn(usize) -> Vec<u8>, stop: &AtomicBool) {
    let mut client = server.client("");
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let _ = client.send(&request(number));
    }
}

fn post(target: &str, kind: &str, more: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{more}\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A registration that a proxy forwards for an address of one /64.
fn registration(number: usize) -> Vec<u8> {
    let body = json!({ "client_name": "Editor", "redirect_uris": ["https://a.example/b"] });
    let more = format!("X-Forwarded-For: 2001:db8::{:x}\r\n", number % 0xffff);
    post("/oauth/register", "application/json", &more, &body.to_string())
}

/// A renewal with a token that nobody has.
fn wrong_renewal(number: usize) -> Vec<u8> {
    let form = format!("grant_type=refresh_token&client_id=x&refresh_token={number}");
    let more = format!("X-Forwarded-For: 192.0.2.{}\r\n", number % 250);
    post("/oauth/token", "application/x-www-form-urlencoded", &more, &form)
}

/// A victim that reads a small file on connections that it keeps. A connection that was reset fails
/// the rig.
fn victim(server: &Server, token: &str) -> impl FnMut() {
    let mut clients: Vec<Http> = (0..CONNECTIONS).map(|_| server.client(token)).collect();
    let mut number = 0;
    move || {
        number += 1;
        let client = &mut clients[number % CONNECTIONS];
        let call = json!({ "name": "text.read", "arguments": { "path": "/work/plan.md" } });
        // This fails if the connection was reset.
        let reply = client.post("tools/call", call).unwrap();
        assert_eq!(reply.json()["result"]["isError"], false, "{reply:?}");
        assert_eq!(reply.header("connection"), None, "{reply:?}");
    }
}

/// Runs attacks one after another on a server of their own, and then all at once.
#[test]
fn strangers_reset_no_connection_of_a_token_holder_and_slow_none_much() {
    let place = Place::with(&["--rate-per-second", "1000000", "--behind-proxy", "127.0.0.1"]);
    let token = place.rig.token(&["read:/"], &["--owner"]);
    let server = &place.server;
    let ways = ["/oauth/token", "/oauth/register", "/mcp", "/v1/streams", "/sign-in", "/health"];
    let half_bodies = |stop: &AtomicBool| {
        std::thread::scope(|scope| {
            for way in ways {
                scope.spawn(move || {
                    half_sent(server, &half_body(way), at_once() / ways.len(), stop)
                });
            }
        });
    };
    let attacks: [(&str, Attacker<'_>); 5] = [
        ("half-sent bodies to every way in", Box::new(half_bodies)),
        (
            "half-sent heads",
            Box::new(|stop| half_sent(server, b"POST /mcp HTTP/1.1\r\nHost: lo", at_once(), stop)),
        ),
        ("connections that send nothing", Box::new(|stop| half_sent(server, b"", at_once(), stop))),
        ("registrations from one /64", Box::new(|stop| repeat(server, registration, stop))),
        ("renewals with unknown tokens", Box::new(|stop| repeat(server, wrong_renewal, stop))),
    ];
    for (name, attack) in attacks {
        let again = |stop: &AtomicBool| attack(stop);
        assert_undisturbed_within(
            BOUND,
            name,
            server,
            victim(server, &token),
            vec![Box::new(again)],
        );
    }
}

#[test]
fn a_client_that_renews_in_a_loop_slows_no_other_much() {
    let place = Place::with(&["--rate-per-second", "1000000"]);
    let token = place.rig.token(&["read:/"], &["--owner"]);
    let mut browser = place.signed_in_browser();
    let client = ScriptedClient::connect(&place.url());
    let first = client.tokens(&mut browser, "read:/work/");
    let first = first["refresh_token"].as_str().unwrap().to_owned();
    let renews: Attacker<'_> = Box::new(move |stop| {
        let mut refresh = first.clone();
        while !stop.load(Ordering::Relaxed) {
            let reply = client.refresh(&refresh);
            if let Some(next) = reply.json()["refresh_token"].as_str() {
                next.clone_into(&mut refresh);
            }
        }
    });
    let victim = victim(&place.server, &token);
    assert_undisturbed_within(BOUND, "renewals in a loop", &place.server, victim, vec![renews]);
}
