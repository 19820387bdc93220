//! Random worlds: connections with streams, records with a history, and grants over them.
//!
//! Everything is drawn from small pools, so that what hides a bug happens often: the same key in
//! several connections, equal times written differently, values a byte longer than those that stay
//! in the record.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value as Json, json};
use stile_domain::records::declaration::Declaration;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::infer::{Inference, KeyChoice};
use stile_domain::records::instant::Instant;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::RecordService;
use stile_records::declarations::indexed_fields;
use stile_store::records::IncomingRecord;
use stile_store::store_copy::StoreCopy;
use stile_testkit::chance::Chance;

use super::home::{Home, StoredGrant, TestRecords};
use super::owner;

pub(crate) const STREAMS: &[&str] = &["messages", "notes", "tx.2026"];
pub(crate) const CONNECTIONS: &[&str] = &["Zeta", "a-mail", "b.mail"];
const SECOND: i64 = 1_000_000;
pub(crate) const NEW_YEAR: i64 = 1_767_225_600 * SECOND;
/// When the requests are made.
pub(crate) const NOW: i64 = NEW_YEAR + 86_400 * 30 * SECOND;

/// What records say of their time, and when that is. Worked out by hand.
pub(crate) const TIMES: &[(&str, Option<i64>)] = &[
    ("2026-01-01", Some(NEW_YEAR)),
    ("2026-01-01T00:00:00Z", Some(NEW_YEAR)),
    ("2026-01-01T02:00:00+02:00", Some(NEW_YEAR)),
    ("2026-01-02T03:04:05.123456Z", Some(1_767_323_045 * SECOND + 123_456)),
    ("2026-01-02t03:04:05.1234569z", Some(1_767_323_045 * SECOND + 123_456)),
    ("2025-12-31 23:59", Some(1_767_225_540 * SECOND)),
    ("2026-01-03", Some(1_767_398_400 * SECOND)),
    ("2026-01-01T00:00:60Z", Some(1_767_225_660 * SECOND)),
    ("2026-01-01T00:01:00Z", Some(1_767_225_660 * SECOND)),
    ("1969-07-20T20:17:40Z", Some(-14_182_940 * SECOND)),
    ("2026-02-30", None),
    ("soon", None),
    ("2026-01-01T", None),
    ("2026-1-1", None),
    ("", None),
];

/// When records were ingested, and how that is written.
pub(crate) const EMITTED: &[(i64, &str)] = &[
    (0, "1970-01-01T00:00:00Z"),
    (NEW_YEAR, "2026-01-01T00:00:00Z"),
    (NEW_YEAR + 123_000, "2026-01-01T00:00:00.123Z"),
    (NEW_YEAR + 123_456, "2026-01-01T00:00:00.123456Z"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    Short,
    Time,
    Number,
    Long,
    Binary,
    Nested,
    List,
    Flag,
    Any,
}

/// The fields that there can be.
pub(crate) static FIELDS: LazyLock<Vec<(String, Flavour)>> = LazyLock::new(|| {
    use Flavour::{Any, Binary, Flag, List, Long, Nested, Number, Short, Time};
    [
        ("id", Short),
        ("at", Time),
        ("day", Time),
        ("n", Number),
        ("text", Long),
        ("x.y", Short),
        ("b[0]", Number),
        ("q\"uote", Any),
        ("naïve 🙂", Time),
        ("raw", Binary),
        ("nested", Nested),
        ("tags", List),
        ("c,d", Short),
        ("flag", Flag),
        ("k", Number),
        ("k][gt", Number),
        ("blob", Nested),
        (&"ü".repeat(256), Long),
        ("title", Long),
        ("name", Any),
        ("subject", Short),
        ("summary", Long),
    ]
    .into_iter()
    .map(|(name, flavour)| (name.to_owned(), flavour))
    .collect()
});

/// The keys that there can be.
pub(crate) static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let long = "long-".repeat(40);
    let mut keys: Vec<String> = [
        "a", "A", "b", "a/b", "..", ".", "with space", "q\"uo'te\\", "🙂", "é", "[\"a\",\"b\"]",
        "%2F", "n\0l", "中", "1", "true", "null",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    keys.extend([
        "k".repeat(512),
        "ä".repeat(256),
        format!("{long}1"),
        format!("{long}2"),
        "x".repeat(96),
    ]);
    keys
});

