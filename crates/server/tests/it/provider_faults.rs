//! `stile mcp` over servers that misbehave: what is said of it, and that nothing is given away or
//! goes elsewhere.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_testkit::leaks::Canaries;
use stile_testkit::upstream::faults::{CANARY, all_faults, redirects};
use stile_testkit::upstream::tls::{Certificate, Protocol};
use stile_testkit::upstream::{Behaviour, Reply, Upstream};

use super::provider_kit::{Adapter, Desk};

const TOKEN: &str = "token-9d21-that-nobody-may-see";
const ID: &str = "c/messages:m1";

fn record() -> Reply {
    Reply::json(
        200,
        &json!({ "id": "m1", "stream": "messages", "connection_id": "c", "data": { "body": "good" } }),
    )
}

fn start(behaviour: Behaviour) -> (Upstream, Desk, Adapter) {
    let upstream = Upstream::start(behaviour);
    let desk = Desk::new(TOKEN);
    let adapter = adapter(&desk, &upstream, "1");
    (upstream, desk, adapter)
}

fn adapter(desk: &Desk, upstream: &Upstream, seconds: &str) -> Adapter {
    desk.adapter(&upstream.url(), &["--provider-timeout-seconds", seconds])
}

fn fetch(adapter: &mut Adapter) -> Value {
    adapter.refused("fetch", json!({ "id": ID }))
}

/// Ends it, and looks for secrets in all that it ever said.
fn end(adapter: Adapter, desk: &Desk) {
    let (status, said, log) = adapter.end();
    assert!(status.success());
    let canaries =
        Canaries::new().plant("token", TOKEN).plant("folder", desk.path().to_str().unwrap());
    canaries.assert_absent("an answer", &said);
    canaries.assert_absent("the log", &log);
    Canaries::new().plant("what the server said", CANARY).assert_absent("the log", &log);
}

#[test]
fn each_fault_has_a_code_and_ends_when_the_server_recovers() {
    let html = || Reply::bytes(500, "text/html", format!("<html>{CANARY}</html>"));
    let huge = format!("{{\"id\":\"m1\",\"data\":{{\"body\":\"{}\"}}}}", "x".repeat(64 << 20));
    let many = format!("{{\"id\":\"m1\",\"data\":{{\"body\":[{}0]}}}}", "0,".repeat(4 << 20));
    let cases = [
        (Behaviour::always(html()), "provider_failed"),
        (Behaviour::always(Reply::bytes(403, "text/plain", CANARY)), "provider_forbids"),
        (Behaviour::always(Reply::bytes(404, "text/plain", CANARY)), "provider_has_no_such_path"),
        (Behaviour::always(Reply::bytes(401, "text/plain", CANARY)), "token_refused"),
        (
            Behaviour::always(Reply::bytes(200, "text/html", format!("<html>{CANARY}"))),
            "answer_not_json",
        ),
        (Behaviour::always(Reply::bytes(200, "application/json", "")), "answer_not_json"),
        (Behaviour::always(Reply::bytes(200, "application/json", [0xff, 0xfe])), "answer_not_json"),
        (
            Behaviour::always(Reply::bytes(200, "application/json", r#"{"id":"m1","data":{"#)),
            "answer_not_json",
        ),
        (Behaviour::always(Reply::json(200, &json!([CANARY]))), "provider_error"),
        (Behaviour::always(Reply::bytes(200, "application/json", huge)), "answer_too_large"),
        // Far fewer bytes than are taken, but so many values that they would take a gigabyte.
        (Behaviour::always(Reply::bytes(200, "application/json", many)), "answer_too_large"),
        (Behaviour::endless_chunks(), "answer_too_large"),
        (Behaviour::declares(1 << 40), "answer_too_large"),
        (Behaviour::bomb("gzip"), "answer_encoded"),
        (Behaviour::Silence, "provider_timeout"),
        (Behaviour::slow_body(Duration::from_millis(20)), "provider_timeout"),
        (Behaviour::CloseAtOnce, "provider_unreachable"),
        (Behaviour::cut_in_body(), "provider_unreachable"),
        (Behaviour::cut_after_a_whole_note(), "provider_unreachable"),
        (Behaviour::Refuse, "provider_unreachable"),
    ];
    let (upstream, desk, mut hasty) = start(Behaviour::always(record()));
    // What is not about time has as much as a busy machine needs.
    let mut patient = adapter(&desk, &upstream, "60");
    for (behaviour, code) in cases {
        upstream.set(behaviour);
        let error = fetch(if code == "provider_timeout" { &mut hasty } else { &mut patient });
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("adapter_error"), &json!(code)),
            "{error}"
        );
        let text = error.to_string();
        let says = [CANARY, "127.0.0.1", "http:"].iter().find(|secret| text.contains(**secret));
        assert_eq!(says, None, "{text}");
    }
    upstream.set(Behaviour::always(record()));
    for mut adapter in [hasty, patient] {
        assert_eq!(adapter.call("fetch", json!({ "id": ID }))["structuredContent"]["text"], "good");
        end(adapter, &desk);
    }
}

