//! A call that is wrong in itself is refused before anything is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::request::ReadRequest;
use stile_ladder::port::{ErrorResponse, RecordServer};
use stile_server::stored_records::StoredRecords as Port;
use stile_testkit::chance::Chance;

use super::records::model::{NOW, Stored, World};
use super::records::owner;
use super::worlds::{self, text};
use super::{Client, with};

/// A resource server that counts its requests.
struct Counting {
    port: Port,
    asked: Arc<AtomicUsize>,
}

impl RecordServer for Counting {
    fn send<'a>(
        &'a self,
        caller: &'a Principal,
        request: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.port.send(caller, request)
    }

    fn seal(&self, plain: &[u8]) -> Result<String, ErrorResponse> {
        self.port.seal(plain)
    }

    fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.port.unseal(text)
    }
}

/// Makes a client, and the count of its server's requests.
fn counted() -> (Stored, Client, Arc<AtomicUsize>) {
    let record = ("k".to_owned(), vec![("text".to_owned(), text("word ".repeat(1000)))]);
    let world = World { sources: vec![worlds::stream("a-mail", "notes", vec![record])] };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    let asked = Arc::new(AtomicUsize::new(0));
    let port = Port::new(stored.services.clone(), || Instant(NOW));
    let client = Client::over(Counting { port, asked: asked.clone() }, owner());
    (stored, client, asked)
}

