//! A record from the resource server, and what an answer shows of each field.
//!
//! Our own server truncates long values and says what is missing. Other servers may send whole
//! values, which are truncated here. References to bytes are shown without their addresses of
//! `/v1`, since a tool reads them. Values keep their spelling: a number that this program would
//! round is shown as its digits, and a value nested too deeply for clients is shown as its JSON
//! text.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use stile_domain::base64::embedded::base64_start;
pub(super) use stile_domain::base64::embedded::before_base64;
use stile_domain::base64::encoded_text::{self, EncodedText, HEAD_CHARS, TAIL_CHARS};
use stile_domain::hash::{ContentHash, hex};
use stile_domain::records::blob::{
    BlobId, FoundReference, found_references, is_blob_reference, media_type, without_addresses,
};
use stile_domain::records::record_id::RecordId;

use super::budget::{count_fitting, escaped_len, json_len, prefix_within};
use super::error::LadderError;
use super::exact_numbers::numbers_are_exact;
use super::record_reference::non_empty_connection;
use super::wire;

/// The most bytes of the marks of fields that do not have the declared type.
const MAX_MARKS_BYTES: usize = 512;
/// The most levels of arrays and objects in a value that is shown as such. Parsers stop at 64 or
/// 128 levels, and an answer adds some.
const MAX_SHOWN_DEPTH: usize = 32;

/// A record whose fields are ready to be shown.
#[derive(Clone, Debug)]
pub(super) struct RecordView {
    pub(super) id: RecordId,
    /// Members beside the fields: `emitted_at`, `occurs_on` and the like.
    pub(super) metadata: Map<String, Json>,
    pub(super) fields: Vec<FieldView>,
    /// Present if some fields were left out.
    pub(super) more: Option<MoreFields>,
    /// The cursor with which a list continues after this record.
    pub(super) cursor: Option<String>,
}

/// A field, complete or truncated.
#[derive(Clone, Debug)]
pub(super) struct FieldView {
    pub(super) name: String,
    /// The value, or the beginning of its text. Null for bytes.
    pub(super) value: Json,
    pub(super) cut: Option<Cut>,
    /// The JSON text of a complete array or object, or of a value shown by its digits.
    pub(super) written: Option<String>,
    /// The references to bytes within an array or object, as far as the server sent it.
    pub(super) references: Vec<FoundReference>,
}

/// What is missing of a truncated field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) shown_chars: u64,
    pub(super) size_chars: Option<u64>,
    pub(super) digest: Option<String>,
    pub(super) kind: CutKind,
    /// What a text seems to encode.
    pub(super) looks_like: Option<EncodedText>,
}

impl Cut {
    /// For JSON that the server sent whole.
    ///
    /// A window of the field may be spelled with other spaces, so an offset here is not an offset
    /// there. The field is therefore read from its beginning, in whatever version it has then.
    fn of_json() -> Self {
        let kind = CutKind::Json;
        Self { shown_chars: 0, size_chars: None, digest: None, kind, looks_like: None }
    }
}

/// What a truncated field contains.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CutKind {
    Text,
    /// Any other value, read as its JSON text.
    Json,
    Binary {
        mime_type: Option<String>,
        size_bytes: Option<u64>,
    },
}

/// How many fields a record shows of how many, and the cursor of the others.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct MoreFields {
    pub(super) shown: u64,
    pub(super) total: u64,
    pub(super) next_cursor: String,
}

/// A record in a response.
#[derive(Deserialize)]
pub(super) struct WireRecord<'a> {
    id: String,
    stream: Option<String>,
    connection_id: Option<String>,
    #[serde(borrow, default)]
    data: Option<WireData<'a>>,
    #[serde(default, deserialize_with = "wire::null_as_default")]
    previews: WirePreviews,
    more_fields: Option<MoreFields>,
    cursor: Option<String>,
    emitted_at: Option<Json>,
    deleted: Option<bool>,
    deleted_at: Option<Json>,
    not_as_declared: Option<Json>,
    not_looked_into: Option<Json>,
    occurs_on: Option<Json>,
}

