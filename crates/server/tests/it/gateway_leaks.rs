//! What was planted in notes, tokens, secrets and the upstream's answers is in no place where it
//! does not belong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use stile_domain::notes::portable::PortableNote;
use stile_server::auth::{
    IdentityClaims, TokenRejected, TokenVerifier, VaultClaim, VerifiedCaller,
};
use stile_server::by_vault::ByVault;
use stile_server::gateway::session_factory::{SessionFactory, UpstreamCredential};
use stile_server::http::{self, HttpOptions};
use stile_server::metrics::Metrics;
use stile_server::service::Service;
use stile_testkit::client::Reply as Answered;
use stile_testkit::issuer::{Alg, Signature};
use stile_testkit::leaks::Canaries;
use stile_testkit::log::Log;
use stile_testkit::process::Server;
use stile_testkit::upstream::faults::CANARY;
use stile_testkit::upstream::{Behaviour, Reply};
use stile_tools::note_session::Credential;
use stile_tools::remote_notes::RemoteNotes;
use stile_tools::remote_notes::source::{NoteRequest, NoteSource, UpstreamFailure};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::gateway_kit::{GATEWAY, Hosted, TOOLS, metrics, post_with, told};
use crate::support::{Client, initialize, principal, request};

const BODY: &str = "canary-body of the note";
const HEADING: &str = "Canary Heading of Ferns";
const TITLE: &str = "Canary Title of Ferns";
const KEY: &str = "canary-front-matter-key";
const VALUE: &str = "canary-front-matter-value";
const PATH: &str = "canary-inbox/canary-path.md";
const UNSAFE: &str = "/canary-unsafe/of-the-caller";
const SUBJECT: &str = "canary-subject";
const ACTOR: &str = "canary-actor";
const VAULT: &str = "canary-vault";
const ROLE: &str = "canary-role";
const SECRET: &str = "canary-secret-of-the-gateway";
const OWN: &str = "canary-own-token-of-the-gateway";
const PAYLOAD: &str = "canary-raw-payload";
const STORED: &str = "vaults/canary-stored/elsewhere.md";
const SENT: &str = "canary-header-of-the-caller";

/// A note with something in every place that a note has.
fn note(frontmatter: &Value) -> Reply {
    let body = format!(
        "# {HEADING}\n\n{BODY}\n\n```\n{BODY}\n```\n\n<!-- {BODY} -->\n\n[a]({BODY}) ![b]({BODY})\n"
    );
    let answer = json!({ "path": STORED, "frontmatter": frontmatter, "body": body, "raw": { "payload": PAYLOAD } });
    Reply::json(200, &answer).with_header("X-Upstream", CANARY).with_header("Set-Cookie", CANARY)
}

fn front_matter() -> Value {
    json!({ "title": TITLE, KEY: VALUE })
}

/// What may be nowhere at all, whatever the outcome.
fn never(token: &str) -> Canaries {
    let parts: Vec<&str> = token.split('.').collect();
    let texts = [
        ("the body", BODY),
        ("a key of the front matter", KEY),
        ("a value of the front matter", VALUE),
        ("an unsafe path", UNSAFE),
        ("the subject", SUBJECT),
        ("the actor", ACTOR),
        ("the vault", VAULT),
        ("the role", ROLE),
        ("the gateway's secret", SECRET),
        ("the gateway's token", OWN),
        ("what the upstream said", CANARY),
        ("the payload", PAYLOAD),
        ("the upstream's path", STORED),
        ("a header of the caller", SENT),
        ("the claims of the token", parts[1]),
        ("the signature of the token", parts[2]),
    ];
    texts.iter().fold(Canaries::new(), |canaries, (name, text)| canaries.plant(name, text))
}

/// What may be in the answer of a call that went well, in its place there, and nowhere else.
fn answers_only() -> Canaries {
    let texts = [
        ("a heading", HEADING),
        ("a heading's slug", "canary-heading-of-ferns"),
        ("the title", TITLE),
        ("the path", PATH),
        ("the path's slug", "canary-inbox-canary-path-md"),
    ];
    texts.iter().fold(Canaries::new(), |canaries, (name, text)| canaries.plant(name, text))
}

/// Everything that was answered, looked at as it comes.
struct Watch {
    never: Canaries,
    answers_only: Canaries,
    outcomes: BTreeSet<String>,
    calls: usize,
}

