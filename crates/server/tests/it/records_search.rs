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
fn members_of_lists_are_searched_where_a_grant_shows_them() {
    let kit = Kit::new();
    let long: Vec<String> = (0..3000).map(|number| format!("tag{number}")).collect();
    let rows = [
        json!({ "id": "n1", "Subject": "Herb bed", "tags": ["boiler", "Käse"], "text": "moss" }),
        json!({ "id": "n2", "Subject": "Long", "tags": long, "text": "ferns" }),
        json!({ "id": "n3", "Subject": "None", "tags": [], "text": "x" }),
    ];
    kit.ingest("notes", "own", &rows.map(|data| json!({ "data": data })));
    let all = kit.client(&["--stream", "notes"]).1;
    let hits = kit.json("/v1/search?q=kase", &all);
    assert_eq!(found(&hits), ["n1"]);
    assert_eq!(hits["data"][0]["matched_fields"], json!(["tags"]));
    assert_eq!(hits["data"][0]["snippet"]["text"], "[\"boiler\",\"Käse\"]");
    assert_eq!(hits["data"][0]["title"], json!({ "field": "Subject", "text": "Herb bed" }));
    let deep = kit.json("/v1/search?q=tags:tag2999", &all);
    assert_eq!(found(&deep), ["n2"], "a list that is kept in pieces");
    let excerpt = &deep["data"][0]["evidence_excerpts"][0];
    let window = kit.json(excerpt["read"]["route"].as_str().unwrap(), &all);
    assert!(window["window"]["text"].as_str().unwrap().starts_with("tag2999"), "{window}");
    let texts = kit.client(&["--stream", "notes", "--field", "text"]).1;
    let hidden = kit.json("/v1/search?q=boiler", &texts);
    assert_eq!((found(&hidden), &hidden["meta"]["terms"][0]["records"]), (vec![], &json!(0)));
}

#[test]
fn pages_continue_while_records_come_and_go() {
    let kit = kit();
    let first = kit.json("/v1/search?q=ferns&limit=1", &kit.owner);
    assert_eq!(found(&first), ["a/b 🙂"]);
    let newer = json!({ "id": "m9", "sent_at": "2026-04-05T10:00:00Z", "body": "more ferns" });
    kit.ingest("messages", "chat", &[json!({ "data": newer })]);
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
fn hits_are_ordered_by_their_own_time_or_by_relevance() {
    let kit = kit();
    let message = |id: &str, at: &str, subject: &str, body: &str| json!({ "data": { "id": id, "sent_at": at, "subject": subject, "body": body } });
    let undated = |id: &str| json!({ "data": { "id": id, "body": "moss on ferns" } });
    // None comes in at its own time.
    let rows = [
        undated("first"),
        message("may", "2026-05-01T00:00:00Z", "x", "green moss and ferns"),
        message("july", "2026-07-01T00:00:00Z", "x", "moss"),
        message("june", "2026-06-01T00:00:00Z", "Green moss", "y"),
        undated("last"),
        message("april", "2026-04-01T00:00:00Z", "x", "moss is green"),
    ];
    kit.ingest("messages", "chat", &rows);
    let newest = ["july", "june", "may", "april", "last", "first"];
    let ordered = |question: &str| {
        let mut keys: Vec<String> = Vec::new();
        let mut next = format!("/v1/search?{question}&limit=2");
        loop {
            let page = kit.json(&next, &kit.owner);
            keys.extend(found(&page).into_iter().map(str::to_owned));
            let Some(after) = page["links"]["next"].as_str() else { return keys };
            next = after.to_owned();
        }
    };
    assert_eq!(ordered("q=moss"), newest);
    assert_eq!(ordered("q=moss&order=newest"), newest);
    assert_eq!(
        ordered("q=moss&order=relevance"),
        ["june", "july", "may", "april", "last", "first"],
        "a field that names the record counts more than time"
    );
    assert_eq!(ordered("q=green+moss&order=relevance"), ["june", "may", "april"]);
    let first = kit.json("/v1/search?q=moss&limit=1", &kit.owner);
    let cursor = first["next_cursor"].as_str().unwrap();
    let other = format!("/v1/search?q=moss&limit=1&order=relevance&cursor={cursor}");
    assert_eq!(kit.refused(&other, &kit.owner).1, "invalid_cursor");
    assert_eq!(kit.refused("/v1/search?q=moss&order=best", &kit.owner).0, 400);
}

#[test]
fn a_hit_shows_up_to_three_places_of_a_field() {
    let kit = kit();
    let gap = "and so it went on for a while. ".repeat(20);
    let beside = "and so on. ".repeat(24);
    let body = format!("moss {gap} ferns and moss {beside} moss {gap} moss {gap} moss {gap} moss");
    kit.ingest("messages", "chat", &[json!({ "data": { "id": "m", "body": body } })]);
    let answer = kit.json("/v1/search?q=moss+ferns", &kit.owner);
    let hit = &answer["data"][0];
    assert_eq!(hit["matched_fields"], json!(["body"]));
    let excerpts = hit["evidence_excerpts"].as_array().unwrap();
    let places: Vec<u64> =
        excerpts.iter().map(|one| one["match"]["start_chars"].as_u64().unwrap()).collect();
    let occurrences: Vec<u64> = body.match_indices("moss").map(|(at, _)| at as u64).collect();
    assert_eq!(places, [occurrences[1] - 10, occurrences[3], occurrences[4]], "the best first");
    let ends = excerpts.iter().map(|one| one["end_chars"].as_u64().unwrap());
    let starts = excerpts.iter().skip(1).map(|one| one["start_chars"].as_u64().unwrap());
    assert!(ends.zip(starts).all(|(end, start)| end <= start), "no two overlap");
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
