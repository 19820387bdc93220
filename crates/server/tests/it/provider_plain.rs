//! `stile mcp` over a server that knows nothing of previews, cursors of windows and digests.

use serde_json::{Map, Value, json};

use stile_testkit::upstream::{Behaviour, Reply, Upstream};

use super::provider_kit::{Adapter, Desk};
use super::provider_plain_server::{Manner, Plain, TOKEN};

/// A text in which every window of a usual size differs, with characters of one to four bytes.
pub(super) fn long_text() -> String {
    (0..9_000).map(|number| format!("{number} é🙂 ")).collect::<String>() + "the zygote was here"
}

fn plain() -> (Plain, Desk, Adapter) {
    let plain = Plain::with(&[
        ("m1", json!({ "id": "m1", "body": long_text(), "note": "short" })),
        ("..", json!({ "id": "..", "body": "of dots" })),
        ("https://a.example/x?y=1#z", json!({ "id": "u", "body": "of an address" })),
    ]);
    let desk = Desk::new(TOKEN);
    let adapter = desk.adapter(&plain.url(), &[]);
    (plain, desk, adapter)
}

pub(super) const M1: &str = "mail/messages:m1";

#[test]
fn the_adapter_sends_no_request_before_a_tool_is_called() {
    let (plain, _desk, mut adapter) = plain();
    let tools = adapter.request("tools/list", json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["aggregate", "fetch", "query_records", "read_record_field", "schema", "search"]
    );
    let templates = adapter.request("resources/templates/list", json!({}));
    assert_eq!(templates["result"]["resourceTemplates"].as_array().map(Vec::len), Some(2));
    assert_eq!(plain.upstream.connections(), 0);
    assert!(adapter.end().0.success());
}

#[test]
fn a_search_hit_leads_to_the_whole_field() {
    let (_plain, _desk, mut adapter) = plain();
    let found = adapter.call("search", json!({ "q": "zygote" }));
    assert_eq!(found["structuredContent"]["results"][0]["id"], M1);
    assert!(
        found["content"][0]["text"].as_str().unwrap().contains(&format!("first_fetch_id={M1}")),
        "{found}"
    );
    let read = found["structuredContent"]["content_ladder"]["entries"][0]["read"].clone();
    let window = adapter.call(read["tool"].as_str().unwrap(), read["args"].clone());
    assert_eq!(window["structuredContent"]["window"]["start_chars"], 0);
    let (text, windows) = adapter.whole_field(M1, "body", 16_384);
    assert_eq!(
        (text == long_text(), windows),
        (true, long_text().chars().count().div_ceil(16_384))
    );
    let around = json!({ "id": M1, "field_path": "body", "q": "zygote", "before_chars": 4, "after_chars": 4 });
    let around = adapter.call("read_record_field", around)["structuredContent"]["window"].take();
    assert_eq!(around["match"]["start_chars"], long_text().chars().count() - 15);
    assert!(around["text"].as_str().unwrap().starts_with("the zygote was"), "{around}");
    // Back again, to the window before.
    let before = json!({ "id": M1, "field_path": "body", "cursor": around["previous_cursor"] });
    let before = adapter.call("read_record_field", before)["structuredContent"]["window"].take();
    assert_eq!(before["end_chars"], around["start_chars"]);
}

