//! Other implementations of the resource server. They truncate nothing, spell things differently
//! and send `null` for absent members.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::request::ReadRequest;
use stile_ladder::port::{ErrorResponse, RecordServer};
use stile_tools::toolset::ResourceBody;

use super::Client;
use super::lines::{self, Next};
use super::records::owner;

/// A server that answers with a function.
pub(super) struct Foreign<F>(pub(super) F);

impl<F: Fn(&ReadRequest) -> String + Send + Sync + 'static> RecordServer for Foreign<F> {
    fn send<'a>(
        &'a self,
        _: &'a Principal,
        request: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        let answer = (self.0)(&request);
        async { Ok(answer) }.boxed()
    }

    fn seal(&self, plain: &[u8]) -> Result<String, ErrorResponse> {
        Ok(plain.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
            .collect()
    }
}

/// Makes a client of a server that answers with `answer`.
pub(super) fn client(answer: impl Fn(&ReadRequest) -> String + Send + Sync + 'static) -> Client {
    Client::over(Foreign(answer), owner())
}

#[test]
fn null_counts_as_an_absent_member() {
    let client = client(|ask| {
        match ask.declared_path() {
        "/v1/schema" => json!({ "bearer": null, "connectors": [
            { "connector_id": "mail", "granted_connections": null, "streams": null },
            { "connector_id": "chat", "granted_connections": null,
              "streams": [{ "name": "notes", "primary_key": null, "cursor_field": null, "field_capabilities": null }] },
        ] })
        .to_string(),
        path if path.ends_with("{id}") => {
            json!({ "id": "k", "stream": null, "connection_id": null, "data": { "a": "x", "b": 1 },
            "previews": { "a": null }, "more_fields": null, "emitted_at": null })
            .to_string()
        }
        _ => json!({ "data": [
            { "id": "k", "deleted": true, "data": null, "previews": null, "cursor": null },
            { "id": "l", "data": { "a": "x" }, "previews": null },
        ], "next_cursor": null, "meta": null })
        .to_string(),
    }
    });
    let streams = client.good("schema", &json!({})).structured["streams"].clone();
    assert_eq!(
        (&streams[0]["name"], streams[0]["connections"][0]["connection_id"].as_str()),
        (&json!("notes"), Some("chat"))
    );
    client.good("schema", &json!({ "stream": "notes" }));
    let rows =
        client.good("query_records", &json!({ "stream": "notes" })).structured["data"]["data"]
            .clone();
    assert_eq!((&rows[0]["data"], &rows[1]["data"]), (&Json::Null, &json!({ "a": "x" })));
    let record = client.good("fetch", &json!({ "id": "chat/notes:k" })).structured;
    assert_eq!(record["text"], json!({ "a": "x", "b": 1 }).to_string());
}

#[test]
fn a_record_without_data_is_refused_unless_it_is_deleted() {
    for (record, is_read) in [
        (json!({ "id": "k" }), false),
        (json!({ "id": "k", "data": null }), false),
        (json!({ "id": "k", "deleted": false }), false),
        (json!({ "id": "k", "data": {} }), true),
        (json!({ "id": "k", "deleted": true }), true),
    ] {
        let (one, list) = (record.to_string(), json!({ "data": [record] }).to_string());
        let client = client(move |ask| {
            let is_one = ask.declared_path().ends_with("{id}");
            if is_one { one.clone() } else { list.clone() }
        });
        for (tool, arguments) in [
            ("fetch", json!({ "id": "chat/notes:k" })),
            ("query_records", json!({ "stream": "notes" })),
        ] {
            let answer = client.call(tool, &arguments);
            assert_eq!(answer.failure.is_none(), is_read, "{tool} {record}");
        }
    }
}

