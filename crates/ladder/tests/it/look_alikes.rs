//! A text that looks like base64 is a text: it is shown, searched, counted and read like any other.

use serde_json::{Value as Json, json};
use stile_domain::records::value::FieldValue;
use stile_records::operations::Operation;
use stile_testkit::chance::Chance;

use super::records::model::{Stored, World};
use super::records::{OperationRequest, owner};
use super::worlds::{self, text};
use super::{Client, of_field, with};

/// Texts of 256 characters or more of the alphabet of base64, with a query that finds each.
fn look_alikes() -> Vec<(&'static str, String, String)> {
    let repeated = |unit: &str, chars: usize| unit.chars().cycle().take(chars).collect::<String>();
    let texts = [
        ("word", repeated("Donaudampfschifffahrtsgesellschaft", 300)),
        ("path", repeated("/srv/photos/2026/holiday", 512)),
        ("digits", repeated("31415926535897932384626433", 1028)),
        ("dna", repeated("GATTACA", 9000)),
        ("hex", repeated("0123456789abcdef", 64 * 300)),
        ("hashtags", repeated("_spring-garden-ferns", 260)),
        ("encoded", worlds::base64_of(3000)),
        ("padded", worlds::base64_of(200_000)),
    ];
    texts.into_iter().map(|(name, text)| (name, text.clone(), query(&text))).collect()
}

/// Returns a query of the beginning of the first word.
fn query(text: &str) -> String {
    let word = text.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
    format!("{}*", word.unwrap().chars().take(24).collect::<String>())
}

fn world() -> (World, Stored) {
    let records = look_alikes().into_iter().map(|(name, held, _)| {
        (name.to_owned(), vec![("body".to_owned(), text(held)), ("at".to_owned(), text("now"))])
    });
    let world = World { sources: vec![worlds::stream("a-mail", "notes", records.collect())] };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    (world, stored)
}

fn asked(stored: &Stored, operation: Operation, key: &str, pairs: &[(&str, &str)]) -> Json {
    let mut request = OperationRequest {
        operation: operation.declaration(),
        stream: "notes".into(),
        key: key.to_owned(),
        pairs: Vec::new(),
    };
    for (name, value) in pairs {
        request = request.with(name, value);
    }
    serde_json::from_str(&request.send(&stored.services, &owner()).unwrap()).unwrap()
}