pub(crate) const NUMBERS: &[&str] = &[
    "0", "-0", "1", "1.0", "10", "1e1", "-5", "0.1", "1.5e-7", "9007199254740993",
    "9007199254740992", "9007199254740992.0", "12345678901234567890123", "1E400",
];
pub(crate) const SHORTS: &[&str] = &[
    "", "a", "A", "null", "true", "1", "é", "É", "e\u{301}", "中文", "👩‍👧", "x\r\ny", "a\0b",
    "ſtraße K", "ΣΑΣ σας", "<b>&amp;</b>",
];

pub(crate) fn pick<'a, T: ?Sized>(chance: &mut Chance, items: &[&'a T]) -> &'a T {
    items[chance.below(items.len())]
}

pub(crate) fn some<T: Clone>(chance: &mut Chance, items: &[T]) -> T {
    items[chance.below(items.len())].clone()
}

pub(crate) fn shuffle<T>(chance: &mut Chance, items: &mut [T]) {
    for at in (1..items.len()).rev() {
        items.swap(at, chance.below(at + 1));
    }
}

pub(crate) fn time_of_text(text: &str) -> Option<i64> {
    TIMES.iter().find(|(written, _)| *written == text).and_then(|(_, time)| *time)
}

/// A text of exactly so many bytes or characters around a bound that matters.
fn long_text(chance: &mut Chance) -> String {
    let unit = pick(chance, &["a", "lorem IPSUM ", "中", "👩‍👧 e\u{301}\r\n", "x\0y ", "ΑΣ ſ "]);
    if chance.happens(65) {
        let bytes = some(chance, &[1023, 1024, 1025, 1100]);
        let mut text = unit.repeat(bytes / unit.len());
        text.push_str(&".".repeat(bytes - text.len()));
        return text;
    }
    let chars = some(chance, &[1025usize, 4095, 4097, 8191, 8192, 8193, 16_384, 16_390]);
    let mut text: String = unit.chars().cycle().take(chars).collect();
    if chance.happens(60) {
        // Something to find, over the end of a piece now and then.
        let at = some(chance, &[0, chars / 2, 8190.min(chars), chars]);
        let byte = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
        text.insert_str(byte, "Needle ſtÉ");
    }
    text
}

fn binary(chance: &mut Chance) -> String {
    let length = some(chance, &[4usize, 5, 6, 252, 255, 256, 260, 1024, 1028, 9000]);
    let letters = pick(chance, &["QUJD+/09", "aaab", "AB-_9z"]);
    let mut text: String = letters.chars().cycle().take(length).collect();
    if chance.happens(50) {
        let padding = pick(chance, &["=", "=="]);
        text.replace_range(length - padding.len().., padding);
    }
    text
}

fn nested(chance: &mut Chance) -> String {
    if chance.happens(30) {
        return super::blobs::value(chance);
    }
    if chance.happens(15) {
        return format!(
            "[{}\"end\"]",
            "{\"b\":1.50,\"a\":[null,\"é\"]},".repeat(some(chance, &[30, 37, 38, 400]))
        );
    }
    pick(
        chance,
        &[
            "[]",
            "{}",
            "[1,2.50,\"x\",null]",
            "{\"b\":1,\"a\":{\"c\":[true,\"🙂\"]}}",
            "{\"blob_id\":\"b1\",\"mime_type\":\"image/png\",\"size_bytes\":3}",
            "{\"blob_id\":7,\"mime_type\":\"image/png\"}",
        ],
    )
    .to_owned()
}

fn list(chance: &mut Chance) -> String {
    if chance.happens(5) {
        return json!(vec!["a"; some(chance, &[255, 256, 257])]).to_string();
    }
    let member = |chance: &mut Chance| match chance.below(8) {
        0 => json!(1),
        1 => json!(2.5),
        2 => some(chance, &[Json::Null, json!(true), json!(["a"])]),
        _ => pick(chance, SHORTS).into(),
    };
    let count = chance.below(4);
    Json::from_iter((0..count).map(|_| member(chance))).to_string()
}

