//! The one request that a call makes of the note store: its bytes, whose token it bears, and when
//! there is none.

use std::process::Stdio;

use serde_json::{Value, json};
use stile_testkit::issuer::Alg;
use stile_testkit::leaks::Canaries;
use stile_testkit::process::Server;
use stile_testkit::upstream::{Behaviour, Received, Reply, Upstream};

use crate::gateway_kit::{GATEWAY, Ground, Hosted, STORE, TOOLS, call, post, post_with, told};

const SECRET: &str = "canary-of-the-gateway-secret";

/// Paths as a caller names them, and as they stand in the request.
const NAMES: [(&str, &str); 20] = [
    ("one.md", "one.md"),
    ("inbox/one.md", "inbox%2Fone.md"),
    (" \t\u{feff}inbox\\\\deep//one.md/ \n", "inbox%2Fdeep%2Fone.md"),
    ("a b+c.md", "a%20b%2Bc.md"),
    ("what?.md", "what%3F.md"),
    ("what#part.md", "what%23part.md"),
    ("a&b=c;d:e@f,g$h.md", "a%26b%3Dc%3Bd%3Ae%40f%2Cg%24h.md"),
    ("100%.md", "100%25.md"),
    ("%2e%2e/%2Fetc.md", "%252e%252e%2F%252Fetc.md"),
    ("..a/b..md", "..a%2Fb..md"),
    (".hidden/...", ".hidden%2F..."),
    ("-_.!~*'()", "-_.!~*'()"),
    ("\"<>[]{}|^`.md", "%22%3C%3E%5B%5D%7B%7D%7C%5E%60.md"),
    ("\u{e9}.md", "%C3%A9.md"),
    ("e\u{301}.md", "e%CC%81.md"),
    ("\u{65e5}\u{8a18}/\u{1f680}.md", "%E6%97%A5%E8%A8%98%2F%F0%9F%9A%80.md"),
    ("\u{202e}dm.\u{2066}a", "%E2%80%AEdm.%E2%81%A6a"),
    ("http://other.example/x.md", "http%3A%2Fother.example%2Fx.md"),
    ("a HTTP/1.1", "a%20HTTP%2F1.1"),
    ("?vault=other", "%3Fvault%3Dother"),
];

