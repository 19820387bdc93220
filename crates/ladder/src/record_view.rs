//! A record as the resource server tells it, and what of each field is to be shown.
//!
//! Our own server cuts long values itself and says what is missing; another one may send them
//! whole, and then they are cut here. Values stay as they were written: a number that this program
//! cannot hold exactly is shown by its digits, and what is nested so deep that clients refuse to
//! parse it by its JSON text.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use stile_domain::hash::ContentHash;
use stile_domain::records::blob::is_blob_reference;
use stile_domain::records::record_id::RecordId;
use stile_domain::records::stored_body::is_base64;

use super::budget::{count_fitting, escaped_len, json_len, prefix_within};
use super::embedded_base64::base64_start;
pub(super) use super::embedded_base64::before_base64;
use super::error::LadderError;
use super::exact_numbers::numbers_are_exact;
use super::record_reference::non_empty_connection;
use super::wire;

/// The levels of arrays and objects that a value may have to be shown as one. Parsers stop at 64 or
/// 128 in all, and an answer has levels of its own.
const MAX_SHOWN_DEPTH: usize = 32;

/// A record, ready to be shown.
#[derive(Clone, Debug)]
pub(super) struct RecordView {
    pub(super) id: RecordId,
    /// What else is said of it, but for its fields: `emitted_at`, `deleted` and so on.
    pub(super) metadata: Map<String, Json>,
    pub(super) fields: Vec<FieldView>,
    /// Fields that were left out.
    pub(super) more: Option<MoreFields>,
    /// Where to go on after it.
    pub(super) cursor: Option<String>,
}

/// A field, or the beginning of one.
#[derive(Clone, Debug)]
pub(super) struct FieldView {
    pub(super) name: String,
    /// The value, or of a long one the beginning of its text. Null for bytes.
    pub(super) value: Json,
    pub(super) cut: Option<Cut>,
    /// What is here whole and is no text, or is shown by its digits, as it is written.
    pub(super) written: Option<String>,
}

/// What is missing of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) shown_chars: u64,
    pub(super) size_chars: Option<u64>,
    pub(super) digest: Option<String>,
    pub(super) kind: CutKind,
}

impl Cut {
    /// Of JSON that was sent whole and is cut here. A window of it may be spelled in another way,
    /// with spaces where the record has none, so that no count of characters leads from one to the
    /// other: it is read from its beginning, and as whatever version it is then.
    fn of_json() -> Self {
        Self { shown_chars: 0, size_chars: None, digest: None, kind: CutKind::Json }
    }

    /// Of so many characters of base64, which are not shown.
    fn of_base64(chars: u64, mime_type: Option<String>) -> Self {
        let kind = CutKind::Binary { mime_type, size_bytes: Some(base64_bytes(chars)) };
        Self { shown_chars: 0, size_chars: Some(chars), digest: None, kind }
    }
}

/// The bytes that so many characters of base64 are, but for the last few.
fn base64_bytes(chars: u64) -> u64 {
    chars / 4 * 3
}

/// What a cut field is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CutKind {
    /// A text.
    Text,
    /// Something else, read as its JSON text.
    Json,
    /// Bytes.
    Binary { mime_type: Option<String>, size_bytes: Option<u64> },
}

/// That a record has more fields than are shown.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct MoreFields {
    pub(super) shown: u64,
    pub(super) total: u64,
    pub(super) next_cursor: String,
}

/// A record on the wire.
#[derive(Deserialize)]
pub(super) struct WireRecord<'a> {
    id: String,
    stream: Option<String>,
    connection_id: Option<String>,
    #[serde(borrow, default, deserialize_with = "wire::null_as_default")]
    data: WireData<'a>,
    #[serde(borrow, default, deserialize_with = "wire::null_as_default")]
    previews: WirePreviews<'a>,
    more_fields: Option<MoreFields>,
    cursor: Option<String>,
    emitted_at: Option<Json>,
    deleted: Option<bool>,
    deleted_at: Option<Json>,
}