pub(crate) fn value(chance: &mut Chance, flavour: Flavour) -> FieldValue {
    if chance.happens(6) {
        return FieldValue::Null;
    }
    match flavour {
        Flavour::Any => {
            use Flavour::{Binary, Flag, List, Long, Nested, Number, Short, Time};
            let flavour = some(chance, &[Short, Time, Number, Long, Binary, Nested, List, Flag]);
            value(chance, flavour)
        }
        _ if chance.happens(8) => value(chance, Flavour::Any),
        Flavour::Short => FieldValue::Text(pick(chance, SHORTS).to_owned()),
        // Too long to be a time anywhere: a store would have to read pieces to know when a record
        // happened.
        Flavour::Time if chance.happens(2) => {
            FieldValue::Text(format!("2026-01-01T00:00:00.{}Z", "0".repeat(1100)))
        }
        Flavour::Time => FieldValue::Text(some(chance, TIMES).0.to_owned()),
        Flavour::Number => FieldValue::Number(pick(chance, NUMBERS).into()),
        Flavour::Long if chance.happens(22) => FieldValue::Text(long_text(chance)),
        Flavour::Long => FieldValue::Text(pick(chance, SHORTS).to_owned()),
        Flavour::Binary => FieldValue::Text(binary(chance)),
        Flavour::Nested => FieldValue::Json(nested(chance)),
        Flavour::List => FieldValue::Json(list(chance)),
        Flavour::Flag => FieldValue::Bool(chance.happens(50)),
    }
}

/// The field that often has the key of another record.
const REFERENCE: &str = "x.y";
const REFERRED: [&str; 3] = ["a", "1", "null"];

pub(crate) fn fields(chance: &mut Chance) -> RecordFields {
    let mut fields: RecordFields = Vec::new();
    for (name, flavour) in FIELDS.iter() {
        if name == REFERENCE && chance.happens(80) {
            fields.push((name.clone(), FieldValue::Text(pick(chance, &REFERRED).to_owned())));
        } else if chance.happens(75) {
            fields.push((name.clone(), value(chance, *flavour)));
        }
    }
    shuffle(chance, &mut fields);
    fields
}

/// A field as it is declared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldDecl {
    pub(crate) name: String,
    pub(crate) schema: Json,
    /// Only looked at where the declaration lists the fields for exact filters.
    pub(crate) exact: bool,
    pub(crate) ops: Vec<String>,
    pub(crate) lexical: bool,
    pub(crate) aggregations: Vec<String>,
}

pub(crate) const OPS: &[&str] = &["gte", "gt", "lte", "lt"];
pub(crate) const AGGREGATIONS: &[&str] =
    &["sum", "min", "max", "group_by", "group_by_time", "count_distinct"];
pub(crate) const TYPES: &[&str] =
    &["string", "number", "integer", "boolean", "array", "object", "null"];

impl FieldDecl {
    pub(crate) fn types(&self) -> Vec<&'static str> {
        let named: Vec<&str> = match &self.schema["type"] {
            Json::String(kind) => vec![kind],
            Json::Array(kinds) => kinds.iter().filter_map(Json::as_str).collect(),
            _ => TYPES.to_vec(),
        };
        TYPES.iter().copied().filter(|kind| named.contains(kind)).collect()
    }

    /// The types of the members of a list; none if the field holds other values too.
    pub(crate) fn member_types(&self) -> Vec<&'static str> {
        let items = &self.schema["items"]["type"];
        let named: Vec<&str> = match items {
            Json::String(kind) => vec![kind],
            Json::Array(kinds) => kinds.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        };
        TYPES.iter().copied().filter(|kind| named.contains(kind)).collect()
    }

    pub(crate) fn is_list(&self) -> bool {
        !self.member_types().is_empty()
    }

    /// Whether values or members can be compared.
    pub(crate) fn is_comparable(&self) -> bool {
        self.is_scalar() || self.is_list()
    }

    pub(crate) fn is_scalar(&self) -> bool {
        !self.types().iter().any(|kind| matches!(*kind, "array" | "object"))
    }

    fn only(&self, kinds: &[&str]) -> bool {
        let types = self.types();
        types.iter().all(|kind| *kind == "null" || kinds.contains(kind))
            && types.iter().any(|kind| *kind != "null")
    }

    pub(crate) fn is_time(&self) -> bool {
        self.schema["format"].is_string() && self.only(&["string"])
    }

    fn is_number(&self) -> bool {
        self.only(&["integer", "number"])
    }
}

/// A declaration, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decl {
    pub(crate) fields: Vec<FieldDecl>,
    pub(crate) exact_given: bool,
    pub(crate) key: Vec<String>,
    pub(crate) cursor: Option<String>,
    pub(crate) consent: Option<String>,
    pub(crate) required: Vec<String>,
    pub(crate) extra: Map<String, Json>,
}

impl Decl {
    pub(crate) fn field(&self, name: &str) -> Option<&FieldDecl> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(crate) fn is_time(&self, name: &str) -> bool {
        self.field(name).is_some_and(FieldDecl::is_time)
    }

    pub(crate) fn exact(&self, field: &FieldDecl) -> bool {
        if self.exact_given { field.exact } else { field.is_comparable() }
    }

