//! Tests of the reader of conversations.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use stile_domain::records::row;

use super::*;
use crate::rig::target;

fn read(fields: RecordFields) -> Result<Vec<ImportRow>, NotAConversation> {
    let mut conversation = Conversation::parse(fields)?;
    let next = || conversation.next_message(&ExportedFiles::default(), &target()).unwrap();
    Ok(std::iter::from_fn(next).map(Result::unwrap).collect())
}

fn rows(conversation: &Json) -> Vec<Json> {
    let fields = row::parse(conversation.to_string().as_bytes()).unwrap().fields;
    let rows = read(fields).unwrap();
    rows.iter().map(|row| serde_json::from_str(&row::to_json(&row.fields)).unwrap()).collect()
}

fn node(parent: Option<&str>, text: Option<&str>) -> Json {
    let message =
        text.map(|text| json!({ "content": { "content_type": "text", "parts": [text] } }));
    json!({ "parent": parent, "message": message })
}

#[test]
fn a_conversation_with_claude_gives_the_same_fields() {
    let conversation = json!({
        "uuid": "c1", "name": "Deposit", "created_at": "2026-02-01T09:00:00Z",
        "chat_messages": [
            { "uuid": "m1", "sender": "human", "created_at": "2026-02-01T09:00:00.5+01:00",
              "text": "When?", "content": [{ "type": "text", "text": "When?" }],
              "attachments": [{ "file_name": "lease.txt", "extracted_content": "the deposit" }],
              "files": [{ "file_name": "photo.png" }] },
            { "uuid": "m2", "sender": "assistant", "text": "ignored", "content": [
                { "type": "thinking", "thinking": "hm" }, { "type": "text", "text": "In" },
                { "type": "text", "text": "May." } ] },
            { "uuid": "m3", "sender": "human", "text": " " },
            { "uuid": "m4", "parent_message_uuid": "m1", "sender": "assistant", "text": "Other" },
        ],
    });
    let rows = rows(&conversation);
    let shown: Vec<_> = rows
        .iter()
        .map(|row| {
            json!([row["id"], row["role"], row["text"], row["created_at"], row["parent_id"]])
        })
        .collect();
    assert_eq!(
        shown,
        [
            json!(["m1", "user", "When?", "2026-02-01T08:00:00.500Z", null]),
            json!(["m2", "assistant", "In\n\nMay.", "2026-02-01T09:00:00Z", "m1"]),
            json!(["m4", "assistant", "Other", "2026-02-01T09:00:00Z", "m1"]),
        ]
    );
    assert_eq!(rows[0]["conversation_title"], "Deposit");
    let attached = rows[0]["attachments"].as_array().unwrap();
    assert_eq!(attached.len(), 2);
    assert!(attached[0].to_string().contains("lease.txt"), "{}", attached[0]);
    assert!(attached[1].to_string().contains("photo.png"), "{}", attached[1]);
    assert!(read(row::parse(b"{\"uuid\":\"c\"}").unwrap().fields).is_err());
}

/// The identifier and the parent of each row, and whether it is on the current branch.
fn tree(conversation: &Json) -> Vec<(String, Option<String>, bool)> {
    let text = |json: &Json| json.as_str().map(str::to_owned);
    let node = |row: &Json| {
        (text(&row["id"]).unwrap(), text(&row["parent_id"]), row["on_current_branch"] == true)
    };
    rows(conversation).iter().map(node).collect()
}

#[test]
fn a_parent_is_the_nearest_message_above() {
    let row = |id: &str, parent: Option<&str>, current| {
        (id.to_owned(), parent.map(str::to_owned), current)
    };
    let mapping = json!({
        "root": node(None, None),
        "a": node(Some("root"), Some("one")),
        "hidden": { "parent": "a", "message": {
            "content": { "parts": ["x"] },
            "metadata": { "is_visually_hidden_from_conversation": true },
        } },
        "empty": node(Some("hidden"), Some(" \n")),
        "b": node(Some("empty"), Some("two")),
        "c": node(Some("b"), Some("three")),
        "edited": node(Some("a"), Some("other")),
        "lost": node(Some("nowhere"), Some("x")),
    });
    assert_eq!(
        tree(&json!({ "mapping": mapping, "current_node": "c" })),
        [
            row("a", None, true),
            row("b", Some("a"), true),
            row("c", Some("b"), true),
            row("edited", Some("a"), false),
            row("lost", None, false),
        ]
    );
}