/// The members of `data`, in their order and spelling.
#[derive(Default)]
struct WireData<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for WireData<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = WireData<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WireData<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(WireData(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// The previews of a record by field name.
type WirePreviews = BTreeMap<String, Option<WirePreview>>;

/// A preview in a response.
#[derive(Deserialize)]
struct WirePreview {
    shown_chars: u64,
    size_chars: Option<u64>,
    size_bytes: Option<u64>,
    digest: Option<String>,
    text_like: Option<bool>,
    mime_type: Option<String>,
    encoding: Option<String>,
    looks_like: Option<WireEncoded>,
}

/// What the server guesses that a text encodes.
#[derive(Deserialize)]
struct WireEncoded {
    mime_type: String,
    size_bytes: u64,
}

impl RecordView {
    /// Reads a record of `stream` from a response. Keeps at most `most` scalar values of a field
    /// that the server sent whole.
    ///
    /// # Errors
    /// `provider_error` if a field is not valid, or if a record that is not deleted has no data.
    pub(super) fn from_wire(
        record: WireRecord<'_>,
        stream: &str,
        connection: Option<&str>,
        max_chars: usize,
    ) -> Result<Self, LadderError> {
        let mut metadata = Map::new();
        let mut put = |name: &str, value: Option<Json>| {
            if let Some(value) = value {
                metadata.insert(name.to_owned(), value);
            }
        };
        put("emitted_at", record.emitted_at);
        put("deleted", record.deleted.map(Json::from));
        put("deleted_at", record.deleted_at);
        let is_short = |marks: &Json| json_len(marks) <= MAX_MARKS_BYTES;
        put("not_as_declared", record.not_as_declared.filter(is_short));
        put("not_looked_into", record.not_looked_into.filter(is_short));
        put("occurs_on", record.occurs_on.filter(is_short));
        let mut previews = record.previews;
        let is_deleted = record.deleted == Some(true);
        let data = record.data.or_else(|| is_deleted.then(WireData::default));
        let fields =
            data.ok_or_else(LadderError::invalid_response)?.0.into_iter().map(|(name, raw)| {
                let preview = previews.remove(&name).flatten();
                field_from_wire(name, raw.get(), preview, max_chars)
            });
        let mut fields =
            fields.collect::<Option<Vec<_>>>().ok_or_else(LadderError::invalid_response)?;
        keep_last_of_each_name(&mut fields);
        let connection =
            non_empty_connection(record.connection_id).or_else(|| connection.map(str::to_owned));
        let stream = record.stream.unwrap_or_else(|| stream.to_owned());
        Ok(Self {
            id: RecordId { connection, stream, key: record.id },
            metadata,
            fields,
            more: record.more_fields,
            cursor: record.cursor,
        })
    }
}

impl RecordView {
    /// Returns the length of the names and shown values as JSON, in bytes.
    pub(super) fn len(&self) -> usize {
        self.fields.iter().map(FieldView::len).sum()
    }

    /// Returns whether a record in a list of changes was deleted.
    pub(super) fn is_deleted(&self) -> bool {
        is_deleted(&self.metadata)
    }

    /// Counts the fields after the first `from` that fit into `bytes`: at least one, if any remain.
    pub(super) fn fitting(&self, from: usize, bytes: usize) -> usize {
        let rest = self.fields.get(from..).unwrap_or_default();
        count_fitting(rest.iter().map(FieldView::len), bytes).max(1).min(rest.len())
    }
}

impl FieldView {
    /// Returns the length of the name and the shown value as JSON, in bytes.
    pub(super) fn len(&self) -> usize {
        /// Two quotes and a colon. The comma counts with the value.
        const QUOTES_AND_COLON: usize = 3;
        escaped_len(&self.name) + QUOTES_AND_COLON + json_len(&self.value)
    }

    /// Truncates the field to `chars` scalar values and `escaped_bytes` bytes of JSON.
    pub(super) fn cut_to(self, chars: usize, escaped_bytes: usize) -> Self {
        self.shortened(chars, escaped_bytes).unwrap_or(self)
    }

    /// Returns a truncated copy; `None` if the field already fits.
    pub(super) fn shortened(&self, chars: usize, escaped_bytes: usize) -> Option<Self> {
        let is_binary =
            self.cut.as_ref().is_some_and(|cut| matches!(cut.kind, CutKind::Binary { .. }));
        let text = self.text().filter(|_| !is_binary)?;
        let kind = if self.written.is_some() { CutKind::Json } else { CutKind::Text };
        let (shown, count) = prefix_within(text, chars, escaped_bytes);
        if shown.len() == text.len() {
            return None;
        }
        let cut = match &self.cut {
            // A value that was truncated here is read from its beginning, so its offset stays 0.
            Some(cut) => Cut { shown_chars: cut.shown_chars.min(count as u64), ..cut.clone() },
            None if kind == CutKind::Json => Cut::of_json(),
            None => Cut {
                shown_chars: count as u64,
                size_chars: Some(text.chars().count() as u64),
                // The whole text is here, so its digest identifies the version.
                digest: Some(format!("sha256:{}", ContentHash::digest(text.as_bytes()))),
                looks_like: (kind == CutKind::Text).then(|| guess(text)).flatten(),
                kind,
            },
        };
        let (name, references) = (self.name.clone(), self.references.clone());
        Some(Self { name, value: shown.into(), cut: Some(cut), written: None, references })
    }

    /// Returns what the field seems to encode, if it is a text.
    pub(super) fn looks_like(&self) -> Option<EncodedText> {
        match &self.cut {
            Some(cut) => cut.looks_like.clone(),
            None => self.value.as_str().and_then(guess),
        }
    }

    /// Returns the shown text; `None` for a value without one.
    fn text(&self) -> Option<&str> {
        self.value.as_str().or(self.written.as_deref())
    }
}

/// Keeps the last of several fields with the same name, as a parser of JSON does.
fn keep_last_of_each_name(fields: &mut Vec<FieldView>) {
    let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    names.sort_unstable();
    if names.windows(2).all(|two| two.first() != two.last()) {
        return;
    }
    let mut later = HashSet::new();
    let mut is_last: Vec<bool> =
        fields.iter().rev().map(|field| later.insert(field.name.clone())).collect();
    fields.retain(|_| is_last.pop() == Some(true));
}

/// Returns whether the record with this metadata was deleted.
pub(super) fn is_deleted(metadata: &Map<String, Json>) -> bool {
    metadata.get("deleted").and_then(Json::as_bool).unwrap_or(false)
}

/// Makes a field from its value and its preview, if it has one. `None` if either is not valid.
fn field_from_wire(
    name: String,
    raw: &str,
    preview: Option<WirePreview>,
    max_chars: usize,
) -> Option<FieldView> {
    if let Some(preview) = preview {
        let kind = match (preview.encoding.as_deref(), preview.text_like) {
            (Some("base64"), _) => {
                CutKind::Binary { mime_type: preview.mime_type, size_bytes: preview.size_bytes }
            }
            (_, Some(false)) => CutKind::Json,
            _ => CutKind::Text,
        };
        let mut value: Json = serde_json::from_str(raw).ok()?;
        let json = value.as_str().filter(|_| kind == CutKind::Json);
        let references = json.map(references_in).unwrap_or_default();
        let (mut shown_chars, mut size_chars) = (preview.shown_chars, preview.size_chars);
        if let Some(shown) = json.and_then(without_addresses) {
            // The offset where the shown text ends is not one of the field.
            (value, shown_chars, size_chars) = (shown.into(), 0, None);
        }
        let cut = Cut {
            shown_chars,
            size_chars,
            digest: preview.digest,
            kind,
            looks_like: preview.looks_like.map(|WireEncoded { mime_type, size_bytes }| {
                let mime_type = prefix_within(&mime_type, 100, 200).0.to_owned();
                EncodedText { mime_type, size_bytes }
            }),
        };
        let field = FieldView { name, value, cut: Some(cut), written: None, references };
        return Some(without_base64(field));
    }
    Some(json_field(name, raw, max_chars))
}

/// Guesses what a whole text encodes.
fn guess(text: &str) -> Option<EncodedText> {
    // A text of other characters has no such boundary or does not look encoded.
    let head = text.get(..text.len().min(HEAD_CHARS as usize))?;
    let tail = text.get(text.len().saturating_sub(TAIL_CHARS as usize)..)?;
    encoded_text::guess(head, tail, text.len() as u64)
}

/// Makes a field from a text that the server sent whole.
fn text_field(name: String, text: String, max_chars: usize) -> FieldView {
    without_base64(
        FieldView { name, value: text.into(), cut: None, written: None, references: Vec::new() }
            .cut_to(max_chars, usize::MAX),
    )
}

/// Makes a field from JSON that the server sent whole.
pub(super) fn json_field(name: String, raw: &str, max_chars: usize) -> FieldView {
    // A value that is a reference and nothing else is shown as bytes.
    let is_reference = is_blob_reference(raw);
    let shown = without_addresses(raw);
    let raw = shown.as_deref().unwrap_or(raw);
    let value = match serde_json::from_str::<Json>(raw) {
        Ok(Json::String(text)) => return text_field(name, text, max_chars),
        Ok(value) => value,
        // JSON that this program cannot represent, such as 1e400, is shown as its text.
        Err(_) => {
            let references = references_in(raw);
            let field = json_text_field(name, raw, max_chars);
            return without_base64(FieldView { references, ..field });
        }
    };
    let written = (value.is_array() || value.is_object()).then(|| raw.to_owned());
    let has_references = written.is_some() && !is_reference;
    let references = if has_references { references_in(raw) } else { Vec::new() };
    let whole = FieldView { name, value, cut: None, written, references };
    match &whole.value {
        Json::Object(members) if is_reference => {
            let kind = CutKind::Binary {
                mime_type: members.get("mime_type").and_then(Json::as_str).map(str::to_owned),
                size_bytes: members.get("size_bytes").and_then(Json::as_u64),
            };
            let text = |name| members.get(name).and_then(Json::as_str);
            let named = text("blob_id").and_then(BlobId::parse).map(|id| hex(id.digest()));
            let digest = text("sha256").map(str::to_owned).or(named);
            let digest = digest.map(|hex| format!("sha256:{hex}"));
            let cut = Cut { shown_chars: 0, size_chars: None, digest, kind, looks_like: None };
            FieldView { cut: Some(cut), ..whole }
        }
        value if !numbers_are_exact(raw) || is_deeper_than(value, MAX_SHOWN_DEPTH) => {
            let references = whole.references;
            without_base64(FieldView { references, ..json_text_field(whole.name, raw, max_chars) })
        }
        _ => without_base64(whole.cut_to(max_chars, usize::MAX)),
    }
}

/// Returns the references to bytes in a value, with normalized media types.
pub(super) fn references_in(json: &str) -> Vec<FoundReference> {
    let mut all = found_references(json);
    for found in &mut all {
        found.mime_type = found.mime_type.as_deref().and_then(media_type);
    }
    all
}

/// Makes a field that is shown as its JSON text, truncated to `most` scalar values.
fn json_text_field(name: String, raw: &str, max_chars: usize) -> FieldView {
    let (shown, _) = prefix_within(raw, max_chars, usize::MAX);
    let is_cut = shown.len() < raw.len();
    let written = (!is_cut).then(|| raw.to_owned());
    let (value, cut) = (shown.into(), is_cut.then(Cut::of_json));
    FieldView { name, value, cut, written, references: Vec::new() }
}

/// Returns whether arrays and objects are nested more than `levels` deep.
fn is_deeper_than(value: &Json, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else {
        return matches!(value, Json::Array(_) | Json::Object(_));
    };
    match value {
        Json::Array(items) => items.iter().any(|item| is_deeper_than(item, left)),
        Json::Object(members) => members.values().any(|member| is_deeper_than(member, left)),
        _ => false,
    }
}

/// Parses a value. Returns its JSON text if parsing would round a number or fails.
pub(super) fn exact_or_text(raw: &RawValue) -> Json {
    match serde_json::from_str::<Json>(raw.get()) {
        Ok(value) if numbers_are_exact(raw.get()) => value,
        _ => raw.get().into(),
    }
}

/// Truncates a field before the first base64 within it.
pub(super) fn without_base64(field: FieldView) -> FieldView {
    let before = field
        .text()
        .and_then(|text| text.get(..base64_start(text)?))
        .map(|before| before.chars().count());
    match before {
        Some(chars) => field.cut_to(chars, usize::MAX),
        None => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Json {
        exact_or_text(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn a_number_is_shown_exactly_or_as_its_digits() {
        for same in [
            "0", "1.5", "123456789012345", "0.1", "-7", "9007199254740993", "true", "null",
            "\"1e400\"",
        ] {
            assert_eq!(written(same).to_string(), same);
        }
        let rounded = [
            "9007199254740993000001", "1e400", "12345678901.123456789", "0.12345678901234567890",
            "[1e400]",
        ];
        for digits in rounded.into_iter().chain(["{\"a\":123456789012345.678}"]) {
            assert_eq!(written(digits), digits, "shown as its text");
        }
    }
}