#[test]
fn all_hits_of_a_server_that_counts_none_are_listed_in_a_few_calls() {
    let text = "the boiler ".repeat(40);
    let keys: Vec<String> = (0..1_175).map(|number| format!("mail-{number:04}")).collect();
    let records: Vec<(&str, Value)> =
        keys.iter().map(|key| (key.as_str(), json!({ "id": key, "body": text }))).collect();
    let plain = Plain::with(&records);
    let desk = Desk::new(TOKEN);
    let mut adapter = desk.adapter(&plain.url(), &[]);
    let first = adapter.call("search", json!({ "q": "boiler" }));
    let said = first["content"][0]["text"].as_str().unwrap();
    assert!(said.starts_with("search: at least 25 hit(s). shown="), "{said}");
    assert!(said.contains(" of 25+. has_more=true; `detail` `list` shows a hundred."), "{said}");
    let (mut found, mut calls, mut cursor) = (Vec::new(), 1, Value::Null);
    loop {
        let mut arguments = json!({ "q": "boiler", "detail": "list" });
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = adapter.call("search", arguments);
        calls += 1;
        let shown = page["structuredContent"]["results"].as_array().unwrap().clone();
        found.extend(shown.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()));
        cursor = page["structuredContent"]["data"]["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(found.len(), 1_175);
    assert!(calls <= 14, "{calls} calls");
}

#[test]
fn the_adapter_fetches_a_record_and_truncates_its_long_text() {
    let (plain, _desk, mut adapter) = plain();
    let fetched = adapter.call("fetch", json!({ "id": M1 }));
    let document = &fetched["structuredContent"];
    assert_eq!(document["metadata"]["fields"]["note"], "short");
    let shown = document["text"].as_str().unwrap();
    assert!(long_text().starts_with(shown) && shown.len() > 4_000, "{}", shown.len());
    assert!(fetched["content"][0]["text"].as_str().unwrap().len() <= 16 * 1024);
    let entry = &document["content_ladder"]["entries"][0];
    assert_eq!(
        (&entry["field_path"], &entry["preview_status"]),
        (&json!("body"), &json!("truncated"))
    );
    let rest = adapter.call("read_record_field", entry["read"]["args"].clone());
    let rest = rest["structuredContent"]["window"]["text"].as_str().unwrap().to_owned();
    assert!(long_text().starts_with(&format!("{shown}{rest}")));
    // The link leads to the same window.
    let uri = entry["resource"]["uri"].clone();
    let resource = adapter.request("resources/read", json!({ "uri": uri }));
    assert_eq!(resource["result"]["contents"][0]["text"], rest, "{resource}");
    let asked = plain.asked();
    assert_eq!(asked[0].matches("preview_").count(), 2, "{asked:?}");
    assert_eq!(asked[1], "/v1/streams/messages/records/m1?connection_id=mail");
}

#[test]
fn all_records_of_a_list_are_reached_and_a_plain_server_is_remembered() {
    let text = "long ".repeat(2_000);
    let keys: Vec<String> = (0..40).map(|number| format!("k{number:02}")).collect();
    let records: Vec<(&str, Value)> =
        keys.iter().map(|key| (key.as_str(), json!({ "id": key, "body": text }))).collect();
    let plain = Plain::with(&records);
    let desk = Desk::new(TOKEN);
    let mut adapter = desk.adapter(&plain.url(), &[]);
    // Once by what the structure says, once by what the text says.
    for by_text in [false, true] {
        let (mut seen, mut arguments) =
            (Vec::new(), json!({ "stream": "messages", "connection_id": "mail" }));
        loop {
            let page = adapter.call("query_records", arguments.clone());
            let told = page["content"][0]["text"].as_str().unwrap();
            assert!(told.len() <= 1_800, "{}", told.len());
            let rows = page["structuredContent"]["data"]["data"].as_array().unwrap();
            assert!(
                rows.iter().all(|row| row["data"]["body"].as_str().unwrap().chars().count() <= 512)
            );
            assert!(page["structuredContent"].to_string().len() <= 64 * 1024);
            let next = if by_text {
                let ids = told.lines().filter_map(|line| line.split_once("id=mail/messages:"));
                seen.extend(
                    ids.filter(|(before, _)| before.ends_with(". "))
                        .map(|(_, id)| id[..3].to_owned()),
                );
                let again = told.lines().find_map(|line| line.strip_prefix("next: query_records "));
                again.map(|again| serde_json::from_str(again).unwrap())
            } else {
                seen.extend(rows.iter().map(|row| row["record_id"].as_str().unwrap().to_owned()));
                let cursor =
                    page["structuredContent"]["data"]["next_cursor"].as_str().map(str::to_owned);
                cursor.map(|cursor| json!({ "stream": "messages", "connection_id": "mail", "cursor": cursor }))
            };
            let Some(next) = next else { break };
            arguments = next;
        }
        assert_eq!(seen, keys);
    }
    let asked = plain.asked();
    let not_plain =
        |target: &&String| ["preview_", "cursors="].iter().any(|name| target.contains(name));
    assert_eq!(asked.iter().filter(not_plain).count(), 1, "only the first request: {asked:?}");
    // Another endpoint is another matter.
    adapter.call("fetch", json!({ "id": "mail/messages:k01" }));
    adapter.call("fetch", json!({ "id": "mail/messages:k02" }));
    assert_eq!(plain.asked().iter().filter(not_plain).count(), 1);
}

#[test]
fn a_cursor_works_only_for_its_own_request() {
    let (plain, desk, mut adapter) = plain();
    let first = adapter
        .call("read_record_field", json!({ "id": M1, "field_path": "body", "limit_chars": 100 }));
    let cursor = first["structuredContent"]["window"]["next_cursor"].as_str().unwrap().to_owned();
    for (id, field) in [(M1, "note"), ("mail/messages:%2E%2E", "body")] {
        let error = adapter.refused(
            "read_record_field",
            json!({ "id": id, "field_path": field, "cursor": cursor }),
        );
        assert_eq!(
            (&error["code"], &error["reason"]),
            (&json!("invalid_cursor"), &json!("mismatch")),
            "{id} {field}"
        );
    }
    // It is no offset that a client could make itself: the same place is sealed as another text
    // each time.
    let same = adapter
        .call("read_record_field", json!({ "id": M1, "field_path": "body", "limit_chars": 100 }));
    assert_ne!(same["structuredContent"]["window"]["next_cursor"], cursor);
    let next = json!({ "id": M1, "field_path": "body", "cursor": cursor });
    let here = adapter.call("read_record_field", next.clone());
    assert_eq!(here["structuredContent"]["window"]["start_chars"], 100);
    let uri = first["structuredContent"]["resource"]["uri"].clone();

    // The same token, a new process: it goes on.
    assert!(adapter.end().0.success());
    let url = plain.url();
    let mut again = desk.adapter(&url, &[]);
    let there = again.call("read_record_field", next);
    let told = |result: &Value| {
        let window = &result["structuredContent"]["window"];
        (window["text"].clone(), window["start_chars"].clone())
    };
    assert_eq!(told(&there), told(&here));
    let read = again.request("resources/read", json!({ "uri": uri }));
    assert_eq!(
        read["result"]["contents"][0]["text"], first["structuredContent"]["window"]["text"],
        "{read}"
    );

    // Another token, or another place: what the first one gave out is nothing.
    desk.write_token("another-token-of-somebody");
    let mut other = desk.adapter(&url, &[]);
    let read = other.request("resources/read", json!({ "uri": uri }));
    assert_eq!(read["error"]["data"]["reason"], "malformed", "{read}");
    desk.write_token(TOKEN);
    let mut elsewhere = desk.adapter(&url.replace("127.0.0.1", "localhost"), &[]);
    let read = elsewhere.request("resources/read", json!({ "uri": uri }));
    assert_eq!(read["error"]["data"]["reason"], "malformed", "{read}");
}

#[test]
fn the_adapter_sends_exactly_these_requests() {
    let (plain, _desk, mut adapter) = plain();
    let dots = adapter.call("fetch", json!({ "id": "mail/messages:%2E%2E" }));
    assert_eq!(dots["structuredContent"]["text"], "of dots");
    let by_parts = json!({ "connection_id": "mail", "stream": "messages", "record_id": "..", "field_path": "body" });
    assert_eq!(
        adapter.call("read_record_field", by_parts)["structuredContent"]["window"]["text"],
        "of dots"
    );
    let address = adapter.call("query_records", json!({ "stream": "messages" }));
    let id = address["structuredContent"]["data"]["data"][2]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        adapter.call("fetch", json!({ "id": id }))["structuredContent"]["text"],
        "of an address"
    );
    adapter.refused("query_records", json!({ "stream": "../../secrets" }));
    adapter.refused("query_records", json!({ "stream": ".." }));
    adapter.call("search", json!({ "q": "a&limit=9#x y+z%41é" }));
    let heads: Vec<String> = plain
        .upstream
        .requests()
        .iter()
        .map(|request| String::from_utf8(request.head.clone()).unwrap())
        .collect();
    let sent =
        |line: &str| assert!(heads.iter().any(|head| head.starts_with(line)), "{line}: {heads:#?}");
    sent("GET /pre/fix/v1/streams/messages/records/%2E%2E?connection_id=mail HTTP/1.1\r\n");
    sent(
        "GET /pre/fix/v1/streams/messages/records/%2E%2E/field-window?field=body&offset_chars=0&limit_chars=4096&connection_id=mail HTTP/1.1\r\n",
    );
    sent(
        "GET /pre/fix/v1/streams/messages/records/https:%2F%2Fa.example%2Fx%3Fy%3D1%23z?connection_id=mail HTTP/1.1\r\n",
    );
    sent("GET /pre/fix/v1/streams/..%2F..%2Fsecrets/records");
    sent("GET /pre/fix/v1/streams/%2E%2E/records");
    sent("GET /pre/fix/v1/search?q=a%26limit%3D9%23x%20y%2Bz%2541%C3%A9");
    // What goes along, and nothing else.
    for request in plain.upstream.requests() {
        let mut names = request.names();
        names.sort();
        assert_eq!(names, ["accept", "authorization", "host", "user-agent"]);
        assert_eq!(
            request.header("user-agent"),
            Some(concat!("stile/", env!("CARGO_PKG_VERSION")))
        );
    }
}

