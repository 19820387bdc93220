//! `/v1`, the tool and the resource answer the same for the same window.

use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;
use stile_ladder::resources::RANGE;
use stile_records::operations::Operation;
use stile_testkit::chance::Chance;
use stile_tools::toolset::ResourceBody;

use super::records::model::{NOW, Stored, World};
use super::records::{OperationRequest, client, owner};
use super::worlds::{self, text};
use super::{Client, of_field, with};

const ID: &str = "a-mail/notes:k";

fn world() -> World {
    let fields = || {
        vec![
            ("long".to_owned(), text("word 中 needle ".repeat(1500) + "END")),
            ("small".to_owned(), text("a word")),
            ("empty".to_owned(), text("")),
            (
                "json".to_owned(),
                FieldValue::Json(format!("[{}1]", "{\"b\":1.50,\"a\":null},".repeat(400))),
            ),
            ("number".to_owned(), FieldValue::Number("1E400".into())),
            ("photo".to_owned(), text(worlds::base64_of(3000))),
            ("secret".to_owned(), text("word ".repeat(2000))),
        ]
    };
    let keys = ["k", "hidden", "gone"].map(|key| (key.to_owned(), fields()));
    let other = vec![("k".to_owned(), fields())];
    World {
        sources: vec![
            worlds::stream("a-mail", "notes", keys.to_vec()),
            worlds::stream("a-mail", "other", other),
        ],
    }
}

/// Caller, time, record, field and further arguments; an address of the same window; the error
/// code.
type Case = (Principal, i64, &'static str, &'static str, Json, Option<String>, &'static str);

/// Converts the arguments of a tool to parameters.
fn ask(id: &str, field: &str, args: &Json) -> OperationRequest {
    let id = stile_domain::records::record_id::RecordId::parse(id).unwrap();
    let mut pairs = vec![
        ("field".to_owned(), field.to_owned()),
        ("connection_id".to_owned(), id.connection.unwrap()),
    ];
    for (name, value) in args.as_object().unwrap() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        pairs.push((name.clone(), value));
    }
    OperationRequest {
        operation: Operation::GetFieldWindow.declaration(),
        stream: id.stream,
        key: id.key,
        pairs,
    }
}