/// The members of `data`, in their order and as they were written.
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

/// The previews of a record by the names of their fields, not read yet.
type WirePreviews<'a> = BTreeMap<String, Option<&'a RawValue>>;

/// A preview on the wire.
#[derive(Deserialize)]
struct WirePreview {
    shown_chars: u64,
    size_chars: Option<u64>,
    digest: Option<String>,
    text_like: Option<bool>,
    mime_type: Option<String>,
    encoding: Option<String>,
}

impl RecordView {
    /// Reads a record of an answer, which was asked for as one of `stream`. Of a field that is sent
    /// whole at most so many characters are kept.
    ///
    /// # Errors
    /// Where it is none.
    pub(super) fn from_wire(
        told: WireRecord<'_>,
        stream: &str,
        connection: Option<&str>,
        most: usize,
    ) -> Result<Self, LadderError> {
        let mut metadata = Map::new();
        let mut put = |name: &str, value: Option<Json>| {
            if let Some(value) = value {
                metadata.insert(name.to_owned(), value);
            }
        };
        put("emitted_at", told.emitted_at);
        put("deleted", told.deleted.map(Json::from));
        put("deleted_at", told.deleted_at);
        let previews = told.previews;
        let fields =
            told.data.0.into_iter().map(|(name, raw)| preview_or_field(name, raw, &previews, most));
        let connection =
            non_empty_connection(told.connection_id).or_else(|| connection.map(str::to_owned));
        let stream = told.stream.unwrap_or_else(|| stream.to_owned());
        Ok(Self {
            id: RecordId { connection, stream, key: told.id },
            metadata,
            fields: fields.collect::<Option<_>>().ok_or_else(LadderError::invalid_response)?,
            more: told.more_fields,
            cursor: told.cursor,
        })
    }
}

impl RecordView {
    /// The bytes of its names and of what is shown of its values, as JSON.
    pub(super) fn len(&self) -> usize {
        self.fields.iter().map(FieldView::len).sum()
    }

    /// How many of its fields, from one on, have at most so many bytes; at least one, where there
    /// is one.
    pub(super) fn fitting(&self, from: usize, bytes: usize) -> usize {
        let rest = self.fields.get(from..).unwrap_or_default();
        count_fitting(rest.iter().map(FieldView::len), bytes).max(1).min(rest.len())
    }
}

impl FieldView {
    /// The bytes of its name and of what is shown of its value, as JSON.
    fn len(&self) -> usize {
        /// Two quotes and a colon; the comma is counted with the value.
        const AROUND: usize = 3;
        escaped_len(&self.name) + AROUND + json_len(&self.value)
    }

    /// The same, shown only as far as so many scalar values and bytes of JSON.
    pub(super) fn cut_to(self, chars: usize, escaped_bytes: usize) -> Self {
        self.shortened(chars, escaped_bytes).unwrap_or(self)
    }

    /// The same, unless it is shown no further already.
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
            // What was cut here before is read from its beginning, however much of it is shown.
            Some(cut) => Cut { shown_chars: cut.shown_chars.min(count as u64), ..cut.clone() },
            None if kind == CutKind::Json => Cut::of_json(),
            None => Cut {
                shown_chars: count as u64,
                size_chars: Some(text.chars().count() as u64),
                // All of it is here, so that an address of the rest can name the version that it is
                // of.
                digest: Some(format!("sha256:{}", ContentHash::digest(text.as_bytes()))),
                kind,
            },
        };
        Some(Self { name: self.name.clone(), value: shown.into(), cut: Some(cut), written: None })
    }

    /// What of its text is here.
    fn text(&self) -> Option<&str> {
        self.value.as_str().or(self.written.as_deref())
    }
}