#[test]
fn a_refusal_of_the_server_arrives_unchanged() {
    let (plain, _desk, mut adapter) = plain();
    let mut error = adapter.refused("fetch", json!({ "id": "mail/messages:none" }));
    assert_eq!(
        error.as_object_mut().unwrap().remove("next"),
        Some(json!({ "tool": "search" })),
        "what the ladder adds"
    );
    let said = json!({ "type": "some_error", "code": "not_found", "message": "no such record", "request_id": "r-1", "extra": [1] });
    assert_eq!(error, said);
    // A parameter that the server does not know at all: what it said of ours is not what is told.
    let filtered = json!({ "stream": "messages", "filter": { "body": "x" } });
    let error = adapter.refused("query_records", filtered);
    assert_eq!(error["message"], "there is no parameter filter[body]");
    assert_eq!(plain.asked().len(), 4, "each was asked twice, since no answer was a success");
    let schema = adapter.call("schema", json!({}));
    assert_eq!(schema["structuredContent"]["streams"][0]["name"], "messages");
    let count = adapter.call("aggregate", json!({ "stream": "messages", "metric": "count" }));
    assert!(count["content"][0]["text"].as_str().unwrap().contains('3'), "{count}");
}

#[test]
fn a_record_of_very_many_fields_is_read_in_parts() {
    let value = |number: usize| {
        format!(
            "value {number} {}",
            if number % 1_000 == 7 { "x".repeat(2_000) } else { String::new() }
        )
    };
    let fields: Map<String, Value> =
        (0..5_000).map(|number| (format!("field_{number}"), value(number).into())).collect();
    let plain =
        Plain::with(&[("wide", Value::Object(fields.clone())), ("m1", json!({ "body": "x" }))]);
    let desk = Desk::new(TOKEN);
    let mut adapter = desk.adapter(&plain.url(), &[]);
    let (mut seen, mut parts, mut first) = (Map::new(), 0, Value::Null);
    let mut arguments = json!({ "id": "mail/messages:wide" });
    loop {
        let fetched = adapter.call("fetch", arguments);
        parts += 1;
        let told = fetched["content"][0]["text"].as_str().unwrap();
        let structured = &fetched["structuredContent"];
        assert!(
            told.len() <= 16 * 1024 && structured.to_string().len() <= 64 * 1024,
            "{}",
            told.len()
        );
        seen.extend(
            serde_json::from_str::<Map<String, Value>>(structured["text"].as_str().unwrap())
                .unwrap(),
        );
        let more = &structured["content_ladder"]["more_fields"][0];
        if parts == 1 {
            first = more["read"]["args"].clone();
        }
        let Some(cursor) = more["read"]["args"]["cursor"].as_str() else { break };
        assert_eq!(
            (&more["shown_fields"], &more["total_fields"]),
            (&json!(seen.len()), &json!(5_000))
        );
        arguments = json!({ "id": "mail/messages:wide", "cursor": cursor });
    }
    let cut =
        |value: &Value| Value::from(value.as_str().unwrap().chars().take(512).collect::<String>());
    let expected: Map<String, Value> =
        fields.iter().map(|(name, value)| (name.clone(), cut(value))).collect();
    assert_eq!(seen, expected);
    let asked = plain.asked();
    assert_eq!(asked.len(), parts + 1, "each part is asked for once: {asked:?}");
    assert!(asked.iter().all(|target| !target.contains("fields_cursor")));
    // The cursor is of this record, with these fields, and of this way to ask.
    let cursor = &first["cursor"];
    for wrong in [
        json!({ "id": "mail/messages:m1", "cursor": cursor }),
        json!({ "id": "mail/messages:wide", "cursor": cursor, "fields": ["field_1"] }),
    ] {
        let error = adapter.refused("fetch", wrong.clone());
        assert_eq!(
            (&error["code"], &error["reason"]),
            (&json!("invalid_cursor"), &json!("mismatch")),
            "{wrong}"
        );
    }
    // A list leads there too.
    let page = adapter.call("query_records", json!({ "stream": "messages" }));
    assert!(page["content"][0]["text"].as_str().unwrap().contains("of 5000 fields shown"));
    assert_eq!(
        page["structuredContent"]["content_ladder"]["more_fields"][0]["read"]["tool"],
        "fetch"
    );
}

