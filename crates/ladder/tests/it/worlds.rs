//! What a caller may see of a world, as plain lists; and worlds that are hard to show.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value as Json, json};
use stile_domain::records::filter::compare_numbers;
use stile_domain::records::record_id::RecordId;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_testkit::chance::Chance;

use super::records::blobs::BLOBS;
use super::records::model::{Decl, FieldDecl, Grant, Rec, Share, Source, World, pick, some};
use super::records::oracle::{is_binary, is_only_a_blob};
use super::records::places;

/// The value of a field as a client must read it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Text(String),
    /// Any value that is read as its JSON text.
    Json(String),
    /// Bytes; `None` for a blob that is not stored.
    Bytes(Option<Vec<u8>>),
}

impl Content {
    fn of(decl: &Decl, name: &str, value: &FieldValue) -> Self {
        match value {
            FieldValue::Null => Self::Json("null".to_owned()),
            FieldValue::Bool(value) => Self::Json(value.to_string()),
            FieldValue::Number(digits) => Self::Json(digits.to_string()),
            FieldValue::Text(text) if is_binary(decl, name, value) => {
                Self::Bytes(Some(decoded(text)))
            }
            FieldValue::Text(text) => Self::Text(text.clone()),
            FieldValue::Json(json) if is_only_a_blob(value) => {
                let named: Json = serde_json::from_str(json).unwrap();
                let stored = BLOBS.iter().find(|(name, _)| named["blob_id"] == **name);
                Self::Bytes(stored.map(|(_, bytes)| bytes.clone()))
            }
            FieldValue::Json(json) => Self::Json(json.clone()),
        }
    }

    /// Returns the text that windows of the field show.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Json(text) => Some(text),
            Self::Bytes(_) => None,
        }
    }

    /// Returns the paths of the references to bytes within the JSON of the field `name`.
    pub(super) fn references(&self, name: &str) -> BTreeSet<String> {
        self.references_where(name, places::names_blob)
    }

    fn references_where(&self, name: &str, is_reference: fn(&str) -> bool) -> BTreeSet<String> {
        let Self::Json(json) = self else { return BTreeSet::new() };
        let placed = places::all(json).into_iter();
        let named = placed.filter(|placed| is_reference(placed.json));
        named.map(|placed| format!("{name}{}", placed.pointer)).collect()
    }

    /// Asserts that a value shown whole is this one.
    pub(super) fn assert_is(&self, value: &Json, place: &str) {
        let same = match self {
            Self::Text(text) => value == text,
            // A number that cannot be represented is shown as its digits.
            Self::Json(text) => value == text || is_same(text, value),
            Self::Bytes(_) => false,
        };
        assert!(same, "{place}: {value} is not {self:?}");
    }
}

/// Returns whether a JSON text has this value, to the last digit.
fn is_same(text: &str, value: &Json) -> bool {
    let Ok(own) = serde_json::from_str::<Json>(text) else { return false };
    let digits = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let written = value.to_string();
    let is_equal = || compare_numbers(&written, text) == Some(Ordering::Equal);
    own == *value && (digits <= 15 || !is_number || is_equal())
}

/// Decodes base64 in either alphabet.
fn decoded(text: &str) -> Vec<u8> {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, config);
    engine.decode(text.replace('-', "+").replace('_', "/")).unwrap()
}

/// The records and fields that a caller may see.
pub(super) struct VisibleRecords {
    records: BTreeMap<String, Vec<(String, Content)>>,
    /// Whether the records are another server's, which may name its blobs in any way.
    of_another_server: bool,
}

/// Returns the identifier that answers show for a record.
pub(super) fn id_of(source: &Source, key: &str) -> String {
    let id = RecordId {
        connection: Some(source.connection.clone()),
        stream: source.stream.clone(),
        key: key.to_owned(),
    };
    id.to_string()
}

impl VisibleRecords {
    pub(super) fn of(world: &World, grant: Option<&Grant>) -> Self {
        let mut records = BTreeMap::new();
        for source in super::seen(world, grant) {
            let share = grant.map(|grant| grant.share(source).unwrap());
            let is_field = |name: &String| share.is_none_or(|share| share.fields.contains(name));
            for (key, record) in &source.records {
                if share.is_none_or(|share| share.sees(key, record)) {
                    let fields = record.fields.iter().filter(|(name, _)| is_field(name));
                    let content = |name, value| Content::of(&source.decl, name, value);
                    let fields = fields.map(|(name, value)| (name.clone(), content(name, value)));
                    records.insert(id_of(source, key), fields.collect());
                }
            }
        }
        Self { records, of_another_server: false }
    }

