//! `stile mcp` over a server that knows nothing of previews, cursors of windows and digests.

use serde_json::{Map, Value, json};

use super::provider_kit::{Adapter, Desk};
use super::provider_plain_server::{Plain, TOKEN};

/// A text in which every window of a usual size differs, with characters of one to four bytes.
fn long_text() -> String {
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

const M1: &str = "mail/messages:m1";

#[test]
fn nothing_is_asked_before_a_tool_is_called() {
    let (plain, _desk, mut adapter) = plain();
    let tools = adapter.request("tools/list", json!({}));
    let names: Vec<&str> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["aggregate", "fetch", "query_records", "read_record_field", "schema", "search"]);
    let templates = adapter.request("resources/templates/list", json!({}));
    assert_eq!(templates["result"]["resourceTemplates"].as_array().map(Vec::len), Some(2));
    assert_eq!(plain.upstream.connections(), 0);
    assert!(adapter.end().0.success());
}

#[test]
fn from_a_search_to_the_whole_field() {
    let (_plain, _desk, mut adapter) = plain();
    let found = adapter.call("search", json!({ "q": "zygote" }));
    assert_eq!(found["structuredContent"]["results"][0]["id"], M1);
    assert!(found["content"][0]["text"].as_str().unwrap().contains(&format!("first_fetch_id={M1}")), "{found}");
    let read = found["structuredContent"]["content_ladder"]["entries"][0]["read"].clone();
    let window = adapter.call(read["tool"].as_str().unwrap(), read["args"].clone());
    assert_eq!(window["structuredContent"]["window"]["start_chars"], 0);
    let (text, windows) = adapter.whole_field(M1, "body", 16_384);
    assert_eq!((text == long_text(), windows), (true, long_text().chars().count().div_ceil(16_384)));
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
fn a_record_is_fetched_and_its_long_text_cut_here() {
    let (plain, _desk, mut adapter) = plain();
    let fetched = adapter.call("fetch", json!({ "id": M1 }));
    let document = &fetched["structuredContent"];
    assert_eq!(document["metadata"]["fields"]["note"], "short");
    let shown = document["text"].as_str().unwrap();
    assert!(long_text().starts_with(shown) && shown.len() > 4_000, "{}", shown.len());
    assert!(fetched["content"][0]["text"].as_str().unwrap().len() <= 16 * 1024);
    let entry = &document["content_ladder"]["entries"][0];
    assert_eq!((&entry["field_path"], &entry["preview_status"]), (&json!("body"), &json!("truncated")));
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
        let (mut seen, mut arguments) = (Vec::new(), json!({ "stream": "messages", "connection_id": "mail" }));
        loop {
            let page = adapter.call("query_records", arguments.clone());
            let told = page["content"][0]["text"].as_str().unwrap();
            assert!(told.len() <= 1_800, "{}", told.len());
            let rows = page["structuredContent"]["data"]["data"].as_array().unwrap();
            assert!(rows.iter().all(|row| row["data"]["body"].as_str().unwrap().chars().count() <= 512));
            assert!(page["structuredContent"].to_string().len() <= 64 * 1024);
            let next = if by_text {
                let ids = told.lines().filter_map(|line| line.split_once("id=mail/messages:"));
                seen.extend(ids.filter(|(before, _)| before.ends_with(". ")).map(|(_, id)| id[..3].to_owned()));
                let again = told.lines().find_map(|line| line.strip_prefix("next: query_records "));
                again.map(|again| serde_json::from_str(again).unwrap())
            } else {
                seen.extend(rows.iter().map(|row| row["record_id"].as_str().unwrap().to_owned()));
                let cursor = page["structuredContent"]["data"]["next_cursor"].as_str().map(str::to_owned);
                cursor.map(|cursor| json!({ "stream": "messages", "connection_id": "mail", "cursor": cursor }))
            };
            let Some(next) = next else { break };
            arguments = next;
        }
        assert_eq!(seen, keys);
    }
    let asked = plain.asked();
    let not_plain = |target: &&String| ["preview_", "cursors="].iter().any(|name| target.contains(name));
    assert_eq!(asked.iter().filter(not_plain).count(), 1, "only the first request: {asked:?}");
    // Another endpoint is another matter.
    adapter.call("fetch", json!({ "id": "mail/messages:k01" }));
    adapter.call("fetch", json!({ "id": "mail/messages:k02" }));
    assert_eq!(plain.asked().iter().filter(not_plain).count(), 1);
}