/// Of two refusals the client is told the one that is about what it asked for.
#[test]
fn a_client_never_sees_parameters_that_it_did_not_send() {
    let answer = |status: u16, message: &str, param: Option<&str>| {
        let mut error = json!({ "type": "t", "code": "invalid_request", "message": message });
        error
            .as_object_mut()
            .unwrap()
            .extend(param.map(|param| ("param".to_owned(), param.into())));
        Reply::json(status, &json!({ "error": error }))
    };
    let upstream = Upstream::start(Behaviour::Silence);
    let desk = Desk::new(TOKEN);
    let mut adapter = desk.adapter(&upstream.url(), &[]);
    let cases = [
        // The first one is about a parameter of ours, by its message or by its member; the second
        // is about the filter.
        (
            answer(400, "unknown: preview_bytes", None),
            answer(400, "bad filter", None),
            "bad filter",
        ),
        (
            answer(400, "unknown parameter", Some("cursors")),
            answer(400, "bad filter", None),
            "bad filter",
        ),
        // Both are about the filter.
        (answer(400, "bad filter", None), answer(400, "bad filter, again", None), "bad filter"),
        // Without ours there is another reason.
        (
            answer(400, "unknown parameter", None),
            answer(404, "no such stream", None),
            "no such stream",
        ),
    ];
    for (first, second, told) in cases {
        upstream.set(Behaviour::notes(move |received| {
            if received.target.contains("preview_bytes") { first.clone() } else { second.clone() }
        }));
        upstream.take_requests();
        let error = adapter
            .refused("query_records", json!({ "stream": "messages", "filter": { "a": "x" } }));
        assert_eq!((&error["message"], upstream.requests().len()), (&json!(told), 2));
    }
}

