//! Windows of binary fields: together they are the bytes, and a cursor is valid only for its bytes.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::operations::Operation;
use stile_testkit::chance::{Chance, seed};

use super::field_pages::One;
use super::oracle_answers::{OracleCheck, compare, refusal};
use super::worlds::blobs::name_of;
use super::worlds::model::NOW;
use super::worlds::oracle::ByteWindow;
use super::worlds::{OperationRequest, client, owner};

impl OracleCheck<'_> {
    /// Compares a window, then reads on to the end and one window back.
    pub(super) fn wander_in_bytes(
        &self,
        chance: &mut Chance,
        request: &OperationRequest,
        actual: &str,
        window: ByteWindow,
    ) {
        let (next, previous) = compare(request, actual, &window.shown());
        let mut plain = request.clone();
        plain.pairs.retain(|(name, _)| {
            matches!(name.as_str(), "field" | "connection_id" | "connector_instance_id")
        });
        let goes_on = |request: &OperationRequest, start: usize, limit: usize| {
            compare(
                request,
                &self.send(request).unwrap(),
                &self.oracle.bytes(request).at(start, limit).shown(),
            )
            .0
        };
        if let Some(previous) = previous {
            let before = window.start.saturating_sub(window.limit);
            let request = plain.with("cursor", previous);
            goes_on(&request, before, window.start - before);
            goes_on(&request.with("limit_bytes", 100), before, 100);
        }
        let mut after = next.map(|next| (next, window.end));
        if let Some((next, start)) = &after {
            goes_on(&plain.with("cursor", next), *start, window.limit);
        }
        for _ in 0..4 {
            let Some((cursor, start)) = after else { break };
            let limit = 1 + chance.below(65_536);
            let request = plain.with("cursor", cursor).with("limit_bytes", limit);
            after = goes_on(&request, start, limit).map(|next| (next, start + limit));
        }
    }
}

