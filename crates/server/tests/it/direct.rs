//! What is answered without the SDK is answered as the SDK does.
//!
//! The same request is sent twice: once in the form that is answered directly, and once with the
//! media types of `Accept` the other way round, which means the same and is left to the SDK.

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;

use crate::records_kit::Kit;
use crate::support::{Client, READ, Server, WRITE, meta};

const PLAIN: &str = "application/json, text/event-stream";
const TURNED: &str = "text/event-stream, application/json";

/// A request with this `Accept`, and nothing of the kit's own.
fn bytes(token: &str, accept: &str, headers: &[(&str, &str)], body: &Value) -> Vec<u8> {
    bytes_to("/mcp", token, accept, headers, body)
}

fn bytes_to(
    address: &str,
    token: &str,
    accept: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Vec<u8> {
    let body = body.to_string();
    let mut head = format!(
        "POST {address} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: {accept}\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    format!("{head}\r\n{body}").into_bytes()
}

/// Status, headers in their order but for the date, and body.
async fn told(client: &mut Client, request: &[u8]) -> String {
    client.send(request).await;
    let reply = client.reply().await;
    let mut headers: Vec<String> = reply
        .headers
        .iter()
        .filter(|(name, _)| name != "date")
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    headers.sort();
    format!("{}\n{}\n\n{}", reply.status, headers.join("\n"), reply.body)
}

/// Incident numbers differ from call to call.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|character| !character.is_ascii_digit()).collect()
}

fn call(id: Value, name: &str, arguments: Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments, "_meta": meta() });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

#[tokio::test]
async fn a_plain_call_gets_the_answer_of_the_sdk() {
    let server = Server::start().await;
    let hash = |text: &str| ContentHash::digest(text.as_bytes()).to_string();
    for (path, text) in
        [("/a.md", "# A\n\n\u{e9} \"q\" \\ \u{1f680} \u{7}\u{2028}\n"), ("/b.md", "b\n")]
    {
        server
            .sessionless(
                WRITE,
                "tools/call",
                json!({ "name": "file.create", "arguments": { "path": path, "content": text } }),
            )
            .await;
    }
    let mut client = server.connect().await;
    for (token, name, arguments) in [
        (READ, "text.read", json!({ "path": "/a.md" })),
        (READ, "text_read", json!({ "path": "/a.md", "q": "\u{1f680}" })),
        (READ, "text.read", json!({ "path": "/none.md" })),
        (READ, "text.read", json!({ "path": 7 })),
        (READ, "text.read", json!({})),
        (READ, "get_section_source", json!({ "path": "a.md" })),
        (READ, "get_document_tree", json!({ "path": "../a.md" })),
        (READ, "get_metadata_facets", json!({ "path": "a.md", "x": 1 })),
        (WRITE, "file.create", json!({ "path": "/a.md", "content": "" })),
        (
            WRITE,
            "text.append",
            json!({ "path": "/b.md", "base_hash": hash("other"), "content": "c" }),
        ),
        (READ, "text.append", json!({ "path": "/b.md", "base_hash": hash("b\n"), "content": "c" })),
        (READ, "no.such.tool", json!({})),
        (READ, "test.panics", json!({})),
    ] {
        for id in [json!(1), json!("a \u{e9}\""), json!(-7), json!(9_007_199_254_740_991_u64)] {
            let headers = [
                ("MCP-Protocol-Version", "2026-07-28"),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", name),
            ];
            let body = call(id, name, arguments.clone());
            let direct = told(&mut client, &bytes(token, PLAIN, &headers, &body)).await;
            let sdk = told(&mut client, &bytes(token, TURNED, &headers, &body)).await;
            assert_eq!(without_numbers(&direct), without_numbers(&sdk), "{name} {arguments}");
        }
    }
}

/// The members `content` and `structuredContent` of the answer in what was told.
fn forms(told: &str) -> (Value, Value) {
    let (_, body) = told.split_once("\n\n").unwrap();
    let result = serde_json::from_str::<Value>(body).unwrap()["result"].take();
    (result["content"].clone(), result["structuredContent"].clone())
}

