//! Bytes never appear in texts. An answer shows their type, size, digest if known, and a resource.

use serde_json::json;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;
use stile_ladder::resources::{NEXT_URI, PREVIOUS_URI};
use stile_testkit::chance::Chance;
use stile_tools::toolset::ResourceBody;

use super::records::blobs::{BLOBS, name_of};
use super::records::model::{NOW, Stored, World};
use super::records::owner;
use super::walker::{CLASSES, Walker, Way};
use super::worlds::{self, Content, VisibleRecords, text};
use super::{Client, of_field};

const ID: &str = "a-mail/notes:k";

/// Makes an object with base64 wrapped at `width`.
fn wrapped(bytes: usize, width: usize, end: &str) -> FieldValue {
    let base64 = worlds::base64_of(bytes);
    let lines: Vec<&str> =
        base64.as_bytes().chunks(width).map(|line| str::from_utf8(line).unwrap()).collect();
    FieldValue::Json(format!("{{\"name\":\"a.png\",\"held\":\"{}\"}}", lines.join(end)))
}

fn world() -> (World, Stored) {
    let blob = |at: usize| json!({ "blob_id": BLOBS[at].0, "mime_type": "image/png", "size_bytes": BLOBS[at].1.len(), "name": "x".repeat(200), "caption": "y z".repeat(20) });
    let fields = vec![
        ("photo".to_owned(), text(worlds::base64_of(200_000))),
        ("small".to_owned(), text(worlds::base64_of(192))),
        ("url safe".to_owned(), text(worlds::base64_of(400).replace('+', "-").replace('/', "_"))),
        ("blob".to_owned(), FieldValue::Json(blob(3).to_string())),
        ("empty".to_owned(), FieldValue::Json(blob(0).to_string())),
        ("lost".to_owned(), FieldValue::Json("{\"blob_id\":\"b1\",\"mime_type\":\"image/png\"}".to_owned())),
        (
            "told".to_owned(),
            FieldValue::Json(
                json!({ "blob_id": BLOBS[3].0, "mime_type": "image/png", "caption": "y z".repeat(400) }).to_string(),
            ),
        ),
        ("letter".to_owned(), text(format!("see {} there", worlds::base64_of(3000)))),
        ("wrapped".to_owned(), wrapped(200, 76, "\\n")),
        ("wrapped short".to_owned(), wrapped(210, 40, "\\r\\n")),
        ("wrapped long".to_owned(), wrapped(9000, 64, "\\n")),
    ];
    let world =
        World { sources: vec![worlds::stream("a-mail", "notes", vec![("k".to_owned(), fields)])] };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    (world, stored)
}

