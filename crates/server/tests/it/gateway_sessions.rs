//! In whose name a hosted call is made, and whose a hosted session is.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_testkit::client::{McpClient, Reply as Answered};
use stile_testkit::hosted::{AUDIENCE, Hosted, LIFECYCLES, Lifecycle, Peer, message_of, refusal};
use stile_testkit::issuer::{Alg, Mint, now};
use stile_testkit::process::Server;
use stile_testkit::upstream::{Behaviour, Received, Reply, Upstream};

const BINARY: &str = env!("CARGO_BIN_EXE_stile");
const SESSION: Lifecycle = Lifecycle::Session("2025-11-25");

struct Place {
    hosted: Hosted,
    upstream: Upstream,
    gateway: Server,
}

impl Place {
    fn new(more: &[&str]) -> Self {
        let hosted = Hosted::new(BINARY);
        let upstream = Upstream::start(Behaviour::always(Reply::note(&json!({}), "# A\n")));
        let gateway = hosted.gateway(&upstream.url(), more);
        Self { hosted, upstream, gateway }
    }

    fn ann(&self) -> Mint<'_> {
        self.hosted.issuer.mint("ann", AUDIENCE)
    }

    /// What was asked of the server with the notes when a caller with this token made one call.
    fn asked(&self, token: &str, lifecycle: Lifecycle, headers: &[(&str, &str)]) -> Received {
        let mut peer = Peer::open(&self.gateway, token, lifecycle);
        peer.headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let told = peer.told("get_note_outline", "a.md");
        let asked = self.upstream.take_requests();
        assert_eq!(asked.len(), 1, "{told}");
        asked.into_iter().next().unwrap()
    }
}

fn outline(peer: &mut Peer) -> Answered {
    outline_of(peer, "a.md")
}

fn outline_of(peer: &mut Peer, path: &str) -> Answered {
    peer.post("tools/call", json!({ "name": "get_note_outline", "arguments": { "path": path } }))
        .unwrap()
}

#[test]
fn user_and_vault_come_only_from_the_token_and_the_configuration() {
    let place = Place::new(&["--vault", "fallback"]);
    let theirs = [
        ("X-Vault-Id", "stolen"),
        ("X-User-Id", "eve"),
        ("X-Gateway-Auth", "guessed"),
        ("X-Role", "admin"),
        ("X-Forwarded-User", "eve"),
    ];
    for lifecycle in LIFECYCLES {
        for headers in [&[][..], &theirs] {
            for (mint, user, vault) in [
                (place.ann(), "ann", "fallback"),
                (place.ann().vault("garden"), "ann", "garden"),
                (place.ann().vault("a b~!"), "ann", "a b~!"),
                (place.ann().actor("robot"), "ann", "fallback"),
                (place.ann().actor("robot").vault("garden").role("admin"), "ann", "garden"),
                (place.ann().actor("ann"), "ann", "fallback"),
                (place.ann().claim("sub", "auth0|7 \u{e9}"), "auth0|7 \u{e9}", "fallback"),
            ] {
                let token = mint.token(Alg::Es256);
                let asked = place.asked(&token, lifecycle, headers);
                assert_eq!(asked.values("x-user-id"), [user], "{lifecycle:?}");
                assert_eq!(asked.values("x-vault-id"), [vault], "{lifecycle:?}");
                assert_eq!(asked.values("authorization"), [format!("Bearer {token}")]);
                assert!(asked.values("x-gateway-auth").is_empty());
                // A token is random letters, which may be a word.
                let head = String::from_utf8(asked.head).unwrap().replace(&token, "");
                for word in ["robot", "stolen", "eve", "guessed"] {
                    assert!(!head.contains(word), "{word}");
                }
            }
        }
    }
}

#[test]
fn a_token_without_exactly_one_vault_is_refused_before_any_request() {
    let place = Place::new(&[]);
    for claim in [
        json!(["garden"]),
        json!(["garden", "work"]),
        json!([]),
        json!(null),
        json!(7),
        json!({ "id": "garden" }),
        json!(""),
        json!(" garden"),
        json!("garden\n"),
        json!("garden\r\nX-User-Id: eve"),
        json!("g\u{e4}rten"),
        json!("x".repeat(257)),
    ] {
        let token = place.ann().claim("vault", claim.clone()).token(Alg::Es256);
        for lifecycle in LIFECYCLES {
            let mut peer = Peer::new(place.gateway.address, &token, lifecycle);
            for reply in [peer.initialize().unwrap(), outline(&mut peer)] {
                assert_eq!(
                    (reply.status, &reply.json()["error"]),
                    (403, &json!("no_vault")),
                    "{claim} {lifecycle:?}"
                );
                assert!(reply.header("mcp-session-id").is_none());
            }
        }
        let mut peer = Peer::new(place.gateway.address, &token, SESSION);
        for method in ["GET", "DELETE"] {
            assert_eq!(peer.bodiless(method).unwrap().status, 403);
        }
    }
    assert!(place.upstream.requests().is_empty());
}

