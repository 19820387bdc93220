//! A handle or cursor works where it was made, for its caller and version, and nowhere else.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::instant::Instant;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::operations::Operation;
use stile_store::records::IncomingRecord;
use stile_testkit::chance::Chance;

use super::lines::{self, Next};
use super::records::model::{Grant, NOW, Source, Stored, World};
use super::records::{OperationRequest, client, owner};
use super::worlds::{self, text};
use super::{Client, of_field, with};

const ID: &str = "a-mail/notes:k1";

fn fields(of: &str) -> RecordFields {
    let mut fields = vec![
        ("text".to_owned(), text(format!("needle {of} ").repeat(2000))),
        ("other".to_owned(), text(format!("needle {of} ").repeat(100))),
        ("short".to_owned(), text(format!("{of} ").repeat(if of == "changed" { 40 } else { 100 }))),
        (
            "photo".to_owned(),
            text(worlds::base64_of(if of == "changed" { 100_002 } else { 100_000 })),
        ),
    ];
    fields
        .extend((0..200).map(|at| (format!("small {at}"), text(format!("value {at}").repeat(10)))));
    fields
}

fn world() -> World {
    let records =
        |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), fields(key))).collect::<Vec<_>>();
    let mut sources = vec![
        worlds::stream("a-mail", "notes", records(&["k1", "k2", "k3"])),
        worlds::stream("a-mail", "mail", records(&["k1", "k2"])),
    ];
    sources.extend(
        (0..120)
            .map(|at| worlds::stream("a-mail", &format!("{at:03}{}", "s".repeat(60)), Vec::new())),
    );
    World { sources }
}

/// How a handle or cursor is used.
#[derive(Clone, Debug, PartialEq)]
enum Use {
    /// As an argument: tool, other arguments, name of the argument.
    Argument(&'static str, Json, &'static str),
    /// As an address with this beginning.
    Address(&'static str),
}

/// A handle or cursor: what it is for, its text, and how it is used.
#[derive(Clone, Debug)]
struct Sealed {
    what: &'static str,
    text: String,
    used: Use,
}

impl Sealed {
    /// Uses `text` in place of the handle or cursor.
    fn send(&self, client: &Client, text: &str) -> Result<(), Json> {
        match &self.used {
            Use::Address(scheme) => client.raw_read(&format!("{scheme}{text}")).map(drop),
            Use::Argument(tool, args, name) => {
                let text =
                    if *name == "id" { format!("pdpp://record/{text}") } else { text.to_owned() };
                let args = with(args, json!({ *name: text }));
                client.raw(tool, &args).map(drop)
            }
        }
    }

