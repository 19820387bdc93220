//! Strangers without a token, beside callers who have one.

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;
use stile_testkit::client::{Http, Reply, read_reply};
use stile_testkit::process::Server;

use crate::sign_in_kit::Place;

/// Longer than anything here may take, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with eight places for strangers and eight for verified callers.
const FEW: [&str; 2] = ["--max-connections", "16"];

/// The head of a request whose body never comes.
fn begun(target: &str) -> String {
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Length: 1000\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n\r\ngrant_type="
    )
}

/// Opens a connection, and sends the beginning of a request.
fn begin(server: &Server, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream
}

/// Waits until the server has closed a connection, whatever it sends before.
fn wait_until_closed(stream: &mut TcpStream) {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}

fn read_note(client: &mut Http) {
    let call = json!({ "name": "text.read", "arguments": { "path": "/work/plan.md" } });
    let reply = client.post("tools/call", call).expect("the connection stays");
    assert_eq!(reply.json()["result"]["structuredContent"]["content"], "the plan\n", "{reply:?}");
    assert_eq!(reply.header("connection"), None);
}

#[test]
fn half_sent_requests_of_strangers_close_no_connection_of_a_token_holder() {
    let place = Place::with(&FEW);
    let token = place.rig.token(&["read:/"], &["--owner"]);
    let mut known: Vec<Http> = (0..3).map(|_| place.server.client(&token)).collect();
    known.iter_mut().for_each(read_note);
    let half_head = "POST /oauth/token HTTP/1.1\r\nHost: local".to_owned();
    let ways = ["/oauth/token", "/oauth/register", "/mcp", "/v1/ingest/a", "/sign-in", "/health"];
    for bytes in ways.map(begun).into_iter().chain([half_head, String::new()]) {
        let mut strangers: Vec<TcpStream> = (0..40).map(|_| begin(&place.server, &bytes)).collect();
        // The bound is reached once the first of them was closed.
        wait_until_closed(&mut strangers[0]);
        known.iter_mut().for_each(read_note);
        // A place is left for one more caller with a token.
        read_note(&mut place.server.client(&token));
    }
}

#[test]
fn a_stranger_whose_request_is_whole_is_answered_beside_half_sent_ones() {
    let place = Place::with(&FEW);
    let _half_sent: Vec<TcpStream> =
        (0..40).map(|_| begin(&place.server, &begun("/oauth/token"))).collect();
    for target in ["/health", "/oauth/token"] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let reply: Reply = read_reply(&mut BufReader::new(begin(&place.server, &head))).unwrap();
        assert!([200, 405].contains(&reply.status), "{reply:?}");
    }
}