    pub(crate) fn to_json(&self) -> Json {
        let names = |fits: &dyn Fn(&FieldDecl) -> bool| -> Vec<&str> {
            self.fields
                .iter()
                .filter(|field| fits(field))
                .map(|field| field.name.as_str())
                .collect()
        };
        let properties: Map<String, Json> =
            self.fields.iter().map(|field| (field.name.clone(), field.schema.clone())).collect();
        let ranges: Map<String, Json> = self
            .fields
            .iter()
            .filter(|field| !field.ops.is_empty())
            .map(|field| (field.name.clone(), json!(field.ops)))
            .collect();
        let aggregations: Map<String, Json> = AGGREGATIONS
            .iter()
            .map(|kind| {
                (
                    (*kind).to_owned(),
                    json!(names(&|field| field.aggregations.iter().any(|own| own == kind))),
                )
            })
            .collect();
        let mut query = json!({
            "range_filters": ranges, "search": { "lexical_fields": names(&|field| field.lexical) },
            "aggregations": aggregations,
        });
        if self.exact_given {
            query["exact_filters"] = json!(names(&|field| field.exact));
        }
        let mut made = json!({
            "schema": { "type": "object", "properties": properties, "required": self.required },
            "primary_key": self.key, "cursor_field": self.cursor, "consent_time_field": self.consent, "query": query,
        });
        let mut extra = self.extra.clone();
        if let Some(expand) = extra.remove("expand") {
            made["query"]["expand"] = expand;
        }
        made.as_object_mut().unwrap().extend(extra);
        made
    }

    /// Takes apart what an inference made.
    fn of(json: &Json) -> Self {
        let list = |json: &Json| -> Vec<String> {
            json.as_array()
                .into_iter()
                .flatten()
                .map(|name| name.as_str().unwrap().to_owned())
                .collect()
        };
        let query = &json["query"];
        let lexical = list(&query["search"]["lexical_fields"]);
        let text = |json: &Json| json.as_str().map(str::to_owned);
        let fields =
            json["schema"]["properties"].as_object().unwrap().iter().map(|(name, schema)| {
                FieldDecl {
                    name: name.clone(),
                    schema: schema.clone(),
                    exact: false,
                    ops: list(&query["range_filters"][name]),
                    lexical: lexical.contains(name),
                    aggregations: AGGREGATIONS
                        .iter()
                        .filter(|kind| list(&query["aggregations"][**kind]).contains(name))
                        .map(|kind| (*kind).to_owned())
                        .collect(),
                }
            });
        Self {
            fields: fields.collect(),
            exact_given: false,
            key: list(&json["primary_key"]),
            cursor: text(&json["cursor_field"]),
            consent: text(&json["consent_time_field"]),
            required: Vec::new(),
            extra: Map::new(),
        }
    }
}

pub(crate) fn field_decl(chance: &mut Chance, name: &str, flavour: Flavour) -> FieldDecl {
    let schema = match flavour {
        Flavour::Time => match chance.below(5) {
            0 => json!({ "type": "string", "format": "date" }),
            1 => {
                json!({ "type": ["string", "null"], "format": "date-time", "description": "when" })
            }
            2 => json!({ "type": "string" }),
            _ => json!({ "type": "string", "format": "date-time" }),
        },
        Flavour::Number => some(
            chance,
            &[
                json!({ "type": "number" }),
                json!({ "type": ["integer", "null"] }),
                json!({ "type": "integer" }),
            ],
        ),
        Flavour::Nested => some(chance, &[json!({ "type": ["array", "object"] }), json!({})]),
        Flavour::List => some(
            chance,
            &[
                json!({ "type": "array", "items": { "type": "string" } }),
                json!({ "type": ["array", "null"], "items": { "type": ["string", "number"] } }),
            ],
        ),
        Flavour::Flag => json!({ "type": "boolean" }),
        Flavour::Binary => some(
            chance,
            &[
                json!({ "type": "string", "contentEncoding": "base64" }),
                json!({ "type": ["string", "null"], "contentEncoding": "base64url" }),
                json!({ "type": "string" }),
            ],
        ),
        Flavour::Any => {
            some(chance, &[json!({}), json!({ "type": ["string", "number", "boolean", "null"] })])
        }
        _ => some(chance, &[json!({ "type": "string" }), json!({ "type": ["string", "null"] })]),
    };
    let mut field = FieldDecl {
        name: name.to_owned(),
        schema,
        exact: false,
        ops: Vec::new(),
        lexical: false,
        aggregations: Vec::new(),
    };
    field.exact = field.is_comparable() && chance.happens(70);
    if field.is_time() || field.is_number() {
        field.ops = OPS.iter().filter(|_| chance.happens(70)).map(|op| (*op).to_owned()).collect();
    }
    let has_text = |types: Vec<&str>| types.contains(&"string");
    let has_words = has_text(field.types()) || has_text(field.member_types());
    field.lexical = has_words && chance.happens(60);
    let fits = |kind: &str| match kind {
        "sum" => field.is_number(),
        "min" | "max" => field.is_number() || field.is_time(),
        "group_by_time" => field.is_time(),
        _ => field.is_comparable(),
    };
    field.aggregations = AGGREGATIONS
        .iter()
        .filter(|kind| fits(kind) && chance.happens(50))
        .map(|kind| (*kind).to_owned())
        .collect();
    field
}