#[test]
fn a_session_belongs_to_the_subject_client_vault_and_role_that_opened_it() {
    let place = Place::new(&["--vault", "garden"]);
    let opening =
        || place.ann().vault("garden").role("editor").claim("client", "notebook").scope("read:/");
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut owner =
            Peer::open(&place.gateway, &opening().token(Alg::Es256), Lifecycle::Session(revision));
        let others = [
            opening().claim("sub", "bob"),
            opening().claim("sub", "Ann"),
            // Acting for the owner is one thing, being acted for by them another.
            opening().claim("sub", "bob").actor("ann"),
            opening().vault("work"),
            opening().without("vault"),
            opening().role("admin"),
            opening().role("viewer"),
            opening().without("role"),
            opening().claim("client", "other"),
            opening().without("client"),
        ];
        for (number, other) in others.into_iter().enumerate() {
            let token = other.token(Alg::Es256);
            let mut thief = Peer::new(place.gateway.address, &token, Lifecycle::Session(revision));
            thief.session.clone_from(&owner.session);
            let unknown = {
                let mut peer =
                    Peer::new(place.gateway.address, &token, Lifecycle::Session(revision));
                peer.session = Some("00000000-0000-4000-8000-000000000000".to_owned());
                outline(&mut peer)
            };
            // A stream that was opened would be waited for, so this comes first.
            assert_eq!(outline(&mut thief).status, 404, "{number}");
            for reply in [
                thief.post("ping", json!({})).unwrap(),
                thief.post("tools/list", json!({})).unwrap(),
                thief.bodiless("GET").unwrap(),
                thief.bodiless("DELETE").unwrap(),
            ] {
                assert_eq!((reply.status, &reply.body), (404, &unknown.body), "{number} {reply:?}");
            }
            // The thief gets a session of their own.
            let opened = thief.initialize().unwrap();
            let session = opened.header("mcp-session-id").map(str::to_owned);
            assert!(opened.status == 200 && session != owner.session, "{number} {opened:?}");
        }
        assert!(place.upstream.take_requests().is_empty());
        assert_eq!(outline(&mut owner).status, 200, "the owner's session is none the worse for it");
        assert_eq!(place.upstream.take_requests().len(), 1);
    }
}

#[test]
fn a_renewed_token_continues_the_session_and_the_gateway_forwards_it() {
    let place = Place::new(&[]);
    let mint = || place.ann().vault("garden").role("editor").claim("client", "notebook");
    let mut peer = Peer::open(&place.gateway, &mint().token(Alg::Es256), SESSION);
    for renewed in
        [mint().token(Alg::Rs256), mint().scope("read:/a.md").expires_in(900).token(Alg::Es256)]
    {
        assert_ne!(renewed, peer.token);
        peer.token.clone_from(&renewed);
        assert_eq!(outline(&mut peer).status, 200);
        let asked = place.upstream.take_requests();
        assert_eq!(asked[0].values("authorization"), [format!("Bearer {renewed}")]);
    }
    assert_eq!(peer.bodiless("DELETE").unwrap().status, 204);
    assert_eq!(outline(&mut peer).status, 404);
}

#[test]
fn a_sessionless_request_to_the_gateway_ignores_the_session_header() {
    let place = Place::new(&[]);
    let owner = Peer::open(&place.gateway, &place.ann().vault("garden").token(Alg::Es256), SESSION);
    let bob = place.hosted.issuer.mint("bob", AUDIENCE).vault("work").token(Alg::Es256);
    let mut peer = Peer::new(place.gateway.address, &bob, Lifecycle::Sessionless);
    for session in [owner.session.clone(), Some("bogus".to_owned()), Some(String::new())] {
        peer.session = session;
        assert_eq!(outline(&mut peer).status, 200);
        let asked = place.upstream.take_requests();
        assert_eq!(
            (asked[0].values("x-user-id"), asked[0].values("x-vault-id")),
            (vec!["bob"], vec!["work"])
        );
    }
}

#[test]
fn a_token_that_expires_during_a_session_is_refused_from_then_on() {
    let place = Place::new(&[]);
    // Clocks may be five seconds apart, so this one is good for another two.
    let short = place.ann().claim("iat", now() - 100).expires_in(-3).token(Alg::Es256);
    let mut peer = Peer::open(&place.gateway, &short, SESSION);
    let deadline = Instant::now() + Duration::from_secs(30);
    let refused = loop {
        let reply = outline(&mut peer);
        if reply.status != 200 {
            break reply;
        }
        assert!(Instant::now() < deadline, "the token never expires");
    };
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
    // The first refusal may have come while the upstream was asked; a later call asks nothing.
    assert_eq!(outline_of(&mut peer, "later.md").status, 401);
    let asked = place.upstream.requests();
    assert!(asked.iter().all(|request| !request.target.contains("later.md")));
    peer.token = place.ann().token(Alg::Es256);
    assert_eq!(outline(&mut peer).status, 200, "the session waits for a good token");
}

