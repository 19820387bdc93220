//! Lists and documents from other implementations of the resource server.

use serde_json::{Value as Json, json};

use super::foreign::client;

#[test]
fn hits_are_shown_despite_absent_and_differently_spelled_members() {
    let client = client(|_| {
        json!({ "data": [
            { "stream": "notes", "record_key": "1", "evidence_excerpts": null, "title": { "field": null, "text": null },
              "snippet": "a plain snippet" },
            { "stream": "notes", "record_key": "2", "title": "a plain title", "snippet": { "text": null } },
            { "stream": "notes", "record_key": "3", "title": null, "snippet": null, "emitted_at": null },
        ] })
        .to_string()
    });
    let hits = client.good("search", &json!({ "q": "plain" }));
    let answered = |at: usize, name: &str| hits.structured["results"][at][name].clone();
    assert_eq!(
        (answered(0, "title"), answered(0, "snippet")),
        (json!("notes"), json!("a plain snippet"))
    );
    assert_eq!(
        (answered(1, "title"), answered(1, "snippet")),
        (json!("a plain title"), Json::Null)
    );
    assert_eq!(answered(2, "title"), json!("notes"));
    for said in ["snippet=\"a plain snippet\"", "title=\"a plain title\"", "id=notes:3"] {
        assert!(hits.text.contains(said), "{}", hits.text);
    }
}

#[test]
fn marks_are_removed_and_the_next_call_finds_what_was_marked() {
    let client = client(|_| {
        let excerpt =
            |text: &str| json!({ "field_path": "body", "preview_text": text, "truncated": true });
        let found = |text: &str| {
            let mut excerpt = excerpt(text);
            excerpt["match"] = json!({ "start_chars": 7 });
            excerpt
        };
        json!({ "data": [
            { "stream": "notes", "record_key": "1", "snippet": "a <mark>grey</mark> one",
              "evidence_excerpts": [excerpt("…a <mark>grey</mark> <mark>heron</mark> stood…")] },
            { "stream": "notes", "record_key": "2", "evidence_excerpts": [found("say <mark>x</mark>")] },
            { "stream": "notes", "record_key": "3", "evidence_excerpts": [excerpt("</mark> a <mark>")] },
        ] })
        .to_string()
    });
    let hits = client.good("search", &json!({ "q": "grey heron" }));
    let window = |at: usize| hits.structured["results"][at]["match_windows"][0].clone();
    assert_eq!(hits.structured["results"][0]["snippet"], Json::Null, "the window shows it");
    assert_eq!(window(0)["preview_text"], "…a grey heron stood…");
    let args = json!({ "id": "notes:1", "field_path": "body", "q": "grey" });
    assert_eq!(window(0)["read"], json!({ "tool": "read_record_field", "args": args }));
    assert!(hits.text.contains(&args["q"].to_string()), "{}", hits.text);
    // A server that says where the match is marks nothing: this is the record's own text.
    assert_eq!(window(1)["preview_text"], "say <mark>x</mark>");
    assert_eq!(window(1)["read"]["args"]["offset_chars"], 7);
    assert_eq!(window(2)["preview_text"], "</mark> a <mark>");
}

#[test]
fn only_a_true_deleted_member_marks_a_record_as_deleted() {
    let client = client(|_| {
        json!({ "data": [
            { "id": "1", "deleted": false, "data": { "body": "here" } },
            { "id": "2", "deleted": true, "data": {} },
            { "id": "3", "deleted": true, "deleted_at": "2026-01-01T00:00:00Z" },
            { "id": "4", "deleted": false, "deleted_at": "2026-01-01T00:00:00Z", "data": { "body": "back" } },
        ] })
        .to_string()
    });
    let list =
        client.good("query_records", &json!({ "stream": "notes", "changes_since": "beginning" }));
    let rows = list.structured["data"]["data"].clone();
    assert_eq!(
        (&rows[0]["data"], &rows[3]["data"]),
        (&json!({ "body": "here" }), &json!({ "body": "back" }))
    );
    assert!(rows[1].get("data").is_none() && rows[2].get("data").is_none());
    let lines: Vec<&str> = list.text.lines().skip(1).collect();
    assert_eq!(
        lines[..4],
        [
            "1. id=notes:1 {\"body\":\"here\"}",
            "2. id=notes:2 deleted=true",
            "3. id=notes:3 deleted_at=\"2026-01-01T00:00:00Z\"",
            "4. id=notes:4 {\"body\":\"back\"}",
        ]
    );
}