/// Some of these are answers that may pass for a record of nothing; none of them breaks anything.
#[test]
fn the_adapter_survives_every_fault_and_never_reveals_the_token() {
    let faults = Mutex::new(all_faults().into_iter());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (upstream, desk, mut adapter) = start(Behaviour::always(record()));
                loop {
                    let next = faults.lock().unwrap().next();
                    let Some((name, behaviour)) = next else { break };
                    upstream.set(behaviour);
                    let began = Instant::now();
                    let result = adapter.result("fetch", json!({ "id": ID }));
                    assert_eq!(result["isError"], true, "{name}: {result}");
                    assert!(result.to_string().len() < 40 * 1024, "{name}");
                    assert!(began.elapsed() < Duration::from_secs(20), "{name}");
                }
                upstream.set(Behaviour::always(record()));
                assert_eq!(
                    adapter.call("fetch", json!({ "id": ID }))["structuredContent"]["text"],
                    "good"
                );
                end(adapter, &desk);
            });
        }
    });
}

#[test]
fn no_answer_makes_the_adapter_contact_another_server() {
    let elsewhere = Upstream::start(Behaviour::always(record()));
    let (upstream, desk, mut adapter) = start(Behaviour::always(record()));
    for (name, behaviour) in redirects(&elsewhere.url()) {
        upstream.set(behaviour);
        let error = fetch(&mut adapter);
        assert_eq!(error["type"], "adapter_error", "{name}: {error}");
        assert!(!error.to_string().contains(&elsewhere.url()), "{name}");
    }
    // Neither by a link in an answer that is good.
    let lure = json!({
        "id": "m1", "stream": "messages", "connection_id": "c", "data": { "body": "x".repeat(100_000) },
        "url": elsewhere.url(), "links": { "self": elsewhere.url(), "next": elsewhere.url() },
    });
    upstream.set(Behaviour::always(Reply::json(200, &lure)));
    adapter.result("fetch", json!({ "id": ID }));
    assert_eq!(elsewhere.connections(), 0);
    end(adapter, &desk);
}

