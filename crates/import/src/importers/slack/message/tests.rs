//! Tests of the reader of Slack messages.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use stile_domain::records::row;

use super::*;
use crate::rig::target;

fn read_message(message: &Json) -> Option<Json> {
    let fields = row::parse(message.to_string().as_bytes()).unwrap().fields;
    let mut workspace = Workspace::default();
    for user in [
        json!({
            "id": "U1", "name": "ann", "real_name": "Ann Moss",
            "profile": { "display_name": "Annie" },
        }),
        json!({
            "id": "U2", "name": "bola", "real_name": "Bola",
            "profile": { "display_name": "", "real_name": "Bola O." },
        }),
        json!({ "id": "U3", "name": "wei" }),
        json!({ "id": "U4" }),
        json!({ "name": "nobody" }),
    ] {
        workspace.add_user(row::parse(user.to_string().as_bytes()).unwrap().fields);
    }
    assert_eq!(workspace.users.len(), 3);
    let channel = Channel { id: "C1".to_owned(), name: "garden".to_owned() };
    let exported = ExportedFiles::default();
    let message = read(fields, &channel, &workspace, &exported, &target()).unwrap().ok()?;
    Some(serde_json::from_str(&row::to_json(&message.fields)).unwrap())
}

#[test]
fn the_chosen_name_of_an_author_comes_before_the_real_one() {
    let name = |message: Json| {
        let mut message = message;
        message["ts"] = json!("1.000001");
        read_message(&message).unwrap()["user_name"].clone()
    };
    for (message, expected) in [
        (json!({ "user": "U1" }), json!("Annie")),
        (json!({ "user": "U2" }), json!("Bola O.")),
        (json!({ "user": "U3" }), json!("wei")),
        (json!({ "user": "U9", "user_profile": { "real_name": "Guest" } }), json!("Guest")),
        (json!({ "bot_id": "B1", "username": "rain bot" }), json!("rain bot")),
        (json!({ "bot_id": "B1", "bot_profile": { "name": "Rain" } }), json!("Rain")),
        (json!({ "user": "U9" }), json!(null)),
    ] {
        assert_eq!(name(message.clone()), expected, "{message}");
    }
}

#[test]
fn repeated_files_count_once_and_1001_files_are_refused() {
    let files = |count: usize, apart: usize| {
        let files: Vec<Json> =
            (0..count).map(|at| json!({ "id": format!("F{}", at % apart) })).collect();
        read_message(&json!({ "ts": "1.000001", "files": files }))
            .map(|message| message["files"].as_array().unwrap().len())
    };
    assert_eq!(files(3000, MAX_FILES), Some(MAX_FILES));
    assert_eq!(files(MAX_FILES + 1, MAX_FILES + 1), None);
}

#[test]
fn times_and_keys_are_exact_to_the_microsecond() {
    let message =
        read_message(&json!({ "ts": "1700000000.000200", "thread_ts": "1700000000.000200" }))
            .unwrap();
    assert_eq!(
        message,
        json!({
            "id": "C1/1700000000.000200", "channel": "garden", "channel_id": "C1",
            "at": "2023-11-14T22:13:20.000200Z", "is_reply": false,
            "thread_ts": "1700000000.000200", "thread_id": "C1/1700000000.000200",
        })
    );
    for bad in [
        json!({}),
        json!({ "ts": "x" }),
        json!({ "ts": "" }),
        json!({ "ts": 1_700_000_000.5 }),
        json!({ "ts": "1e9" }),
    ] {
        assert_eq!(read_message(&bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn any_message_is_read_without_a_panic(
        text in "(<|>|@|#|!|\\||U1|C1|date|\\^|&|amp;|lt;|é|x| ){0,20}",
        subtype in prop::sample::select(vec!["message_changed", "message_deleted", "tombstone"]),
        inner in prop::sample::select(vec![
            json!(null),
            json!({}),
            json!({ "ts": "1.5" }),
            json!([1]),
            json!([{ "id": "F1", "size": -1, "url_private": "?" }]),
        ]),
    ) {
        for json in [
            json!({ "ts": "1.000001", "text": text }),
            json!({ "ts": "1.000001", "subtype": subtype, "message": inner, "deleted_ts": "2.5" }),
            json!({
                "ts": "1.000001",
                "files": inner, "reactions": inner, "edited": inner, "user_profile": inner,
            }),
        ] {
            let _ = read_message(&json);
        }
    }
}