#[test]
fn cycles_and_deep_trees_are_read_in_linear_time() {
    let circle = json!({
        "a": node(Some("b"), None),
        "b": node(Some("a"), None),
        "c": node(Some("a"), Some("x")),
        "d": node(Some("d"), Some("y")),
    });
    let rows = tree(&json!({ "mapping": circle, "current_node": "a" }));
    assert_eq!(rows.iter().map(|(id, ..)| id.as_str()).collect::<Vec<_>>(), ["c", "d"]);
    // A hundred thousand empty nodes in a row, from the deepest on, and many leaves below them.
    let mut mapping = serde_json::Map::new();
    for leaf in 0..1000 {
        mapping.insert(format!("leaf{leaf}"), node(Some("n99999"), Some("x")));
    }
    for depth in (1..100_000).rev() {
        mapping.insert(format!("n{depth}"), node(Some(&format!("n{}", depth - 1)), None));
    }
    mapping.insert("n0".to_owned(), node(None, Some("root")));
    let rows = tree(&json!({ "mapping": mapping, "current_node": "leaf7" }));
    assert_eq!(rows.len(), 1001);
    assert!(rows.iter().take(1000).all(|(_, parent, _)| parent.as_deref() == Some("n0")));
}

#[test]
fn titles_and_identifiers_that_messages_repeat_are_truncated() {
    let long = "ä".repeat(20_000);
    let mapping = json!({
        "root": { "message": { "id": long, "content": { "parts": ["x"] } } },
        "a": node(Some("root"), Some("x")),
        "b": node(Some("a"), Some("y")),
    });
    let rows = self::rows(&json!({ "mapping": mapping, "title": long, "conversation_id": long }));
    for row in &rows {
        let name = row["conversation_title"].as_str().unwrap();
        assert_eq!(
            (name, &row["conversation_id"]),
            ("ä".repeat(1024).as_str(), &row["conversation_title"])
        );
    }
    let parents: Vec<&Json> = rows.iter().map(|row| &row["parent_id"]).collect();
    assert_eq!(
        parents,
        [&json!(null), &json!(null), &json!("a")],
        "an identifier that is too long for a key is not a parent"
    );
}

#[test]
fn repeated_files_count_once_and_1001_files_are_refused() {
    let pointer = |id: usize| json!({ "asset_pointer": format!("file-service://f{id}") });
    let attached = |id: usize| json!({ "id": format!("f{id}"), "name": format!("{id}.png") });
    let of = |pointers: &[usize], count: usize| {
        let parts: Vec<Json> = pointers.iter().map(|&id| pointer(id)).collect();
        let attachments: Vec<Json> = (0..count).map(attached).collect();
        let message =
            json!({ "content": { "parts": parts }, "metadata": { "attachments": attachments } });
        let json = json!({ "mapping": { "n": { "message": message } } }).to_string();
        let mut conversation =
            Conversation::parse(row::parse(json.as_bytes()).unwrap().fields).unwrap();
        conversation.next_message(&ExportedFiles::default(), &target()).unwrap().unwrap()
    };
    let message = of(&[7, 2, 7, 7], 3).unwrap();
    let attachments = message
        .fields
        .iter()
        .find(|(name, _)| name == "attachments")
        .map(|(_, value)| value.to_json());
    let names = ["f7", "2.png", "0.png", "1.png"].map(|name| json!({ "filename": name }));
    assert_eq!(serde_json::from_str::<Json>(&attachments.unwrap()).unwrap(), json!(names));
    assert!(of(&[5; 3000], MAX_FILES).is_ok());
    assert_eq!(of(&[], MAX_FILES + 1).unwrap_err(), TooManyFiles);
    assert_eq!(of(&[], 100_000).unwrap_err(), TooManyFiles);
}

#[test]
fn each_type_of_content_becomes_text() {
    for (content, text) in [
        (json!({ "parts": ["a", "", "b"] }), json!("a\n\nb")),
        (
            json!({ "parts": ["a", { "content_type": "audio_transcription", "text": "spoken" }] }),
            json!("a\n\nspoken"),
        ),
        (json!({ "content_type": "code", "language": "python", "text": "1 + 1" }), json!("1 + 1")),
        (json!({ "content_type": "execution_output", "text": "2" }), json!("2")),
        (json!({ "content_type": "tether_browsing_display", "result": "found" }), json!("found")),
        (
            json!({ "content_type": "reasoning_recap", "content": "Thought for 3 s" }),
            json!("Thought for 3 s"),
        ),
        (
            json!({ "thoughts": [{ "summary": "first", "content": "this" }, 7] }),
            json!("first\n\nthis"),
        ),
    ] {
        let rows = self::rows(
            &json!({ "mapping": { "n": { "message": { "id": "m", "content": content } } } }),
        );
        assert_eq!((rows.len(), &rows[0]["text"], &rows[0]["id"]), (1, &text, &json!("m")));
    }
    for content in [
        json!({ "parts": [] }),
        json!({ "parts": "x" }),
        json!([]),
        json!(null),
        json!({ "parts": [null, 7, [1]] }),
    ] {
        assert_eq!(
            rows(&json!({ "mapping": { "n": { "message": { "content": content } } } })),
            Vec::<Json>::new()
        );
    }
}

