//! `stile mcp` over servers that tell windows each in their own way: what they are called, where
//! they go on, what they count.

use serde_json::{Value, json};

use super::provider_plain::{M1, long_text, lost, of};
use super::provider_plain_server::{Manner, Units};

/// A cursor goes with the names that an answer prints, and with those that led to it.
#[test]
fn a_window_continues_with_the_address_that_it_prints() {
    let manner = Manner { tells_names: true, ..Manner::default() };
    let records = [
        ("m1", json!({ "body": long_text(), "note": long_text() })),
        ("m2", json!({ "body": long_text() })),
    ];
    let (_plain, _desk, mut adapter) = of(manner, &records);
    for id in ["messages:m1", M1] {
        let first = adapter.call("read_record_field", json!({ "id": id, "field_path": "body" }));
        let line = first["content"][0]["text"].as_str().unwrap().lines().nth(1).unwrap().to_owned();
        let printed: Value =
            serde_json::from_str(line.strip_prefix("next: read_record_field ").unwrap()).unwrap();
        assert_eq!((&printed["id"], &printed["field_path"]), (&json!(M1), &json!("body")));
        let told = &first["structuredContent"];
        assert_eq!(
            (&told["record"]["connection_id"], &told["field"]["path"]),
            (&json!("mail"), &json!("body"))
        );
        let cursor = &printed["cursor"];
        for again in [
            printed.clone(),
            json!({ "id": "messages:m1", "field_path": "body", "cursor": cursor }),
        ] {
            let next = adapter.call("read_record_field", again);
            assert_eq!(next["structuredContent"]["window"]["start_chars"], 4096);
        }
        let uri = &told["resource"]["next_uri"];
        let next = adapter.request("resources/read", json!({ "uri": uri }));
        assert_eq!(
            next["result"]["contents"][0]["_meta"]["pdpp/range"]["start_chars"], 4096,
            "{next}"
        );
        for (id, field) in [("messages:m2", "body"), (M1, "note")] {
            let elsewhere = json!({ "id": id, "field_path": field, "cursor": cursor });
            assert_eq!(lost(&mut adapter, "read_record_field", elsewhere), "mismatch");
        }
    }
}

/// However a server says that there is more, all of it is read, by text and cursors and by
/// addresses.
#[test]
fn a_field_is_read_to_its_end_however_the_server_marks_a_next_window() {
    for by in ["next_offset_chars", "next_cursor", "total_chars", "complete"] {
        let manner = Manner { tells_more_by: Some(by), ..Manner::default() };
        let text: String = long_text().chars().take(20_000).collect();
        let (_plain, _desk, mut adapter) = of(manner, &[("m1", json!({ "body": text }))]);
        assert!(adapter.whole_field(M1, "body", 3000).0 == text, "{by}");
        let first = adapter.call("read_record_field", json!({ "id": M1, "field_path": "body" }));
        let told = &first["structuredContent"];
        let (mut read, mut uri) = (
            told["window"]["text"].as_str().unwrap().to_owned(),
            told["resource"]["next_uri"].clone(),
        );
        while uri.is_string() {
            let mut content =
                adapter.request("resources/read", json!({ "uri": uri }))["result"]["contents"][0]
                    .take();
            read += content["text"].as_str().unwrap();
            uri = content["_meta"]["pdpp/next_uri"].take();
        }
        assert!(read == text, "{by}");
    }
}