/// Whatever a server calls it that it does not know a parameter; and only a success teaches that it
/// does not.
#[test]
fn a_parameter_that_a_server_does_not_know_is_left_out_whatever_its_error() {
    for (status, code) in
        [(400, "unknown_field"), (400, "E1234"), (422, "unprocessable"), (400, "invalid_cursor")]
    {
        let manner = Manner { unknown: Some((status, code)), ..Manner::default() };
        let (plain, _desk, mut adapter) = of(manner, &[("m1", json!({ "body": "short" }))]);
        let error = adapter.refused("fetch", json!({ "id": "mail/messages:none" }));
        assert_eq!(error["code"], "not_found");
        assert_eq!(
            adapter.call("fetch", json!({ "id": M1 }))["structuredContent"]["text"],
            "short"
        );
        adapter.call("fetch", json!({ "id": M1 }));
        assert_eq!(plain.asked().len(), 5, "{status} {code}: it is remembered after a success");
    }
    let forbids = Manner { unknown: Some((403, "unknown_parameter")), ..Manner::default() };
    let (plain, _desk, mut adapter) = of(forbids, &[("m1", json!({ "body": "short" }))]);
    assert_eq!(adapter.refused("fetch", json!({ "id": M1 }))["code"], "unknown_parameter");
    assert_eq!(plain.asked().len(), 1);
}

