//! The fields of a record, the obvious way: all of them are written down, and then there are as
//! many as fit.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};
use stile_domain::records::value::FieldValue;

use super::super::model::{Decl, FieldDecl, time_of_text};
use super::{
    EMITTED, INVALID, J, Params, Rec, Refusal, Seen, Source, digest_of, is_binary,
    members_and_nested, put, text_of,
};

/// How a record is cut.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    chars: Option<u64>,
    bytes: Option<u64>,
    /// So many fields were told before.
    before: usize,
}

impl Params {
    /// That nothing is sent without what it needs.
    pub(super) fn bounded(&self) -> Result<(), Refusal> {
        let [chars, bytes] =
            ["preview_chars", "preview_bytes"].map(|name| self.number(name).is_some());
        let cursor = self.text("fields_cursor").is_some();
        if bytes && !chars || cursor && !bytes { Err(INVALID) } else { Ok(()) }
    }

    pub(crate) fn cut(&self, before: usize) -> Cut {
        Cut { chars: self.number("preview_chars"), bytes: self.number("preview_bytes"), before }
    }
}

/// A field as it is told.
struct Told<'a> {
    name: &'a str,
    value: J,
    /// The value as it is written.
    written: String,
    preview: Option<Json>,
}

impl Told<'_> {
    /// What it has of the members of `data`, and of those of `previews`.
    fn sizes(&self) -> (usize, usize) {
        let name = json!(self.name).to_string().len() + ":".len();
        (
            name + self.written.len(),
            self.preview.as_ref().map_or(0, |preview| name + preview.to_string().len()),
        )
    }
}

fn told<'a>(decl: &Decl, name: &'a str, value: &FieldValue, preview: Option<u64>) -> Told<'a> {
    let (text, binary) = (text_of(value), is_binary(decl, name, value));
    let size = text.chars().count() as u64;
    let is_text = matches!(value, FieldValue::Text(_));
    let can_be_cut =
        matches!(value, FieldValue::Text(_) | FieldValue::Json(_)) && !super::is_only_a_blob(value);
    let Some(most) = preview.filter(|most| can_be_cut && (binary || size > *most)) else {
        let written = if is_text { json!(text).to_string() } else { text };
        return Told { name, value: J::of_value(value), written, preview: None };
    };
    let mut told = json!({
        "shown_chars": if binary { 0 } else { most }, "size_chars": size, "text_like": is_text && !binary,
        "mime_type": if binary { "application/octet-stream" } else if is_text { "text/plain" } else { "application/json" },
    });
    if binary {
        told["encoding"] = "base64".into();
        told["size_bytes"] = (text.trim_end_matches('=').len() * 3 / 4).into();
    } else {
        told["digest"] = digest_of(&text).into();
    }
    let beginning = if binary {
        Json::Null
    } else {
        json!(text.chars().take(most as usize).collect::<String>())
    };
    Told { name, value: J::of(&beginning), written: beginning.to_string(), preview: Some(told) }
}