/// A server that says more than it was asked for, wherever something is handed on.
#[test]
fn a_lying_server_cannot_make_an_answer_too_long() {
    let long = "lie ".repeat(100_000);
    let hit = json!({ "stream": "messages", "record_key": "m1", "connection_id": "c" });
    let with = |mut value: Value, name: &str| {
        value[name] = long.as_str().into();
        value
    };
    let record = json!({ "id": "m1", "stream": "messages", "connection_id": "c", "data": { "body": "good" } });
    let count =
        json!({ "object": "aggregation", "stream": "messages", "metric": "count", "value": 1 });
    let window = json!({ "text": long, "start_chars": 0, "end_chars": 10, "limit_chars": 10, "complete": true });
    let field = |mime_type: &str| json!({ "path": "body", "mime_type": mime_type });
    let (fetch, read) =
        (json!({ "id": ID }), json!({ "id": ID, "field_path": "body", "limit_chars": 10 }));
    let lists = json!({ "stream": "messages" });
    let (upstream, desk, mut adapter) = start(Behaviour::always(Reply::json(200, &record)));
    for (tool, arguments, answer) in [
        ("search", json!({ "q": "x" }), json!({ "data": [with(hit.clone(), "title")] })),
        ("search", json!({ "q": "x" }), json!({ "data": [with(hit.clone(), "emitted_at")] })),
        ("search", json!({ "q": "x" }), json!({ "data": [with(hit.clone(), "record_key")] })),
        ("search", json!({ "q": "x" }), json!({ "data": [hit.clone()], "meta": { "x": long } })),
        ("search", json!({ "q": "x" }), json!({ "data": [hit.clone()], "next_cursor": long })),
        ("search", json!({ "q": "x" }), json!({ "data": vec![hit; 3_000] })),
        ("fetch", fetch.clone(), with(record.clone(), "emitted_at")),
        ("fetch", fetch.clone(), with(record.clone(), "id")),
        ("fetch", fetch.clone(), with(record.clone(), "stream")),
        ("fetch", fetch.clone(), json!({ "id": "m1", "data": { long.as_str(): 1 } })),
        ("query_records", lists.clone(), json!({ "data": [with(record.clone(), "deleted_at")] })),
        (
            "query_records",
            lists.clone(),
            json!({ "data": [with(record.clone(), "cursor"), record.clone()] }),
        ),
        ("query_records", lists, json!({ "data": [record.clone()], "next_changes_since": long })),
        ("aggregate", json!({ "stream": "messages", "metric": "count" }), with(count, "more")),
        ("schema", json!({}), json!({ "bearer": long, "connectors": [] })),
        ("schema", json!({}), json!({ "connectors": [{ "streams": [{ "name": long }] }] })),
        (
            "read_record_field",
            read.clone(),
            json!({ "field": field("text/plain"), "window": window }),
        ),
        ("read_record_field", read.clone(), json!({ "field": field(&long), "window": window })),
        (
            "read_record_field",
            read.clone(),
            json!({ "field": field("text/plain"), "window": with(window.clone(), "next_cursor") }),
        ),
    ] {
        upstream.set(Behaviour::always(Reply::json(200, &answer)));
        let result = adapter.result(tool, arguments);
        let shown = serde_json::to_string(&answer).unwrap();
        assert!(result.to_string().len() < 100 * 1024, "{tool} {}", &shown[..80]);
        let code = result["structuredContent"]["error"]["code"].as_str();
        let codes = [None, Some("answer_too_large"), Some("provider_error")];
        assert!(codes.contains(&code), "{tool} {}: {result}", &shown[..80]);
    }
    // And as resources: bytes, a text and a record.
    let bytes =
        json!({ "base64": "AAAA", "start_bytes": 0, "end_bytes": 3, "next_offset_bytes": 3 });
    let short = json!({ "text": "good", "start_chars": 0, "end_chars": 4, "limit_chars": 4, "complete": false });
    let not_text =
        json!({ "error": { "type": "t", "code": "field_not_text", "message": "bytes" } });
    let (of_bytes, of_text) =
        (json!({ "field": {}, "window": bytes }), json!({ "field": {}, "window": short }));
    let told = of_bytes.clone();
    upstream.set(Behaviour::notes(move |received| {
        match received.target.contains("offset_bytes") {
            true => Reply::json(200, &told),
            false => Reply::json(422, &not_text),
        }
    }));
    let bytes_uri = adapter.refused("read_record_field", read.clone())["resource"]["uri"].take();
    upstream.set(Behaviour::always(Reply::json(200, &of_text)));
    let text_uri = adapter.call("read_record_field", read.clone())["structuredContent"]["resource"]
        ["uri"]
        .take();
    upstream.set(Behaviour::always(Reply::json(200, &record)));
    let record_uri = adapter.call("fetch", fetch.clone())["structuredContent"]["url"].take();
    let within = |told: &Value, name: &str| {
        let mut told = told.clone();
        told["window"] = with(told["window"].clone(), name);
        told
    };
    let more = json!({ "shown": 1, "total": 2, "next_cursor": long });
    for (uri, answer) in [
        (&bytes_uri, within(&of_bytes, "next_cursor")),
        (&bytes_uri, json!({ "field": field(&long), "window": bytes })),
        (&bytes_uri, json!({ "field": {}, "window": with(bytes.clone(), "base64") })),
        (&text_uri, within(&of_text, "next_cursor")),
        (&text_uri, json!({ "field": field(&long), "window": short })),
        (&record_uri, json!({ "id": "m1", "data": { "body": "good" }, "more_fields": more })),
        (&record_uri, with(record.clone(), "emitted_at")),
    ] {
        upstream.set(Behaviour::always(Reply::json(200, &answer)));
        let answered = adapter.request("resources/read", json!({ "uri": uri }));
        assert!(answered.to_string().len() < 100 * 1024, "{}", &answer.to_string()[..80]);
        let code = answered["error"]["data"]["code"].as_str();
        assert!(
            [None, Some("answer_too_large"), Some("provider_error")].contains(&code),
            "{code:?}"
        );
    }
    // A window that is longer than was asked for is cut there, and goes on from there.
    upstream.set(Behaviour::always(Reply::json(
        200,
        &json!({ "field": field("text/plain"), "window": window }),
    )));
    let read = json!({ "id": ID, "field_path": "body", "limit_chars": 10 });
    let cut = adapter.call("read_record_field", read)["structuredContent"]["window"].take();
    assert_eq!(
        (&cut["text"], &cut["end_chars"], &cut["complete"]),
        (&json!("lie lie li"), &json!(10), &json!(false))
    );
    upstream.take_requests();
    let next = json!({ "id": ID, "field_path": "body", "cursor": cut["next_cursor"] });
    let error = adapter.refused("read_record_field", next);
    assert_eq!(error["code"], "provider_error", "what it sends begins elsewhere");
    assert!(upstream.requests()[0].target.contains("offset_chars=10&"));
    end(adapter, &desk);
}