/// What a declaration says beside its fields. Under `expand` stands what belongs into its `query`.
pub(crate) fn extra(chance: &mut Chance, fields: &[FieldDecl]) -> Map<String, Json> {
    let mut extra = Map::new();
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    let scalars: Vec<&str> =
        fields.iter().filter(|field| field.is_scalar()).map(|field| field.name.as_str()).collect();
    if chance.happens(60) && !names.is_empty() {
        let mut list =
            || -> Vec<&str> { names.iter().copied().filter(|_| chance.happens(40)).collect() };
        let mut views =
            json!([{ "id": "v", "label": "V", "fields": list() }, { "id": "w", "fields": list() }]);
        if chance.happens(10) {
            views[1] = json!({ "id": "w" });
        }
        extra.insert("views".into(), views);
    }
    if chance.happens(70) && !scalars.is_empty() {
        let mut reference = |others: &[&str], fits: bool| {
            if fits && chance.happens(85) {
                REFERENCE.to_owned()
            } else {
                pick(chance, others).to_owned()
            }
        };
        let of_many = reference(&["id", "n", "text", "q\"uote", "nothing"], true);
        let of_one = reference(&scalars, scalars.contains(&REFERENCE));
        let mut many = json!({
            "name": "r", "stream": pick(chance, STREAMS), "foreign_key": of_many, "cardinality": "has_many",
        });
        if chance.happens(10) {
            many["cardinality"] = Json::Null;
        }
        let one = json!({
            "name": "one", "stream": pick(chance, STREAMS), "foreign_key": of_one, "cardinality": "has_one",
        });
        extra.insert("relationships".into(), json!([many, one]));
        let limits = some(
            chance,
            &[json!({}), json!({ "max_limit": 2 }), json!({ "default_limit": 1, "max_limit": 3 })],
        );
        let mut expand = vec![limits, json!({ "name": "one" })];
        expand[0]["name"] = "r".into();
        expand.truncate(some(chance, &[1, 2, 2, 2]));
        extra.insert("expand".into(), expand.into());
    }
    if chance.happens(40) {
        // A manifest says this of its own stream, and is not asked here.
        extra.insert("name".into(), "elsewhere".into());
        extra.insert("connection_id".into(), "elsewhere".into());
    }
    if chance.happens(40) {
        extra.insert("semantics".into(), some(chance, &["append_only", "mutable_state"]).into());
    }
    extra
}

/// Draws some of these fields, or none.
fn maybe(chance: &mut Chance, percent: usize, names: &[&str]) -> Option<String> {
    (!names.is_empty() && chance.happens(percent)).then(|| pick(chance, names).to_owned())
}

fn decl(chance: &mut Chance) -> Decl {
    let mut fields = Vec::new();
    for (name, flavour) in FIELDS.iter() {
        if chance.happens(80) {
            fields.push(field_decl(chance, name, *flavour));
        }
    }
    shuffle(chance, &mut fields);
    let scalars: Vec<&str> =
        fields.iter().filter(|field| field.is_scalar()).map(|field| field.name.as_str()).collect();
    let times: Vec<&str> =
        fields.iter().filter(|field| field.is_time()).map(|field| field.name.as_str()).collect();
    let cursor =
        if chance.happens(60) { maybe(chance, 90, &times) } else { maybe(chance, 70, &scalars) };
    let consent = maybe(chance, 75, &times);
    let consent = if chance.happens(50) {
        cursor.clone().filter(|name| times.contains(&name.as_str()))
    } else {
        consent
    };
    let mut key: Vec<String> = Vec::new();
    for name in &scalars {
        if chance.happens(15) {
            key.push((*name).to_owned());
        }
    }
    let required =
        fields.iter().filter(|_| chance.happens(10)).map(|field| field.name.clone()).collect();
    Decl {
        exact_given: chance.happens(30),
        key,
        cursor,
        consent,
        required,
        extra: extra(chance, &fields),
        fields,
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rec {
    /// Which of [`EMITTED`].
    pub(crate) emitted: usize,
    pub(crate) fields: RecordFields,
    /// Its place among all records, by when they were first ingested.
    pub(crate) born: u64,
}

impl Rec {
    pub(crate) fn field(&self, name: &str) -> Option<&FieldValue> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    pub(crate) fn time(&self, name: &str) -> Option<i64> {
        match self.field(name) {
            Some(FieldValue::Text(text)) => time_of_text(text),
            _ => None,
        }
    }
}

/// One connection's stream.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) connection: String,
    pub(crate) stream: String,
    pub(crate) decl: Decl,
    pub(crate) records: BTreeMap<String, Rec>,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) sources: Vec<Source>,
}

