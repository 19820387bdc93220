//! Every byte of records that were made to defeat a client is reached, attachments included.
//!
//! Law: a client that sees only texts, one that sees only structures, and one that follows
//! resources each read every field, every number, every list and every blob of such records, with
//! nothing but what an answer shows. It holds on our own server, and on a server of another make.
//!
//! `STILE_RIG_SCALE=full` walks 500 records on each server; a usual run walks a sample.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_testkit::chance::{Chance, scaled, seed};

use super::Client;
use super::records::blobs::{self, BLOBS};
use super::records::model::{Source, Stored, World, pick, some};
use super::records::owner;
use super::stand_in::{StandIn, Units};
use super::walker::{CLASSES, Walker};
use super::worlds::{self, VisibleRecords, base64_of, text};

/// The kinds of values. Each record has some of them, and each is in some record.
const KINDS: usize = 16;

/// Names of fields and of members that are hard to write as a path or as a line.
const NAMES: [&str; 15] = [
    "body", "text", "a/b", "a~b", "~1", "/", "\"quoted\"", "it's", "0", "a b", "é\u{301}",
    "\u{202e}rtl", "\u{2028}line", "next: fetch {\"id\":\"x\"}", "__proto__",
];

/// Makes a value within a list or an object: a reference to bytes, or something beside one.
fn inner(chance: &mut Chance, depth: usize) -> String {
    match chance.below(if depth == 0 { 4 } else { 6 }) {
        0 | 1 => {
            let (id, bytes) = some(chance, &BLOBS);
            let size = bytes.len();
            json!({ "blob_id": id, "mime_type": "image/png", "size_bytes": size }).to_string()
        }
        2 => pick(chance, &["1e400", "-0.0", "1", "null", "true", "\"\"", "0.1e-500"]).to_owned(),
        3 => Json::from("\u{0}\"\\\u{2028}👩‍👧").to_string(),
        4 => {
            let items: Vec<String> =
                (0..chance.below(5)).map(|_| inner(chance, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let names: BTreeSet<&str> =
                (0..chance.below(5)).map(|_| pick(chance, &NAMES)).chain([""]).collect();
            let members: Vec<String> = names
                .into_iter()
                .map(|name| format!("{}:{}", Json::from(name), inner(chance, depth - 1)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// Makes text in lines of 76 characters of base64.
fn wrapped(bytes: usize, end: &str) -> String {
    let base64 = base64_of(bytes);
    let lines: Vec<&str> =
        base64.as_bytes().chunks(76).map(|line| str::from_utf8(line).unwrap()).collect();
    lines.join(end)
}

/// Makes a value of a kind. Lists have up to `items` items.
fn value(chance: &mut Chance, kind: usize, items: usize) -> FieldValue {
    let repeated = |unit: &str, chars: usize| -> FieldValue {
        text(unit.chars().cycle().take(chars).collect::<String>())
    };
    match kind {
        0 => FieldValue::Json(format!("[{},{}]", inner(chance, 4), inner(chance, 4))),
        1 => text(wrapped(some(chance, &[300, 301, 302, 20_000]), pick(chance, &["\n", "\r\n"]))),
        2 => text(format!("data:image/png;base64,{}", base64_of(some(chance, &[1, 299, 9_000])))),
        3 => repeated("👩‍👧🙂", some(chance, &[160, 513, 3_000, 9_001])),
        4 => FieldValue::Number(
            pick(
                chance,
                &[
                    "1e400",
                    "-0.0",
                    "123456789012345678901234567890.5",
                    "9007199254740993",
                    "1E-999",
                    "0.30000000000000001",
                ],
            )
            .into(),
        ),
        5 => FieldValue::Json(format!("{{\"\":{},\"n\":1e400}}", inner(chance, 3))),
        6 => {
            let numbers: Vec<String> =
                (0..1 + chance.below(items)).map(|at| at.to_string()).collect();
            FieldValue::Json(format!("[{}]", numbers.join(",")))
        }
        7 => repeated("a\u{0}\u{1}\u{7f}\u{85}", some(chance, &[1, 512, 5_000])),
        8 => repeated("\u{202e}שלום \u{2066}عالم\u{2069} ", some(chance, &[40, 600, 5_000])),
        9 => {
            let attached: Vec<Json> = (0..1 + chance.below(6))
                .map(|at| {
                    let (id, bytes) = some(chance, &BLOBS);
                    json!({ "name": format!("page {at}.pdf"), "mime_type": "application/pdf",
                        "blob_id": id, "size_bytes": bytes.len() })
                })
                .collect();
            FieldValue::Json(Json::from(attached).to_string())
        }
        10 => repeated(pick(chance, &["ACGT", "0123456789abcdef", "#tag", "/usr/lib"]), 5_000),
        11 => text(blobs::value(chance)),
        12 => FieldValue::Json(blobs::value(chance)),
        13 => {
            let deep = some(chance, &[31, 33, 64, 120]);
            let (before, after) = ("[".repeat(deep), "]".repeat(deep));
            FieldValue::Json(format!("{before}{}{after}", inner(chance, 0)))
        }
        14 => {
            let uri = format!("data:;base64,{}", base64_of(400));
            FieldValue::Json(json!({ "raw": wrapped(600, "\r\n"), "uri": uri }).to_string())
        }
        _ => repeated(pick(chance, &["\n", "\"", "\\", "中", "e\u{301}", "word "]), 6_000),
    }
}

/// Makes a record. The kind of its first field goes round, so that a sample has each kind.
fn record(chance: &mut Chance, at: usize, items: usize) -> (String, RecordFields) {
    let key = match chance.below(6) {
        0 => format!("https://a.example/{at}?x=y&z=%20#f"),
        1 => format!("../{at}/\u{0}\"'~ \n"),
        2 => format!("{at}{}", "\u{1}".repeat(400)),
        3 => format!("🙂שלום:{at}"),
        _ => format!("k{at}"),
    };
    let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
    names.push("n".repeat(512));
    let mut fields: RecordFields = Vec::new();
    for step in 0..1 + chance.below(4) {
        let name = names.remove(chance.below(names.len()));
        let kind = if step == 0 { at % KINDS } else { chance.below(KINDS) };
        fields.push((name, value(chance, kind, items)));
        let is_extracted = fields.iter().any(|(name, _)| name == "attachment_text");
        if kind == 9 && !is_extracted {
            fields.push(("attachment_text".to_owned(), text("extracted \u{0} 🙂 ".repeat(900))));
        }
    }
    if chance.happens(5) {
        fields.extend((0..300).map(|at| (format!("wide/{at}"), text(format!("value {at}")))));
    }
    (key, fields)
}

/// Makes a stream of records that were made to defeat a client.
fn stream(chance: &mut Chance, count: usize, items: usize) -> Source {
    let records = (0..count).map(|at| record(chance, at, items)).collect();
    let mut source = worlds::stream("a-mail", "notes", records);
    assert_eq!(source.records.len(), count);
    source.decl.fields.iter_mut().for_each(|field| *field = worlds::declared(&field.name));
    source
}

/// Reads all records with each class, from a list and one by one.
fn walk(client: &Client, visible: &VisibleRecords, limit: usize) {
    for class in CLASSES {
        let walker = Walker { client, visible, class };
        let listed = walker.list(
            "query_records",
            &json!({ "stream": "notes", "limit": limit, "connection_id": "a-mail" }),
        );
        let listed: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
        assert_eq!(listed, visible.ids().collect(), "{class:?}");
        visible.ids().for_each(|id| walker.record(id));
    }
}

#[test]
fn each_class_reaches_every_byte_of_hostile_records_on_our_server() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let chance = &mut Chance::of(seed);
    let source = stream(chance, scaled(KINDS, 500), scaled(3_000, 100_000));
    let world = World { sources: vec![source] };
    let stored = Stored::new(chance, &world, &[]);
    let client = Client::new(&stored.services, owner());
    walk(&client, &VisibleRecords::of(&world, None), 25);
}

#[test]
fn each_class_reaches_every_byte_of_hostile_records_on_another_server() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let chance = &mut Chance::of(seed);
    for units in [Units::Scalars, Units::Utf16] {
        let source = stream(chance, scaled(KINDS, 250), scaled(1_000, 30_000));
        let world = World { sources: vec![source.clone()] };
        let stand_in = StandIn::of(source, units);
        let client = Client::over(stand_in.provider, owner());
        walk(&client, &VisibleRecords::of(&world, None).of_another_server(), 3);
    }
}

#[test]
fn each_class_reaches_the_bytes_of_a_whole_field_that_claims_no_media_type() {
    let (id, _) = &BLOBS[0];
    for claim in [json!({ "blob_id": id, "mime_type": 7 }), json!({ "blob_id": id })] {
        let fields = vec![("body".to_owned(), FieldValue::Json(claim.to_string()))];
        let mut source = worlds::stream("a-mail", "notes", vec![("k".to_owned(), fields)]);
        source.decl.fields.iter_mut().for_each(|field| *field = worlds::declared(&field.name));
        let world = World { sources: vec![source.clone()] };
        let stand_in = StandIn::of(source, Units::Scalars);
        let client = Client::over(stand_in.provider, owner());
        walk(&client, &VisibleRecords::of(&world, None).of_another_server(), 3);
    }
}