/// A window that is none, or another one than was asked for, is not shown.
#[test]
fn a_wrong_window_is_refused() {
    let (upstream, desk, mut adapter) = start(Behaviour::always(record()));
    let window = |start: u64, end: u64, more: Value| {
        let mut window = json!({
            "text": "good", "start_chars": start, "end_chars": end, "limit_chars": 4, "complete": false,
            "next_offset_chars": end,
        });
        window.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        Behaviour::always(Reply::json(
            200,
            &json!({ "field": { "path": "body" }, "window": window }),
        ))
    };
    let read = json!({ "id": ID, "field_path": "body", "offset_chars": 800 });
    for (start, end, more) in [
        (800, 796, json!({})),
        (u64::MAX - 4, u64::MAX, json!({})),
        (0, 4, json!({})),
        (800, 804, json!({ "next_offset_chars": 800 })),
        (800, 804, json!({ "previous_offset_chars": 800 })),
        (800, 805, json!({})),
        (800, 804, json!({ "match_start_chars": 3, "match_end_chars": 2 })),
    ] {
        upstream.set(window(start, end, more.clone()));
        let error = adapter.refused("read_record_field", read.clone());
        assert_eq!(error["code"], "provider_error", "{start} {end} {more}: {error}");
    }
    // A match that nobody asked for is not shown as one of nothing.
    upstream.set(window(800, 804, json!({ "match_start_chars": 801, "match_end_chars": 802 })));
    let shown = adapter.call("read_record_field", read)["structuredContent"]["window"].take();
    assert_eq!((&shown["match"], &shown["text"]), (&Value::Null, &json!("good")));
    // Bytes, where a cursor to some is brought.
    upstream.set(Behaviour::always(Reply::json(
        200,
        &json!({ "field": { "path": "body" }, "window": { "base64": "AAAA", "start_bytes": 3, "end_bytes": 6 } }),
    )));
    let read = json!({ "id": ID, "field_path": "body", "cursor": "of bytes" });
    let error = adapter.refused("read_record_field", read);
    assert_eq!(error["code"], "field_not_text", "{error}");
    assert!(
        error["resource"]["uri"].as_str().unwrap().starts_with("pdpp://field-window/"),
        "{error}"
    );
    end(adapter, &desk);
}

/// A connection without a name is none: neither is it sent, nor does it make an id that is refused.
#[test]
fn a_server_without_connections_gets_requests_without_connections() {
    for connection in [json!(null), json!("")] {
        let answer = json!({ "id": "k1", "stream": "s", "connection_id": connection, "data": { "body": "good" } });
        let (upstream, desk, mut adapter) = start(Behaviour::always(Reply::json(200, &answer)));
        let fetched = adapter.call("fetch", json!({ "id": "s:k1" }))["structuredContent"].take();
        let by_uri =
            adapter.call("fetch", json!({ "id": fetched["url"] }))["structuredContent"].take();
        assert_eq!((&fetched["id"], &by_uri["id"]), (&json!("s:k1"), &json!("s:k1")));
        let asked = upstream.requests();
        assert!(
            asked.iter().all(|request| !request.target.contains("connection_id")),
            "{connection}"
        );
        end(adapter, &desk);
    }
}