pub(crate) fn record(chance: &mut Chance) -> Rec {
    Rec {
        emitted: chance.below(EMITTED.len()),
        fields: fields(chance),
        born: chance.below(1 << 40) as u64,
    }
}

pub(crate) fn source(chance: &mut Chance, connection: &str, stream: &str) -> Source {
    let mut records = BTreeMap::new();
    for _ in 0..chance.below(13) {
        // Often one that other records refer to.
        let key = if chance.happens(40) {
            pick(chance, &REFERRED).to_owned()
        } else {
            some(chance, &KEYS)
        };
        records.insert(key, record(chance));
    }
    let decl = if chance.happens(25) && !records.is_empty() {
        let mut inference = Inference::new();
        records.values().for_each(|record| inference.observe(&record.fields));
        Decl::of(&inference.finish(KeyChoice::Infer).unwrap().declaration.to_json())
    } else {
        decl(chance)
    };
    Source { connection: connection.to_owned(), stream: stream.to_owned(), decl, records }
}

impl World {
    pub(crate) fn random(chance: &mut Chance) -> Self {
        let mut sources = Vec::new();
        while sources.is_empty() {
            for connection in CONNECTIONS {
                for stream in STREAMS {
                    if chance.happens(45) {
                        sources.push(source(chance, connection, stream));
                    }
                }
            }
        }
        Self { sources }
    }
}

/// What a grant says of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) stream: String,
    pub(crate) connections: Vec<String>,
    pub(crate) fields: Vec<String>,
    /// The field, since and until, the latter two as texts of [`TIMES`].
    pub(crate) time: Option<(String, Option<&'static str>, Option<&'static str>)>,
    pub(crate) keys: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) id: String,
    pub(crate) client: String,
    pub(crate) shares: Vec<Share>,
    pub(crate) expires: Option<&'static str>,
    pub(crate) single_use: bool,
    pub(crate) revoked: bool,
    pub(crate) bound: Option<String>,
    /// Stored instead of the terms.
    pub(crate) malformed: Option<String>,
}

impl Grant {
    /// A grant that counts.
    pub(crate) fn random(chance: &mut Chance, id: &str) -> Self {
        let mut shares = Vec::new();
        while shares.is_empty() {
            for stream in STREAMS.iter().chain(&["unknown"]) {
                if chance.happens(75) {
                    shares.push(Share::random(chance, stream));
                }
            }
        }
        Self {
            id: id.to_owned(),
            client: pick(chance, &["Cursor", "Ä client"]).to_owned(),
            shares,
            expires: some(chance, &[None, Some("2026-01-31T00:00:00.000001Z"), Some("2030-01-01")]),
            single_use: chance.happens(25),
            revoked: false,
            bound: None,
            malformed: None,
        }
    }

    pub(crate) fn terms(&self) -> String {
        if let Some(malformed) = &self.malformed {
            return malformed.clone();
        }
        let shares: Vec<Json> = self.shares.iter().map(Share::to_json).collect();
        json!({
            "version": "0.1.0", "issued_at": "2026-01-01T00:00:00Z", "client": { "client_id": self.client },
            "access_mode": if self.single_use { "single_use" } else { "continuous" },
            "streams": shares, "expires_at": self.expires,
        })
        .to_string()
    }

    pub(crate) fn share(&self, source: &Source) -> Option<&Share> {
        let named = |share: &&Share| {
            share.stream == source.stream && share.connections.contains(&source.connection)
        };
        self.shares.iter().find(named)
    }
}