    /// Reads the same explicitly, without the handle.
    fn explicit(&self, stored: &Stored, client: &Client, caller: &Principal) -> Result<(), Json> {
        match self.what {
            "record" | "fields" | "fields cursor" | "id" => {
                client.raw("fetch", &json!({ "id": ID })).map(drop)
            }
            "window" | "window cursor" | "id of a field" => {
                client.raw("read_record_field", &of_field(ID, "text")).map(drop)
            }
            "bytes" | "more bytes" => {
                let pairs = [
                    ("field", "photo"),
                    ("connection_id", "a-mail"),
                    ("offset_bytes", "0"),
                    ("limit_bytes", "10"),
                ];
                let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
                let ask = OperationRequest {
                    operation: Operation::GetFieldWindow.declaration(),
                    stream: "notes".into(),
                    key: "k1".into(),
                    pairs,
                };
                ask.send(&stored.services, caller)
                    .map(drop)
                    .map_err(|problem| Json::Object(problem.to_json()))
            }
            _ => {
                let Use::Argument(tool, args, _) = &self.used else { panic!("{self:?}") };
                client.raw(tool, args).map(drop)
            }
        }
    }
}

/// Collects one handle or cursor of each kind.
fn all(client: &Client) -> Vec<Sealed> {
    let fetched = client.good("fetch", &json!({ "id": ID })).structured;
    let text = |json: &Json| json.as_str().unwrap_or_else(|| panic!("{json}")).to_owned();
    let bare = |json: &Json| text(json).rsplit('/').next().unwrap().to_owned();
    let entry = |name: &str| {
        let entries = fetched["content_ladder"]["entries"].as_array().unwrap();
        bare(&entries.iter().find(|entry| entry["field_path"] == name).unwrap()["resource"]["uri"])
    };
    let more = &fetched["content_ladder"]["more_fields"][0];
    let (record, window) = ("pdpp://record/", "pdpp://field-window/");
    let bytes = entry("photo");
    let next = client.read(&format!("{window}{bytes}")).unwrap().meta["pdpp/next_uri"].clone();
    let field = of_field(ID, "text");
    let mut sealed = vec![
        ("record", bare(&fetched["url"]), Use::Address(record)),
        ("fields", bare(&more["resource"]["uri"]), Use::Address(record)),
        ("window", entry("text"), Use::Address(window)),
        ("bytes", bytes, Use::Address(window)),
        ("more bytes", bare(&next), Use::Address(window)),
        ("id", bare(&fetched["url"]), Use::Argument("fetch", json!({}), "id")),
        (
            "id of a field",
            bare(&fetched["url"]),
            Use::Argument("read_record_field", json!({ "field_path": "text" }), "id"),
        ),
        (
            "fields cursor",
            text(&more["read"]["args"]["cursor"]),
            Use::Argument("fetch", json!({ "id": ID }), "cursor"),
        ),
    ];
    for (what, tool, args, place) in [
        ("window cursor", "read_record_field", field, "/window/next_cursor"),
        (
            "list cursor",
            "query_records",
            json!({ "stream": "notes", "limit": 1 }),
            "/data/next_cursor",
        ),
        (
            "search cursor",
            "search",
            json!({ "q": "needle", "limit": 1, "streams": ["notes"] }),
            "/data/next_cursor",
        ),
        ("schema cursor", "schema", json!({}), ""),
    ] {
        let answer = client.good(tool, &args);
        // The text of `schema` is paged before the structure is.
        let cursor = match (tool, lines::of(&answer.text).last().and_then(Next::parse)) {
            ("schema", Some(Next::Call { args, .. })) => args["cursor"].clone(),
            _ => answer.structured.pointer(place).unwrap().clone(),
        };
        sealed.push((what, text(&cursor), Use::Argument(tool, args, "cursor")));
    }
    sealed.into_iter().map(|(what, text, used)| Sealed { what, text, used }).collect()
}

fn stored(grants: &[Grant]) -> Stored {
    Stored::new(&mut Chance::of(1), &world(), grants)
}

fn assert_refused(reason: &str, answered: &Result<(), Json>, place: &str) {
    let Err(error) = answered else { panic!("{place}: answered") };
    assert_eq!(
        (error["code"].as_str(), error["reason"].as_str()),
        (Some("invalid_cursor"), Some(reason)),
        "{place}: {error}"
    );
}

#[test]
fn a_changed_bit_invalidates_a_handle_or_cursor() {
    let stored = stored(&[]);
    let client = Client::new(&stored.services, owner());
    let all = all(&client);
    assert_eq!(all.len(), 12);
    for sealed in all {
        assert_eq!(sealed.send(&client, &sealed.text), Ok(()), "{}", sealed.what);
        let bytes = URL_SAFE_NO_PAD.decode(&sealed.text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let answered = sealed.send(&client, &URL_SAFE_NO_PAD.encode(changed));
            assert_refused("malformed", &answered, &format!("bit {bit} of a {}", sealed.what));
        }
    }
}

#[test]
fn a_handle_or_cursor_is_valid_only_for_what_it_was_made_for() {
    let stored = stored(&[]);
    let client = Client::new(&stored.services, owner());
    let all = all(&client);
    let is_record =
        |sealed: &Sealed| matches!(sealed.what, "record" | "fields" | "id" | "id of a field");
    let is_window = |sealed: &Sealed| matches!(sealed.what, "window" | "bytes" | "more bytes");
    for one in &all {
        for other in &all {
            let same = one.what == other.what
                || is_record(one) && is_record(other)
                || is_window(one) && is_window(other);
            let answered = other.send(&client, &one.text);
            match same {
                true => assert_eq!(answered, Ok(()), "a {} as a {}", one.what, other.what),
                false => assert_refused(
                    "mismatch",
                    &answered,
                    &format!("a {} as a {}", one.what, other.what),
                ),
            }
        }
    }
    let of = |what: &str| all.iter().find(|sealed| sealed.what == what).unwrap().text.clone();
    for (what, tool, args) in [
        ("window cursor", "read_record_field", of_field(ID, "other")),
        ("window cursor", "read_record_field", of_field("a-mail/notes:k2", "text")),
        ("window cursor", "read_record_field", of_field("a-mail/mail:k1", "text")),
        ("fields cursor", "fetch", json!({ "id": "a-mail/notes:k2" })),
        ("fields cursor", "fetch", json!({ "id": "a-mail/mail:k1" })),
        ("fields cursor", "fetch", json!({ "id": ID, "fields": ["text"] })),
        ("list cursor", "query_records", json!({ "stream": "mail" })),
        ("list cursor", "query_records", json!({ "stream": "notes", "order": "asc" })),
        ("list cursor", "query_records", json!({ "stream": "notes", "fields": ["text"] })),
        ("list cursor", "query_records", json!({ "stream": "notes", "connection_id": "a-mail" })),
        ("list cursor", "query_records", json!({ "stream": "notes", "filter": { "short": "x" } })),
        ("search cursor", "search", json!({ "q": "needl*", "streams": ["notes"] })),
        ("search cursor", "search", json!({ "q": "needle", "streams": ["mail"] })),
        ("search cursor", "search", json!({ "q": "needle" })),
        ("schema cursor", "schema", json!({ "stream": "notes" })),
    ] {
        let answered = client.raw(tool, &with(&args, json!({ "cursor": of(what) }))).map(drop);
        assert_refused("mismatch", &answered, &format!("a {what} in {tool} {args}"));
    }
}

/// Stores another version of a record.
fn write(stored: &Stored, key: &str, fields: &RecordFields) {
    let written =
        stored.services.records.write_at(&owner().gate().owner().unwrap(), Instant(NOW), |batch| {
            let target = batch
                .target(
                    &SourceName::parse("a-mail").unwrap(),
                    &SourceName::parse("notes").unwrap(),
                )?
                .unwrap();
            let key = RecordKey::parse(key).unwrap();
            batch.upsert(
                &target,
                IncomingRecord { key: &key, emitted: Instant(0), fields, streamed: Vec::new() },
            )
        });
    written.unwrap();
}

#[test]
fn a_cursor_of_a_changed_field_is_stale() {
    let stored = stored(&[]);
    let client = Client::new(&stored.services, owner());
    let mut addresses = Vec::new();
    let mut keep =
        |from: &'static str, uri: &Json| addresses.push((from, uri.as_str().unwrap().to_owned()));
    let window = client
        .good("read_record_field", &with(&of_field(ID, "text"), json!({ "offset_chars": 5000 })))
        .structured;
    for name in ["uri", "next_uri", "previous_uri"] {
        keep("a window", &window["resource"][name]);
    }
    for (from, tool, args) in [
        ("a list", "query_records", json!({ "stream": "notes", "order": "asc" })),
        (
            "a list",
            "query_records",
            json!({ "stream": "notes", "order": "asc", "fields": ["short"] }),
        ),
        ("a document", "fetch", json!({ "id": ID })),
        ("a search", "search", json!({ "q": "needle k1" })),
    ] {
        let answer = client.good(tool, &args);
        for entry in answer.structured["content_ladder"]["entries"].as_array().unwrap() {
            if entry["record_id"] == "k1"
                && entry["stream"] == "notes"
                && entry["preview_status"] != "binary-only"
            {
                keep(from, &entry["resource"]["uri"]);
            }
        }
        for link in &answer.links {
            if link.description.starts_with(ID) && link.name == "field-window" {
                let is_short = link.description.contains("\"short\"");
                keep(if is_short { "a link of short" } else { from }, &link.uri.clone().into());
            }
        }
    }
    for from in ["a window", "a list", "a document", "a search"] {
        assert!(addresses.iter().any(|(own, _)| *own == from), "{from}");
    }
    // One of these is for a field that only the text truncates.
    assert!(addresses.iter().any(|(from, _)| *from == "a link of short"));
    let cursors = ["next_cursor", "previous_cursor"]
        .map(|name| window["window"][name].as_str().unwrap().to_owned());
    let all = all(&client);
    let good = |answered: Result<(), Json>| assert_eq!(answered, Ok(()));
    addresses.iter().for_each(|(_, uri)| good(client.raw_read(uri).map(drop)));
    // Other records and fields do not matter.
    write(&stored, "k2", &fields("changed"));
    addresses.iter().for_each(|(_, uri)| good(client.raw_read(uri).map(drop)));
    write(&stored, "k1", &fields("changed"));
    for (from, uri) in &addresses {
        assert_refused("stale", &client.raw_read(uri).map(drop), from);
    }
    for cursor in &cursors {
        let args = with(&of_field(ID, "text"), json!({ "cursor": cursor }));
        assert_refused("stale", &client.raw("read_record_field", &args).map(drop), "a cursor");
    }
    let of = |what: &str| all.iter().find(|sealed| sealed.what == what).unwrap();
    assert_refused("stale", &of("more bytes").send(&client, &of("more bytes").text), "bytes");
    // The record still has the same field names.
    good(of("fields cursor").send(&client, &of("fields cursor").text));
    let mut renamed = fields("changed");
    renamed.insert(0, ("before all others".to_owned(), FieldValue::Null));
    write(&stored, "k1", &renamed);
    assert_refused(
        "stale",
        &of("fields cursor").send(&client, &of("fields cursor").text),
        "fields",
    );
    assert_refused("stale", &of("fields").send(&client, &of("fields").text), "fields");
    good(of("record").send(&client, &of("record").text));
}

/// Makes grants that show different parts of the world.
fn grants() -> Vec<Grant> {
    let world = world();
    let names: Vec<String> = fields("x").into_iter().map(|(name, _)| name).collect();
    let every: Vec<&str> = names.iter().map(String::as_str).collect();
    let fewer: Vec<&str> =
        every.iter().copied().filter(|name| !["text", "photo"].contains(name)).collect();
    let (notes, mail): (&Source, &Source) = (&world.sources[0], &world.sources[1]);
    let others: Vec<&Source> = world.sources.iter().collect();
    let mut hidden = worlds::grant("grt_hidden", &[notes], &every);
    hidden.shares[0].keys = Some(vec!["k2".to_owned()]);
    vec![
        worlds::grant("grt_all", &others, &every),
        worlds::grant("grt_copy", &others, &every),
        worlds::grant("grt_fewer", &[notes], &fewer),
        worlds::grant("grt_mail", &[mail], &every),
        hidden,
    ]
}

#[test]
fn another_grants_handle_reads_no_more_than_an_explicit_request() {
    let grants = grants();
    let stored = stored(&grants);
    let of = |id: &str| client(id, "t1");
    let mut mismatches = 0;
    for giver in [owner(), of("grt_all")] {
        let sealed = all(&Client::new(&stored.services, giver.clone()));
        assert_eq!(sealed.len(), 12);
        let takers = [
            owner(),
            of("grt_all"),
            of("grt_copy"),
            of("grt_fewer"),
            of("grt_mail"),
            of("grt_hidden"),
            of("grt_nobody"),
        ];
        for taker in takers {
            let client = Client::new(&stored.services, taker.clone());
            for one in &sealed {
                let place = format!("a {} of {giver:?} for {taker:?}", one.what);
                let answered = one.send(&client, &one.text);
                match one.explicit(&stored, &client, &taker) {
                    Err(error) => assert_eq!(answered, Err(error), "{place}"),
                    Ok(()) if giver.records() == taker.records() => {
                        assert_eq!(answered, Ok(()), "{place}")
                    }
                    Ok(()) => {
                        mismatches += 1;
                        assert_refused("mismatch", &answered, &place);
                    }
                }
            }
        }
    }
    assert!(mismatches > 40, "{mismatches}");
}

#[test]
fn a_handle_outlives_the_program_but_not_its_grant() {
    let mut grants = grants();
    grants[0].expires = Some("2026-01-31T00:00:00.000001Z");
    let stored = stored(&grants);
    let (all_of, copy_of) = (client("grt_all", "t1"), client("grt_copy", "t1"));
    let (one, other) = (
        Client::new(&stored.services, all_of.clone()),
        Client::new(&stored.services, copy_of.clone()),
    );
    let (sealed, copies) = (all(&one), all(&other));
    let services = stored.reopened();
    let (one, other) = (Client::new(&services, all_of.clone()), Client::new(&services, copy_of));
    for one_of in &sealed {
        assert_eq!(one_of.send(&one, &one_of.text), Ok(()), "{}", one_of.what);
    }
    for copy in &copies {
        assert_eq!(copy.send(&other, &copy.text), Ok(()), "{}", copy.what);
    }
    let later = Client::at(&services, all_of, || Instant(NOW + 1));
    for one_of in &sealed {
        let answered = one_of.send(&later, &one_of.text);
        assert_eq!(answered.unwrap_err()["code"], "grant_expired", "{}", one_of.what);
    }
    services.records.revoke(&owner().gate().owner().unwrap(), "grt_copy", Instant(NOW)).unwrap();
    for copy in &copies {
        let answered = copy.send(&other, &copy.text);
        assert_eq!(answered.unwrap_err()["code"], "grant_revoked", "{}", copy.what);
    }
}