/// Lists wrong calls with what each message must contain.
fn wrong() -> Vec<(&'static str, Json, &'static [&'static str])> {
    let window =
        |others: Json| with(&json!({ "id": "a-mail/notes:k", "field_path": "text" }), others);
    let mut wrong: Vec<(&'static str, Json, &'static [&'static str])> = Vec::new();
    let field = "read_record_field";
    for (others, says) in [
        (
            json!({ "cursor": "x", "offset_chars": 0 }),
            &["`cursor`", "`offset_chars`", "exclusive"][..],
        ),
        (json!({ "cursor": "x", "q": "a" }), &["`cursor`", "`q`", "exclusive"]),
        (json!({ "cursor": "x", "before_chars": 0 }), &["`cursor`", "`before_chars`", "exclusive"]),
        (json!({ "cursor": "x", "after_chars": 1 }), &["`cursor`", "`after_chars`", "exclusive"]),
        (
            json!({ "cursor": "x", "q": "a", "offset_chars": 1, "before_chars": 1, "after_chars": 1 }),
            &["`cursor`", "`q`", "`offset_chars`", "`before_chars`", "`after_chars`"],
        ),
        (json!({ "q": "a", "offset_chars": 1 }), &["`q`", "`offset_chars`", "excludes"]),
        (json!({ "q": "a", "offset_chars": 1, "before_chars": 1 }), &["`q`", "`offset_chars`"]),
        (json!({ "before_chars": 1 }), &["`before_chars`", "`q`"]),
        (json!({ "after_chars": 1 }), &["`after_chars`", "`q`"]),
        (json!({ "after_chars": 1, "offset_chars": 1 }), &["`after_chars`", "`q`"]),
        (json!({ "q": "" }), &["`q`", "empty"]),
        (json!({ "stream": "notes" }), &["`id`", "`stream`"]),
        (json!({ "record_id": "k" }), &["`id`", "`record_id`"]),
        (
            json!({ "stream": "notes", "record_id": "k", "connection_id": "a-mail" }),
            &["`id`", "`stream`", "`record_id`"],
        ),
        (json!({ "connection_id": "Zeta" }), &["`id`", "`connection_id`"]),
        (json!({ "limit_chars": 0 }), &["`limit_chars`", "1", "16384"]),
        (json!({ "limit_chars": 16_385 }), &["`limit_chars`", "1", "16384"]),
        (json!({ "limit_chars": "1" }), &["`limit_chars`"]),
        (json!({ "offset_chars": -1 }), &["`offset_chars`", "0"]),
        (json!({ "offset_chars": 1.5 }), &["`offset_chars`"]),
        (json!({ "q": "a", "before_chars": 8193 }), &["`before_chars`", "8192"]),
        (json!({ "q": "a", "after_chars": 8193 }), &["`after_chars`", "8192"]),
        (json!({ "nope": 1 }), &["unknown", "`field_path`"]),
    ] {
        wrong.push((field, window(others), says));
    }
    for args in [
        json!({ "field_path": "text" }),
        json!({ "field_path": "text", "stream": "notes" }),
        json!({ "field_path": "text", "record_id": "k" }),
        json!({ "field_path": "text", "connection_id": "a-mail" }),
        json!({ "field_path": "text", "stream": "notes", "connection_id": "a-mail" }),
        json!({ "field_path": "text", "record_id": "k", "connection_id": "a-mail" }),
    ] {
        wrong.push((field, args, &["`id`", "`connection_id`", "`stream`", "`record_id`"]));
    }
    let incomplete = json!({ "field_path": "text", "stream": "notes", "record_id": "k" });
    wrong.push((field, incomplete, &["`connection_id`", "`stream`", "`record_id`"]));
    let empty =
        json!({ "field_path": "text", "stream": "", "record_id": "k", "connection_id": "a-mail" });
    wrong.push((field, empty, &["empty"]));
    wrong.push((field, json!({ "id": "a-mail/notes:k" }), &["`field_path`", "missing"]));
    for id in [
        "", "k", "a-mail/notes", "a-mail/notes:", "/notes:k", "a-mail/notes:a b",
        "a-mail/notes:%zz", "a-mail/notes:é", "a/b/c:d",
    ] {
        for (tool, args) in
            [(field, json!({ "id": id, "field_path": "text" })), ("fetch", json!({ "id": id }))]
        {
            wrong.push((tool, args, &["`id`", "{connection_id}/{stream}:{record_id}"]));
        }
    }
    for id in ["a-mail/notes:..", "a-mail/notes:.", "../notes:k", "a-mail/..:k", "./.:."] {
        for (tool, args) in
            [(field, json!({ "id": id, "field_path": "text" })), ("fetch", json!({ "id": id }))]
        {
            wrong.push((tool, args, &["`id`", "%2E"]));
        }
    }
    wrong.push((
        "fetch",
        json!({ "id": "a-mail/notes:k", "connection_id": "Zeta" }),
        &["`id`", "`connection_id`"],
    ));
    for (tool, args, says) in [
        ("fetch", json!({}), &["`id`", "missing"][..]),
        ("fetch", json!({ "id": 7 }), &["`id`", "a string"]),
        ("fetch", json!({ "id": "a-mail/notes:k", "fields": "text" }), &["`fields`", "array"]),
        ("fetch", json!({ "id": "a-mail/notes:k", "x": 1 }), &["unknown", "`id`"]),
        ("fetch", json!([]), &["object"]),
        ("fetch", json!(["a-mail/notes:k"]), &["object"]),
        ("search", json!({}), &["`q`", "missing"]),
        ("search", json!({ "q": "a", "limit": 0 }), &["`limit`", "1", "100"]),
        ("search", json!({ "q": "a", "limit": 101 }), &["`limit`", "100"]),
        ("search", json!({ "q": "a", "streams": "notes" }), &["`streams`", "array"]),
        ("search", json!({ "q": "a", "filter": { "text": "a" } }), &["`filter`", "`streams`"]),
        (
            "search",
            json!({ "q": "a", "filter": { "text": "a" }, "streams": ["a", "b"] }),
            &["`filter`", "`streams`"],
        ),
        ("search", json!({ "q": "a", "Q": 1 }), &["unknown", "`q`"]),
        ("query_records", json!({}), &["`stream`", "missing"]),
        (
            "query_records",
            json!({ "stream": "notes", "order": "up" }),
            &["`order`", "`asc`", "`desc`"],
        ),
        ("query_records", json!({ "stream": "notes", "limit": 101 }), &["`limit`", "100"]),
        ("aggregate", json!({ "stream": "notes" }), &["`metric`", "missing"]),
        ("aggregate", json!({ "stream": "notes", "metric": "mean" }), &["`metric`", "`count`"]),
        (
            "aggregate",
            json!({ "stream": "notes", "metric": "count", "granularity": "eon" }),
            &["`granularity`", "`day`"],
        ),
        ("schema", json!({ "detail": "all" }), &["`detail`", "`full`"]),
        ("schema", json!({ "view": "compact" }), &["unknown", "`detail`"]),
    ] {
        wrong.push((tool, args, says));
    }
    for filter in [
        json!("a=b"),
        json!({}),
        json!({ "a[gte]": 1 }),
        json!({ "a": { "ne": 1 } }),
        json!({ "a": {} }),
        json!({ "a": { "exists": 1 } }),
        json!([]),
        json!({ "": 1 }),
        json!({ "a": [["x"]] }),
        // A number that is rounded on its way here, and the number it is rounded to.
        serde_json::from_str(r#"{"a":100000000000000000001}"#).unwrap(),
        json!({ "a": { "lt": 1e20 } }),
    ] {
        let args = json!({ "stream": "notes", "filter": filter });
        wrong.push(("query_records", args.clone(), &["`filter`", "{\"author\":\"ann\"}", "gte"]));
        wrong.push(("aggregate", with(&args, json!({ "metric": "count" })), &["`filter`", "gte"]));
        wrong.push((
            "search",
            json!({ "q": "a", "streams": ["notes"], "filter": filter }),
            &["`filter`", "gte"],
        ));
    }
    wrong
}

#[test]
fn a_wrong_call_is_refused_before_anything_is_read() {
    let (_stored, client, asked) = counted();
    for (tool, args, says) in wrong() {
        let error = client.refused(tool, &args);
        assert_eq!(asked.load(Ordering::Relaxed), 0, "{tool} {args} was asked for");
        let message = error["message"].as_str().unwrap();
        says.iter().for_each(|word| {
            assert!(message.contains(word), "{tool} {args}: {message} does not say {word}")
        });
    }
    for uri in [
        "pdpp://record/", "pdpp://record/x", "pdpp://field-window/", "pdpp://field-window/../x",
        "pdpp://other/x", "", "file:///x",
    ] {
        assert_eq!(client.unread(uri)["code"], "invalid_cursor", "{uri}");
    }
    for id in ["pdpp://record/", "pdpp://record/x"] {
        assert_eq!(client.refused("fetch", &json!({ "id": id }))["code"], "invalid_cursor");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    client.good("fetch", &json!({ "id": "a-mail/notes:k" }));
    assert!(asked.load(Ordering::Relaxed) > 0, "the count counts");
}

#[test]
fn refusals_of_the_ladder_say_what_to_send_instead() {
    let (_stored, client, _) = counted();
    let mut answered = std::collections::BTreeMap::new();
    for (tool, args, _) in wrong() {
        let error = client.refused(tool, &args);
        answered
            .entry(format!(
                "{} {} {}",
                error["code"].as_str().unwrap(),
                error["type"].as_str().unwrap(),
                error["message"].as_str().unwrap()
            ))
            .or_insert_with(|| format!("{tool} {args}"));
    }
    let answered: Vec<String> =
        answered.into_iter().map(|(error, call)| format!("{error}\n    {call}")).collect();
    insta::assert_snapshot!(answered.join("\n"));
}

/// Each refusal is checked for words of the interface beneath.
#[test]
fn a_refusal_of_the_server_uses_words_that_a_caller_of_a_tool_knows() {
    let (_stored, client, _) = counted();
    for (tool, args) in [
        ("query_records", json!({ "stream": "nope" })),
        ("query_records", json!({ "stream": "notes", "fields": ["nope"] })),
        ("query_records", json!({ "stream": "notes", "filter": { "nope": 1 } })),
        ("query_records", json!({ "stream": "notes", "filter": { "text": { "gte": "a" } } })),
        ("query_records", json!({ "stream": "notes", "cursor": "x" })),
        ("query_records", json!({ "stream": "notes", "changes_since": "x" })),
        ("query_records", json!({ "stream": "notes", "connection_id": "nope" })),
        ("aggregate", json!({ "stream": "notes", "metric": "sum", "field": "text" })),
        ("aggregate", json!({ "stream": "notes", "metric": "count", "group_by": "nope" })),
        ("search", json!({ "q": "a", "streams": ["notes"], "filter": { "nope": 1 } })),
        ("fetch", json!({ "id": "a-mail/notes:k", "fields": ["nope"] })),
        ("fetch", json!({ "id": "a-mail/notes:nope" })),
        ("read_record_field", json!({ "id": "a-mail/notes:k", "field_path": "nope" })),
        ("read_record_field", json!({ "id": "a-mail/notes:k", "field_path": "text", "q": "nope" })),
    ] {
        client.refused(tool, &args);
    }
}

#[test]
fn an_unknown_stream_leads_to_the_existing_streams() {
    let (_stored, client, _) = counted();
    let next = |tool: &str, args: Json| {
        client.call(tool, &args).structured["error"]["next"]["tool"].clone()
    };
    for (tool, args) in [
        ("query_records", json!({ "stream": "nope" })),
        ("schema", json!({ "stream": "nope", "detail": "full" })),
        ("aggregate", json!({ "stream": "nope", "metric": "count" })),
        ("fetch", json!({ "id": "a-mail/nope:k" })),
        ("read_record_field", json!({ "id": "a-mail/nope:k", "field_path": "text" })),
    ] {
        assert_eq!(next(tool, args), "schema", "{tool}");
    }
    assert_eq!(next("fetch", json!({ "id": "a-mail/notes:nope" })), "search");
}

#[test]
fn a_wrong_fields_cursor_is_reported_as_the_argument_cursor() {
    let (_stored, client, _) = counted();
    let error = client.refused("fetch", &json!({ "id": "a-mail/notes:k", "cursor": "x" }));
    assert_eq!((&error["code"], &error["reason"]), (&json!("invalid_cursor"), &json!("malformed")));
    let answered = error.to_string();
    assert!(
        answered.contains("cursor")
            && !answered.contains("fields_cursor")
            && !answered.contains("more_fields"),
        "{answered}"
    );
}