/// A field, with at most so many scalar values of it. None where it is no JSON.
fn preview_or_field(
    name: String,
    raw: &RawValue,
    previews: &WirePreviews<'_>,
    most: usize,
) -> Option<FieldView> {
    if let Some(Some(preview)) = previews.get(&name) {
        let preview: WirePreview = serde_json::from_str(preview.get()).ok()?;
        let kind = match (preview.encoding.as_deref(), preview.text_like) {
            (Some("base64"), _) => CutKind::Binary {
                mime_type: preview.mime_type,
                size_bytes: preview.size_chars.map(base64_bytes),
            },
            (_, Some(false)) => CutKind::Json,
            _ => CutKind::Text,
        };
        let value = serde_json::from_str(raw.get()).ok()?;
        let cut = Cut {
            shown_chars: preview.shown_chars,
            size_chars: preview.size_chars,
            digest: preview.digest,
            kind,
        };
        return Some(without_base64(FieldView { name, value, cut: Some(cut), written: None }));
    }
    Some(json_field(name, raw.get(), most))
}

/// A text that was sent whole.
fn text_field(name: String, text: String, most: usize) -> FieldView {
    if is_base64(&text) {
        let cut = Cut::of_base64(text.len() as u64, None);
        return FieldView { name, value: Json::Null, cut: Some(cut), written: None };
    }
    without_base64(
        FieldView { name, value: text.into(), cut: None, written: None }.cut_to(most, usize::MAX),
    )
}

/// JSON that was sent whole.
fn json_field(name: String, raw: &str, most: usize) -> FieldView {
    let value = match serde_json::from_str::<Json>(raw) {
        Ok(Json::String(text)) => return text_field(name, text, most),
        Ok(value) => value,
        // JSON that this program has no value for, such as 1e400, stays the text that it is.
        Err(_) => return without_base64(json_text_field(name, raw, most)),
    };
    let written = (value.is_array() || value.is_object()).then(|| raw.to_owned());
    let whole = FieldView { name, value, cut: None, written };
    match &whole.value {
        Json::Object(members) if is_blob_reference(raw) => {
            let kind = CutKind::Binary {
                mime_type: members.get("mime_type").and_then(Json::as_str).map(str::to_owned),
                size_bytes: members.get("size_bytes").and_then(Json::as_u64),
            };
            let digest =
                members.get("sha256").and_then(Json::as_str).map(|hex| format!("sha256:{hex}"));
            let cut = Cut { shown_chars: 0, size_chars: None, digest, kind };
            FieldView { cut: Some(cut), ..whole }
        }
        value if !numbers_are_exact(raw) || is_deeper_than(value, MAX_SHOWN_DEPTH) => {
            without_base64(json_text_field(whole.name, raw, most))
        }
        _ => without_base64(whole.cut_to(most, usize::MAX)),
    }
}

/// A value by its JSON text, or the beginning of that.
fn json_text_field(name: String, raw: &str, most: usize) -> FieldView {
    let (shown, _) = prefix_within(raw, most, usize::MAX);
    let is_cut = shown.len() < raw.len();
    let written = (!is_cut).then(|| raw.to_owned());
    FieldView { name, value: shown.into(), cut: is_cut.then(Cut::of_json), written }
}

/// Whether more than so many arrays and objects stand in each other.
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

/// A value as this program has it, or where it would round or cannot hold it, its text.
pub(super) fn exact_or_text(raw: &RawValue) -> Json {
    match serde_json::from_str::<Json>(raw.get()) {
        Ok(value) if numbers_are_exact(raw.get()) => value,
        _ => raw.get().into(),
    }
}

/// The same without bytes that stand somewhere inside: it is cut before them.
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
    fn a_number_is_itself_or_its_digits_and_never_another_one() {
        for same in [
            "0",
            "1.5",
            "123456789012345",
            "0.1",
            "-7",
            "9007199254740993",
            "true",
            "null",
            "\"1e400\"",
        ] {
            assert_eq!(written(same).to_string(), same);
        }
        let rounded = [
            "9007199254740993000001",
            "1e400",
            "12345678901.123456789",
            "0.12345678901234567890",
            "[1e400]",
        ];
        for digits in rounded.into_iter().chain(["{\"a\":123456789012345.678}"]) {
            assert_eq!(written(digits), digits, "shown as its text");
        }
    }
}