#[test]
fn a_refusal_of_the_callers_own_parameters_is_returned_unchanged() {
    let of = |status: u16, code: &str, param: &str| {
        let error = json!({ "type": "invalid_request_error", "code": code, "message": "no", "param": param });
        Reply::json(status, &json!({ "error": error }))
    };
    // The second time, when it is asked without what it may not know.
    let then = |reply: Reply| {
        let second = Reply::bytes(500, "text/plain", "busy");
        Behaviour::notes(move |asked| {
            if asked.target.contains("cursors") { reply.clone() } else { second.clone() }
        })
    };
    for (behaviour, requests) in [
        // A second time it would take as long and be refused again.
        (Behaviour::always(of(422, "search_too_broad", "q")), 1),
        (Behaviour::always(of(400, "search_too_broad", "limit")), 1),
        (then(of(422, "search_too_broad", "")), 2),
    ] {
        let upstream = Upstream::start(behaviour);
        let desk = Desk::new(TOKEN);
        let mut adapter = desk.adapter(&upstream.url(), &[]);
        let error = adapter.refused("search", json!({ "q": "a*", "limit": 5 }));
        assert_eq!(error["code"], "search_too_broad", "{error}");
        assert_eq!(upstream.requests().len(), requests);
    }
}

pub(super) fn of(manner: Manner, records: &[(&str, Value)]) -> (Plain, Desk, Adapter) {
    let plain = Plain::of(manner, records);
    let desk = Desk::new(TOKEN);
    let adapter = desk.adapter(&plain.url(), &[]);
    (plain, desk, adapter)
}

pub(super) fn lost(adapter: &mut Adapter, tool: &str, arguments: Value) -> Value {
    let error = adapter.refused(tool, arguments);
    assert_eq!(error["code"], "invalid_cursor", "{error}");
    error["reason"].clone()
}

/// A server that passes over what it does not know answers a cursor of nobody with its beginning,
/// which nobody asked for.
#[test]
fn a_cursor_that_a_server_ignores_does_not_restart_the_list() {
    let lenient = Manner { is_lenient: true, ..Manner::default() };
    let wide: Map<String, Value> =
        (0..3_000).map(|number| (format!("field_{number}"), json!("value"))).collect();
    let records =
        [("m1", json!({ "body": long_text(), "note": "short" })), ("wide", Value::Object(wide))];
    let (plain, desk, mut adapter) = of(lenient, &records);
    let read =
        |field: &str, cursor: &Value| json!({ "id": M1, "field_path": field, "cursor": cursor });
    for field in ["body", "note"] {
        assert_eq!(
            lost(&mut adapter, "read_record_field", read(field, &json!("garbage"))),
            "malformed",
            "{field}"
        );
    }
    for id in [M1, "mail/messages:wide"] {
        assert_eq!(
            lost(&mut adapter, "fetch", json!({ "id": id, "cursor": "garbage" })),
            "malformed",
            "{id}"
        );
    }
    // Its own cursors lead on, and lead nowhere once another process has another token.
    let first = adapter.call("read_record_field", json!({ "id": M1, "field_path": "body" }));
    let window = first["structuredContent"]["window"]["next_cursor"].clone();
    let next = adapter.call("read_record_field", read("body", &window));
    assert_eq!(next["structuredContent"]["window"]["start_chars"], 4096);
    let fetched = adapter.call("fetch", json!({ "id": "mail/messages:wide" }));
    let more = fetched["structuredContent"]["content_ladder"]["more_fields"][0].clone();
    let part = adapter.call("fetch", more["read"]["args"].clone());
    assert!(part["structuredContent"]["text"].as_str().unwrap().starts_with("{\"field_"));
    // The address of the rest is the rest for the tool too, and not the beginning.
    let by_uri = adapter.call("fetch", json!({ "id": more["resource"]["uri"] }));
    assert_eq!(by_uri["structuredContent"]["text"], part["structuredContent"]["text"]);
    assert_ne!(by_uri["structuredContent"]["text"], fetched["structuredContent"]["text"]);
    drop(adapter);
    desk.write_token("another-token-of-the-same-one");
    plain.upstream.set(Behaviour::always(Reply::json(200, &fields_of("m1", &long_text()))));
    let mut other = desk.adapter(&plain.url(), &[]);
    assert_eq!(lost(&mut other, "read_record_field", read("body", &window)), "malformed");
}