/// A server that cuts by scalar values and tells lengths in UTF-16: its windows are counted here,
/// and join exactly.
#[test]
fn a_window_measured_in_utf_16_is_continued_where_it_ends() {
    let manner = Manner { units: Units::ToldInUtf16, ..Manner::default() };
    let texts = [
        "🙂".to_owned(),
        "🙂".repeat(100),
        "é🙂x".repeat(500),
        format!("{}🙂", "x".repeat(6)),
        "x".repeat(50),
    ];
    for text in &texts {
        let (_plain, _desk, mut adapter) = of(manner, &[("m1", json!({ "body": text }))]);
        let count = text.chars().count() as u64;
        // With half of so many emojis there are as many units as the whole has characters.
        for limit in [1, 7, count.div_ceil(2), 60, 4096] {
            if count > 200 * limit {
                continue;
            }
            let (read, windows) = adapter.whole_field(M1, "body", limit);
            assert_eq!((&read, windows as u64), (text, count.div_ceil(limit)), "{limit}");
        }
        let whole =
            adapter.call("read_record_field", json!({ "id": M1, "field_path": "body" }))["structuredContent"].take();
        let count = json!(text.chars().count());
        assert_eq!(
            (&whole["window"]["end_chars"], &whole["field"]["size_chars"]),
            (&count, &count)
        );
        assert_eq!(whole["window"]["complete"], true);
    }
    // What is found, too, and back from there.
    let text = format!("{}ne🙂dle{}", "🙂x".repeat(900), "é🙂".repeat(900));
    let (_plain, _desk, mut adapter) = of(manner, &[("m1", json!({ "body": text }))]);
    let around = json!({ "id": M1, "field_path": "body", "q": "ne🙂dle", "before_chars": 4, "after_chars": 10, "limit_chars": 20 });
    let around = adapter.call("read_record_field", around)["structuredContent"]["window"].take();
    assert_eq!(around["match"], json!({ "q": "ne🙂dle", "start_chars": 1800, "end_chars": 1806 }));
    assert_eq!((&around["start_chars"], &around["end_chars"]), (&json!(1796), &json!(1816)));
    let mut beside = |cursor: &str| {
        let args = json!({ "id": M1, "field_path": "body", "cursor": around[cursor] });
        adapter.call("read_record_field", args)["structuredContent"]["window"]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let joined = format!(
        "{}{}{}",
        beside("previous_cursor"),
        around["text"].as_str().unwrap(),
        beside("next_cursor")
    );
    assert!(text.contains(&joined) && joined.chars().count() == 60, "{joined}");
}

/// One that cuts by units of UTF-16, too, may cut within a character: its windows do not join.
#[test]
fn a_text_of_a_server_that_cuts_by_utf_16_is_cut_from_its_record() {
    let manner = Manner { units: Units::Utf16, ..Manner::default() };
    let emoji = format!("{}12345678", "🙂".repeat(3000));
    let body = "é🙂x".repeat(30);
    let records = [("m1", json!({ "body": body, "note": "🙂 whole", "emoji": emoji }))];
    let (_plain, _desk, mut adapter) = of(manner, &records);
    for limit in [3, 4, 5, 7] {
        assert_eq!(adapter.whole_field(M1, "body", limit).0, body, "{limit}");
    }
    assert_eq!(adapter.whole_field(M1, "note", 4096), ("🙂 whole".to_owned(), 1));
    assert_eq!(adapter.whole_field(M1, "emoji", 1000), (emoji, 4));
}

#[test]
fn a_value_that_a_server_cannot_window_is_cut_from_its_record() {
    let object = json!({ "steps": vec!["of some length"; 100], "n": 7 });
    for (is_lenient, unknown) in
        [(false, None), (true, None), (false, Some((422, "unprocessable")))]
    {
        let manner = Manner { is_lenient, unknown, ..Manner::default() };
        let (_plain, _desk, mut adapter) = of(manner, &[("m1", json!({ "thing": object }))]);
        let (json, windows) = adapter.whole_field(M1, "thing", 300);
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), object);
        assert!(windows > 5, "{windows}");
        assert_eq!(adapter.whole_field(M1, "thing/steps/99", 5).0, "of some length");
        assert_eq!(adapter.whole_field(M1, "thing/n", 5).0, "7");
        let around = json!({ "id": M1, "field_path": "thing", "q": "\"n\"", "after_chars": 2 });
        let window = adapter.call("read_record_field", around)["structuredContent"].take();
        assert!(window["window"]["text"].as_str().unwrap().ends_with("\"n\":7"), "{window}");
        let nowhere = json!({ "id": M1, "field_path": "thing", "q": "heron" });
        assert_eq!(adapter.refused("read_record_field", nowhere)["code"], "query_not_found");
        let lost = json!({ "id": M1, "field_path": "thing/nothing" });
        assert!(adapter.refused("read_record_field", lost)["code"].is_string());
    }
}