/// Returns the values that `fetch` shows of a record with this `data`.
fn values(data: &str) -> Json {
    let answered = format!("{{\"id\":\"k\",\"data\":{data}}}");
    let client = client(move |_| answered.clone());
    let text = client.good("fetch", &json!({ "id": "chat/notes:k" })).structured["text"].clone();
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

#[test]
fn letters_and_trailing_zeros_do_not_turn_an_object_into_text() {
    for price in ["12.50", "12.55", "1E2", "-0.0"] {
        let total =
            values(&format!("{{\"total\":{{\"price\":{price},\"currency\":\"EUR\"}}}}"))["total"]
                .take();
        assert_eq!(
            (total["price"].as_f64(), &total["currency"]),
            (price.parse().ok(), &json!("EUR"))
        );
    }
    let total = r#"{"price":9007199254740993.0,"currency":"EUR"}"#;
    assert_eq!(values(&format!("{{\"total\":{total}}}"))["total"], total, "by its JSON text");
}

/// Answers a request for a window without digests.
fn window(text: &str, ask: &ReadRequest) -> String {
    let number = |name: &str, usual: usize| {
        ask.parameter(name).map_or(usual, |value| value.parse().unwrap())
    };
    let whole: Vec<char> = text.chars().collect();
    let start = number("offset_chars", 0).min(whole.len());
    let end = (start + number("limit_chars", 4096)).min(whole.len());
    json!({ "field": { "path": "f", "type": "object" }, "window": {
        "text": whole[start..end].iter().collect::<String>(), "total_chars": whole.len(), "start_chars": start,
        "end_chars": end, "limit_chars": end - start, "complete": end - start == whole.len(),
        "has_more": end < whole.len(), "next_offset_chars": (end < whole.len()).then_some(end) } })
    .to_string()
}

#[test]
fn json_that_windows_spell_differently_is_read_from_its_beginning() {
    let item = |at: usize| format!("{{\"a\":{at},\"b\":\"x\"}}");
    for count in [15, 200, 2000] {
        // One is shown as an object; the other has a number that cannot be represented.
        for last in ["1", "1e400"] {
            let compact =
                format!("[{},{last}]", (0..count).map(item).collect::<Vec<_>>().join(","));
            let spaced = compact.replace(',', ", ").replace(':', ": ");
            let (data, windows) = (format!("{{\"f\":{compact}}}"), spaced.clone());
            let client = client(move |ask| match ask.declared_path() {
                path if path.ends_with("field-window") => window(&windows, ask),
                path if path.ends_with("{id}") => format!("{{\"id\":\"k\",\"data\":{data}}}"),
                _ => format!("{{\"data\":[{{\"id\":\"k\",\"data\":{data}}}]}}"),
            });
            let list = client
                .good("query_records", &json!({ "stream": "notes", "connection_id": "chat" }));
            let fetched = client.good("fetch", &json!({ "id": "chat/notes:k" }));
            let next =
                list.text.lines().find(|line| line.starts_with("next: read_record_field")).unwrap();
            assert!(
                next.ends_with("\"offset_chars\":0} (incomplete, read from its beginning)"),
                "{next}"
            );
            let mut ways =
                vec![json!({ "id": "chat/notes:k", "field_path": "f", "offset_chars": 0 })];
            for answer in [&list, &fetched] {
                for entry in answer.structured["content_ladder"]["entries"].as_array().unwrap() {
                    assert_eq!((&entry["shown_chars"], &entry["digest"]), (&json!(0), &Json::Null));
                    ways.push(entry["read"]["args"].clone());
                    ways.push(json!({ "id": entry["resource"]["uri"], "field_path": "f" }));
                }
            }
            assert!(count < 200 || ways.len() == 5, "both shorten it");
            for mut way in ways {
                if way["id"].as_str().unwrap().starts_with("pdpp:") {
                    let ResourceBody::Text(text) =
                        client.read(way["id"].as_str().unwrap()).unwrap().body
                    else {
                        panic!()
                    };
                    assert!(spaced.starts_with(&text));
                    continue;
                }
                let mut read = String::new();
                loop {
                    let window = client.good("read_record_field", &way).structured["window"].take();
                    read += window["text"].as_str().unwrap();
                    let Some(cursor) = window["next_cursor"].as_str() else { break };
                    way = json!({ "id": "chat/notes:k", "field_path": "f", "cursor": cursor });
                }
                assert!(read == spaced, "{count} {last}: {} of {} bytes", read.len(), spaced.len());
            }
        }
    }
}

#[test]
fn a_stream_with_a_thousand_connections_is_one_line() {
    let connections: Vec<Json> =
        (0..1000).map(|at| json!({ "connection_id": format!("account-{at:04}") })).collect();
    let streams: Vec<Json> =
        (0..40).map(|at| json!({ "name": format!("notes-{at}"), "primary_key": ["id"] })).collect();
    let answered = json!({ "connectors": [{ "connector_id": "mail", "granted_connections": connections, "streams": streams }] });
    let client = client(move |_| answered.to_string());
    for args in [json!({}), json!({ "stream": "notes-7" })] {
        let answer = client.good("schema", &args);
        let line = lines::of(&answer.text).find(|line| line.starts_with("stream=")).unwrap();
        assert!(
            line.contains("connection_id=account-0000|account-0001|")
                && line.contains(" connection_count=1000 "),
            "{line}"
        );
        let stream = &answer.structured["streams"][0];
        assert_eq!(stream["connection_count"], 1000);
        let named = stream["connections"].as_array().unwrap().len();
        assert!((2..1000).contains(&named) && line.len() < 1000, "{named}");
    }
    // All streams are listed, and no page is spent on connections.
    let answer = client.good("schema", &json!({}));
    assert!(answer.structured["next_cursor"].is_null() && answer.text.len() <= 8192);
}

#[test]
fn many_connections_are_not_repeated_for_each_stream() {
    let connections = vec![json!({ "connection_id": "account" }); 20_000];
    let streams = vec![json!({ "name": "notes" }); 20_000];
    let answered =
        json!({ "connectors": [{ "granted_connections": connections, "streams": streams }] })
            .to_string();
    let client = client(move |_| answered.clone());
    assert_eq!(client.good("schema", &json!({})).structured["total"], 20_000);
}

#[test]
fn streams_are_not_searched_again_for_each_field() {
    let fields: Map<String, Json> = (0..6_000).map(|at| (format!("f{at}"), json!("eq"))).collect();
    let listed = json!({ "name": "notes", "field_capabilities": fields });
    let client = client(move |ask| {
        let is_full = ask.parameter("detail").as_deref() == Some("full");
        let others = if is_full { 70_000 } else { 0 };
        let streams =
            std::iter::repeat_n(json!({ "name": "other" }), others).chain([listed.clone()]);
        json!({ "connectors": [{ "connector_id": "mail", "streams": streams.collect::<Vec<Json>>() }] }).to_string()
    });
    let answered =
        client.good("schema", &json!({ "stream": "notes", "detail": "full" })).structured;
    assert_eq!(answered["streams"][0]["field_count"], 6_000);
}

#[test]
fn each_connection_leads_to_its_own_declaration() {
    let client = client(|ask| {
        let wanted = ask.parameter("connection_id");
        let of = |id: &str| {
            let capabilities = json!({ "body": if ask.parameter("detail").is_some() { json!({}) } else { json!("eq") } });
            let stream = json!({ "name": "notes", "semantics": format!("{id} {}", "x ".repeat(4_500)), "field_capabilities": capabilities });
            json!({ "connector_id": id, "granted_connections": [{ "connection_id": id }], "streams": [stream] })
        };
        let all = ["mail", "chat"]
            .into_iter()
            .filter(|id| wanted.as_deref().is_none_or(|wanted| wanted == *id));
        json!({ "connectors": all.map(of).collect::<Vec<Json>>() }).to_string()
    });
    let both = client.good("schema", &json!({ "stream": "notes", "detail": "full" }));
    assert!(!both.text.contains("x x x"), "neither is answered as that of both");
    let steps: Vec<Json> = lines::of(&both.text)
        .filter_map(Next::parse)
        .filter_map(|next| next.args(&Json::Null))
        .collect();
    let reads: Vec<Json> =
        (0..2).map(|at| both.structured["streams"][at]["read"]["args"].clone()).collect();
    assert_eq!(steps, reads);
    for (args, id) in steps.iter().zip(["mail", "chat"]) {
        assert_eq!(*args, json!({ "stream": "notes", "connection_id": id, "detail": "full" }));
        let answered = client.good("schema", args).structured.to_string();
        assert!(answered.contains(&format!("{id} x x x")), "{id}");
    }
}
