//! The gateway and its note store under TLS.

use std::path::PathBuf;

use serde_json::json;
use stile_testkit::leaks::Canaries;
use stile_testkit::process::Server;
use stile_testkit::upstream::faults::CANARY;
use stile_testkit::upstream::tls::{Certificate, Protocol};
use stile_testkit::upstream::{Behaviour, Reply, Upstream};

use crate::gateway_kit::{Ground, TOOLS, call};

const NOTE: &str = "inbox/one.md";

fn upstream(protocol: Protocol, certificate: Certificate) -> Upstream {
    let note = Behaviour::notes(|received| {
        Reply::note(&json!({}), &format!("# {}\n", received.note().unwrap_or_default()))
            .with_header("X-Upstream", CANARY)
    });
    Upstream::start_tls(protocol, certificate, note)
}

fn authority(ground: &Ground, upstream: &Upstream) -> PathBuf {
    ground.file("authority.pem", upstream.authority())
}

/// A gateway that trusts the authority of its upstream.
fn trusting(ground: &Ground, upstream: &Upstream) -> Server {
    let file = authority(ground, upstream);
    // Long enough for a busy machine, and short enough for an upstream that is silent.
    let limit = ["--upstream-timeout-seconds", "3"];
    ground.gateway(
        upstream,
        &[&limit, &["--log", "trace", "--ca-file", file.to_str().unwrap()][..]].concat(),
    )
}

#[test]
fn the_gateway_uses_one_http2_connection_for_many_calls_where_offered() {
    for (protocol, version) in [
        (Protocol::Either, "HTTP/2.0"),
        (Protocol::Http2, "HTTP/2.0"),
        (Protocol::Http1, "HTTP/1.1"),
    ] {
        let (ground, upstream) = (Ground::new(), upstream(protocol, Certificate::Good));
        let server = trusting(&ground, &upstream);
        let mut client = server.client(&ground.token);
        for number in 0..20 {
            let path = format!("inbox/{number}.md");
            let told = call(&mut client, "get_note_outline", &path);
            assert_eq!(told.structured["headings"][0]["text"], path.as_str(), "{told:?}");
        }
        let received = upstream.requests();
        assert_eq!((received.len(), upstream.connections()), (20, 1), "{protocol:?}");
        let mut first = vec![if version == "HTTP/2.0" { ":authority" } else { "host" }];
        first.extend(["accept", "authorization", "content-type", "x-user-id", "x-vault-id"]);
        first.sort_unstable();
        for received in received {
            let mut names = received.names();
            names.sort();
            assert_eq!(
                (received.version.as_str(), &names),
                (version, &first.iter().map(ToString::to_string).collect())
            );
            assert!(
                received.target.starts_with("/api/v1/notes/inbox%2F") && received.method == "GET"
            );
        }
    }
}

#[test]
fn a_certificate_may_name_a_host_or_an_address() {
    let (ground, upstream) = (Ground::new(), upstream(Protocol::Either, Certificate::Good));
    let file = authority(&ground, &upstream);
    let url = format!("https://localhost:{}", upstream.address().port());
    let server = ground.rig.gateway(&["--upstream", &url, "--ca-file", file.to_str().unwrap()]);
    assert_eq!(call(&mut server.client(&ground.token), TOOLS[0], NOTE).error, None);
    assert_eq!(
        upstream.requests()[0].header(":authority"),
        Some(url.trim_start_matches("https://"))
    );
}

#[test]
fn a_server_with_an_invalid_certificate_gets_no_request() {
    use Certificate::{Expired, NotYetValid, OtherAuthority, OtherName};
    for certificate in [OtherName, Expired, NotYetValid, OtherAuthority] {
        for protocol in [Protocol::Either, Protocol::Http1] {
            let (ground, upstream) = (Ground::new(), upstream(protocol, certificate));
            let server = trusting(&ground, &upstream);
            let told = call(&mut server.client(&ground.token), TOOLS[0], NOTE);
            assert_eq!(told.error.as_deref(), Some("Upstream unavailable"), "{certificate:?}");
            assert_eq!(upstream.requests().len(), 0, "{certificate:?}");
        }
    }
}

#[test]
fn the_gateway_trusts_a_private_authority_only_if_it_is_configured() {
    let (ground, upstream) = (Ground::new(), upstream(Protocol::Either, Certificate::Good));
    let server = ground.gateway(&upstream, &[]);
    let told = call(&mut server.client(&ground.token), TOOLS[0], NOTE);
    assert_eq!(told.error.as_deref(), Some("Upstream unavailable"));
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn an_upstream_without_the_expected_tls_gets_no_request() {
    let (ground, upstream) = (Ground::new(), Upstream::start(Behaviour::Silence));
    let url = upstream.url().replace("http:", "https:");
    let limits = ["--upstream-timeout-seconds", "1", "--upstream-connect-seconds", "1"];
    let server = ground.rig.gateway(&[&["--upstream", &url], &limits[..]].concat());
    let told = call(&mut server.client(&ground.token), TOOLS[0], NOTE);
    assert!(
        matches!(told.error.as_deref(), Some("Upstream timeout" | "Upstream unavailable")),
        "{told:?}"
    );
    assert_eq!(upstream.requests().len(), 0);
    let token = Canaries::new().plant("the token", &ground.token);
    token.assert_absent("the log", &server.stop().1);
}

#[test]
fn a_fault_over_http2_gives_the_same_single_error() {
    let (ground, upstream) = (Ground::new(), upstream(Protocol::Http2, Certificate::Good));
    let server = trusting(&ground, &upstream);
    let mut client = server.client(&ground.token);
    for (behaviour, expected) in [
        (Behaviour::cut_in_body(), "Upstream unavailable"),
        (Behaviour::Silence, "Upstream timeout"),
        (Behaviour::always(Reply::refusal(404, CANARY)), "Upstream 404"),
        (
            Behaviour::always(Reply::refusal(429, CANARY).with_header("Retry-After", "0")),
            "Upstream 429",
        ),
        (Behaviour::always(Reply::refusal(503, CANARY)), "Upstream 503"),
        (
            Behaviour::always(Reply::refusal(307, CANARY).with_header("Location", "/other")),
            "Upstream 307",
        ),
        (
            Behaviour::always(Reply::bytes(200, "application/json", vec![b' '; 5 << 20])),
            "Note too large",
        ),
        (Behaviour::body(format!("{{\"body\":[\"{CANARY}\"]}}")), "Upstream invalid response"),
    ] {
        upstream.take_requests();
        upstream.set(behaviour.clone());
        let told = call(&mut client, TOOLS[0], NOTE);
        assert_eq!(told.error.as_deref(), Some(expected), "{behaviour:?}");
        assert_eq!(upstream.requests().len(), 1, "{expected}");
    }
    upstream.set(Behaviour::always(Reply::note(&json!({}), "# A\n")));
    assert_eq!(call(&mut client, TOOLS[0], NOTE).error, None);
    Canaries::new().plant("the upstream", CANARY).assert_absent("the log", &server.stop().1);
}
