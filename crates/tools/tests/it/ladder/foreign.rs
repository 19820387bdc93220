//! Servers of another make: they cut nothing themselves, spell things their own way and write `null` for nothing.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value as Json, json};
use stile_domain::permit::Principal;
use stile_tools::ladder::port::{Ask, Declined, RecordServer};

use super::super::records::owner;
use super::Client;

/// A server that is what it answers.
struct Foreign<F>(F);

impl<F: Fn(&Ask) -> String + Send + Sync + 'static> RecordServer for Foreign<F> {
    fn ask<'a>(&'a self, _: &'a Principal, ask: Ask) -> BoxFuture<'a, Result<String, Declined>> {
        let answer = (self.0)(&ask);
        async { Ok(answer) }.boxed()
    }

    fn seal(&self, plain: &[u8]) -> Result<String, Declined> {
        Ok(plain.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
    }

    fn tell(&self, _: &Principal, _: &'static str, _: Result<(), &Map<String, Json>>) {}
}

/// A client of a server that answers so.
pub(super) fn client(answer: impl Fn(&Ask) -> String + Send + Sync + 'static) -> Client {
    Client::over(Foreign(answer), owner())
}

#[test]
fn null_is_a_member_that_is_missing() {
    let client = client(|ask| match ask.endpoint.path {
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
            { "id": "k", "data": null, "previews": null, "cursor": null },
            { "id": "l", "data": { "a": "x" }, "previews": null },
        ], "next_cursor": null, "meta": null })
        .to_string(),
    });
    let streams = client.good("schema", &json!({})).structured["streams"].clone();
    assert_eq!(
        (&streams[0]["name"], streams[0]["connections"][0]["connection_id"].as_str()),
        (&json!("notes"), Some("chat"))
    );
    client.good("schema", &json!({ "stream": "notes" }));
    let rows = client.good("query_records", &json!({ "stream": "notes" })).structured["data"]["data"].clone();
    assert_eq!((&rows[0]["data"], &rows[1]["data"]), (&json!({}), &json!({ "a": "x" })));
    let record = client.good("fetch", &json!({ "id": "chat/notes:k" })).structured;
    assert_eq!(record["text"], json!({ "a": "x", "b": 1 }).to_string());
}