#[test]
fn times_are_exact_and_invalid_times_are_absent() {
    let created = |time: &str| {
        let text = format!(
            r#"{{"mapping":{{"n":{{"message":
                {{"create_time":{time},"content":{{"parts":["x"]}}}}}}}}}}"#
        );
        let fields = row::parse(text.as_bytes()).unwrap().fields;
        let rows = read(fields).unwrap();
        rows[0]
            .fields
            .iter()
            .find(|(name, _)| name == "created_at")
            .map(|(_, value)| value.to_json())
    };
    assert_eq!(created("1700000000.123456").unwrap(), "\"2023-11-14T22:13:20.123456Z\"");
    assert_eq!(created("1700000000").unwrap(), "\"2023-11-14T22:13:20Z\"");
    for none in ["null", "1e400", "true", "{}", "\"soon\"", "-1e1"] {
        assert_eq!(created(none), None, "{none}");
    }
}

#[test]
fn half_of_a_surrogate_pair_is_replaced_and_the_conversation_is_kept() {
    let text = r#"{"mapping":{"n":{"message":{"content":{"parts":["cut \ud83d"]}}}}}"#;
    let row = row::parse(text.as_bytes()).unwrap();
    assert_eq!(row.replaced, 1);
    let rows = read(row.fields).unwrap();
    assert!(row::to_json(&rows[0].fields).contains("cut \u{fffd}"));
}

fn any_json() -> impl Strategy<Value = Json> {
    let names = "\
        mapping message parent content parts text a b metadata attachments id author role \
        create_time thoughts asset_pointer audio_asset_pointer";
    let name = prop::sample::select(names.split(' ').collect::<Vec<_>>());
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!("a")),
        Just(json!("b")),
        Just(json!(true)),
        any::<i64>().prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec((name.clone(), inner), 0..5).prop_map(|members| Json::Object(
                members.into_iter().map(|(name, json)| (name.to_owned(), json)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn any_conversation_is_read_without_a_panic(mapping in any_json(), current in "[ab]") {
        let json = json!({ "mapping": mapping, "current_node": current });
        let fields = row::parse(json.to_string().as_bytes()).unwrap().fields;
        if let Ok(rows) = read(fields) {
            let rows: Vec<_> = rows.into_iter().map(|row| JsonObject(row.fields)).collect();
            let ids: HashSet<&str> = rows.iter().filter_map(|row| row.text("id")).collect();
            for row in &rows {
                prop_assert!(row.text("parent_id").is_none_or(|parent| ids.contains(parent)));
            }
        }
    }
}

#[test]
fn a_small_export_has_its_latest_branch_and_the_time_of_the_conversation() {
    let message = |time: Json, text: &str| {
        json!({
            "create_time": time, "content": { "content_type": "text", "parts": [text] },
        })
    };
    let marked =
        "second \u{e200}cite\u{e202}turn0\u{e201}end \u{e200}entity\u{e202}[\"a\",\"Ann\"]\u{e201}";
    let rows = rows(&json!({ "create_time": 1_700_000_000, "mapping": {
        "r": node(None, None),
        "q": { "parent": "r", "message": message(json!(null), "why") },
        "old": { "parent": "q", "message": message(json!(1_700_000_001), "first") },
        "new": { "parent": "q", "message": message(json!(1_700_000_002), marked) },
        "empty": node(Some("old"), None),
    } }));
    let values = |name: &str| -> Vec<Json> { rows.iter().map(|row| row[name].clone()).collect() };
    assert_eq!(values("on_current_branch"), [json!(true), json!(false), json!(true)]);
    assert_eq!(values("created_at")[0], "2023-11-14T22:13:20Z");
    assert_eq!(values("text")[2], "second end Ann");
}
