//! `stile mcp` over a server of another make that has blobs: every step and link that is ever shown
//! works, and leads to the bytes.

use std::collections::{BTreeSet, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use stile_testkit::upstream::{Behaviour, Reply, Upstream};

use super::provider_kit::{Adapter, Desk};
use super::provider_plain::{M1, long_text};
use super::provider_plain_server::{Blobs, Manner, Place, Plain, TOKEN, Units, blob_bytes};

/// A record with references to bytes at several depths, and long texts beside them.
fn record() -> Value {
    let blob = |id: &str| json!({ "blob_id": id, "mime_type": "image/png", "size_bytes": 150_000 });
    let emoji = "\u{1f642}".repeat(3000);
    json!({
        "id": "m1", "body": long_text(), "emoji": emoji, "photo": blob("blob_0"),
        "attachments": [blob("blob_1"), { "deep": { "a/b": blob("blob-2") } }, "text"],
        "many": (0..20).map(|at| blob(&format!("blob-many-{at}"))).collect::<Vec<_>>(),
        "marked": "a <mark>mark</mark> of its own",
    })
}

fn of(blobs: Blobs, units: Units) -> (Plain, Desk, Adapter) {
    let manner = Manner { blobs: Some(blobs), units, ..Manner::default() };
    let records = [("m1", record()), ("..", json!({ "id": "..", "body": "of dots zygote" }))];
    let plain = Plain::of(manner, &records);
    let desk = Desk::new(TOKEN);
    let adapter = desk.adapter(&plain.url(), &[]);
    (plain, desk, adapter)
}

/// Something that an answer shows to be opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Call(String, String),
    Address(String),
}

/// Collects each call and each address in an answer.
fn shown_in(value: &Value, into: &mut Vec<Shown>) {
    match value {
        Value::Object(members) => {
            if let (Some(tool), Some(args)) = (members.get("tool"), members.get("args")) {
                into.push(Shown::Call(tool.as_str().unwrap().to_owned(), args.to_string()));
            }
            members.values().for_each(|value| shown_in(value, into));
        }
        Value::Array(items) => items.iter().for_each(|item| shown_in(item, into)),
        Value::String(text) if text.starts_with("pdpp://") => {
            into.push(Shown::Address(text.clone()));
        }
        Value::String(text) => {
            for call in text.lines().filter_map(|line| line.strip_prefix("next: ")) {
                let (tool, rest) = call.split_once(' ').unwrap();
                let args = serde_json::Deserializer::from_str(rest).into_iter::<Value>().next();
                into.push(Shown::Call(tool.to_owned(), args.unwrap().unwrap().to_string()));
            }
        }
        _ => {}
    }
}

#[test]
fn every_step_and_every_link_that_is_shown_can_be_opened() {
    for units in [Units::Scalars, Units::Utf16] {
        let (_plain, _desk, mut adapter) = of(Blobs::Ranges, units);
        let mut seen = BTreeSet::new();
        let mut waiting: VecDeque<Shown> = VecDeque::new();
        for (tool, args) in [
            ("schema", json!({})),
            ("search", json!({ "q": "zygote" })),
            ("query_records", json!({ "stream": "messages", "limit": 1 })),
            ("fetch", json!({ "id": M1 })),
            ("read_record_field", json!({ "id": M1, "field_path": "emoji", "limit_chars": 3000 })),
        ] {
            waiting.push_back(Shown::Call(tool.to_owned(), args.to_string()));
        }
        let mut opened = 0;
        while let Some(next) = waiting.pop_front() {
            // Windows lead to further windows, so the test opens the first 300 that it is shown.
            if !seen.insert(next.clone()) || opened > 300 {
                continue;
            }
            opened += 1;
            let answer = match &next {
                Shown::Call(tool, args) => adapter.call(tool, serde_json::from_str(args).unwrap()),
                Shown::Address(uri) => {
                    let answer = adapter.request("resources/read", json!({ "uri": uri }));
                    assert!(answer["result"].is_object(), "{uri}: {answer}");
                    answer["result"].clone()
                }
            };
            let mut found = Vec::new();
            shown_in(&answer, &mut found);
            waiting.extend(found);
        }
        assert!(opened > 60, "{opened}");
        println!("{opened} steps and links were opened");
    }
}

