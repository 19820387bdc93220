//! Records over HTTP, as an owner fills them and a client of a grant reads them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_testkit::hosted::{AUDIENCE, Hosted};
use stile_testkit::issuer::{Alg, Mint};
use stile_testkit::process::Rig;

use super::records_kit::{Kit, refusal};
use super::sign_in_kit::fetch;

fn message(number: u32, text: &str) -> Value {
    json!({ "data": {
        "id": format!("m{number}"), "sent_at": format!("2026-{:02}-01T12:00:00Z", number), "author": "ann", "body": text,
    } })
}

fn kit() -> Kit {
    let kit = Kit::new();
    let rows: Vec<Value> =
        (1..=9).map(|number| message(number, &format!("message {number}"))).collect();
    kit.ingest("messages", "chat", &rows);
    kit
}

const TWO: &[&str] =
    &["--stream", "messages", "--field", "id", "--field", "body", "--since", "2026-04-01"];

#[test]
fn a_client_sees_two_fields_since_april_and_nothing_else() {
    let kit = kit();
    let (_, token) = kit.client(TWO);
    let list = kit.json("/v1/streams/messages/records?order=asc", &token);
    let rows = list["data"].as_array().unwrap();
    let seen: Vec<&Value> = rows.iter().map(|row| &row["data"]).collect();
    let expected: Vec<Value> = (4..=9)
        .map(|number| json!({ "id": format!("m{number}"), "body": format!("message {number}") }))
        .collect();
    // The field that would order them is hidden, so their keys do.
    assert_eq!(seen, expected.iter().collect::<Vec<_>>());
    assert_eq!(kit.json("/v1/streams", &token)["data"][0]["record_count"], 6);
    assert_eq!(
        kit.refused("/v1/streams/messages/records/m1", &token),
        (404, "not_found".to_owned())
    );
    assert_eq!(
        kit.refused("/v1/streams/messages/records/m99", &token),
        (404, "not_found".to_owned())
    );
    assert_eq!(
        kit.refused("/v1/streams/messages/records?fields=author", &token),
        (403, "field_not_granted".to_owned())
    );
    assert_eq!(
        kit.refused("/v1/streams/messages/records?fields=nothing", &token),
        (403, "field_not_granted".to_owned())
    );
    assert_eq!(
        kit.refused("/v1/streams/other/records", &token),
        (403, "grant_stream_not_allowed".to_owned())
    );
    let schema = kit.get("/v1/schema", &token);
    assert!(
        !String::from_utf8_lossy(&schema.body).contains("author"),
        "a hidden field is not in the schema"
    );
}