/// What a caller may send and the note store may not get.
const FOREIGN: [(&str, &str); 17] = [
    ("x-vault-id", "canary-foreign-vault"),
    ("x-user-id", "canary-foreign-user"),
    ("x-gateway-auth", "canary-foreign-secret"),
    ("cookie", "session=canary-foreign-cookie"),
    ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("tracestate", "vendor=canary-foreign-state"),
    ("baggage", "user=canary-foreign-baggage"),
    ("x-forwarded-for", "203.0.113.195"),
    ("x-forwarded-host", "canary-foreign-host.example"),
    ("forwarded", "for=203.0.113.195;host=canary-foreign-host.example"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-language", "de"),
    ("user-agent", "canary-foreign-agent"),
    ("range", "bytes=0-1"),
    ("if-none-match", "\"canary-foreign-tag\""),
    ("x-request-id", "canary-foreign-request"),
    ("x-api-key", "canary-foreign-key"),
];

fn note() -> Behaviour {
    Behaviour::always(Reply::note(&json!({}), "# A heading\n"))
}

/// The head of a request must have these lines, in whichever order and case of names, and nothing
/// else.
fn assert_head(received: &Received, target: &str, upstream: &Upstream, headers: &[(&str, &str)]) {
    let text = String::from_utf8(received.head.clone()).unwrap();
    let (first, rest) = text.strip_suffix("\r\n\r\n").unwrap().split_once("\r\n").unwrap();
    assert_eq!(first, format!("GET /api/v1/notes/{target} HTTP/1.1"));
    let mut lines: Vec<String> = rest
        .split("\r\n")
        .map(|line| {
            line.split_once(": ")
                .map(|(name, value)| format!("{}: {value}", name.to_lowercase()))
                .unwrap()
        })
        .collect();
    let json = "application/json";
    let (host, fixed) =
        (upstream.address().to_string(), [("accept", json), ("content-type", json)]);
    let mut expected: Vec<String> = [headers, &fixed, &[("host", &host)]]
        .concat()
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    lines.sort();
    expected.sort();
    assert_eq!(lines, expected);
    assert_eq!(received.body, b"");
}

#[test]
fn a_request_for_a_note_has_exactly_these_bytes() {
    let (ground, upstream) = (Ground::new(), Upstream::start(note()));
    let server = ground.gateway(&upstream, &["--vault", "garden"]);
    let token = ground.rig.token(&["read:/"], &["--user", "ann"]);
    let mut client = server.client(&token);
    for (number, (name, segment)) in NAMES.iter().enumerate() {
        let told = call(&mut client, TOOLS[number % 4], name);
        assert_eq!(told.error, None, "{name:?}");
        let received = upstream.take_requests();
        assert_eq!(received.len(), 1, "{name:?}");
        // Decoded, it is the path that is told, so what the caller sees is what was asked for.
        assert_eq!(received[0].note().as_deref(), told.structured["path"].as_str());
        let bearer = format!("Bearer {token}");
        let headers =
            [("authorization", bearer.as_str()), ("x-vault-id", "garden"), ("x-user-id", "ann")];
        assert_head(&received[0], segment, &upstream, &headers);
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn the_gateway_forwards_nothing_that_a_caller_sends_but_its_token() {
    let hosted = Hosted::new(note());
    let secret = hosted.ground.file("secret", &format!("{SECRET}\n"));
    let server = hosted.gateway(&["--gateway-secret-file", secret.to_str().unwrap()]);
    let token =
        hosted.mint("ann").vault("garden").actor("canary-actor").role("editor").token(Alg::Es256);
    for tool in TOOLS {
        let reply = post_with(&server, &token, &FOREIGN, tool, &json!({ "path": "one.md" }));
        assert_eq!(told(&reply).error, None);
    }
    let received = hosted.upstream.requests();
    assert_eq!(received.len(), 4);
    let bearer = format!("Bearer {token}");
    for received in &received {
        let headers = [
            ("authorization", bearer.as_str()),
            ("x-vault-id", "garden"),
            ("x-user-id", "ann"),
            ("x-gateway-auth", SECRET),
        ];
        assert_head(received, "one.md", &hosted.upstream, &headers);
    }
}

#[test]
fn the_gateway_ignores_proxies_of_the_environment() {
    let (ground, upstream) = (Ground::new(), Upstream::start(note()));
    let proxy = Upstream::start(note());
    let mut command = ground.rig.gateway_command(&["--upstream", &upstream.url()]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env(name, proxy.url()).env(name.to_lowercase(), proxy.url());
    }
    for name in ["NO_PROXY", "no_proxy"] {
        command.env_remove(name);
    }
    let server = Server::start(command);
    assert_eq!(call(&mut server.client(&ground.token), TOOLS[0], "one.md").error, None);
    assert_eq!((upstream.requests().len(), proxy.connections()), (1, 0));
}

#[test]
fn bad_arguments_cause_no_connection_and_answers_do_not_repeat_them() {
    let (ground, upstream) = (Ground::new(), Upstream::start(note()));
    let server = ground.gateway(&upstream, &["--log", "trace"]);
    let mut client = server.client(&ground.token);
    let word = "canary-argument";
    let long = format!("{word}/").repeat(1_000);
    let (path, more) = ("Invalid path", "Invalid arguments");
    let canaries = Canaries::new().plant("an argument", word);
    for (arguments, expected) in [
        (json!({}), path),
        (json!({ "path": null }), path),
        (json!({ "path": 7 }), path),
        (json!({ "path": true }), path),
        (json!({ "path": { "path": word } }), path),
        (json!({ "path": [word] }), path),
        (json!({ "path": [format!("{word}.md"), "two.md"] }), path),
        (json!({ "path": "" }), path),
        (json!({ "path": " \t\r\n" }), path),
        (json!({ "path": "." }), path),
        (json!({ "path": "//" }), path),
        (json!({ "path": format!("/Users/{word}/private.md") }), path),
        (json!({ "path": format!(" /{word}") }), path),
        (json!({ "path": format!("\\{word}") }), path),
        (json!({ "path": format!("C:/Users/{word}/private.md") }), path),
        (json!({ "path": format!("c:\\{word}") }), path),
        (json!({ "path": format!("C:{word}") }), path),
        (json!({ "path": format!("\\\\server\\{word}\\a.md") }), path),
        (json!({ "path": format!("//server/{word}/a.md") }), path),
        (json!({ "path": format!("../{word}.md") }), path),
        (json!({ "path": format!("{word}/../a.md") }), path),
        (json!({ "path": format!("{word}/..") }), path),
        (json!({ "path": format!("..\\{word}.md") }), path),
        (json!({ "path": format!("a\\..\\..\\{word}.md") }), path),
        (json!({ "path": format!("{word}\0.md") }), path),
        (json!({ "path": format!("{word}\r\nX-Vault-Id: other") }), path),
        (json!({ "path": long }), path),
        (json!({ "paths": [format!("{word}.md")] }), path),
        (json!({ "path": "a.md", "paths": [format!("{word}.md")] }), more),
        (json!({ "path": "a.md", "vault_id": word }), more),
        (json!({ "path": "a.md", "user_id": word }), more),
        (json!({ "path": "a.md", "role": word }), more),
        (json!({ "path": "a.md", "provider": word }), more),
        (json!({ "path": "a.md", "line_range": [1, 2], "search": word }), more),
        (json!({ "path": "a.md", word: true }), more),
        (json!({ "path": "a.md", "Path": word }), more),
    ] {
        for tool in TOOLS {
            let reply = post(&mut client, tool, &arguments);
            let error = told(&reply).error.unwrap_or_else(|| panic!("{arguments} is answered"));
            // Where the path is missing and something else is there, either is true.
            let either = arguments.get("path").is_none() && error == more;
            assert!(error == expected || either, "{arguments}: {error}");
            canaries.assert_absent("the answer", &reply.bytes());
        }
    }
    // What is no object of arguments is no call.
    for arguments in [json!([{ "path": word }]), json!(word), json!(7)] {
        let reply = post(&mut client, TOOLS[0], &arguments);
        let answer: Value = reply.json();
        assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{answer}");
        canaries.assert_absent("the answer", &reply.bytes());
    }
    assert_eq!(upstream.connections(), 0);
    let (_, log) = server.stop();
    canaries.assert_absent("the log", &log);
}

#[test]
fn the_gateway_keeps_a_token_that_is_not_for_the_upstream() {
    let hosted = Hosted::new(note());
    let server = hosted.gateway(&[]);
    for audience in [
        json!(GATEWAY),
        json!([GATEWAY]),
        json!([GATEWAY, "https://third.example"]),
        json!([GATEWAY, format!("{STORE}/")]),
    ] {
        let token = hosted.mint("ann").claim("aud", audience.clone()).token(Alg::Rs256);
        for tool in TOOLS {
            let told = call(&mut server.client(&token), tool, "one.md");
            assert_eq!(told.error.as_deref(), Some("Upstream 403"), "{audience}");
        }
    }
    // One that is for the upstream alone is none of the gateway's.
    let token = hosted.mint("ann").claim("aud", STORE).token(Alg::Rs256);
    assert_eq!(
        post(&mut server.client(&token), TOOLS[0], &json!({ "path": "one.md" })).status,
        401
    );
    assert_eq!(hosted.upstream.connections(), 0);

    let token = hosted.mint("ann").token(Alg::Rs256);
    assert_eq!(call(&mut server.client(&token), TOOLS[0], "one.md").error, None);
    assert_eq!(
        hosted.upstream.requests()[0].header("authorization"),
        Some(format!("Bearer {token}").as_str())
    );

    // The same holds for tokens that this machine minted.
    let ground = Ground::new();
    let server = ground.gateway(&hosted.upstream, &["--upstream-audience", STORE]);
    let connections = hosted.upstream.connections();
    assert_eq!(
        call(&mut server.client(&ground.token), TOOLS[0], "one.md").error.as_deref(),
        Some("Upstream 403")
    );
    assert_eq!(hosted.upstream.connections(), connections);
}

#[test]
fn a_gateway_with_its_own_token_never_sends_a_callers_token() {
    let hosted = Hosted::new(note());
    let own = hosted.ground.file("own", "own-token-of-the-gateway\n");
    let server = hosted.gateway(&[
        "--upstream-credential",
        "own",
        "--upstream-token-file",
        own.to_str().unwrap(),
    ]);
    // It does not matter then whether the token is for the upstream as well.
    let mint = hosted.mint("ann").claim("aud", GATEWAY).vault("garden").actor("bob");
    let token = mint.scope("read:/").token(Alg::Es256);
    assert_eq!(call(&mut server.client(&token), TOOLS[0], "one.md").error, None);
    let headers = [
        ("authorization", "Bearer own-token-of-the-gateway"),
        ("x-vault-id", "garden"),
        ("x-user-id", "ann"),
    ];
    let received = hosted.upstream.requests();
    assert_eq!(received.len(), 1);
    assert_head(&received[0], "one.md", &hosted.upstream, &headers);
    let parts = token.split('.').filter(|part| memchr(&received[0].head, part.as_bytes()));
    assert_eq!(parts.count(), 0, "a part of the caller's token is in the request");
}

fn memchr(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_gateway_without_keys_or_upstream_does_not_start() {
    let ground = Ground::new();
    let empty = ground.folder.path().join("nothing");
    let upstream = Upstream::start(note());
    let url = upstream.url();
    let state = |folder: &std::path::Path| folder.to_str().unwrap().to_owned();
    for (folder, more) in [(&empty, &["--upstream", url.as_str()][..]), (&ground.rig.state, &[])] {
        let mut command =
            ground.rig.command(&["gateway", "--listen", "127.0.0.1:0", "--state", &state(folder)]);
        let ran = command.args(more).stdin(Stdio::null()).output().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    assert!(!empty.exists(), "it makes no key, and no folder for one");
    assert_eq!(upstream.connections(), 0);
}
