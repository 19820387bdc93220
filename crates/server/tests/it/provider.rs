//! `stile mcp` over `stile serve`: two processes, a grant's token between them.

use serde_json::{Value, json};

use super::provider_kit::{Adapter, Desk};
use super::records_kit::Kit;

fn long_text() -> String {
    (0..3_000).map(|number| format!("{number} é🙂 ")).collect::<String>() + "the zygote was here"
}

const URL_KEY: &str = "https://a.example/x?y=1#z";

fn kit() -> Kit {
    let kit = Kit::new();
    let row = |id: &str, day: usize, body: &str| json!({ "data": { "id": id, "sent_at": format!("2026-01-{day:02}T10:00:00Z"), "subject": format!("On {day}"), "body": body } });
    let mut rows: Vec<Value> = (1..=20)
        .map(|day| {
            row(&format!("m{day}"), day, &format!("Water the ferns {}", "again ".repeat(200)))
        })
        .collect();
    rows.extend([
        row("..", 21, "of dots"),
        row(URL_KEY, 22, "of an address"),
        row("long", 23, &long_text()),
    ]);
    kit.ingest("messages", "chat", &rows);
    kit
}

fn adapter(kit: &Kit) -> (String, String, Desk, Adapter) {
    let (grant, token) =
        kit.client(&["--stream", "messages", "--field", "body", "--field", "sent_at"]);
    let desk = Desk::new(&token);
    let adapter = desk.adapter(&format!("http://{}", kit.server.address), &[]);
    (grant, token, desk, adapter)
}

#[test]
fn all_six_tools_answer_exactly_what_the_grant_shows() {
    let kit = kit();
    let (_, _, _desk, mut adapter) = adapter(&kit);
    let schema = adapter.call("schema", json!({ "stream": "messages" }));
    let fields = schema["structuredContent"]["streams"][0]["fields"].as_object().unwrap();
    assert!(
        fields.contains_key("body") && !schema.to_string().contains("t=string,eq,lex,g=true"),
        "{schema}"
    );
    let found = adapter.call("search", json!({ "q": "zygote" }));
    assert_eq!(found["structuredContent"]["results"][0]["id"], "chat/messages:long");
    let count = adapter.call("aggregate", json!({ "stream": "messages", "metric": "count" }));
    assert_eq!(count["structuredContent"]["filtered_record_count"], 23, "{count}");
    let fetched = adapter.call("fetch", json!({ "id": "chat/messages:m7" }));
    assert!(fetched["structuredContent"]["text"].as_str().unwrap().starts_with("Water the ferns"));
    assert!(!fetched.to_string().contains("On 7"), "the subject is not granted");

    let (mut seen, mut arguments) =
        (Vec::new(), json!({ "stream": "messages", "order": "asc", "limit": 8 }));
    loop {
        let page = adapter.call("query_records", arguments);
        let data = &page["structuredContent"]["data"];
        seen.extend(
            data["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| row["record_id"].as_str().unwrap().to_owned()),
        );
        assert!(page["content"][0]["text"].as_str().unwrap().len() <= 1_800);
        let Some(cursor) = data["next_cursor"].as_str() else { break };
        arguments = json!({ "stream": "messages", "order": "asc", "limit": 8, "cursor": cursor });
    }
    let mut all: Vec<String> = (1..=20).map(|day| format!("m{day}")).collect();
    all.extend(["..", URL_KEY, "long"].map(str::to_owned));
    assert_eq!(seen, all);
    let (text, windows) = adapter.whole_field("chat/messages:long", "body", 5_000);
    assert_eq!((text == long_text(), windows), (true, long_text().chars().count().div_ceil(5_000)));
    let (status, ..) = adapter.end();
    assert!(status.success());
}

#[test]
fn keys_that_look_like_paths_and_addresses_are_read() {
    let kit = kit();
    let (_, _, _desk, mut adapter) = adapter(&kit);
    for (key, body) in [("..", "of dots"), (URL_KEY, "of an address")] {
        let named = json!({ "connection_id": "chat", "stream": "messages", "record_id": key, "field_path": "body" });
        let window = adapter.call("read_record_field", named)["structuredContent"].take();
        assert_eq!(
            (&window["window"]["text"], &window["record"]["record_id"]),
            (&json!(body), &json!(key))
        );
        let fetched = adapter.call("fetch", json!({ "id": window["record"]["id"] }));
        assert_eq!(fetched["structuredContent"]["text"], body);
        let url = fetched["structuredContent"]["url"].clone();
        let resource = adapter.request("resources/read", json!({ "uri": url }));
        let document: Value =
            serde_json::from_str(resource["result"]["contents"][0]["text"].as_str().unwrap())
                .unwrap();
        assert_eq!(document["text"], body, "{resource}");
    }
}

#[test]
fn the_adapter_gives_the_errors_of_the_server() {
    let kit = kit();
    let (grant, token, _desk, mut adapter) = adapter(&kit);
    let bare = |mut error: Value| {
        assert!(error["request_id"].is_string(), "{error}");
        error["request_id"] = Value::Null;
        // What the ladder adds itself: a tool that shows what there is.
        error.as_object_mut().unwrap().remove("next");
        error
    };
    let direct = |target: &str| bare(kit.get(target, &token).json()["error"].take());
    for (tool, arguments, target) in [
        (
            "fetch",
            json!({ "id": "chat/messages:none" }),
            "/v1/streams/messages/records/none?connection_id=chat",
        ),
        ("query_records", json!({ "stream": "other" }), "/v1/streams/other/records"),
        (
            "read_record_field",
            json!({ "id": "chat/messages:m1", "field_path": "subject" }),
            "/v1/streams/messages/records/m1/field-window?connection_id=chat&field=subject",
        ),
        (
            "query_records",
            json!({ "stream": "messages", "cursor": "x" }),
            "/v1/streams/messages/records?cursor=x",
        ),
        (
            "query_records",
            json!({ "stream": "messages", "filter": { "none": "x" } }),
            "/v1/streams/messages/records?filter[none]=x",
        ),
        (
            "aggregate",
            json!({ "stream": "messages", "metric": "sum", "field": "body" }),
            "/v1/streams/messages/aggregate?metric=sum&field=body",
        ),
    ] {
        assert_eq!(bare(adapter.refused(tool, arguments)), direct(target), "{tool} {target}");
    }
    kit.said(&["grant", "revoke", &grant]);
    let refused = bare(adapter.refused("fetch", json!({ "id": "chat/messages:m1" })));
    assert_eq!(refused, direct("/v1/streams/messages/records/m1?connection_id=chat"));
    assert_eq!(refused["code"], "grant_revoked");
}

/// What our own server knows is sent to it, and it is never taken for a plain one.
#[test]
fn the_adapter_lets_a_server_with_previews_truncate() {
    let kit = kit();
    let (_, _, _desk, mut adapter) = adapter(&kit);
    adapter.refused("query_records", json!({ "stream": "messages", "filter": { "none": "x" } }));
    let page = adapter.call("query_records", json!({ "stream": "messages", "limit": 1 }));
    let entry = &page["structuredContent"]["content_ladder"]["entries"][0];
    let digest = entry["digest"].as_str().unwrap_or_default();
    assert!(
        digest.starts_with("sha256:"),
        "only a server that cuts says what the whole is: {entry}"
    );
    let (_, said, log) = adapter.end();
    assert!(!said.is_empty() && !String::from_utf8_lossy(&log).contains("does not know previews"));
}