#[tokio::test]
async fn the_address_chooses_the_form_of_answers() {
    let server = Server::start().await;
    let made = json!({ "path": "/a.md", "content": "a\n" });
    let body = call(json!(1), "file.create", made);
    let mut client = server.connect().await;
    let headers = |name| {
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", name)]
    };
    told(&mut client, &bytes(WRITE, PLAIN, &headers("file.create"), &body)).await;
    let good = call(json!(2), "text.read", json!({ "path": "/a.md" }));
    let bad = call(json!(2), "text.read", json!({ "path": "/none.md" }));
    for accept in [PLAIN, TURNED] {
        for (query, has_text, has_structure) in [
            ("", true, true),
            ("?answers=both", true, true),
            ("?answers=text", true, false),
            ("?x=y&answers=structured", false, true),
        ] {
            let address = format!("/mcp{query}");
            let headers = headers("text.read");
            let request = bytes_to(&address, READ, accept, &headers, &good);
            let (content, structured) = forms(&told(&mut client, &request).await);
            assert_eq!(content.as_array().unwrap().len(), usize::from(has_text), "{query}");
            assert_eq!(structured.is_object(), has_structure, "{query}");
            assert_eq!(structured.is_null(), !has_structure, "{query}");
            let request = bytes_to(&address, READ, accept, &headers, &bad);
            let (content, structured) = forms(&told(&mut client, &request).await);
            assert!(content[0]["text"].as_str().unwrap().contains("/none.md"), "{query}");
            assert_eq!(structured.is_object(), has_structure, "{query}");
        }
        let request = bytes_to("/mcp?answers=none", READ, accept, &headers("text.read"), &good);
        let refused = told(&mut client, &request).await;
        assert!(refused.starts_with("400"), "{refused}");
        assert!(refused.contains("is not auto, text, structured or both"), "{refused}");
    }
}

#[tokio::test]
async fn a_client_that_wants_text_alone_is_shown_no_output_schemas() {
    let server = Server::start().await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list",
        "params": { "_meta": meta() } });
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")];
    let mut client = server.connect().await;
    let mut bytes_of_list = Vec::new();
    for (query, schemas) in [("", true), ("?answers=structured", true), ("?answers=text", false)] {
        let request = bytes_to(&format!("/mcp{query}"), READ, PLAIN, &headers, &body);
        let list = told(&mut client, &request).await;
        assert_eq!(list.contains("\"outputSchema\""), schemas, "{query}");
        assert!(list.contains("\"text_read\""), "{list}");
        bytes_of_list.push(list.len());
    }
    assert!(bytes_of_list[2] < bytes_of_list[0], "{bytes_of_list:?}");
    let request = bytes_to("/mcp?names=dotted", READ, PLAIN, &headers, &body);
    let list = told(&mut client, &request).await;
    assert!(list.contains("\"text.read\"") && !list.contains("\"text_read\""), "{list}");
}

/// Sealed state is another each time, of the same length.
fn without_seals(text: &str) -> String {
    let is_sealed = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let parts = text.split_inclusive(|character| !is_sealed(character));
    let parts = parts.map(|part| {
        let word = part.trim_end_matches(|character| !is_sealed(character));
        // A digest is hexadecimal, and the same each time.
        let is_seal =
            word.len() > 60 && word.contains(|character: char| character.is_ascii_uppercase());
        if is_seal { format!("[{}]{}", word.len(), &part[word.len()..]) } else { part.to_owned() }
    });
    parts.collect()
}

