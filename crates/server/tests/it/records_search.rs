//! Search over HTTP: found, with the place, and read on from there by one more request.

use serde_json::{Value, json};

use super::records_kit::Kit;

fn kit() -> Kit {
    let kit = Kit::new();
    let filler = "Nothing to see in this line, which is one of many. ".repeat(900);
    let rows = [
        json!({ "data": { "id": "m1", "sent_at": "2026-01-05T10:00:00Z", "subject": "Le café", "body": "Water the ferns." } }),
        json!({ "data": { "id": "m2", "sent_at": "2026-02-05T10:00:00Z", "subject": "Ferns", "body": format!("{filler}The zygote was 日本語 and said so. {filler}") } }),
        json!({ "data": { "id": "a/b 🙂", "sent_at": "2026-03-05T10:00:00Z", "subject": "x", "body": "ann@example.org wrote <b>ferns</b>" } }),
    ];
    kit.ingest("messages", "chat", &rows);
    kit
}

fn found(answer: &Value) -> Vec<&str> {
    answer["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["record_key"].as_str().unwrap())
        .collect()
}

#[test]
fn a_sentence_in_a_long_text_is_found_and_read_at_its_offset() {
    let kit = kit();
    let (_, token) = kit.client(&["--stream", "messages", "--field", "body"]);
    let answer = kit.json("/v1/search?q=%22zygote%20was%22%20%E6%9C%AC%E8%AA%9E", &token);
    assert_eq!(found(&answer), ["m2"]);
    let excerpt = &answer["data"][0]["evidence_excerpts"][0];
    let shown = excerpt["preview_text"].as_str().unwrap();
    let (start, at) = (
        excerpt["start_chars"].as_u64().unwrap(),
        excerpt["match"]["start_chars"].as_u64().unwrap(),
    );
    assert!(shown.chars().count() <= 320 && excerpt["truncated"] == true);
    let inside: String = shown.chars().skip((at - start) as usize).collect();
    assert!(inside.starts_with("zygote was 日本語 and said so."), "{inside}");
    let window = kit.json(excerpt["read"]["route"].as_str().unwrap(), &token);
    assert!(
        window["window"]["text"].as_str().unwrap().starts_with("zygote was 日本語 and said so.")
    );
    assert_eq!(window["window"]["start_chars"], at);
}

#[test]
fn only_granted_fields_and_records_are_searched() {
    let kit = kit();
    let all = kit.client(&["--stream", "messages", "--field", "subject", "--field", "body"]).1;
    assert_eq!(found(&kit.json("/v1/search?q=ferns", &all)), ["a/b 🙂", "m2", "m1"]);
    assert_eq!(found(&kit.json("/v1/search?q=cafe+WATER", &all)), ["m1"], "in different fields");
    let body = kit.client(&["--stream", "messages", "--field", "body"]).1;
    assert_eq!(found(&kit.json("/v1/search?q=ferns", &body)), ["a/b 🙂", "m1"]);
    assert_eq!(found(&kit.json("/v1/search?q=cafe", &body)), [""; 0]);
    let late = kit
        .client(&[
            "--stream", "messages", "--field", "subject", "--field", "body", "--since",
            "2026-02-01",
        ])
        .1;
    assert_eq!(found(&kit.json("/v1/search?q=fer*", &late)), ["a/b 🙂", "m2"]);
    assert_eq!(
        kit.refused("/v1/search?q=x&streams=other", &body),
        (403, "grant_stream_not_allowed".to_owned())
    );
    assert_eq!(found(&kit.json("/v1/search?q=x&streams=other", &kit.owner)), [""; 0]);
    let files = kit.rig.token(&["read:/"], &[]);
    assert_eq!(kit.refused("/v1/search?q=x", &files), (403, "insufficient_scope".to_owned()));
}

#[test]
fn pages_continue_while_records_come_and_go() {
    let kit = kit();
    let first = kit.json("/v1/search?q=ferns&limit=1", &kit.owner);
    assert_eq!(found(&first), ["a/b 🙂"]);
    kit.ingest("messages", "chat", &[json!({ "data": { "id": "m9", "body": "more ferns" } })]);
    let gone = kit.send("DELETE", "/v1/streams/messages/records/m2", &kit.owner, "", "");
    assert_eq!(gone.status, 204);
    let second = kit.json(first["links"]["next"].as_str().unwrap(), &kit.owner);
    assert_eq!((found(&second), &second["has_more"]), (vec!["m1"], &json!(false)));
    assert_eq!(found(&kit.json("/v1/search?q=ferns", &kit.owner)), ["m9", "a/b 🙂", "m1"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let other = kit.get(&format!("/v1/search?q=moss&cursor={cursor}"), &kit.owner).json();
    assert_eq!(
        (&other["error"]["code"], &other["error"]["reason"]),
        (&json!("invalid_cursor"), &json!("mismatch"))
    );
}

#[test]
fn every_text_is_a_valid_query() {
    let kit = kit();
    for (query, keys) in [
        ("ann%40example.org", &["a/b 🙂"][..]),
        ("%3Cb%3E", &["a/b 🙂"]),
        ("%22water+the%22", &["m1"]),
        ("%22the+water%22", &[]),
        ("%22", &[]),
        ("***", &[]),
        ("AND+OR+NOT", &[]),
        ("%F0%9F%99%82", &["a/b 🙂"]),
        ("FERN", &[]),
        ("FERN*", &["a/b 🙂", "m2", "m1"]),
    ] {
        assert_eq!(found(&kit.json(&format!("/v1/search?q={query}"), &kit.owner)), keys, "{query}");
    }
    let answer = kit.json("/v1/search?q=%21%21", &kit.owner);
    assert_eq!(answer["meta"]["warnings"][0]["code"], "query_without_words");
    for wrong in [
        "/v1/search", "/v1/search?q=", "/v1/search?q=a&q=b", "/v1/search?q=a&mode=semantic",
        "/v1/search?q=a&filter[id]=m1",
    ] {
        assert_eq!(kit.refused(wrong, &kit.owner), (400, "invalid_request".to_owned()), "{wrong}");
    }
    let filtered = kit.json("/v1/search?q=ferns&streams=messages&filter%5Bid%5D=m1", &kit.owner);
    assert_eq!(found(&filtered), ["m1"]);
    for path in ["/v1/search/semantic?q=a", "/v1/search/hybrid?q=a"] {
        assert_eq!(kit.refused(path, &kit.owner), (404, "not_found".to_owned()));
    }
}

#[test]
fn every_caller_can_discover_search() {
    let kit = Kit::new();
    let metadata = kit.get("/.well-known/oauth-protected-resource", "").json();
    let search = &metadata["capabilities"]["lexical_retrieval"];
    assert_eq!((&search["supported"], &search["endpoint"]), (&json!(true), &json!("/v1/search")));
    assert_eq!((&search["default_limit"], &search["max_limit"]), (&json!(25), &json!(100)));
    assert_eq!(search["score"]["supported"], false);
    let bounded = &metadata["capabilities"]["bounded_reads"];
    assert_eq!(
        *bounded,
        json!({ "preview_chars": true, "preview_bytes": true, "cursors": "each", "byte_windows": true })
    );
}