#[test]
fn security_a_cursor_leads_nowhere_else() {
    let (plain, desk, mut adapter) = plain();
    let first = adapter.call("read_record_field", json!({ "id": M1, "field_path": "body", "limit_chars": 100 }));
    let cursor = first["structuredContent"]["window"]["next_cursor"].as_str().unwrap().to_owned();
    for (id, field) in [(M1, "note"), ("mail/messages:%2E%2E", "body")] {
        let error = adapter.refused("read_record_field", json!({ "id": id, "field_path": field, "cursor": cursor }));
        assert_eq!((&error["code"], &error["reason"]), (&json!("invalid_cursor"), &json!("mismatch")), "{id} {field}");
    }
    // It is no offset that a client could make itself.
    assert!(!cursor.contains("100"));
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
    assert_eq!(read["result"]["contents"][0]["text"], first["structuredContent"]["window"]["text"], "{read}");

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
fn security_requests_are_sent_byte_for_byte() {
    let (plain, _desk, mut adapter) = plain();
    let dots = adapter.call("fetch", json!({ "id": "mail/messages:%2E%2E" }));
    assert_eq!(dots["structuredContent"]["text"], "of dots");
    let by_parts = json!({ "connection_id": "mail", "stream": "messages", "record_id": "..", "field_path": "body" });
    assert_eq!(adapter.call("read_record_field", by_parts)["structuredContent"]["window"]["text"], "of dots");
    let address = adapter.call("query_records", json!({ "stream": "messages" }));
    let id = address["structuredContent"]["data"]["data"][2]["id"].as_str().unwrap().to_owned();
    assert_eq!(adapter.call("fetch", json!({ "id": id }))["structuredContent"]["text"], "of an address");
    adapter.refused("query_records", json!({ "stream": "../../secrets" }));
    adapter.refused("query_records", json!({ "stream": ".." }));
    adapter.call("search", json!({ "q": "a&limit=9#x y+z%41é" }));
    let heads: Vec<String> =
        plain.upstream.requests().iter().map(|request| String::from_utf8(request.head.clone()).unwrap()).collect();
    let sent = |line: &str| assert!(heads.iter().any(|head| head.starts_with(line)), "{line}: {heads:#?}");
    sent("GET /pre/fix/v1/streams/messages/records/%2E%2E?connection_id=mail HTTP/1.1\r\n");
    sent(
        "GET /pre/fix/v1/streams/messages/records/%2E%2E/field-window?field=body&connection_id=mail&offset_chars=0&limit_chars=4096 HTTP/1.1\r\n",
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
        assert_eq!(request.header("user-agent"), Some(concat!("stile/", env!("CARGO_PKG_VERSION"))));
    }
}

#[test]
fn what_the_server_says_against_a_request_arrives_as_it_was_said() {
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
        format!("value {number} {}", if number % 1_000 == 7 { "x".repeat(2_000) } else { String::new() })
    };
    let fields: Map<String, Value> =
        (0..5_000).map(|number| (format!("field_{number}"), value(number).into())).collect();
    let plain = Plain::with(&[("wide", Value::Object(fields.clone())), ("m1", json!({ "body": "x" }))]);
    let desk = Desk::new(TOKEN);
    let mut adapter = desk.adapter(&plain.url(), &[]);
    let (mut seen, mut parts, mut first) = (Map::new(), 0, Value::Null);
    let mut arguments = json!({ "id": "mail/messages:wide" });
    loop {
        let fetched = adapter.call("fetch", arguments);
        parts += 1;
        let told = fetched["content"][0]["text"].as_str().unwrap();
        let structured = &fetched["structuredContent"];
        assert!(told.len() <= 16 * 1024 && structured.to_string().len() <= 64 * 1024, "{}", told.len());
        seen.extend(serde_json::from_str::<Map<String, Value>>(structured["text"].as_str().unwrap()).unwrap());
        let more = &structured["content_ladder"]["more_fields"][0];
        if parts == 1 {
            first = more["read"]["args"].clone();
        }
        let Some(cursor) = more["read"]["args"]["cursor"].as_str() else { break };
        assert_eq!((&more["shown_fields"], &more["total_fields"]), (&json!(seen.len()), &json!(5_000)));
        arguments = json!({ "id": "mail/messages:wide", "cursor": cursor });
    }
    let cut = |value: &Value| Value::from(value.as_str().unwrap().chars().take(512).collect::<String>());
    let expected: Map<String, Value> = fields.iter().map(|(name, value)| (name.clone(), cut(value))).collect();
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
        assert_eq!((&error["code"], &error["reason"]), (&json!("invalid_cursor"), &json!("mismatch")), "{wrong}");
    }
    // A list leads there too.
    let page = adapter.call("query_records", json!({ "stream": "messages" }));
    assert!(page["content"][0]["text"].as_str().unwrap().contains("of 5000 fields shown"));
    assert_eq!(page["structuredContent"]["content_ladder"]["more_fields"][0]["read"]["tool"], "fetch");
}