#[test]
fn a_renewed_token_is_read_again_and_handles_stay_valid() {
    let renewed = "token-after-the-first-one-8c1f";
    let body = "x".repeat(100_000);
    let answer = move |want: &'static str| {
        let body = body.clone();
        Behaviour::notes(move |received| {
            if received.header("authorization") != Some(&format!("Bearer {want}")) {
                let error = json!({ "type": "authentication_error", "code": "authentication_error", "message": "no" });
                return Reply::json(401, &json!({ "error": error }));
            }
            if received.target.contains("field-window") {
                let window = json!({ "text": "x", "start_chars": 0, "end_chars": 1, "limit_chars": 1, "complete": false });
                return Reply::json(200, &json!({ "field": { "path": "body" }, "window": window }));
            }
            Reply::json(
                200,
                &json!({ "id": "m1", "stream": "messages", "connection_id": "c", "data": { "body": body } }),
            )
        })
    };
    let (upstream, desk, mut adapter) = start(answer(TOKEN));
    let first = adapter.call("fetch", json!({ "id": ID }));
    let url = first["structuredContent"]["url"].clone();
    // It is refused, and the file holds nothing new: asked once, and told as the server said it.
    upstream.set(answer(renewed));
    upstream.take_requests();
    assert_eq!(fetch(&mut adapter)["code"], "authentication_error");
    assert_eq!(upstream.take_requests().len(), 1);
    // A file that is being written does no harm.
    desk.write_token("");
    assert_eq!(fetch(&mut adapter)["code"], "authentication_error");
    desk.write_token(renewed);
    upstream.take_requests();
    let read = adapter.request("resources/read", json!({ "uri": url }));
    assert!(read["result"]["contents"][0]["text"].is_string(), "{read}");
    let asked = upstream.take_requests();
    let shown: Vec<&str> =
        asked.iter().filter_map(|request| request.header("authorization")).collect();
    assert_eq!(shown[..2], [format!("Bearer {TOKEN}"), format!("Bearer {renewed}")]);
    assert!(
        shown[1..].iter().all(|header| header.ends_with(renewed)),
        "the first token is not shown again"
    );
    // Refused again: one more try with the token of the file, and no third.
    upstream.set(answer("yet another one"));
    desk.write_token(TOKEN);
    assert_eq!(fetch(&mut adapter)["code"], "authentication_error");
    assert_eq!(upstream.take_requests().len(), 2);
    let (_, said, log) = adapter.end();
    let canaries = Canaries::new().plant("token", TOKEN).plant("renewed token", renewed);
    canaries.assert_absent("an answer", &said);
    canaries.assert_absent("the log", &log);
}

#[test]
fn an_address_of_before_a_renewal_and_a_restart_names_a_step_that_works() {
    let (upstream, desk, mut adapter) = start(Behaviour::always(record()));
    let url = adapter.call("fetch", json!({ "id": ID }))["structuredContent"]["url"].clone();
    adapter.end();
    // The same token gives the same key.
    let mut adapter = self::adapter(&desk, &upstream, "1");
    let read = adapter.request("resources/read", json!({ "uri": url }));
    assert!(read["result"]["contents"][0]["text"].is_string(), "{read}");
    adapter.end();
    desk.write_token("token-after-the-first-one-8c1f");
    let mut adapter = self::adapter(&desk, &upstream, "1");
    upstream.take_requests();
    let read = adapter.request("resources/read", json!({ "uri": url }));
    let error = read["error"].to_string();
    assert!(error.contains("invalid_cursor") && error.contains("malformed"), "{read}");
    assert!(error.contains("begin again with `search` or `fetch`"), "{read}");
    assert_eq!(upstream.take_requests().len(), 0, "nothing is asked");
    let again = adapter.call("fetch", json!({ "id": ID }))["structuredContent"]["url"].clone();
    assert_ne!(again, url);
    let read = adapter.request("resources/read", json!({ "uri": again }));
    assert!(read["result"]["contents"][0]["text"].is_string(), "{read}");
    end(adapter, &desk);
}