#[test]
fn v1_tool_and_resource_answer_the_same_window() {
    let world = world();
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    let client = Client::new(&stored.services, owner());
    let size = "word 中 needle ".chars().count() * 1500 + 3;
    let mut by_address = 0;
    for (field, args) in [
        ("long", json!({})),
        ("long", json!({ "limit_chars": 1 })),
        ("long", json!({ "limit_chars": 16_384 })),
        ("long", json!({ "offset_chars": 7777 })),
        ("long", json!({ "offset_chars": 7777, "limit_chars": 3 })),
        ("long", json!({ "offset_chars": size - 3 })),
        ("long", json!({ "offset_chars": size - 1, "limit_chars": 16_384 })),
        ("long", json!({ "offset_chars": size })),
        ("long", json!({ "offset_chars": size + 1 })),
        ("long", json!({ "offset_chars": i64::MAX })),
        ("long", json!({ "q": "NEEDLE" })),
        ("long", json!({ "q": "end", "before_chars": 10, "after_chars": 10 })),
        ("long", json!({ "q": "中", "before_chars": 0, "after_chars": 0 })),
        ("long", json!({ "q": "needle", "limit_chars": 50 })),
        ("small", json!({})),
        ("small", json!({ "limit_chars": 2 })),
        ("small", json!({ "q": "word" })),
        ("empty", json!({})),
        ("empty", json!({ "offset_chars": 5 })),
        ("json", json!({})),
        ("json", json!({ "offset_chars": 5000 })),
        ("json", json!({ "q": "null" })),
        ("number", json!({})),
        ("number", json!({ "offset_chars": 2 })),
    ] {
        let answered: Json =
            serde_json::from_str(&ask(ID, field, &args).send(&stored.services, &owner()).unwrap())
                .unwrap();
        let tool =
            client.good("read_record_field", &with(&of_field(ID, field), args.clone())).structured;
        for name in ["text", "start_chars", "end_chars", "limit_chars", "complete"] {
            assert_eq!(answered["window"][name], tool["window"][name], "{field} {args}: {name}");
        }
        for name in ["path", "text_like", "mime_type", "size_chars", "digest"] {
            assert_eq!(answered["field"][name], tool["field"][name], "{field} {args}: {name}");
        }
        for (name, own) in [("match_start_chars", "start_chars"), ("match_end_chars", "end_chars")]
        {
            assert_eq!(answered["window"][name], tool["window"]["match"][own], "{field} {args}");
        }
        let Some(uri) = tool["resource"]["uri"].as_str() else {
            assert_eq!(tool["window"]["complete"], true);
            continue;
        };
        by_address += 1;
        let content = client.read(uri).unwrap();
        assert_eq!(
            ResourceBody::Text(answered["window"]["text"].as_str().unwrap().to_owned()),
            content.body,
            "{field} {args}"
        );
        for name in ["start_chars", "end_chars"] {
            assert_eq!(content.meta[RANGE][name], answered["window"][name], "{field} {args}");
        }
        assert_eq!(content.meta[RANGE]["size_chars"], answered["field"]["size_chars"]);
        assert_eq!(content.mime_type, answered["field"]["mime_type"]);
        // The neighbouring windows are equal too.
        for (cursor, beside) in [("next_cursor", "next_uri"), ("previous_cursor", "previous_uri")] {
            assert_eq!(
                answered["window"][cursor].is_null(),
                tool["resource"][beside].is_null(),
                "{field} {args}"
            );
            let (Some(cursor), Some(uri)) =
                (answered["window"][cursor].as_str(), tool["resource"][beside].as_str())
            else {
                continue;
            };
            let answered = ask(ID, field, &json!({ "cursor": cursor }))
                .send(&stored.services, &owner())
                .unwrap();
            let answered: Json = serde_json::from_str(&answered).unwrap();
            let content = client.read(uri).unwrap();
            assert_eq!(
                content.body,
                ResourceBody::Text(answered["window"]["text"].as_str().unwrap().to_owned()),
                "{field} {args}"
            );
            assert_eq!(content.meta[RANGE]["start_chars"], answered["window"]["start_chars"]);
        }
    }
    assert!(by_address > 12, "{by_address}");
}