impl Share {
    fn random(chance: &mut Chance, stream: &str) -> Self {
        let mut connections = Vec::new();
        while connections.is_empty() {
            connections.extend(
                CONNECTIONS
                    .iter()
                    .chain(&["nowhere"])
                    .filter(|_| chance.happens(70))
                    .map(|c| (*c).to_owned()),
            );
        }
        let mut fields = Vec::new();
        let percent = some(chance, &[20, 60, 90]);
        while fields.is_empty() {
            fields.extend(
                FIELDS.iter().filter(|_| chance.happens(percent)).map(|(name, _)| name.clone()),
            );
            if chance.happens(20) {
                fields.push("undeclared".to_owned());
            }
        }
        let time = chance.happens(50).then(|| {
            let field = pick(chance, &["at", "at", "day", "naïve 🙂", "text"]).to_owned();
            let mut bounds = [some(chance, &TIMES[..10]).0, some(chance, &TIMES[..10]).0];
            bounds.sort_by_key(|text| time_of_text(text));
            match chance.below(3) {
                0 => (field, Some(bounds[0]), None),
                1 => (field, None, Some(bounds[1])),
                _ => (field, Some(bounds[0]), Some(bounds[1])),
            }
        });
        let keys = chance.happens(30).then(|| {
            let mut keys: Vec<String> =
                KEYS.iter().filter(|_| chance.happens(40)).cloned().collect();
            keys.push("never there".to_owned());
            keys
        });
        Self { stream: stream.to_owned(), connections, fields, time, keys }
    }

    fn to_json(&self) -> Json {
        let mut json = json!({ "name": self.stream, "connection_ids": self.connections, "fields": self.fields });
        if let Some((field, since, until)) = &self.time {
            let mut time = json!({ "field": field });
            if let Some(since) = since {
                time["since"] = (*since).into();
            }
            if let Some(until) = until {
                time["until"] = (*until).into();
            }
            json["time_constraint"] = time;
        }
        if let Some(keys) = &self.keys {
            json["resources"] = json!(keys);
        }
        json
    }

    /// Whether a record may be seen.
    pub(crate) fn sees(&self, key: &str, record: &Rec) -> bool {
        if let Some(keys) = &self.keys
            && !keys.iter().any(|own| own == key)
        {
            return false;
        }
        let Some((field, since, until)) = &self.time else { return true };
        let Some(time) = record.time(field) else { return false };
        since.is_none_or(|since| time_of_text(since).unwrap() <= time)
            && until.is_none_or(|until| time < time_of_text(until).unwrap())
    }
}

/// A world in a database.
pub(crate) struct Stored {
    pub(crate) services: RecordService,
    pub(crate) place: TestRecords,
}