/// A server that says only at the end of a page how to go on, whose page is longer than an answer.
#[test]
fn a_list_never_skips_an_item() {
    let keys = |prefix: &str, count: usize| -> Vec<Value> {
        let body = "x".repeat(300);
        let row = |number| json!({ "id": format!("{prefix}{number}"), "stream": "messages", "connection_id": "c", "data": { "body": body } });
        (0..count).map(row).collect()
    };
    let page = |rows: Vec<Value>, next: Value| {
        Reply::json(200, &json!({ "data": rows, "next_cursor": next }))
    };
    let (upstream, desk, mut adapter) = start(Behaviour::always(record()));
    let mut lists = |second: Reply| {
        let first = page(keys("k", 900), json!("end"));
        upstream.set(Behaviour::notes(move |received| {
            if received.target.contains("limit=") { second.clone() } else { first.clone() }
        }));
        let result =
            adapter.call("query_records", json!({ "stream": "messages", "cursor": "here" }));
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        let data = result["structuredContent"]["data"].clone();
        assert!(
            text.contains(" has_more=true") && data["has_more"] == true && text.len() <= 1_800,
            "{text}"
        );
        assert!(data["next_cursor"] != "end" && !text.contains("\"end\""), "{text}");
        let shown = text.lines().filter(|line| line.contains(". id=c/messages:k")).count();
        (text, data, shown)
    };
    // The list has become another one meanwhile: what is asked for anew can be shown to its end.
    let (text, data, shown) = lists(page(keys("other", 4), json!("behind")));
    let call = text.lines().find_map(|line| line.strip_prefix("next: query_records ")).unwrap();
    let again = format!("{{\"stream\":\"messages\",\"cursor\":\"here\",\"limit\":{shown}}} (");
    assert!(call.starts_with(&again), "{call}");
    let listed = data["data"].as_array().unwrap().len();
    assert_eq!(
        data["onward"]["read"]["args"],
        json!({ "stream": "messages", "cursor": "here", "limit": listed })
    );
    assert!(data["next_cursor"].is_null());
    // The limit is passed over.
    let (text, data, _) = lists(page(keys("k", 900), json!("behind")));
    assert!(
        data["next_cursor"].is_null()
            && data["onward"]["note"].is_string()
            && !text.contains("behind"),
        "{text}"
    );
    assert!(text.lines().last().unwrap().starts_with("note: "), "{text}");
    // An empty key makes no id.
    upstream.set(Behaviour::always(page(
        keys("", 1)
            .into_iter()
            .map(|mut row| {
                row["id"] = "".into();
                row
            })
            .collect(),
        json!(null),
    )));
    assert_eq!(
        adapter.refused("query_records", json!({ "stream": "messages" }))["code"],
        "provider_error"
    );
    end(adapter, &desk);
}