#[test]
fn binary_fields_are_read_completely_through_resources() {
    let (world, stored) = world();
    let (client, visible) =
        (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
    for class in CLASSES {
        let walker = Walker { client: &client, visible: &visible, class };
        walker.record(ID);
        walker.list("query_records", &json!({ "stream": "notes" }));
        walker.list("search", &json!({ "q": "see" }));
    }
    let walker = Walker { client: &client, visible: &visible, class: CLASSES[0] };
    for (tool, args) in
        [("fetch", json!({ "id": ID })), ("query_records", json!({ "stream": "notes" }))]
    {
        let answered = client.good(tool, &args).structured;
        let entries = answered["content_ladder"]["entries"].as_array().unwrap().clone();
        for name in ["photo", "small", "url safe", "blob", "empty", "lost"] {
            let Some(entry) = entries.iter().find(|entry| entry["field_path"] == name) else {
                // A row has the fields that there is room for, and says how to read the others.
                assert_eq!(tool, "query_records", "{name}");
                let more = &answered["content_ladder"]["more_fields"][0];
                assert_eq!(more["read"]["args"], json!({ "id": ID }));
                continue;
            };
            assert_eq!(entry["preview_status"], "binary-only", "{name}");
            assert_eq!(entry["read"]["tool"], "fetch");
            assert_eq!(entry["read"]["args"]["id"], entry["resource"]["uri"]);
            let Content::Bytes(bytes) = visible.field(ID, name) else { panic!("{name}") };
            let uri = entry["resource"]["uri"].as_str().unwrap();
            match bytes {
                Some(bytes) => {
                    assert_eq!(walker.bytes(&Way::Address(uri.to_owned())), *bytes, "{name}");
                    let is_blob = ["blob", "empty"].contains(&name);
                    assert_eq!(
                        entry["mime_type"],
                        if is_blob { "image/png" } else { "application/octet-stream" }
                    );
                    assert_eq!(entry["size_bytes"], bytes.len(), "{name}");
                }
                None => assert_eq!(client.unread(uri)["code"], "blob_not_found"),
            }
        }
        // Truncated fields come before binary ones.
        let first_bytes =
            entries.iter().position(|entry| entry["preview_status"] == "binary-only").unwrap();
        assert!(
            entries[first_bytes..].iter().all(|entry| entry["preview_status"] == "binary-only")
        );
    }
}

#[test]
fn a_text_window_of_a_binary_field_is_refused_with_the_address_of_its_bytes() {
    let (world, stored) = world();
    let (client, visible) =
        (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
    let walker = Walker { client: &client, visible: &visible, class: CLASSES[0] };
    // A blob reference with further members is read as JSON text.
    let told = client.good("read_record_field", &of_field(ID, "told")).structured;
    assert_eq!(told["window"]["text"].as_str(), visible.field(ID, "told").text());
    for name in ["photo", "small", "url safe", "blob", "empty"] {
        let answer = client.call("read_record_field", &of_field(ID, name));
        let error = &answer.structured["error"];
        assert_eq!(error["code"], "field_not_text", "{name}");
        let uri = error["resource"]["uri"].as_str().unwrap();
        assert!(answer.text.contains(uri) && answer.links.iter().any(|link| link.uri == uri));
        assert_eq!(
            Content::Bytes(Some(walker.bytes(&Way::Address(uri.to_owned())))),
            *visible.field(ID, name)
        );
        // Reads part by part, and back again.
        let first = client.read(uri).unwrap();
        let ResourceBody::Base64(base64) = &first.body else { panic!() };
        assert!(base64.len() <= 65_536_usize.div_ceil(3) * 4);
        if let Some(next) = first.meta.get(NEXT_URI) {
            let next = client.read(next.as_str().unwrap()).unwrap();
            let back = client.read(next.meta[PREVIOUS_URI].as_str().unwrap()).unwrap();
            assert_eq!(back.body, first.body, "{name}");
        }
    }
}

#[test]
fn bytes_in_lists_and_objects_are_reached_by_every_client() {
    let one = |at: usize| json!({ "blob_id": BLOBS[at % 4].0, "mime_type": "text/html", "name": format!("{at}.html") });
    let some = |count: usize| (0..count).map(one).collect::<Vec<_>>();
    let filled: Vec<_> =
        (0..200).map(|at| json!([at, "word ".repeat(at % 40), { "part/~": one(at) }])).collect();
    let value = |value: serde_json::Value| FieldValue::Json(value.to_string());
    let mut around = one(3);
    around["like"] = json!({ "": some(3) });
    around["caption"] = "a word ".repeat(300).into();
    let fields = vec![
        ("attachments".to_owned(), value(json!(some(3)))),
        ("deep".to_owned(), value(json!({ "a": [[{ "b": one(1) }]], "b": one(2) }))),
        ("around".to_owned(), value(around)),
        ("many".to_owned(), value(json!(some(40)))),
        ("filled".to_owned(), value(json!(filled))),
    ];
    let world =
        World { sources: vec![worlds::stream("a-mail", "notes", vec![("k".to_owned(), fields)])] };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    let (client, visible) =
        (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
    assert_eq!(visible.field(ID, "filled").references("filled").len(), 200);
    for class in CLASSES {
        let walker = Walker { client: &client, visible: &visible, class };
        walker.record(ID);
        walker.list("query_records", &json!({ "stream": "notes" }));
    }
    let place = of_field(ID, "filled/7/2/part~1~0");
    let error = client.refused("read_record_field", &place);
    assert_eq!(error["code"], "field_not_text");
    let read = client.good("fetch", &json!({ "id": error["resource"]["uri"] })).structured;
    assert_eq!(read["metadata"]["field_path"], "filled/7/2/part~1~0");
    let name = client.good("read_record_field", &of_field(ID, "filled/7/2/part~1~0/name"));
    assert_eq!(name.structured["window"]["text"], "7.html");
}

#[test]
fn a_document_names_each_attachment_once_by_a_call_and_by_no_address_of_v1() {
    let stored_as_by_an_import = |at: usize| {
        let (id, bytes) = &BLOBS[at % 4];
        let digest = id.strip_prefix("sha256-").unwrap();
        json!({ "blob_id": id, "mime_type": "image/png", "size_bytes": bytes.len(),
            "sha256": digest, "filename": format!("page {at} of a longer name.png"),
            "fetch_url": format!("/v1/blobs/{id}") })
    };
    let list = |count: usize| {
        let all: Vec<_> = (0..count).map(stored_as_by_an_import).collect();
        FieldValue::Json(json!(all).to_string())
    };
    let fields = vec![
        ("one".to_owned(), FieldValue::Json(stored_as_by_an_import(3).to_string())),
        ("two".to_owned(), list(2)),
        ("seven".to_owned(), list(7)),
        ("many".to_owned(), list(120)),
    ];
    let world =
        World { sources: vec![worlds::stream("a-mail", "notes", vec![("k".to_owned(), fields)])] };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    let client = Client::new(&stored.services, owner());
    for name in ["one", "two", "seven", "many"] {
        let answer = client.good("fetch", &json!({ "id": ID, "fields": [name] }));
        let document: serde_json::Value = serde_json::from_str(&answer.text).unwrap();
        let of_bytes = |steps: &serde_json::Value| -> Vec<serde_json::Value> {
            let steps = steps.as_array().unwrap().iter();
            steps.filter(|step| step["preview_status"] == "binary-only").cloned().collect()
        };
        let steps = of_bytes(&document["next"]);
        let entries = of_bytes(&answer.structured["content_ladder"]["entries"]);
        let expected = match name {
            "one" => 1,
            "two" => 2,
            "seven" => 7,
            _ => 8,
        };
        assert_eq!((steps.len(), entries.len()), (expected, expected), "{name}: {document}");
        for (at, step) in steps.iter().enumerate() {
            let (path, at) = match name {
                "one" => ("one".to_owned(), 3),
                name => (format!("{name}/{at}"), at),
            };
            let (id, bytes) = &BLOBS[at % 4];
            assert_eq!(step["field_path"], path);
            assert_eq!(step["mime_type"], "image/png");
            assert_eq!(step["size_bytes"], bytes.len());
            assert_eq!(step["digest"], id.replace("sha256-", "sha256:"));
            assert_eq!(step["read"]["tool"], "fetch");
            let read = client.good("fetch", &step["read"]["args"]).structured;
            assert_eq!(read["metadata"]["field_path"], path);
            assert_eq!(read["metadata"]["size_bytes"], bytes.len());
        }
        for text in [&answer.text, &answer.structured.to_string()] {
            assert!(!text.contains("/v1") && !text.contains("fetch_url"), "{text}");
        }
        let digest = BLOBS[if name == "one" { 3 } else { 1 }].0.strip_prefix("sha256-").unwrap();
        let references = if name == "many" { 4 } else { expected.div_ceil(4) };
        assert!(answer.text.matches(digest).count() <= 2 * references, "{}", answer.text);
    }
    // A list shows the fields of a record in the same way.
    let listed = client.good("query_records", &json!({ "stream": "notes" }));
    assert!(!listed.text.contains("/v1") && !listed.structured.to_string().contains("/v1"));
}

#[test]
fn bytes_of_a_text_are_read_as_text() {
    let html = "<p>中 é 👩\u{200d}👧 \"quoted\"</p>\n".repeat(3000);
    let refer = |bytes: &[u8]| json!({ "blob_id": name_of(bytes), "mime_type": "text/html; charset=utf-8" });
    let torn = b"<p>caf\xe9</p>";
    let fields = vec![(
        "page".to_owned(),
        FieldValue::Json(json!([refer(html.as_bytes()), refer(torn)]).to_string()),
    )];
    let world =
        World { sources: vec![worlds::stream("a-mail", "notes", vec![("k".to_owned(), fields)])] };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    for mut bytes in [html.as_bytes(), torn] {
        let permit = owner().gate().owner().unwrap();
        let put = stored
            .services
            .records
            .write_at(&permit, Instant(NOW), |batch| batch.put_blob(&mut bytes));
        put.unwrap().unwrap();
    }
    let client = Client::new(&stored.services, owner());
    let entries =
        client.good("fetch", &json!({ "id": ID })).structured["content_ladder"]["entries"].clone();
    let (mut text, mut next) = (String::new(), entries[0]["read"]["args"].clone());
    while next.is_object() {
        let part = client.good("fetch", &next).structured;
        assert_eq!(part["metadata"]["encoding"], "utf-8");
        text += part["text"].as_str().unwrap();
        next = part["content_ladder"]["entries"][0]["read"]["args"].clone();
    }
    assert!(text == html);
    // Bytes that are no UTF-8 stay bytes, whatever their type says.
    let part = client.good("fetch", &entries[1]["read"]["args"]).structured;
    assert_eq!(part["metadata"]["encoding"], "base64");
}