enum Op<'a> {
    /// The first `Put` of a record that stays; these happen in the order of their first number.
    Born(u64, usize, &'a str, usize, RecordFields),
    Put(usize, &'a str, usize, RecordFields),
    Delete(usize, &'a str),
}

/// When the record of a line is to be born, if it was not yet.
fn born(line: &[Op<'_>]) -> Option<u64> {
    line.iter().find_map(|op| match op {
        Op::Born(born, ..) => Some(*born),
        _ => None,
    })
}

impl Stored {
    /// Writes a world down with a history of its own: in another order, with records that are gone
    /// again and fields that were others before.
    pub(crate) fn new(chance: &mut Chance, world: &World, grants: &[Grant]) -> Self {
        Self::at(&Home::chosen(), chance, world, grants)
    }

    /// Copies the database to another engine.
    pub(crate) fn copied_to(&self, home: &Home) -> Self {
        let place = home.place();
        let copy = StoreCopy::open(&self.place.address(), &place.address(), Instant(NOW));
        let mut copy = copy.unwrap();
        while copy.step().unwrap().is_some() {}
        copy.verify(&mut |_| {}).unwrap();
        let services = RecordService::new(place.open(Instant(NOW)));
        Self { services, place }
    }

    /// Does what [`Stored::new`] does, in any engine.
    pub(crate) fn at(home: &Home, chance: &mut Chance, world: &World, grants: &[Grant]) -> Self {
        let place = home.place();
        let records = place.open(Instant(chance.below(1000) as i64));
        let mut lines: Vec<Vec<Op<'_>>> = Vec::new();
        for (at, source) in world.sources.iter().enumerate() {
            for (key, record) in &source.records {
                let mut line = Vec::new();
                if chance.happens(15) {
                    line.push(Op::Put(at, key, chance.below(EMITTED.len()), fields(chance)));
                    line.push(Op::Delete(at, key));
                }
                if chance.happens(25) {
                    line.push(Op::Born(record.born, at, key, record.emitted, fields(chance)));
                    line.push(Op::Put(at, key, chance.below(EMITTED.len()), record.fields.clone()));
                } else {
                    line.push(Op::Born(
                        record.born,
                        at,
                        key,
                        record.emitted,
                        record.fields.clone(),
                    ));
                }
                lines.push(line);
            }
            let gone = some(chance, &KEYS);
            if chance.happens(50)
                && let Some(gone) =
                    KEYS.iter().find(|key| **key == gone && !source.records.contains_key(*key))
            {
                lines.push(vec![Op::Put(at, gone, 0, fields(chance)), Op::Delete(at, gone)]);
            }
        }
        lines.iter_mut().for_each(|line| line.reverse());
        let mut ops = Vec::new();
        while !lines.is_empty() {
            let mut at = chance.below(lines.len());
            if let Some(Op::Born(..)) = lines[at].last() {
                at = (0..lines.len())
                    .min_by_key(|at| born(&lines[*at]).unwrap_or(u64::MAX))
                    .unwrap();
            }
            ops.extend(lines[at].pop());
            if lines[at].is_empty() {
                lines.swap_remove(at);
            }
        }
        let mut order: Vec<usize> = (0..world.sources.len()).collect();
        shuffle(chance, &mut order);
        let written = records.write_at(&owner().gate().owner().unwrap(), Instant(NOW), |batch| {
            for (_, bytes) in super::blobs::BLOBS.iter() {
                batch.put_blob(&mut bytes.as_slice())?.unwrap();
            }
            let mut targets = BTreeMap::new();
            for at in order {
                let Source { connection, stream, decl, .. } = &world.sources[at];
                let json = decl.to_json();
                // Once nobody looked at views and relationships.
                let declaration = Declaration::parse_stored(&json).unwrap();
                let (connection, stream) =
                    (SourceName::parse(connection).unwrap(), SourceName::parse(stream).unwrap());
                let text = json.to_string();
                targets.insert(
                    at,
                    batch.declare(&connection, &stream, &text, &indexed_fields(&declaration))?,
                );
            }
            for op in ops {
                match op {
                    Op::Put(at, key, emitted, fields) | Op::Born(_, at, key, emitted, fields) => {
                        let key = RecordKey::parse(key).unwrap();
                        let emitted = Instant(EMITTED[emitted].0);
                        let incoming = IncomingRecord {
                            key: &key,
                            emitted,
                            fields: &fields,
                            streamed: Vec::new(),
                        };
                        // Half of the records are prepared, as an import does it.
                        let target = &targets[&at];
                        let is_prepared = key.as_str().len().is_multiple_of(2);
                        let prepared = is_prepared.then(|| records.preparer(target));
                        match prepared.and_then(|preparer| preparer.prepare(&fields)) {
                            Some(mut prepared) => {
                                batch.upsert_prepared(target, &mut prepared, incoming)?
                            }
                            None => batch.upsert(target, incoming)?,
                        };
                    }
                    Op::Delete(at, key) => assert!(batch.delete(&targets[&at], key)?),
                }
            }
            Ok(())
        });
        written.unwrap();
        let stored = Self { services: RecordService::new(records), place };
        stored.keep(grants);
        stored
    }

    /// Stores a record of a source anew.
    pub(crate) fn put(&self, source: &Source, key: &str, fields: &RecordFields) {
        let written = self.services.records.write_at(
            &owner().gate().owner().unwrap(),
            Instant(NOW),
            |batch| {
                let (connection, stream) = (
                    SourceName::parse(&source.connection).unwrap(),
                    SourceName::parse(&source.stream).unwrap(),
                );
                let target = batch.target(&connection, &stream)?.unwrap();
                let key = RecordKey::parse(key).unwrap();
                batch.upsert(
                    &target,
                    IncomingRecord { key: &key, emitted: Instant(0), fields, streamed: Vec::new() },
                )
            },
        );
        written.unwrap();
    }

    /// The same database, opened anew.
    pub(crate) fn reopened(&self) -> RecordService {
        RecordService::new(self.place.open(Instant(NOW)))
    }

    /// Stores grants as they are, also those that the program would not make.
    pub(crate) fn keep(&self, grants: &[Grant]) {
        let terms: Vec<String> = grants.iter().map(Grant::terms).collect();
        let rows = grants.iter().zip(&terms).map(|(grant, terms)| StoredGrant {
            id: &grant.id,
            terms,
            revoked: grant.revoked.then_some(NOW - 1),
            bound: grant.bound.as_deref(),
        });
        self.place.keep_grants(&rows.collect::<Vec<_>>());
    }
}