#[test]
fn a_record_too_long_for_a_structure_keeps_its_metadata() {
    let fields: serde_json::Map<String, Json> =
        (0..400).map(|at| (format!("f{at}"), json!("x".repeat(400)))).collect();
    for is_deleted in [false, true] {
        let fields = fields.clone();
        let client = client(move |_| {
            let record = json!({ "id": "1", "emitted_at": "2026-01-01T00:00:00Z", "deleted": is_deleted, "data": fields });
            json!({ "data": [record] }).to_string()
        });
        let list = client
            .good("query_records", &json!({ "stream": "notes", "changes_since": "beginning" }));
        let row = list.structured["data"]["data"][0].clone();
        assert_eq!(
            (&row["emitted_at"], &row["deleted"]),
            (&json!("2026-01-01T00:00:00Z"), &json!(is_deleted))
        );
        assert_eq!(row.get("data").is_none(), is_deleted, "{row}");
        assert_eq!(list.structured["content_ladder"]["entries"], json!([]));
    }
}

#[test]
fn a_documents_text_is_the_first_text_field_that_is_not_empty() {
    for (fields, text) in [
        (r#"{"text":"","body":"hello"}"#, "hello"),
        (r#"{"body":"hello","content":""}"#, "hello"),
        (r#"{"text":"","content":"","n":1}"#, ""),
        (r#"{"text":"first","body":"hello"}"#, "first"),
        // A number is not a text, even if it is shown as its digits.
        (r#"{"text":1e400,"body":"hello"}"#, "hello"),
    ] {
        let record = format!(r#"{{"id":"1","data":{fields}}}"#);
        let client = client(move |_| record.clone());
        let answered = client.good("fetch", &json!({ "id": "notes:1" })).structured;
        assert_eq!(answered["text"], text, "{fields}");
    }
}

#[test]
fn as_many_groups_are_shown_as_fit() {
    let of = |count: usize, key: usize| {
        let groups: Vec<Json> = (0..count)
            .map(|at| json!({ "key": format!("{at:03}{}", "k".repeat(key)), "count": 2 }))
            .collect();
        let answer = json!({
            "object": "aggregation", "stream": "notes", "metric": "count", "filtered_record_count": 2 * count + 5,
            "groups": groups, "other_count": 5,
        })
        .to_string();
        let client = client(move |_| answer.clone());
        let args =
            json!({ "stream": "notes", "metric": "count", "group_by": "author", "limit": 100 });
        let answered = client.good("aggregate", &args);
        let groups = answered.structured["groups"].as_array().unwrap().len();
        let left_out = answered.structured["groups_left_out"].as_u64().unwrap_or(0) as usize;
        assert_eq!(groups + left_out, count);
        let others = answered.structured["other_count"].as_u64().unwrap() as usize;
        assert_eq!(others, 5 + 2 * left_out);
        (answered.text, groups)
    };
    let shown_of = of;
    let of = |count, length| shown_of(count, length).0;
    assert!(of(60, 5).ends_with("other_count=5."), "{}", of(60, 5));
    assert!(of(12, 93).contains(&format!("\"011{}\"=2", "k".repeat(93))), "{}", of(12, 93));
    let many = of(100, 93);
    let shown = many.matches("=2").count();
    assert!(many.len() <= 1800 && shown > 10, "{many}");
    assert!(
        many.contains(&format!("shown={shown}: "))
            && many.contains(&format!("other_count={}.", 5 + 2 * (100 - shown)))
    );
    let groups = shown_of(100, 93).1;
    assert!(shown < groups && groups < 100, "{groups}");
    assert!(many.ends_with(&format!(
        "\nnote: {} more group(s), {} of them in the structured answer; a narrower `filter` shows them here",
        100 - shown, groups - shown
    )));
    assert!(
        of(100, 20).ends_with(" are in the structured answer; a narrower `filter` shows them here")
    );
}