#[test]
fn a_text_that_looks_like_bytes_is_read_counted_and_found_over_v1() {
    let (_, stored) = world();
    for (key, held, query) in look_alikes() {
        let whole = asked(&stored, Operation::GetRecord, key, &[]);
        assert_eq!(whole["data"]["body"], held, "{key}");
        let cut = asked(&stored, Operation::GetRecord, key, &[("preview_chars", "100")]);
        assert_eq!(cut["data"]["body"], held[..100], "{key}");
        assert_eq!(cut["previews"]["body"]["text_like"], true, "{key}");
        assert_eq!(cut["previews"]["body"]["size_chars"], held.len(), "{key}");
        let pairs = [("field", "body"), ("offset_chars", "7"), ("limit_chars", "50")];
        let window = asked(&stored, Operation::GetFieldWindow, key, &pairs);
        assert_eq!(window["window"]["text"], held[7..57], "{key}");
        assert_eq!(window["field"]["mime_type"], "text/plain", "{key}");
        let hits = asked(&stored, Operation::Search, "", &[("q", &query)]);
        let found: Vec<&str> = hits["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|hit| hit["record_key"].as_str().unwrap())
            .collect();
        assert!(found.contains(&key), "{query}: {found:?}");
    }
}

#[test]
fn a_text_that_looks_like_bytes_is_read_and_found_with_the_tools() {
    let (_, stored) = world();
    let client = Client::new(&stored.services, owner());
    for (key, held, query) in look_alikes() {
        let id = format!("a-mail/notes:{key}");
        let hits = client.good("search", &json!({ "q": query, "limit": 100 })).structured;
        let found = hits["results"].as_array().unwrap().iter().find(|hit| hit["id"] == *id);
        assert!(found.is_some(), "{query}: {hits}");
        let fetched = client.good("fetch", &json!({ "id": id })).structured;
        let entry = &fetched["content_ladder"]["entries"][0];
        if !fetched["text"].as_str().unwrap().contains(&held) {
            assert_eq!(entry["field_path"], "body", "{key}");
            assert_eq!(entry["size_chars"], held.len(), "{key}");
            assert_eq!(entry["read"]["tool"], "read_record_field", "{key}");
        }
        let mut read = String::new();
        let mut args = with(&of_field(&id, "body"), json!({ "limit_chars": 16_384 }));
        loop {
            let answered = client.call_unchecked("read_record_field", &args).structured;
            read.push_str(answered["window"]["text"].as_str().unwrap());
            let Json::String(next) = &answered["window"]["next_cursor"] else { break };
            args = with(&of_field(&id, "body"), json!({ "cursor": next }));
        }
        assert!(read == held, "{key}");
    }
}

#[test]
fn only_a_preview_guesses_and_shows_what_comes_before_encoded_bytes() {
    let (_, stored) = world();
    let client = Client::new(&stored.services, owner());
    for (key, held, _) in look_alikes() {
        let answered = client.good(
            "query_records",
            &json!({ "stream": "notes", "limit": 1, "fields": ["body"], "filter": { "body": held } }),
        );
        let shown = &answered.structured["data"]["data"][0]["data"]["body"];
        let is_encoded = ["encoded", "padded"].contains(&key);
        let shown = shown.as_str().unwrap_or_default();
        assert!(held.starts_with(shown) && shown.is_empty() == is_encoded, "{key}: {shown:?}");
    }
}

#[test]
fn a_declared_text_of_other_characters_is_a_text() {
    let fields = vec![("photo".to_owned(), FieldValue::Text("no photo yet".to_owned()))];
    let records = vec![("k".to_owned(), fields)];
    let world = World { sources: vec![worlds::stream("a-mail", "notes", records)] };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    let client = Client::new(&stored.services, owner());
    let window = client.good("read_record_field", &of_field("a-mail/notes:k", "photo"));
    assert_eq!(window.structured["window"]["text"], "no photo yet");
    let hits = client.good("search", &json!({ "q": "photo" })).structured;
    assert_eq!(hits["results"][0]["id"], "a-mail/notes:k");
}

#[test]
fn data_uris_and_wrapped_base64_say_their_type_and_size() {
    let wrapped = |bytes: usize, width: usize, end: &str| {
        let base64 = worlds::base64_of(bytes);
        let lines = base64.as_bytes().chunks(width).map(|line| str::from_utf8(line).unwrap());
        lines.collect::<Vec<_>>().join(end)
    };
    let cases = [
        ("uri", format!("data:image/png;base64,{}", worlds::base64_of(1001)), "image/png", 1001),
        ("large", format!("data:a/b;base64,{}", worlds::base64_of(90_002)), "a/b", 90_002),
        ("mail", wrapped(9001, 76, "\r\n"), "application/octet-stream", 9001),
        ("pem", wrapped(301, 64, "\n"), "application/octet-stream", 301),
        ("plain", worlds::base64_of(200), "application/octet-stream", 200),
    ];
    let records = cases
        .iter()
        .map(|(key, held, ..)| ((*key).to_owned(), vec![("body".to_owned(), text(held.clone()))]));
    let world = World { sources: vec![worlds::stream("a-mail", "notes", records.collect())] };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    let client = Client::new(&stored.services, owner());
    for (key, _, mime_type, bytes) in cases {
        let id = format!("a-mail/notes:{key}");
        let seems = json!({ "mime_type": mime_type, "encoding": "base64", "size_bytes": bytes });
        let answered = client.good("fetch", &json!({ "id": id }));
        let entries = answered.structured["content_ladder"]["entries"].as_array().unwrap();
        assert_eq!(entries[0]["looks_like"], seems, "{key}");
        assert!(answered.text.contains(&seems.to_string()), "{key}: {}", answered.text);
    }
    let answered = client.good("query_records", &json!({ "stream": "notes" })).structured;
    let entries = answered["content_ladder"]["entries"].as_array().unwrap();
    assert!(entries.iter().all(|entry| entry["looks_like"]["size_bytes"].is_u64()), "{entries:?}");
}