pub(crate) fn shown(
    seen: &Seen<'_>,
    key: &str,
    record: &Rec,
    wanted: Option<&BTreeSet<String>>,
    cut: Cut,
) -> J {
    let Source { connection, stream, .. } = seen.source;
    let mut shown = J::of(&json!({
        "object": "record", "id": key, "stream": stream, "connection_id": connection,
        "connector_instance_id": connection, "emitted_at": EMITTED[record.emitted].1,
    }));
    let is_told =
        |name: &str| seen.field(name) && wanted.is_none_or(|wanted| wanted.contains(name));
    let all: Vec<Told<'_>> = record
        .fields
        .iter()
        .filter(|(name, _)| is_told(name))
        .map(|(name, value)| told(&seen.source.decl, name, value, cut.chars))
        .collect();
    let left = &all[cut.before..];
    let fitting = cut.bytes.map_or(left.len(), |most| {
        let most = most as usize;
        (1..=left.len())
            .take_while(|count| *count == 1 || size(&left[..*count]) <= most)
            .last()
            .unwrap_or(0)
    });
    let (mut data, mut previews) = (BTreeMap::new(), Map::new());
    for told in &left[..fitting] {
        data.insert(told.name.to_owned(), told.value.clone());
        previews.extend(told.preview.clone().map(|preview| (told.name.to_owned(), preview)));
    }
    put(&mut shown, "data", J::Obj(data));
    if !previews.is_empty() {
        put(&mut shown, "previews", J::of(&Json::Object(previews)));
    }
    let marks: Map<String, Json> = left[..fitting]
        .iter()
        .filter_map(|told| {
            let field = seen.source.decl.field(told.name)?;
            let own = record.field(told.name)?;
            (!admits(field, own)).then(|| (told.name.to_owned(), declared(field).into()))
        })
        .take(16)
        .collect();
    if !marks.is_empty() {
        put(&mut shown, "not_as_declared", J::of(&Json::Object(marks)));
    }
    let long: Map<String, Json> = left[..fitting]
        .iter()
        .filter(|told| {
            let is_list = seen.source.decl.field(told.name).is_some_and(FieldDecl::is_list);
            let own = record.field(told.name);
            is_list && matches!(own, Some(FieldValue::Json(json)) if json.len() > 1024)
        })
        .map(|told| (told.name.to_owned(), "a list longer than 1024 bytes".into()))
        .take(16)
        .collect();
    if !long.is_empty() {
        put(&mut shown, "not_looked_into", J::of(&Json::Object(long)));
    }
    if fitting < left.len() {
        let more = json!({ "shown": cut.before + fitting, "total": all.len() });
        put(&mut shown, "more_fields", J::of(&more));
    }
    shown
}

/// Whether a value has the declared type and is a time where one is declared.
fn admits(field: &FieldDecl, value: &FieldValue) -> bool {
    let has = |kinds: &[&str]| field.types().iter().any(|kind| kinds.contains(kind));
    match value {
        FieldValue::Null => true,
        FieldValue::Bool(_) => has(&["boolean"]),
        FieldValue::Number(_) => has(&["number", "integer"]),
        FieldValue::Text(text) => {
            has(&["string"]) && (!field.is_time() || time_of_text(text).is_some())
        }
        // What a long value is, is not looked at.
        FieldValue::Json(json) if json.len() > 1024 => has(&["array", "object"]),
        FieldValue::Json(json) if json.starts_with('[') => {
            let of = field.member_types();
            let fits = |member: &FieldValue| match member {
                FieldValue::Null => true,
                FieldValue::Bool(_) => of.contains(&"boolean"),
                FieldValue::Number(_) => of.contains(&"number") || of.contains(&"integer"),
                FieldValue::Text(_) => of.contains(&"string"),
                FieldValue::Json(_) => false,
            };
            has(&["array"]) && (!field.is_list() || members_and_nested(value).iter().all(fits))
        }
        FieldValue::Json(_) => has(&["object"]),
    }
}

/// The declared type in words.
fn declared(field: &FieldDecl) -> String {
    if field.is_time() {
        let is_date = field.schema["format"] == "date";
        return if is_date { "a date" } else { "a date and time" }.to_owned();
    }
    let named = |types: &[&str], words: &[(&str, &[&str])]| {
        let has = |kinds: &[&str]| kinds.iter().any(|kind| types.contains(kind));
        let words: Vec<&str> =
            words.iter().filter(|(_, kinds)| has(kinds)).map(|(word, _)| *word).collect();
        if words.is_empty() { "null".to_owned() } else { words.join(" or ") }
    };
    if field.is_list() {
        let words = [
            ("texts", &["string"][..]),
            ("numbers", &["number", "integer"]),
            ("true or false", &["boolean"]),
        ];
        return format!("a list of {}", named(&field.member_types(), &words));
    }
    let words = [
        ("text", &["string"][..]),
        ("a number", &["number", "integer"]),
        ("true or false", &["boolean"]),
        ("a list", &["array"]),
        ("an object", &["object"]),
    ];
    named(&field.types(), &words)
}

/// The bytes of the members of `data` and of `previews`, with the commas between them.
fn size(fields: &[Told<'_>]) -> usize {
    let (data, previews): (Vec<usize>, Vec<usize>) = fields.iter().map(Told::sizes).unzip();
    [data, previews]
        .into_iter()
        .map(|sizes| {
            let sizes: Vec<usize> = sizes.into_iter().filter(|size| *size > 0).collect();
            sizes.iter().sum::<usize>() + sizes.len().saturating_sub(1)
        })
        .sum()
}