/// Python SDK 2.3.0 renews a token when its own clock says so, and lost the answers of calls that
/// it sent in between.
#[test]
fn a_call_in_the_five_seconds_after_the_end_of_its_token_is_answered_whole() {
    let place = Place::new(&[]);
    let late = || place.ann().claim("iat", now() - 100).expires_in(-1).token(Alg::Es256);
    let mut peer = Peer::open(&place.gateway, &place.ann().token(Alg::Es256), SESSION);
    let deadline = Instant::now() + Duration::from_secs(30);
    let answered = loop {
        peer.token = late();
        let reply = outline(&mut peer);
        // On a slow machine the five seconds may be over.
        if reply.status == 200 {
            break message_of(&reply);
        }
        assert!(Instant::now() < deadline, "the token is never accepted");
    };
    assert!(answered["result"].is_object(), "{answered}");
}

#[test]
fn a_session_never_replaces_a_token() {
    let place = Place::new(&[]);
    let mut peer = Peer::open(&place.gateway, &place.ann().token(Alg::Es256), SESSION);
    for token in ["", "none", "a.b.c"] {
        peer.token = token.to_owned();
        for reply in
            [outline(&mut peer), peer.bodiless("GET").unwrap(), peer.bodiless("DELETE").unwrap()]
        {
            assert_eq!(reply.status, 401);
        }
    }
    assert!(place.upstream.requests().is_empty());
}

#[test]
fn challenges_name_the_identity_provider() {
    const INVALID: &str = "error=\"invalid_token\", error_description=\"the token is malformed\", ";
    let place = Place::new(&[]);
    let rig = place.hosted.rig("origin");
    let origin = place.hosted.origin(&rig, &[]);
    for (server, scopes) in [(&place.gateway, Value::Null), (&origin, json!(["read:/"]))] {
        let address = server.address;
        let metadata_url = format!("http://{address}/.well-known/oauth-protected-resource/mcp");
        // In the gateway, roles decide and not scopes.
        let scope = if scopes.is_null() { "" } else { "scope=\"read:/\", " };
        for (token, error) in [("", ""), ("no.such.token", INVALID)] {
            for lifecycle in LIFECYCLES {
                let mut peer = Peer::new(address, token, lifecycle);
                for reply in
                    [peer.initialize().unwrap(), outline(&mut peer), peer.bodiless("GET").unwrap()]
                {
                    assert_eq!(reply.status, 401);
                    let challenge =
                        format!("Bearer {error}{scope}resource_metadata=\"{metadata_url}\"");
                    assert_eq!(reply.header("www-authenticate"), Some(challenge.as_str()));
                }
            }
        }
        for (path, resource) in [
            ("/.well-known/oauth-protected-resource/mcp", "/mcp"),
            ("/.well-known/oauth-protected-resource", ""),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
            let metadata = server.client("").send(request.as_bytes()).unwrap().json();
            assert_eq!(metadata["authorization_servers"], json!([place.hosted.issuer.url()]));
            assert_eq!(metadata["resource"], format!("http://{address}{resource}"));
            assert_eq!(metadata["scopes_supported"], scopes);
        }
    }
}

#[test]
fn the_gateway_never_forwards_a_token_for_another_server() {
    let place = Place::new(&["--upstream-audience", "https://store.example"]);
    for (audience, told) in [
        (json!(AUDIENCE), Some(refusal("Upstream 403"))),
        (json!([AUDIENCE]), Some(refusal("Upstream 403"))),
        (json!([AUDIENCE, "https://store.example/"]), Some(refusal("Upstream 403"))),
        (json!([AUDIENCE, "https://store.example"]), None),
        (json!(["https://store.example", AUDIENCE]), None),
    ] {
        let token = place.ann().claim("aud", audience.clone()).token(Alg::Es256);
        for lifecycle in LIFECYCLES {
            let connections = place.upstream.connections();
            let mut peer = Peer::open(&place.gateway, &token, lifecycle);
            let text = peer.told("get_section_source", "a.md");
            let asked = place.upstream.take_requests().len();
            match &told {
                Some(told) => {
                    assert_eq!((&text, asked), (told, 0), "{audience}");
                    assert_eq!(
                        place.upstream.connections(),
                        connections,
                        "not even a connection was opened"
                    );
                }
                None => assert_eq!(asked, 1, "{audience}: {text}"),
            }
        }
    }
    let only_store = place.ann().claim("aud", "https://store.example").token(Alg::Es256);
    let mut peer = Peer::new(place.gateway.address, &only_store, SESSION);
    assert_eq!(peer.initialize().unwrap().status, 401, "such a token is not for the gateway");
}

#[test]
fn the_gateway_answers_a_ping_and_reads_no_note_of_its_own_accord() {
    let place = Place::new(&[]);
    let mut peer = Peer::open(&place.gateway, &place.ann().token(Alg::Es256), SESSION);
    assert_eq!(peer.request("ping", json!({})).unwrap()["result"], json!({}));
    assert!(place.upstream.requests().is_empty());
}