impl Watch {
    /// A reply to whatever it is.
    fn look(&self, place: &str, reply: &Answered) {
        self.never.assert_absent(place, &reply.bytes());
        let head = Answered { body: Vec::new(), ..reply.clone() }.bytes();
        self.answers_only.assert_absent(place, &head);
        let answer = reply.json();
        if answer.pointer("/result/structuredContent/schema").is_none() {
            self.answers_only.assert_absent(place, &reply.body);
        }
    }

    /// Makes a call of each tool, and looks at what it is told.
    fn calls(&mut self, server: &Server, token: &str, arguments: &Value) {
        for tool in TOOLS {
            let foreign = [
                ("x-vault-id", SENT),
                ("x-user-id", SENT),
                ("x-gateway-auth", SENT),
                ("cookie", SENT),
            ];
            let reply = post_with(server, token, &foreign, tool, arguments);
            self.look(tool, &reply);
            let told = told(&reply);
            self.outcomes.insert(told.error.unwrap_or_else(|| "ok".to_owned()));
            self.calls += 1;
        }
    }
}

/// The fields of a line of the log, where each word is one.
fn fields(line: &str) -> BTreeMap<&str, &str> {
    let mut words = line.split_whitespace();
    let (time, level) = (words.next().unwrap(), words.next().unwrap());
    assert!(time.ends_with('Z') && time.len() < 32, "{line}");
    assert_eq!(level, "DEBUG", "{line}");
    words
        .map(|word| {
            word.split_once('=').unwrap_or_else(|| panic!("`{word}` is no field in {line}"))
        })
        .collect()
}

/// A line about a call has these fields, and words of ours for their values.
fn assert_line(line: &str) {
    let fields = fields(line);
    let is = |name: &str, words: &[&str]| words.contains(&fields[name].trim_matches('"'));
    assert!(is("tool", &TOOLS), "{line}");
    let classes = [
        "ok", "invalid_path", "invalid_arguments", "too_large", "not_forwarded", "out_of_scope",
        "upstream_status",
    ];
    let more = ["upstream_timeout", "upstream_unavailable", "upstream_invalid", "internal"];
    assert!(is("outcome", &[&classes[..], &more].concat()), "{line}");
    assert!(is("upstream", &["1xx", "2xx", "3xx", "4xx", "5xx", "other", "none"]), "{line}");
    assert!(fields["elapsed_ms"].parse::<u64>().is_ok(), "{line}");
    let mut names: Vec<&str> = fields.keys().copied().collect();
    if fields.contains_key("sections") {
        assert!(is("outcome", &["ok"]) && fields["sections"].parse::<u64>().is_ok(), "{line}");
        assert!(is("truncated", &["true", "false"]), "{line}");
        names.retain(|name| !["sections", "truncated"].contains(name));
    }
    assert_eq!(names, ["elapsed_ms", "outcome", "tool", "upstream"], "{line}");
}

/// Looks at all that a gateway has written, once it has ended.
fn assert_silent(watch: &Watch, server: Server) {
    let told = metrics(&server);
    assert!(String::from_utf8_lossy(&told.body).contains("stile_calls_total{"));
    let (status, log) = server.stop();
    assert!(status.success());
    for canaries in [&watch.never, &watch.answers_only] {
        canaries.assert_absent("the metrics", &told.bytes());
        canaries.assert_absent("the log", &log);
    }
    let log = String::from_utf8(log).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("tool=")).collect();
    assert_eq!(lines.len(), watch.calls, "a line for each call");
    lines.iter().for_each(|line| assert_line(line));
}

/// All ways in which a call can end.
fn outcomes(hosted: &Hosted, server: &Server, watch: &mut Watch, token: &str) {
    let path = json!({ "path": PATH });
    let text = front_matter().to_string();
    for form in [
        front_matter(),
        json!(text),
        json!(json!(text).to_string()),
        json!(format!("title: {VALUE}")),
    ] {
        hosted.upstream.set(Behaviour::always(note(&form)));
        watch.calls(server, token, &path);
    }
    let bad =
        json!({ "error": PAYLOAD, "path": STORED, "body": [BODY], "frontmatter": front_matter() });
    for behaviour in [
        Behaviour::always(Reply { status: 401, ..note(&front_matter()) }),
        Behaviour::always(Reply { status: 403, ..note(&front_matter()) }),
        Behaviour::always(Reply { status: 404, ..note(&front_matter()) }),
        Behaviour::always(Reply { status: 429, ..note(&front_matter()) }),
        Behaviour::always(Reply { status: 500, ..note(&front_matter()) }),
        Behaviour::redirect(302, format!("/{CANARY}")),
        Behaviour::always(Reply::json(200, &bad)),
        Behaviour::body(format!("{{\"body\":\"{BODY}")),
        Behaviour::note_of(2 << 20),
        Behaviour::declares(1 << 40),
        Behaviour::cut_in_headers(),
        Behaviour::cut_in_body(),
        Behaviour::slow_body(std::time::Duration::from_millis(20)),
        Behaviour::Refuse,
    ] {
        hosted.upstream.set(behaviour);
        watch.calls(server, token, &path);
    }
    hosted.upstream.set(Behaviour::always(note(&front_matter())));
    watch.calls(server, token, &json!({ "path": UNSAFE }));
    watch.calls(server, token, &json!({ "path": [UNSAFE] }));
    watch.calls(server, token, &json!({ "path": PATH, UNSAFE: UNSAFE }));
}