/// A window of the beginning, as a server sends it that looks at nothing but the path.
fn fields_of(key: &str, text: &str) -> Value {
    let shown: String = text.chars().take(4096).collect();
    json!({ "record_id": key, "field": { "path": "body" }, "window": {
        "text": shown, "total_chars": text.chars().count(), "start_chars": 0, "end_chars": 4096, "limit_chars": 4096,
        "complete": false, "next_offset_chars": 4096, "previous_offset_chars": null } })
}

#[test]
fn a_window_of_a_changed_field_is_not_continued() {
    let digests = Manner { has_digests: true, ..Manner::default() };
    let text = long_text();
    let other_size = format!("{text}!");
    let other_text = format!("!{}", text.chars().skip(1).collect::<String>());
    for (manner, changed) in
        [(digests, &other_text), (digests, &other_size), (Manner::default(), &other_size)]
    {
        let (plain, _desk, mut adapter) = of(manner, &[("m1", json!({ "body": text }))]);
        let first = adapter.call(
            "read_record_field",
            json!({ "id": M1, "field_path": "body", "offset_chars": 9 }),
        );
        let window = &first["structuredContent"]["window"];
        plain.change("m1", "body", json!(changed));
        for cursor in ["next_cursor", "previous_cursor"] {
            let read = json!({ "id": M1, "field_path": "body", "cursor": window[cursor] });
            assert_eq!(lost(&mut adapter, "read_record_field", read), "stale");
        }
        plain.change("m1", "body", json!(text));
        let read = json!({ "id": M1, "field_path": "body", "cursor": window["next_cursor"] });
        adapter.call("read_record_field", read);
    }
}

#[test]
fn a_record_without_windows_is_shown() {
    let manner = Manner { has_no_windows: true, ..Manner::default() };
    let (_plain, _desk, mut adapter) = of(manner, &[("m1", json!({ "body": long_text() }))]);
    let fetched = adapter.call("fetch", json!({ "id": M1 }));
    let document = &fetched["structuredContent"];
    let shown = document["text"].as_str().unwrap();
    assert!(long_text().starts_with(shown) && shown.len() > 500, "{}", shown.len());
    assert_eq!(document["content_ladder"]["entries"][0]["preview_status"], "truncated");
}

#[test]
fn a_record_with_a_long_key_is_read_by_its_shown_id() {
    let key = "k/".repeat(300);
    let (_plain, _desk, mut adapter) =
        of(Manner::default(), &[(key.as_str(), json!({ "body": "of a long key" }))]);
    let list = adapter.call("query_records", json!({ "stream": "messages" }));
    let id = list["structuredContent"]["data"]["data"][0]["id"].clone();
    let fetched = adapter.call("fetch", json!({ "id": id }));
    assert_eq!(fetched["structuredContent"]["text"], "of a long key");
    let again = adapter.call("fetch", json!({ "id": fetched["structuredContent"]["url"] }));
    assert_eq!(again["structuredContent"]["id"], id);
}

#[test]
fn bytes_that_the_server_cannot_find_within_a_value_are_not_promised() {
    let blob = json!({ "blob_id": format!("sha256-{}", "0".repeat(64)), "mime_type": "image/png" });
    let plain = Plain::with(&[("m1", json!({ "id": "m1", "attachments": [blob] }))]);
    let desk = Desk::new(TOKEN);
    let mut adapter = desk.adapter(&plain.url(), &[]);
    for _ in 0..2 {
        let fetched = adapter.call("fetch", json!({ "id": M1 }));
        assert_eq!(fetched["structuredContent"]["content_ladder"]["entries"], json!([]));
        assert!(!fetched["content"].to_string().contains("pdpp://field-window"), "{fetched}");
    }
    let asked = plain.asked();
    let probes = asked.iter().filter(|target| target.contains("offset_bytes")).count();
    assert_eq!(probes, 1, "the server is asked once: {asked:?}");
}