/// One request may be made as three; together they have the time of one.
#[test]
fn a_call_ends_within_its_time_limit_despite_retries() {
    let (upstream, desk, mut adapter) = start(Behaviour::always(record()));
    upstream.set(Behaviour::notes(|received| {
        std::thread::sleep(Duration::from_millis(700));
        if !received.target.contains("preview_bytes") {
            return record();
        }
        let error = json!({ "type": "t", "code": "invalid_request", "message": "unknown" });
        Reply::json(400, &json!({ "error": error }))
    }));
    assert_eq!(fetch(&mut adapter)["code"], "provider_timeout");
    // A file from which nothing ever comes.
    std::fs::remove_file(desk.token_file()).unwrap();
    assert!(
        std::process::Command::new("mkfifo").arg(desk.token_file()).status().unwrap().success()
    );
    let error =
        json!({ "type": "authentication_error", "code": "authentication_error", "message": "no" });
    upstream.set(Behaviour::always(Reply::json(401, &json!({ "error": error }))));
    for _ in 0..2 {
        let began = Instant::now();
        assert_eq!(fetch(&mut adapter)["code"], "authentication_error");
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    upstream.set(Behaviour::always(record()));
    assert_eq!(adapter.call("fetch", json!({ "id": ID }))["structuredContent"]["text"], "good");
    end(adapter, &desk);
}

/// A field that was a text when its address was made, and holds bytes now.
#[test]
fn the_address_of_a_text_that_became_bytes_reports_that() {
    let (upstream, desk, mut adapter) = start(Behaviour::always(record()));
    for (digest, code, reason) in [
        (json!(null), "field_not_text", json!(null)),
        (json!(format!("sha256:{}", "0f".repeat(32))), "invalid_cursor", json!("stale")),
    ] {
        let window = json!({
            "text": "good", "start_chars": 0, "end_chars": 4, "limit_chars": 4, "complete": false, "next_offset_chars": 4,
        });
        let field = json!({ "path": "body", "digest": digest });
        upstream
            .set(Behaviour::always(Reply::json(200, &json!({ "field": field, "window": window }))));
        let read = adapter.call("read_record_field", json!({ "id": ID, "field_path": "body" }));
        let uri = read["structuredContent"]["resource"]["uri"].clone();
        upstream.set(Behaviour::notes(|received| match received.target.contains("offset_bytes") {
            true => Reply::json(200, &json!({ "field": {}, "window": { "base64": "AAAA" } })),
            false => {
                let error = json!({ "type": "t", "code": "field_not_text", "message": "bytes" });
                Reply::json(422, &json!({ "error": error }))
            }
        }));
        let refused =
            adapter.request("resources/read", json!({ "uri": uri }))["error"]["data"].take();
        assert_eq!((&refused["code"], &refused["reason"]), (&json!(code), &reason), "{refused}");
        assert_eq!(refused["resource"]["uri"].is_string(), code == "field_not_text", "{refused}");
    }
    end(adapter, &desk);
}

#[test]
fn a_refusal_for_too_many_requests_says_when_to_retry() {
    let error = json!({ "error": { "type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "slower" } });
    let (upstream, desk, mut adapter) =
        start(Behaviour::always(Reply::json(429, &error).with_header("Retry-After", "7")));
    let told = fetch(&mut adapter);
    let expected = json!({ "type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "slower (Retry-After: 7 s)" });
    assert_eq!(told, expected);
    assert_eq!(upstream.requests().len(), 1, "and nothing is tried again by itself");
    end(adapter, &desk);
}

#[test]
fn the_adapter_never_repeats_a_token_that_the_server_quotes() {
    let quote = json!({ "error": { "type": "t", "code": "authentication_error", "message": format!("no such token: {TOKEN}") } });
    let (_upstream, desk, mut adapter) = start(Behaviour::always(Reply::json(401, &quote)));
    assert_eq!(fetch(&mut adapter)["code"], "token_refused");
    end(adapter, &desk);
}

#[test]
fn over_tls_only_a_server_with_a_valid_certificate_gets_requests() {
    let upstream =
        Upstream::start_tls(Protocol::Http1, Certificate::Good, Behaviour::always(record()));
    let desk = Desk::new(TOKEN);
    let mut stranger = desk.adapter(&upstream.url(), &[]);
    assert_eq!(fetch(&mut stranger)["code"], "provider_unreachable");
    assert!(upstream.requests().is_empty(), "the token was not sent");
    let authority = desk.path().join("authority.pem");
    std::fs::write(&authority, upstream.authority()).unwrap();
    let mut adapter = desk.adapter(&upstream.url(), &["--ca-file", authority.to_str().unwrap()]);
    assert_eq!(adapter.call("fetch", json!({ "id": ID }))["structuredContent"]["text"], "good");
    end(adapter, &desk);
}

#[test]
fn plain_http_over_a_network_causes_a_warning() {
    let desk = Desk::new(TOKEN);
    let warned = |url: &str| {
        let (_, _, log) = desk.adapter(url, &[]).end();
        String::from_utf8(log).unwrap().contains("warning: the token and records pass")
    };
    assert!(warned("http://records.example.org"));
    assert!(!warned("https://records.example.org"));
    assert!(!warned("http://127.0.0.1:1/v"));
    assert!(!warned("http://[::1]:1"));
}

#[test]
fn the_adapter_writes_nothing_to_disk() {
    let (_upstream, desk, mut adapter) = start(Behaviour::always(record()));
    adapter.call("fetch", json!({ "id": ID }));
    end(adapter, &desk);
    let mut names: Vec<String> = std::fs::read_dir(desk.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["space", "token"], "the rig made the space itself");
    assert_eq!(std::fs::read_dir(desk.path().join("space")).unwrap().count(), 0);
}