/// Reads bytes with `fetch`, or as resources, from an address on.
fn bytes_from(adapter: &mut Adapter, uri: &str, with_fetch: bool) -> Vec<u8> {
    let (mut bytes, mut next) = (Vec::new(), Some(uri.to_owned()));
    while let Some(uri) = next {
        if with_fetch {
            let part = adapter.call("fetch", json!({ "id": uri }))["structuredContent"].take();
            assert_eq!(part["metadata"]["encoding"], "base64");
            bytes.extend(STANDARD.decode(part["text"].as_str().unwrap()).unwrap());
            let entry = &part["content_ladder"]["entries"][0];
            next = entry["read"]["args"]["id"].as_str().map(str::to_owned);
        } else {
            let read = adapter.request("resources/read", json!({ "uri": uri }))["result"].take();
            let part = read["contents"][0]["blob"].as_str().unwrap();
            bytes.extend(STANDARD.decode(part).unwrap());
            let meta = &read["contents"][0]["_meta"]["pdpp/next_uri"];
            let meta = meta.as_str().or(read["_meta"]["pdpp/next_uri"].as_str());
            next = meta.map(str::to_owned);
        }
    }
    bytes
}

#[test]
fn bytes_of_another_server_are_read_whether_it_returns_ranges_or_not() {
    for blobs in [
        Blobs::Ranges,
        Blobs::Whole,
        Blobs::Redirected(Place::Below),
        Blobs::Redirected(Place::Beside),
    ] {
        let (_plain, _desk, mut adapter) = of(blobs, Units::Scalars);
        let fetched = adapter.call("fetch", json!({ "id": M1 }));
        let entries = fetched["structuredContent"]["content_ladder"]["entries"].clone();
        for (path, id) in [
            ("photo", "blob_0"),
            ("attachments/0", "blob_1"),
            ("attachments/1/deep/a~1b", "blob-2"),
            ("many/3", "blob-many-3"),
        ] {
            let entry = entries.as_array().unwrap().iter().find(|one| one["field_path"] == path);
            let entry = entry.unwrap_or_else(|| panic!("{path}: {entries}"));
            assert_eq!(entry["mime_type"], "image/png", "{path}");
            let uri = entry["resource"]["uri"].as_str().unwrap();
            for with_fetch in [true, false] {
                let bytes = bytes_from(&mut adapter, uri, with_fetch);
                assert!(bytes == blob_bytes(id), "{path}: {} bytes", bytes.len());
            }
        }
    }
}

#[test]
fn a_blob_that_is_gone_is_said_to_be_gone() {
    let manner = Manner { blobs: Some(Blobs::Ranges), ..Manner::default() };
    let lost = json!({ "blob_id": "lost", "mime_type": "image/png" });
    let plain = Plain::of(manner, &[("m1", json!({ "id": "m1", "files": [lost] }))]);
    let desk = Desk::new(TOKEN);
    let mut adapter = desk.adapter(&plain.url(), &[]);
    let fetched = adapter.call("fetch", json!({ "id": M1 }));
    let entry = &fetched["structuredContent"]["content_ladder"]["entries"][0];
    assert_eq!(entry["field_path"], "files/0");
    let refused = adapter.refused("fetch", entry["read"]["args"].clone());
    assert_eq!(refused["code"], "blob_not_found");
}

#[test]
fn a_redirect_of_a_blob_leads_to_no_other_server_and_only_once() {
    let elsewhere = Upstream::start(Behaviour::always(Reply::bytes(200, "image/png", "lured")));
    let places = [
        (Place::Elsewhere(elsewhere.address()), "blob_elsewhere"),
        (Place::Again, "blob_elsewhere"),
        (Place::Nothing, "provider_failed"),
    ];
    for (place, code) in places {
        let (plain, _desk, mut adapter) = of(Blobs::Redirected(place), Units::Scalars);
        let fetched = adapter.call("fetch", json!({ "id": M1 }));
        let entries = fetched["structuredContent"]["content_ladder"]["entries"].clone();
        let named = |path: &str| {
            let entry = entries.as_array().unwrap().iter().find(|one| one["field_path"] == path);
            entry.map(|entry| entry["read"]["args"].clone())
        };
        let refused = adapter.refused("fetch", named("photo").unwrap());
        assert_eq!(refused["code"], code, "{place:?}: {refused}");
        assert!(!refused.to_string().contains("signed"), "no address is repeated: {refused}");
        if code == "blob_elsewhere" {
            assert!(refused["message"].as_str().unwrap().contains("`fetch`"), "{refused}");
            assert_eq!(named("attachments/0"), None, "a reference that cannot be opened is named");
        }
        let requests = plain.upstream.take_requests();
        let beside = requests.iter().filter(|one| !one.target.starts_with("/pre/fix/"));
        for request in beside {
            assert_eq!(request.header("authorization"), None, "{}", request.target);
        }
    }
    assert_eq!(elsewhere.connections(), 0);
}