#[test]
fn planted_texts_occur_only_where_they_belong() {
    let hosted = Hosted::new(Behaviour::Refuse);
    let secret = hosted.ground.file("secret", SECRET);
    let own = hosted.ground.file("own", OWN);
    let watching =
        ["--log", "trace", "--metrics-listen", "127.0.0.1:0", "--upstream-timeout-seconds", "1"];
    let with_secret =
        [&watching[..], &["--gateway-secret-file", secret.to_str().unwrap()]].concat();
    let with_own = [
        &with_secret[..],
        &["--upstream-credential", "own", "--upstream-token-file", own.to_str().unwrap()],
    ]
    .concat();
    let mint = || hosted.mint(SUBJECT).actor(ACTOR).vault(VAULT).role(ROLE).scope("read:/");
    let token = mint().token(Alg::Es256);
    for flags in [with_secret, with_own] {
        let server = hosted.gateway(&flags);
        let (never, answers_only) = (never(&token), answers_only());
        let mut watch = Watch { never, answers_only, outcomes: BTreeSet::new(), calls: 0 };
        outcomes(&hosted, &server, &mut watch, &token);
        // A token that the gateway sends nowhere, and a path that the token is not for.
        let barred =
            if flags.contains(&"own") { mint().scope("") } else { mint().claim("aud", GATEWAY) };
        watch.calls(&server, &barred.token(Alg::Es256), &json!({ "path": PATH }));
        let expected = [
            "Invalid arguments", "Invalid path", "Note too large", "Upstream 302", "Upstream 401",
            "Upstream 403", "Upstream 404", "Upstream 429", "Upstream 500",
            "Upstream invalid response", "Upstream timeout", "Upstream unavailable", "ok",
        ];
        assert_eq!(watch.outcomes.iter().map(String::as_str).collect::<Vec<_>>(), expected);

        // Whoever gets no further than the door.
        let arguments = json!({ "path": PATH });
        for (token, status) in [
            (mint().expires_in(-3600).token(Alg::Es256), 401),
            (mint().signature(Signature::Broken).token(Alg::Es256), 401),
            (mint().claim("aud", SENT).token(Alg::Es256), 401),
            (mint().claim("iss", SENT).token(Alg::Es256), 401),
            (SENT.to_owned(), 401),
            (mint().claim("vault", json!([VAULT, "other-vault"])).token(Alg::Es256), 403),
        ] {
            let reply = post_with(&server, &token, &[], TOOLS[0], &arguments);
            assert_eq!(reply.status, status);
            watch.look("a refused token", &reply);
        }

        // What is no call of a tool.
        let mut client = server.client(&token);
        for (method, params) in [
            ("tools/list", json!({})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("prompts/list", json!({})),
            ("resources/read", json!({ "uri": format!("list://{UNSAFE}") })),
            ("prompts/get", json!({ "name": "canary-prompt" })),
        ] {
            watch.look(method, &client.post(method, params).unwrap());
        }
        for body in [
            format!("{{\"{BODY}"),
            format!("[\"{BODY}\"]"),
            request(1, "canary-method", json!({})).to_string(),
        ] {
            let reply = client.send(&Client::post_bytes(&token, &[], body.as_bytes())).unwrap();
            assert!(reply.status >= 400 || reply.json()["error"].is_object(), "{reply:?}");
            watch.look("a bad message", &reply);
        }

        // The same in a session, and somebody else in it.
        let opened = initialize("2025-11-25", SENT).to_string();
        let reply = client.send(&Client::post_bytes(&token, &[], opened.as_bytes())).unwrap();
        let session = reply.header("mcp-session-id").unwrap().to_owned();
        let call = request(1, "tools/call", json!({ "name": TOOLS[3], "arguments": arguments }))
            .to_string();
        let headers = [("mcp-session-id", session.as_str())];
        let reply = client.send(&Client::post_bytes(&token, &headers, call.as_bytes())).unwrap();
        watch.never.assert_absent("a call in a session", &reply.bytes());
        assert!(String::from_utf8_lossy(&reply.body).contains(HEADING), "{reply:?}");
        watch.calls += 1;
        let other = hosted.mint("canary-other-subject").token(Alg::Es256);
        let reply =
            server.client("").send(&Client::post_bytes(&other, &headers, call.as_bytes())).unwrap();
        assert_eq!(reply.status, 404);
        watch.look("somebody else's session", &reply);

        assert_silent(&watch, server);
    }
}

/// A store whose failure says all that it knows.
struct Panics;

impl NoteSource for Panics {
    fn read<'a>(
        &'a self,
        reading: NoteRequest<'a>,
    ) -> BoxFuture<'a, Result<PortableNote, UpstreamFailure>> {
        let session = reading.session();
        let credential = session.credential.as_ref().map_or("", Credential::reveal).to_owned();
        async move { panic!("{BODY} {PATH} {credential} {}", session.vault) }.boxed()
    }
}