#[test]
fn v1_tool_and_resource_refuse_alike() {
    let world = world();
    let fields = ["long", "small", "json", "photo"];
    let mut narrow = worlds::grant("grt_narrow", &[&world.sources[0]], &fields);
    narrow.shares[0].keys = Some(vec!["k".to_owned(), "gone".to_owned()]);
    let mut brief = worlds::grant("grt_brief", &[&world.sources[0]], &fields);
    brief.expires = Some("2026-01-31T00:00:00.000001Z");
    let stored = Stored::new(&mut Chance::of(1), &world, &[narrow, brief]);
    let owners = Client::new(&stored.services, owner());
    // Addresses of windows that were issued to the owner.
    let address = |id: &str, field: &str| {
        let answered = owners
            .call("read_record_field", &with(&of_field(id, field), json!({ "limit_chars": 2 })))
            .structured;
        let uri = answered.pointer("/resource/uri").or(answered.pointer("/error/resource/uri"));
        uri.map(|uri| uri.as_str().unwrap().to_owned())
    };
    let gone = address("a-mail/notes:gone", "long").unwrap();
    stored
        .services
        .records
        .write_at(&owner().gate().owner().unwrap(), Instant(NOW), |batch| {
            use stile_domain::records::identifiers::SourceName;
            let target = batch
                .target(
                    &SourceName::parse("a-mail").unwrap(),
                    &SourceName::parse("notes").unwrap(),
                )?
                .unwrap();
            batch.delete(&target, "gone")
        })
        .unwrap();
    let (narrow, brief) = (client("grt_narrow", "t1"), client("grt_brief", "t1"));
    let later = NOW + 1;
    let cases: Vec<Case> = vec![
        (owner(), NOW, ID, "nope", json!({}), None, "field_not_found"),
        (narrow.clone(), NOW, ID, "nope", json!({}), None, "field_not_granted"),
        (narrow.clone(), NOW, ID, "secret", json!({}), address(ID, "secret"), "field_not_granted"),
        (owner(), NOW, "a-mail/notes:absent", "long", json!({}), None, "not_found"),
        (owner(), NOW, "a-mail/notes:gone", "long", json!({}), Some(gone.clone()), "not_found"),
        (narrow.clone(), NOW, "a-mail/notes:gone", "long", json!({}), Some(gone), "not_found"),
        (
            narrow.clone(),
            NOW,
            "a-mail/notes:hidden",
            "long",
            json!({}),
            address("a-mail/notes:hidden", "long"),
            "not_found",
        ),
        (
            narrow.clone(),
            NOW,
            "a-mail/other:k",
            "long",
            json!({}),
            address("a-mail/other:k", "long"),
            "grant_stream_not_allowed",
        ),
        (narrow.clone(), NOW, "Zeta/notes:k", "long", json!({}), None, ""),
        (owner(), NOW, "Zeta/notes:k", "long", json!({}), None, ""),
        (owner(), NOW, ID, "long", json!({ "q": "zebra" }), None, "query_not_found"),
        (
            owner(),
            NOW,
            ID,
            "long",
            json!({ "q": "needle", "limit_chars": 2 }),
            None,
            "invalid_window",
        ),
        (owner(), NOW, ID, "photo", json!({}), None, "field_not_text"),
        (narrow, NOW, ID, "photo", json!({}), None, "field_not_text"),
        (brief.clone(), later, ID, "long", json!({}), address(ID, "long"), "grant_expired"),
        (brief.clone(), later, ID, "secret", json!({}), address(ID, "secret"), "grant_expired"),
        (brief, later, ID, "photo", json!({}), address(ID, "photo"), "grant_expired"),
    ];
    for (caller, now, id, field, args, uri, code) in cases {
        let place = format!("{caller:?} {id} {field} {args}");
        let problem =
            ask(id, field, &args).send_at(&stored.services, &caller, Instant(now)).unwrap_err();
        let answered = Json::Object(problem.to_json());
        assert!(code.is_empty() || answered["code"] == code, "{place}: {answered}");
        let clock = if now == NOW { || Instant(NOW) } else { || Instant(NOW + 1) };
        let client = Client::at(&stored.services, caller, clock);
        let mut tool = client.refused("read_record_field", &with(&of_field(id, field), args));
        let bytes = tool.as_object_mut().unwrap().remove("resource");
        assert_eq!(bytes.is_some(), code == "field_not_text", "{place}");
        assert_eq!(tool, answered, "{place}");
        if let Some(uri) = uri {
            assert_eq!(client.unread(&uri), answered, "{place}");
        }
    }
}

#[test]
fn a_record_and_its_resource_are_equal() {
    let world = world();
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    let client = Client::new(&stored.services, owner());
    let fetched = client.good("fetch", &json!({ "id": ID }));
    let content = client.read(fetched.structured["url"].as_str().unwrap()).unwrap();
    let ResourceBody::Text(text) = content.body else { panic!() };
    let shown = |text: &str| {
        let mut document: Json = serde_json::from_str(text).unwrap();
        document.as_object_mut().unwrap().remove("url");
        // Each address is sealed anew.
        for step in document["next"].as_array_mut().unwrap() {
            if step["preview_status"] == "binary-only" {
                step["read"]["args"].as_object_mut().unwrap().remove("id").unwrap();
            }
        }
        document
    };
    assert_eq!(shown(&text), shown(&fetched.text));
    assert_eq!(
        client.good("fetch", &json!({ "id": fetched.structured["url"] })).structured["id"],
        ID
    );
}