/// Returns pseudo-random bytes.
fn some_bytes(count: usize) -> Vec<u8> {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

fn text(name: &str, text: String) -> (String, FieldValue) {
    (name.to_owned(), FieldValue::Text(text))
}

/// Returns a field that refers to a blob.
fn blob(name: &str, bytes: &[u8]) -> (String, FieldValue) {
    let json = json!({ "blob_id": name_of(bytes), "mime_type": "image/png" });
    (name.to_owned(), FieldValue::Json(json.to_string()))
}

fn with_blobs(fields: RecordFields, blobs: &[&[u8]]) -> One {
    let one = One::with_bytes(fields, &["f00", "f01", "f02", "f03"]);
    let owner = owner().gate().owner().unwrap();
    for mut bytes in blobs.iter().copied() {
        let put = one
            .stored
            .services
            .records
            .write_at(&owner, Instant(NOW), |batch| batch.put_blob(&mut bytes));
        put.unwrap().unwrap();
    }
    one
}

fn request(
    one: &One,
    caller: &Principal,
    field: &str,
    pairs: &[(&str, String)],
) -> Result<Json, Problem> {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let request = OperationRequest {
        operation: Operation::GetFieldWindow.declaration(),
        stream: "messages".into(),
        key: "k".into(),
        pairs,
    };
    let actual = request.with("field", field).send(&one.stored.services, caller)?;
    Ok(serde_json::from_str(&actual).unwrap())
}

fn bytes_of(actual: &Json) -> Vec<u8> {
    STANDARD.decode(actual["window"]["base64"].as_str().unwrap()).unwrap()
}

/// Reads a field from an offset to its end, and back to its beginning.
fn read_through(one: &One, field: &str, bytes: &[u8], start: usize, limit: usize) {
    let sizes = [("offset_bytes", start.to_string()), ("limit_bytes", limit.to_string())];
    let mut actual = request(one, &owner(), field, &sizes).unwrap();
    let mut read = bytes_of(&actual);
    while let Some(cursor) = actual["window"]["next_cursor"].as_str() {
        actual = request(one, &owner(), field, &[("cursor", cursor.to_owned())]).unwrap();
        read.extend(bytes_of(&actual));
    }
    assert!(read == bytes[start.min(bytes.len())..], "{field} from {start} by {limit}");
    assert_eq!(actual["field"]["size_bytes"], bytes.len());
    let mut back = bytes_of(&actual);
    while let Some(cursor) = actual["window"]["previous_cursor"].as_str() {
        actual = request(one, &owner(), field, &[("cursor", cursor.to_owned())]).unwrap();
        let before = bytes_of(&actual);
        assert_eq!(actual["window"]["end_bytes"], bytes.len() - back.len());
        back.splice(0..0, before);
        let limit = actual["window"]["limit_bytes"].as_u64().unwrap();
        assert!(limit <= 65_536);
    }
    assert!(back == bytes, "{field} back by {limit}");
}

#[test]
fn windows_of_base64_together_are_its_bytes() {
    let mut chance = Chance::of(seed());
    // Around the least, what stays in the record, and the ends of pieces.
    for base in [1usize, 191, 768, 6144, 12_288, 70_000] {
        let all: Vec<Vec<u8>> = (base..base + 6).map(some_bytes).collect();
        let name = |at: usize| format!("f{at:02}");
        let spelled = |at: usize, bytes: &[u8]| match at % 3 {
            0 => STANDARD.encode(bytes),
            1 => URL_SAFE_NO_PAD.encode(bytes),
            _ => URL_SAFE.encode(bytes),
        };
        let names: Vec<String> = (0..all.len()).map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let one = One::with_bytes(
            all.iter().enumerate().map(|(at, bytes)| text(&name(at), spelled(at, bytes))).collect(),
            &names,
        );
        for (at, bytes) in all.iter().enumerate() {
            for limit in [1 + base / 90, 2 + base / 7, base + 1, 65_536] {
                read_through(&one, &name(at), bytes, chance.below(bytes.len() + 2), limit);
            }
        }
    }
}

#[test]
fn windows_of_a_blob_together_are_its_bytes_and_read_no_more() {
    let (large, empty) = (some_bytes(5_000_001), Vec::new());
    let one = with_blobs(
        vec![blob("f00", &large), blob("f01", &empty), blob("f02", b"never stored")],
        &[&large, &empty],
    );
    read_through(&one, "f00", &large, 0, 65_536);
    read_through(&one, "f01", &empty, 0, 7);
    let actual =
        request(&one, &client("g", "t"), "f00", &[("offset_bytes", "4999999".to_owned())]).unwrap();
    let field = &actual["field"];
    assert_eq!((&field["mime_type"], &field["text_like"]), (&json!("image/png"), &json!(false)));
    assert_eq!(field["digest"], name_of(&large).replace('-', ":"));
    assert_eq!(bytes_of(&actual), large[4_999_999..]);
    let missing = request(&one, &owner(), "f02", &[("limit_bytes", "1".to_owned())]);
    assert_eq!(missing, Err(Problem::BlobNotFound));
    // The pieces outside of the window are not read.
    assert!(one.stored.place.delete("blob_pieces", "id & 65535 > 1") > 70);
    let actual = request(
        &one,
        &owner(),
        "f00",
        &[("offset_bytes", "65000".to_owned()), ("limit_bytes", "9000".to_owned())],
    );
    assert_eq!(bytes_of(&actual.unwrap()), large[65_000..74_000]);
}

#[test]
fn a_window_of_a_long_base64_text_reads_only_its_own_pieces() {
    let bytes = some_bytes(1_000_000);
    let one = One::with_bytes(vec![text("f00", STANDARD.encode(&bytes))], &["f00"]);
    // Characters 8192 to 16383 are bytes 6144 to 12287; the last piece says how many bytes there
    // are.
    let last = bytes.len().div_ceil(3) * 4 / 8192;
    let others = format!("id & 1048575 NOT IN (1, {last})");
    assert!(one.stored.place.delete("pieces", &others) > 100);
    let actual = request(
        &one,
        &owner(),
        "f00",
        &[("offset_bytes", "6144".to_owned()), ("limit_bytes", "6144".to_owned())],
    );
    assert_eq!(bytes_of(&actual.unwrap()), bytes[6144..12_288]);
    let actual = request(
        &one,
        &owner(),
        "f00",
        &[("offset_bytes", "6143".to_owned()), ("limit_bytes", "1".to_owned())],
    );
    assert_eq!(actual, Err(Problem::Corrupt), "the piece is gone");
}

#[test]
fn a_byte_cursor_is_valid_only_for_the_same_bytes() {
    let (one_blob, other_blob) = (some_bytes(1000), some_bytes(1001));
    let base64 = STANDARD.encode(some_bytes(900));
    let fields = vec![
        blob("f00", &one_blob),
        blob("f01", &one_blob),
        text("f02", base64.clone()),
        text("f03", base64.clone()),
        text("f04", "words ".repeat(100)),
    ];
    let with = |changed: (String, FieldValue)| -> RecordFields {
        fields
            .iter()
            .map(|field| if field.0 == changed.0 { changed.clone() } else { field.clone() })
            .collect()
    };
    let bad = |why| Err(Problem::InvalidCursor(why));
    let of_bytes = [("offset_bytes", "3".to_owned()), ("limit_bytes", "5".to_owned())];
    for (field, twin) in [("f00", "f01"), ("f02", "f03")] {
        let one = with_blobs(fields.clone(), &[&one_blob, &other_blob, base64.as_bytes()]);
        let first = request(&one, &owner(), field, &of_bytes).unwrap();
        let cursor = first["window"]["next_cursor"].as_str().unwrap().to_owned();
        let go_on = |caller: &Principal, field: &str, more: &[(&str, String)]| {
            request(&one, caller, field, &[&[("cursor", cursor.clone())], more].concat())
        };
        let limit = |name: &'static str| [(name, "9".to_owned())];
        assert_eq!(go_on(&owner(), field, &[]).unwrap()["window"]["start_bytes"], 8);
        assert_eq!(
            go_on(&owner(), field, &limit("limit_bytes")).unwrap()["window"]["end_bytes"],
            17
        );
        assert_eq!(
            go_on(&owner(), twin, &[]),
            bad(CursorProblem::Mismatch),
            "the same bytes in another field"
        );
        assert_eq!(go_on(&owner(), "f04", &[]), bad(CursorProblem::Mismatch));
        assert_eq!(go_on(&client("g", "t"), field, &[]), bad(CursorProblem::Mismatch));
        let not_text = Some(("field_not_text", 422));
        let actual =
            |actual: Result<Json, Problem>| refusal(&actual.map(|actual| actual.to_string()));
        assert_eq!(actual(go_on(&owner(), field, &limit("limit_chars"))), not_text);
        assert_eq!(actual(request(&one, &owner(), field, &[("cursor", "x".to_owned())])), not_text);
        let forged = [("cursor", "x".to_owned()), ("limit_bytes", "1".to_owned())];
        assert_eq!(request(&one, &owner(), field, &forged), bad(CursorProblem::Malformed));
        for sent in ["offset_bytes", "offset_chars", "q", "before_chars", "after_chars"] {
            assert_eq!(
                actual(go_on(&owner(), field, &limit(sent))),
                Some(("invalid_window", 400)),
                "{sent}"
            );
        }
        // A cursor of characters is none of bytes.
        let words = request(&one, &owner(), "f04", &[("limit_chars", "7".to_owned())]).unwrap();
        let of_chars = words["window"]["next_cursor"].as_str().unwrap().to_owned();
        let both = [("cursor", of_chars.clone()), ("limit_bytes", "1".to_owned())];
        assert_eq!(request(&one, &owner(), field, &both), bad(CursorProblem::Mismatch));
        assert_eq!(actual(request(&one, &owner(), field, &both[..1])), not_text);
        assert_eq!(actual(request(&one, &owner(), "f04", &both)), Some(("field_not_binary", 422)));
        // Every other value makes it stale, such as a blob whose bytes are the text that the field
        // was before.
        for value in [
            blob(field, &other_blob),
            blob(field, base64.as_bytes()),
            text(field, STANDARD.encode(some_bytes(901))),
            text(field, "words ".repeat(100)),
            text(field, name_of(&one_blob)),
        ] {
            one.stored.put(&one.source, "k", &with(value.clone()));
            assert_eq!(go_on(&owner(), field, &[]), bad(CursorProblem::Stale), "{value:?}");
        }
        one.stored.put(&one.source, "k", &fields);
        assert_eq!(
            go_on(&owner(), field, &[]).unwrap()["window"]["start_bytes"],
            8,
            "they are what they were"
        );
    }
}

#[test]
fn a_value_within_a_long_field_is_read_by_its_path() {
    let long = "中 needle ".repeat(40_000);
    let items: Vec<Json> =
        (0..30_000).map(|at| json!({ "n": at, "t": "é".repeat(at % 9) })).collect();
    let value = json!({ "items": items, "long": long, "a/b": { "~": [null, true, 1.5] } });
    let one = One::with_bytes(vec![("data".to_owned(), FieldValue::Json(value.to_string()))], &[]);
    let read = |path: &str, pairs: &[(&str, &str)]| {
        let pairs: Vec<(&str, String)> =
            pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        request(&one, &owner(), path, &pairs)
    };
    for (path, pointer) in [
        ("data/items/29999", "/items/29999"),
        ("data/items/12345/t", "/items/12345/t"),
        ("data/a~1b/~0", "/a~1b/~0"),
        ("data/a~1b/~0/0", "/a~1b/~0/0"),
        ("data/a~1b/~0/1", "/a~1b/~0/1"),
        ("data/a~1b/~0/2", "/a~1b/~0/2"),
    ] {
        let expected = value.pointer(pointer).unwrap();
        let text = expected.as_str().map_or_else(|| expected.to_string(), str::to_owned);
        let actual = read(path, &[]).unwrap();
        assert_eq!(actual["window"]["text"], text, "{path}");
        assert_eq!(actual["field"]["path"], path);
        assert_eq!(actual["field"]["text_like"], expected.is_string());
    }
    // A long value within a long one, from its beginning to its end.
    for (path, whole) in [("data/long", long.clone()), ("data/items", value["items"].to_string())] {
        let mut actual = read(path, &[("limit_chars", "16384")]).unwrap();
        let (first, mut text) =
            (actual.clone(), actual["window"]["text"].as_str().unwrap().to_owned());
        while let Some(cursor) = actual["window"]["next_cursor"].as_str() {
            actual = read(path, &[("cursor", cursor)]).unwrap();
            text += actual["window"]["text"].as_str().unwrap();
        }
        assert!(text == whole, "{path}");
        assert_eq!(first["window"]["total_chars"], whole.chars().count());
        let cursor = first["window"]["next_cursor"].as_str().unwrap();
        let elsewhere = read("data/items/1/t", &[("cursor", cursor)]);
        assert_eq!(elsewhere, Err(Problem::InvalidCursor(CursorProblem::Mismatch)));
    }
    let found = read("data/long", &[("q", "NEEDLE"), ("before_chars", "1"), ("after_chars", "0")]);
    assert_eq!(found.unwrap()["window"]["text"], " needle");
    for missing in ["data/items/30000", "data/long/0", "data/a", "data/", "data/items/1/t/0"] {
        let field = missing.to_owned();
        assert_eq!(read(missing, &[]), Err(Problem::FieldNotFound { field }), "{missing}");
    }
}

#[test]
fn a_field_with_a_slash_in_its_name_goes_before_a_place() {
    let list = FieldValue::Json("[\"in the list\"]".to_owned());
    let fields = vec![("a".to_owned(), list), text("a/0", "a field".to_owned())];
    let one = One::with_bytes(fields, &[]);
    let read = |path: &str| request(&one, &owner(), path, &[]).unwrap()["window"]["text"].clone();
    assert_eq!(read("a/0"), "a field");
    let one = One::with_bytes(
        vec![("a".to_owned(), FieldValue::Json("[\"in the list\"]".to_owned()))],
        &[],
    );
    assert_eq!(request(&one, &owner(), "a/0", &[]).unwrap()["window"]["text"], "in the list");
}