#[test]
fn every_answer_names_the_server_and_forbids_caching() {
    let kit = kit();
    let replies = [
        kit.get("/v1/streams", &kit.owner),
        kit.get("/v1/streams", "nobody"),
        kit.get("/v1/nothing", &kit.owner),
        kit.send("PUT", "/v1/streams", &kit.owner, "", ""),
        kit.send("GET", "/v1/streams", &kit.owner, "PDPP-Version: 1999-01-01\r\n", ""),
        kit.get("/v1/openapi.json", ""),
    ];
    let mut ids = BTreeSet::new();
    for reply in &replies {
        assert_eq!(reply.header("request-id"), reply.header("x-request-id"));
        assert!(
            ids.insert(reply.header("request-id").unwrap().to_owned()),
            "each request has its own"
        );
        assert_eq!(reply.header("cache-control"), Some("private, no-store"));
        assert_eq!(reply.header("pdpp-version"), Some("2026-04-06"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    let told: Vec<(u16, String)> = replies[1..5].iter().map(refusal).collect();
    let told: Vec<(u16, &str)> =
        told.iter().map(|(status, code)| (*status, code.as_str())).collect();
    assert_eq!(
        told,
        [
            (401, "authentication_error"),
            (404, "not_found"),
            (405, "method_not_allowed"),
            (400, "unsupported_version")
        ]
    );
    assert!(replies[1].header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
    assert_eq!(replies[3].header("allow"), Some("GET"));
    assert_eq!((replies[5].status, &replies[5].json()["openapi"]), (200, &json!("3.1.0")));
}

#[test]
fn a_path_scope_never_reaches_records_and_a_grant_never_reaches_files() {
    let kit = kit();
    let files = kit.rig.token(&["read:/"], &[]);
    assert_eq!(kit.refused("/v1/streams", &files), (403, "insufficient_scope".to_owned()));
    let (_, token) = kit.client(TWO);
    for (method, target) in
        [("DELETE", "/v1/streams/messages/records/m5"), ("POST", "/v1/ingest/messages")]
    {
        let reply = kit.send(method, target, &token, "", "");
        assert_eq!(refusal(&reply), (403, "insufficient_scope".to_owned()), "{method}");
    }
    assert!(kit.get("/api/v1/notes/x.md", &token).status >= 400);
}

#[test]
fn a_revocation_takes_effect_with_the_next_request() {
    let kit = kit();
    let (id, token) = kit.client(TWO);
    assert_eq!(kit.get("/v1/streams", &token).status, 200);
    kit.said(&["grant", "revoke", &id]);
    assert_eq!(kit.refused("/v1/streams", &token), (403, "grant_revoked".to_owned()));
    // What is wrong with the request is not said any more.
    assert_eq!(
        kit.refused("/v1/streams/x/records?limit=x", &token),
        (403, "grant_revoked".to_owned())
    );
}

#[test]
fn a_single_use_grant_belongs_to_the_first_token_that_uses_it() {
    let kit = kit();
    let (id, first) = kit.client(&[TWO, &["--single-use"]].concat());
    let second = kit.rig.token(&[], &["--grant", &id]);
    let asked = |token: &str| kit.get("/v1/streams", token).status;
    let statuses: Vec<(u16, u16)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..8)
            .map(|_| (scope.spawn(|| asked(&first)), scope.spawn(|| asked(&second))))
            .collect();
        handles.into_iter().map(|(a, b)| (a.join().unwrap(), b.join().unwrap())).collect()
    });
    let (winner, loser) = if statuses[0].0 == 200 { (&first, &second) } else { (&second, &first) };
    assert!(
        statuses
            .iter()
            .all(|(a, b)| (*a == 200) != (*b == 200) && (*a == 200) == (statuses[0].0 == 200))
    );
    assert_eq!(kit.get("/v1/streams", winner).status, 200);
    assert_eq!(kit.refused("/v1/streams", loser), (403, "grant_consumed".to_owned()));
}

#[test]
fn a_long_record_arrives_whole_and_its_windows_make_the_field() {
    let kit = Kit::new();
    let text = "Grüße 👩‍👧 e\u{301} 中文\r\n\u{0}\"\\ and so on. ".repeat(9000);
    kit.ingest(
        "notes",
        "own",
        &[json!({ "data": { "id": "a/../b c", "body": text, "tags": vec!["x"; 9000] } })],
    );
    let path = "/v1/streams/notes/records/a%2F..%2Fb%20c";
    let whole = kit.get(path, &kit.owner);
    let length = whole.header("content-length").unwrap();
    assert_eq!(length, whole.body.len().to_string(), "an error after the first byte is impossible");
    assert_eq!(
        (&whole.json()["data"]["body"], &whole.json()["data"]["tags"]),
        (&json!(text), &json!(vec!["x"; 9000]))
    );

    let (_, token) = kit.client(&["--stream", "notes", "--field", "body", "--field", "tags"]);
    for (field, expected) in [("body", text.clone()), ("tags", json!(vec!["x"; 9000]).to_string())]
    {
        let (mut all, mut cursor) = (String::new(), String::new());
        loop {
            let window = kit.json(
                &format!("{path}/field-window?field={field}&limit_chars=16384{cursor}"),
                &token,
            );
            all.push_str(window["window"]["text"].as_str().unwrap());
            match window["window"]["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert!(all == expected, "{field}");
    }
    let preview = kit.json(&format!("{path}?preview_chars=10"), &token);
    assert_eq!(preview["data"]["body"], json!(text.chars().take(10).collect::<String>()));
    assert_eq!(preview["previews"]["body"]["size_chars"], json!(text.chars().count()));
}

#[test]
fn a_cursor_survives_a_restart_and_works_on_its_server_only() {
    let kit = kit();
    let (_, token) = kit.client(&["--stream", "messages"]);
    let page = kit.json("/v1/streams/messages/records?limit=2", &token);
    let next = page["links"]["next"].as_str().unwrap().to_owned();
    let Kit { folder, rig, server, owner } = kit;
    let (status, _) = server.stop();
    assert!(status.success());
    let server = rig.serve(&[]);
    let kit = Kit { folder, rig, server, owner };
    let second = kit.json(&next, &token);
    assert_eq!(second["data"][0]["id"], "m7");
    assert_eq!(
        kit.refused(&next, &kit.owner),
        (400, "invalid_cursor".to_owned()),
        "the owner is another caller"
    );

    let other = self::kit();
    let reply = other.get(&next, &other.owner);
    assert_eq!((reply.status, &reply.json()["error"]["reason"]), (400, &json!("malformed")));
}

#[test]
fn a_deleted_record_stays_deleted() {
    let kit = kit();
    for _ in 0..2 {
        let reply = kit.send("DELETE", "/v1/streams/messages/records/m5", &kit.owner, "", "");
        assert_eq!((reply.status, reply.body.len()), (204, 0));
    }
    assert_eq!(
        kit.refused("/v1/streams/messages/records/m5", &kit.owner),
        (404, "not_found".to_owned())
    );
    assert_eq!(kit.json("/v1/streams", &kit.owner)["data"][0]["record_count"], 8);
}

#[test]
fn a_token_of_an_identity_provider_names_a_grant_and_never_an_owner() {
    let hosted = Hosted::new(env!("CARGO_BIN_EXE_stile"));
    let rig = hosted.rig("origin");
    let run = |arguments: &[&str]| {
        let mut command = rig.command(arguments);
        let ran = command.arg("--state").arg(&rig.state).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    let rows = hosted.file("rows.jsonl", "{\"id\":\"a\",\"secret\":\"x\"}");
    run(&["import", &rows, "--connection", "c", "--stream", "s"]);
    let grant = run(&["grant", "create", "--client", "x", "--stream", "s", "--field", "id"]);
    let server = hosted.origin(&rig, &[]);
    let ask = |mint: Mint<'_>| {
        let token = mint.token(Alg::Es256);
        let get = format!(
            "GET /v1/streams/s/records/a HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
            server.address
        );
        server.client(&token).send(get.as_bytes()).unwrap()
    };
    let mint = || hosted.issuer.mint("ann", AUDIENCE);
    assert_eq!(ask(mint().claim("grant", grant)).json()["data"], json!({ "id": "a" }));
    for mint in
        [mint(), mint().claim("records", "owner"), mint().scope("read:/").claim("records", "owner")]
    {
        assert_eq!(refusal(&ask(mint)).1, "insufficient_scope");
    }
}

#[test]
fn the_log_and_the_journal_have_nothing_of_a_record() {
    let kit = Kit::new();
    let canary = "CANARY-in-a-record";
    kit.ingest("diary", "own", &[json!({ "data": { "id": canary, "body": canary, canary: 1 } })]);
    let target = format!("/v1/streams/diary/records/{canary}");
    kit.json(&format!("{target}?fields={canary}"), &kit.owner);
    kit.json(&format!("{target}/field-window?field=body&q=canary"), &kit.owner);
    kit.refused(
        &format!("/v1/streams/diary/records?filter[{canary}]={canary}&x={canary}"),
        &kit.owner,
    );
    let (_, log) = kit.server.stop();
    let files = std::fs::read_dir(kit.rig.state.join("journal")).unwrap();
    let journal: String =
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    assert!(
        journal.contains("v1.getFieldWindow") && journal.contains("v1.ingestRecords"),
        "{journal}"
    );
    for said in [journal, String::from_utf8_lossy(&log).into_owned()] {
        assert!(!said.contains(canary), "{said}");
    }
}

#[test]
fn a_refused_ingest_is_answered_before_its_body_arrives() {
    let kit = kit();
    let (_, token) = kit.client(&["--stream", "messages"]);
    let head = format!(
        "POST /v1/ingest/messages?connection_id=mail HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n",
        kit.server.address
    );
    let begun = Instant::now();
    let reply = kit.server.client(&token).send(head.as_bytes()).unwrap();
    assert_eq!(refusal(&reply), (403, "insufficient_scope".to_owned()));
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "it waited for the body as long as for one that stalls"
    );
}

#[test]
fn requests_are_counted_by_the_form_of_their_path_and_never_by_what_they_ask_for() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    let server = rig.serve(&["--metrics-listen", "127.0.0.1:0"]);
    let token = rig.token(&[], &["--owner"]);
    let ask = |method: &str, target: &str, token: &str, body: &str| {
        let authorization = format!("Bearer {token}");
        let headers = [("Authorization", &*authorization)];
        fetch(method, &format!("http://{}{target}", server.address), &headers, body).status
    };
    let row = "{\"data\":{\"id\":\"secret\"}}\n";
    assert_eq!(ask("POST", "/v1/ingest/secret?connection_id=secret", &token, row), 200);
    assert_eq!(ask("GET", "/v1/streams/secret/records", &token, ""), 200);
    for id in ["secret", "secret", "other-secret"] {
        let expected = if id == "secret" { 200 } else { 404 };
        assert_eq!(ask("GET", &format!("/v1/streams/secret/records/{id}"), &token, ""), expected);
    }
    assert_eq!(ask("GET", "/v1/streams/secret/records/secret", "secret", ""), 401);
    assert_eq!(ask("GET", "/v1/secret", &token, ""), 404);
    assert_eq!(ask("DELETE", "/v1/search", &token, ""), 405);
    let count = |method: &str, route: &str, status: &str, count: usize| {
        let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
        format!("stile_requests_total{{{labels}}} {count}\n")
    };
    let record = "/v1/streams/{stream}/records/{id}";
    let expected = [
        count("GET", "/v1/streams/{stream}/records", "200", 1),
        count("GET", record, "200", 2),
        count("GET", record, "401", 1),
        count("GET", record, "404", 1),
        count("POST", "/v1/ingest/{stream}", "200", 1),
        count("other", "other", "404", 1),
        count("other", "other", "405", 1),
    ]
    .concat();
    // An answer counts when it has ended, which a client may know before the server.
    let began = Instant::now();
    let metrics = loop {
        let url = format!("http://{}/metrics", server.metrics_address());
        let metrics = String::from_utf8(fetch("GET", &url, &[], "").body).unwrap();
        let lines = metrics.split_inclusive('\n');
        let counted: String = lines.filter(|line| line.starts_with("stile_requests")).collect();
        if counted == expected {
            break metrics;
        }
        assert!(began.elapsed().as_secs() < 30, "{counted}");
    };
    assert!(!metrics.contains("secret"), "{metrics}");
    let took = format!("stile_request_seconds_count{{method=\"GET\",route=\"{record}\"}} 4\n");
    assert!(metrics.contains(&took), "{metrics}");
}