#[tokio::test]
async fn a_call_about_records_gets_the_answer_of_the_sdk() {
    let kit = Kit::new();
    let long = "Nothing of note. \u{e9} \"q\" \\ \u{1f680} \u{7}\u{2028} ".repeat(400)
        + "The heron was here. ";
    kit.ingest(
        "mail",
        "own",
        &[
            json!({ "data": { "id": "a", "body": long } }),
            json!({ "data": { "id": "b", "body": "heron" } }),
        ],
    );
    let (_, token) = kit.client(&["--stream", "mail"]);
    let (revoked, gone) = kit.client(&["--stream", "mail"]);
    kit.said(&["grant", "revoke", &revoked]);
    let both = kit.rig.token(&["read:/"], &["--owner"]);
    let files = kit.rig.token(&["read:/"], &[]);
    let mut client = Client::new(tokio::net::TcpStream::connect(kit.server.address).await.unwrap());
    let (mut links, mut errors) = (0, 0);
    for (token, name, arguments) in [
        (&token, "schema", json!({})),
        (&token, "schema", json!({ "stream": "mail" })),
        (&token, "search", json!({ "q": "heron" })),
        (&both, "search", json!({ "q": "heron", "limit": 1 })),
        (&token, "query_records", json!({ "stream": "mail", "limit": 1 })),
        (&token, "aggregate", json!({ "stream": "mail", "metric": "count" })),
        (&token, "fetch", json!({ "id": "own/mail:a" })),
        (
            &token,
            "read_record_field",
            json!({ "id": "own/mail:a", "field_path": "body", "offset_chars": 7 }),
        ),
        (&token, "read_record_field", json!({ "id": "own/mail:a", "field_path": "none" })),
        (&token, "fetch", json!({ "id": "own/mail:none" })),
        (&token, "fetch", json!({ "id": "" })),
        (&token, "search", json!({ "q": 7, "x": 1 })),
        (&token, "query_records", json!({})),
        (&gone, "fetch", json!({ "id": "own/mail:a" })),
        (&files, "fetch", json!({ "id": "own/mail:a" })),
        (&both, "text.read", json!({ "path": "/none.md" })),
    ] {
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", name),
        ];
        let body = call(json!(1), name, arguments.clone());
        let direct = told(&mut client, &bytes(token, PLAIN, &headers, &body)).await;
        let sdk = told(&mut client, &bytes(token, TURNED, &headers, &body)).await;
        links += direct.matches("\"resource_link\"").count();
        errors += direct.matches("\"isError\":true").count();
        assert_eq!(without_seals(&direct), without_seals(&sdk), "{name} {arguments}");
    }
    assert!(links >= 3 && errors >= 6, "{links} links, {errors} errors");
}

/// What contradicts itself, or asks for more, is the SDK's to answer or refuse.
#[tokio::test]
async fn the_sdk_handles_every_call_that_is_not_plain() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let (method, name) = (("Mcp-Method", "tools/call"), ("Mcp-Name", "text.read"));
    let good = call(json!(1), "text.read", json!({ "path": "/none.md" }));
    let with = |place: &str, value: Value| {
        let mut body = good.clone();
        *body.pointer_mut(place).unwrap() = value;
        body
    };
    let added = |place: &str, name: &str, value: Value| {
        let mut body = good.clone();
        body.pointer_mut(place).unwrap()[name] = value;
        body
    };
    let client_key = "/params/_meta/io.modelcontextprotocol~1clientInfo";
    let capabilities = "/params/_meta/io.modelcontextprotocol~1clientCapabilities";
    for (headers, body) in [
        (vec![version, method], good.clone()),
        (vec![version, name], good.clone()),
        (vec![method, name], good.clone()),
        (vec![version, method, ("Mcp-Name", "file.create")], good.clone()),
        (vec![version, ("Mcp-Method", "tools/list"), name], good.clone()),
        (vec![("MCP-Protocol-Version", "2025-11-25"), method, name], good.clone()),
        (vec![version, version, method, name], good.clone()),
        (vec![version, method, name, name], good.clone()),
        (vec![version, method, name], with("/params/arguments", json!([]))),
        (vec![version, method, name], with("/params/name", json!(7))),
        (vec![version, method, name], with(client_key, json!({}))),
        (vec![version, method, name], with(client_key, json!([]))),
        (
            vec![version, method, name],
            with(client_key, json!({ "name": "x", "version": "1", "title": "t" })),
        ),
        (vec![version, method, name], with(client_key, json!({ "name": "x", "version": 1 }))),
        (
            vec![version, method, name],
            with(capabilities, json!({ "roots": { "listChanged": true }, "sampling": {} })),
        ),
        (vec![version, method, name], with(capabilities, json!({ "roots": 7 }))),
        (vec![version, method, name], with(capabilities, json!([]))),
        (vec![version, method, name], added("/params/_meta", "progressToken", json!(1))),
        (vec![version, method, name], added("/params", "task", json!({}))),
        (vec![version, method, name], added("", "extra", json!(1))),
    ] {
        let direct = told(&mut client, &bytes(READ, PLAIN, &headers, &body)).await;
        let sdk = told(&mut client, &bytes(READ, TURNED, &headers, &body)).await;
        assert_eq!(direct, sdk, "{headers:?} {body}");
    }
}