/// Lets everybody in.
struct Anybody;

impl TokenVerifier for Anybody {
    fn verify<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>> {
        let identity = IdentityClaims {
            issuer: None,
            actor: SUBJECT.into(),
            vault: VaultClaim::One(VAULT.into()),
            role: stile_domain::role::Role::Viewer,
            audiences: vec![GATEWAY.into()],
        };
        let expires = SystemTime::now() + std::time::Duration::from_secs(300);
        std::future::ready(Ok(VerifiedCaller {
            principal: principal(SUBJECT, None, ""),
            identity,
            expires,
        }))
        .boxed()
    }
}

/// All of it runs on this thread, whose log is the test's own.
#[tokio::test]
async fn a_panic_is_an_internal_error_and_the_log_lacks_its_number_and_message() {
    let heard = Log::new();
    let sessions = SessionFactory {
        default_vault: VAULT.into(),
        credentials: ByVault::one(UpstreamCredential::Forward { audience: GATEWAY.into() }),
    };
    let metrics = Arc::new(Metrics::default());
    let service = Service::new(RemoteNotes::new(Arc::new(Panics)), None)
        .with_sessions(sessions)
        .with_metrics(Arc::clone(&metrics));
    let options = HttpOptions { listen: ([127, 0, 0, 1], 0).into(), ..HttpOptions::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    let (listening, address) = oneshot::channel();
    let stopped = stopped.map(drop);
    let announce = move |address| listening.send(address).unwrap();
    let served = tokio::spawn(http::serve(options, service, Arc::new(Anybody), stopped, announce));
    let address = address.await.unwrap();

    let canaries = never("canary-head.canary-claims.canary-signature");
    for tool in TOOLS {
        let mut client = Client::new(TcpStream::connect(address).await.unwrap());
        let token = "canary-head.canary-claims.canary-signature";
        let params = json!({ "name": tool, "arguments": { "path": PATH } });
        let reply = client.sessionless(token, "tools/call", params).await;
        let answer = reply.json();
        let result = &answer["result"];
        assert_eq!((reply.status, &result["isError"]), (200, &json!(true)), "{answer}");
        assert_eq!(result["structuredContent"]["code"], "UPSTREAM_ERROR");
        let error = result["structuredContent"]["error"].as_str().unwrap();
        let (words, incident) = error.rsplit_once(' ').unwrap();
        assert_eq!(words, "Internal error; give the user incident number");
        assert!(incident.parse::<u64>().is_ok(), "{error}");
        let whole = format!("{:?} {}", reply.headers, reply.body);
        for canaries in [&canaries, &answers_only()] {
            canaries.assert_absent("the answer", whole.as_bytes());
            canaries.assert_absent("the log", heard.text().as_bytes());
            canaries.assert_absent("the metrics", metrics.text().as_bytes());
        }
        let log = heard.text();
        assert!(!log.contains(incident), "{log}");
        let line = log.lines().rfind(|line| line.contains("outcome=")).unwrap();
        assert_line(line);
        assert!(line.contains("outcome=\"internal\"") && line.contains(tool), "{line}");
    }
    stop.send(()).unwrap();
    served.await.unwrap().unwrap();
}