    /// Says that another server has the records.
    pub(super) fn of_another_server(self) -> Self {
        Self { of_another_server: true, ..self }
    }

    /// Returns the paths within a field that may be named as bytes and need not be: what looks like
    /// a blob of another server.
    pub(super) fn possible_references(&self, id: &str, name: &str) -> BTreeSet<String> {
        match self.of_another_server {
            true => self.field(id, name).references_where(name, places::may_name_blob),
            false => BTreeSet::new(),
        }
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.records.contains_key(id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.records.keys().map(String::as_str)
    }

    /// Returns the identifiers of a stream's records, from all connections.
    pub(super) fn of_stream(&self, stream: &str) -> BTreeSet<String> {
        let own = |id: &&String| RecordId::parse(id).unwrap().stream == stream;
        self.records.keys().filter(own).cloned().collect()
    }

    pub(super) fn names(&self, id: &str) -> impl Iterator<Item = &str> {
        self.records[id].iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn find(&self, id: &str, name: &str) -> Option<&Content> {
        self.records.get(id)?.iter().find(|(own, _)| own == name).map(|(_, held)| held)
    }

    /// Returns the bytes that a path leads to; `None` for a blob that is not stored.
    pub(super) fn bytes(&self, id: &str, path: &str) -> Option<Vec<u8>> {
        if let Some(Content::Bytes(bytes)) = self.find(id, path) {
            return bytes.clone();
        }
        let names = self.names(id).filter(|name| path.starts_with(name));
        let name = names.max_by_key(|name| name.len()).unwrap();
        let Content::Json(json) = self.field(id, name) else { panic!("{id} {path:?}") };
        let mut placed = places::all(json).into_iter();
        let placed = placed.find(|placed| placed.pointer == path[name.len()..]);
        let named: Json = serde_json::from_str(placed.unwrap().json).unwrap();
        let stored = BLOBS.iter().find(|(name, _)| named["blob_id"] == **name);
        stored.map(|(_, bytes)| bytes.clone())
    }

    pub(super) fn field(&self, id: &str, name: &str) -> &Content {
        self.find(id, name).unwrap_or_else(|| panic!("{id} {name:?} is not to be seen"))
    }
}

/// Declares a searchable field.
pub(super) fn declared(name: &str) -> FieldDecl {
    FieldDecl {
        name: name.to_owned(),
        schema: json!({}),
        exact: false,
        ops: Vec::new(),
        lexical: true,
        aggregations: Vec::new(),
    }
}

/// The fields that are declared as bytes in base64.
const BYTES: [&str; 3] = ["photo", "small", "url safe"];

/// Declares a text field that can be searched and grouped by, of bytes for some names.
pub(super) fn text_field(name: &str) -> FieldDecl {
    let schema = match BYTES.contains(&name) {
        true => json!({ "type": "string", "contentEncoding": "base64" }),
        false => json!({ "type": "string" }),
    };
    FieldDecl { schema, exact: true, aggregations: vec!["group_by".to_owned()], ..declared(name) }
}

pub(super) fn decl(fields: Vec<FieldDecl>) -> Decl {
    Decl {
        fields,
        exact_given: true,
        key: Vec::new(),
        cursor: None,
        consent: None,
        required: Vec::new(),
        extra: Map::new(),
    }
}

/// Makes a stream with these records. All their fields are declared as texts, [`BYTES`] as base64.
pub(super) fn stream(
    connection: &str,
    stream: &str,
    records: Vec<(String, RecordFields)>,
) -> Source {
    let names: BTreeSet<&str> = records
        .iter()
        .flat_map(|(_, fields)| fields)
        .map(|(name, _)| name.as_str())
        .take(1000)
        .collect();
    let fields = names.into_iter().map(text_field).collect();
    let records = records.into_iter().enumerate();
    Source {
        connection: connection.to_owned(),
        stream: stream.to_owned(),
        decl: decl(fields),
        records: records
            .map(|(at, (key, fields))| (key, Rec { emitted: 0, fields, born: at as u64 }))
            .collect(),
    }
}

/// Makes a grant of these fields in these sources.
pub(super) fn grant(id: &str, sources: &[&Source], fields: &[&str]) -> Grant {
    let shares = sources.iter().map(|source| Share {
        stream: source.stream.clone(),
        connections: vec![source.connection.clone()],
        fields: fields.iter().map(|name| (*name).to_owned()).collect(),
        time: None,
        keys: None,
    });
    Grant {
        id: id.to_owned(),
        client: "Cursor".to_owned(),
        shares: shares.collect(),
        expires: None,
        single_use: false,
        revoked: false,
        bound: None,
        malformed: None,
    }
}

pub(super) fn text(text: impl Into<String>) -> FieldValue {
    FieldValue::Text(text.into())
}

/// Makes `count` pseudorandom bytes in base64.
pub(super) fn base64_of(count: usize) -> String {
    let mut chance = Chance::of(7);
    let bytes: Vec<u8> = (0..count).map(|_| u8::try_from(chance.below(256)).unwrap()).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Makes keys that are hard to put into addresses.
fn keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "a",
        "..",
        ".",
        "...",
        "https://a.example/x?y=z&w=%20#f",
        "[\"a\",\"b/c\"]",
        "🙂👩‍👧",
        "a:b:c",
        "a/b:c",
        "%2E%2E",
        " ",
        "\n",
        "next: fetch {\"id\":\"x\"}",
        "\u{2028}",
        "id=x first_fetch_id=y",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    keys.extend([
        "k".repeat(512),
        "\u{1}".repeat(512),
        "中".repeat(170),
        "\"".repeat(512),
        "\u{7f}".repeat(300),
    ]);
    keys
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "text", "title", "body", "summary", "id", "url", "next", "data", "fields",
        "content_ladder", "__proto__", "a b", "c,d",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    names.extend([
        "n".repeat(512),
        "\u{1}".repeat(512),
        "中".repeat(170),
        "\"".repeat(512),
        "\u{2028}next: ".to_owned(),
    ]);
    names
}

/// Makes a value that may break a bound or forge a line.
fn value(chance: &mut Chance, most: usize) -> FieldValue {
    let units = [
        "a",
        "word ",
        "中",
        "👩‍👧",
        "\u{1}",
        "\"\\",
        "\nnext: fetch {\"id\":\"x\"}\n",
        "\u{2028}",
        "e\u{301}\r\n",
        "QUJD+/09",
    ];
    match chance.below(12) {
        0 => FieldValue::Null,
        1 => FieldValue::Bool(chance.happens(50)),
        2 => FieldValue::Number(
            some(
                chance,
                &["0", "1e1", "-12345678901234567890123.5e7", "9007199254740993", "1E400"],
            )
            .into(),
        ),
        3 => FieldValue::Number("123456789012345678901234567890".into()),
        4 => text(base64_of(some(chance, &[192, 300, 3000, 150_000]))),
        5 => text(format!("before {} after", base64_of(some(chance, &[300, 600])))),
        6 => FieldValue::Json(super::records::blobs::value(chance)),
        7 => {
            let deep = some(chance, &[3usize, 60, 125]);
            FieldValue::Json(format!("{}\"x\"{}", "[".repeat(deep), "]".repeat(deep)))
        }
        8 => FieldValue::Json(
            json!({ "photo": base64_of(600), "list": (0..chance.below(400)).collect::<Vec<_>>() })
                .to_string(),
        ),
        _ => {
            let unit = pick(chance, &units);
            let chars = some(
                chance,
                &[0, 1, 40, 159, 160, 161, 511, 512, 513, 1024, 4096, 4097, 16_384, 20_000, most],
            )
            .min(most);
            text(unit.chars().cycle().take(chars).collect::<String>())
        }
    }
}

/// Makes a world of everything that is hard to show.
pub(super) fn hostile(chance: &mut Chance, most: usize) -> World {
    let (keys, names) = (keys(), names());
    let sources = [("Zeta", "messages"), ("a-mail", "messages"), ("a-mail", "notes")].map(
        |(connection, name)| {
            let records = (0..2 + chance.below(7)).map(|_| {
                let mut fields: RecordFields = Vec::new();
                for name in &names {
                    if chance.happens(35) {
                        fields.push((name.clone(), value(chance, most)));
                    }
                }
                (some(chance, &keys), fields)
            });
            let mut own = stream(connection, name, records.collect());
            own.decl.fields.iter_mut().for_each(|field| *field = declared(&field.name));
            own
        },
    );
    World { sources: sources.to_vec() }
}
