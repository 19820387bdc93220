//! The fields of a record as the store keeps them: one run of bytes, read without a copy.
//!
//! *Shape*: for each field, in order: the length of the name and the name; a byte for the type of
//! the value; the slot, plus one, under which pieces and search tokens of the value are kept, or
//! zero; then the value. A length is a LEB128 number. For a value that is kept in pieces, the body
//! has the number of scalar values, the number of bytes and the SHA-256. Previews, sizes and
//! comparisons therefore need no piece.
//!
//! Equal records have equal bytes, so an import recognises an unchanged record.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::instant::Instant;
use super::list_text::ListText;
use super::pieces;
use super::value::FieldValue;
use crate::hash::ContentHash;
use crate::varint;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const TEXT: u8 = 4;
const JSON: u8 = 5;
const LONG_TEXT: u8 = 6;
const LONG_JSON: u8 = 7;
/// A flag on [`TEXT`] and [`LONG_TEXT`] for bytes in base64 of a field that is declared so.
const BINARY: u8 = 0x40;
/// The longest value that a digested body keeps, in bytes.
const SHORT_BYTES: usize = 32;

/// What a body has of a value that is kept in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongValue {
    /// The length in Unicode scalar values.
    pub chars: u64,
    /// The length in bytes of UTF-8.
    pub bytes: u64,
    /// The SHA-256 of those bytes.
    pub digest: [u8; 32],
}

impl LongValue {
    fn measure(text: &str) -> Self {
        let digest = *ContentHash::digest(text.as_bytes()).as_bytes();
        Self { chars: pieces::count(text), bytes: text.len() as u64, digest }
    }
}

/// The value of a field as the body holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredValue<'a> {
    /// The value `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number in its original spelling.
    Number(&'a str),
    /// A text.
    Text(&'a str),
    /// An array or object as compact JSON.
    Json(&'a str),
    /// A text that is kept in pieces.
    LongText(LongValue),
    /// An array or object that is kept in pieces.
    LongJson(LongValue),
}

/// Borrows a value that is short enough to stay in its record.
impl<'a> From<&'a FieldValue> for StoredValue<'a> {
    fn from(value: &'a FieldValue) -> Self {
        match value {
            FieldValue::Null => Self::Null,
            FieldValue::Bool(value) => Self::Bool(*value),
            FieldValue::Number(digits) => Self::Number(digits),
            FieldValue::Text(text) => Self::Text(text),
            FieldValue::Json(json) => Self::Json(json),
        }
    }
}

/// One field of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyField<'a> {
    /// The name of the field.
    pub name: &'a str,
    /// The number under which pieces and search tokens of the value are kept, if there are any.
    pub slot: Option<u16>,
    /// Whether the value holds bytes in base64: the field is declared so, and the text is base64.
    pub binary: bool,
    /// The value, which borrows from the body.
    pub value: StoredValue<'a>,
}

/// The bytes do not form a valid body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes of a record are damaged")]
pub struct DamagedBody;

/// A body to read fields from.
#[derive(Clone, Copy, Debug)]
pub struct RecordBody<'a>(&'a [u8]);

impl<'a> RecordBody<'a> {
    /// Wraps the bytes of a body. Damage is found when the fields are read.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the fields in order.
    pub fn entries(self) -> impl Iterator<Item = Result<BodyField<'a>, DamagedBody>> {
        self.spans().map(|span| span.map(|(entry, _)| entry))
    }

    /// Returns one field and skips the others unread: their texts are not checked.
    pub fn field(self, name: &str) -> Result<Option<BodyField<'a>>, DamagedBody> {
        let mut rest = self.0;
        while !rest.is_empty() {
            let mut own = rest;
            let is_wanted = skip_entry(&mut rest).ok_or(DamagedBody)? == name.as_bytes();
            if is_wanted {
                return entry(&mut own).map(Some).ok_or(DamagedBody);
            }
        }
        Ok(None)
    }

    /// Returns the body with only the named fields.
    pub fn project(self, fields: &BTreeSet<String>) -> Result<Vec<u8>, DamagedBody> {
        let mut projected = Vec::new();
        for span in self.spans() {
            let (entry, bytes) = span?;
            if fields.contains(entry.name) {
                projected.extend_from_slice(bytes);
            }
        }
        Ok(projected)
    }

    /// Whether two bodies are equal to a reader who may see these fields; `None` means all fields.
    /// Slots do not count.
    pub fn is_same(
        self,
        other: RecordBody<'_>,
        fields: Option<&BTreeSet<String>>,
    ) -> Result<bool, DamagedBody> {
        let mut ours = self.visible(fields);
        let mut theirs = other.visible(fields);
        loop {
            match (ours.next().transpose()?, theirs.next().transpose()?) {
                (None, None) => return Ok(true),
                (Some(a), Some(b)) if a == b => {}
                _ => return Ok(false),
            }
        }
    }

    /// Returns the body with each long text, array and object replaced by its size and digest.
    ///
    /// Short values and times stay. The result suffices to recognise a change and to tell when the
    /// record happened.
    pub fn digested(self) -> Result<Vec<u8>, DamagedBody> {
        let mut writer = BodyWriter::default();
        for entry in self.entries() {
            let entry = entry?;
            let value = match entry.value {
                StoredValue::Text(text)
                    if text.len() > SHORT_BYTES && Instant::parse(text).is_none() =>
                {
                    StoredValue::LongText(LongValue::measure(text))
                }
                StoredValue::Json(json) if json.len() > SHORT_BYTES => {
                    StoredValue::LongJson(LongValue::measure(json))
                }
                value => value,
            };
            writer.push(&BodyField { slot: None, value, ..entry });
        }
        Ok(writer.finish())
    }

    fn visible(
        self,
        fields: Option<&BTreeSet<String>>,
    ) -> impl Iterator<Item = Result<BodyField<'a>, DamagedBody>> {
        let is_visible = move |entry: &Result<BodyField<'_>, DamagedBody>| match (entry, fields) {
            (Ok(entry), Some(fields)) => fields.contains(entry.name),
            _ => true,
        };
        self.entries()
            .filter(is_visible)
            .map(|entry| entry.map(|entry| BodyField { slot: None, ..entry }))
    }

    fn spans(self) -> impl Iterator<Item = Result<(BodyField<'a>, &'a [u8]), DamagedBody>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let before = rest;
            let Some(entry) = entry(&mut rest) else {
                rest = &[];
                return Some(Err(DamagedBody));
            };
            let taken = before.len() - rest.len();
            Some(Ok((entry, before.get(..taken).unwrap_or_default())))
        })
    }
}

fn entry<'a>(rest: &mut &'a [u8]) -> Option<BodyField<'a>> {
    let name = text(rest)?;
    let kind = *take(rest, 1)?.first()?;
    let slot = match varint::take(rest)? {
        0 => None,
        slot => Some(u16::try_from(slot - 1).ok()?),
    };
    let value = match kind & !BINARY {
        NULL => StoredValue::Null,
        FALSE => StoredValue::Bool(false),
        TRUE => StoredValue::Bool(true),
        NUMBER => StoredValue::Number(text(rest)?),
        TEXT => StoredValue::Text(text(rest)?),
        JSON => StoredValue::Json(text(rest)?),
        LONG_TEXT => StoredValue::LongText(long(rest)?),
        LONG_JSON => StoredValue::LongJson(long(rest)?),
        _ => return None,
    };
    Some(BodyField { name, slot, binary: kind & BINARY != 0, value })
}

/// Skips an entry and returns its name.
fn skip_entry<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let name = bytes(rest)?;
    let kind = *take(rest, 1)?.first()?;
    varint::take(rest)?;
    match kind & !BINARY {
        NULL | FALSE | TRUE => {}
        NUMBER | TEXT | JSON => drop(bytes(rest)?),
        LONG_TEXT | LONG_JSON => drop(long(rest)?),
        _ => return None,
    }
    Some(name)
}

fn long(rest: &mut &[u8]) -> Option<LongValue> {
    let (chars, bytes) = (varint::take(rest)?, varint::take(rest)?);
    Some(LongValue { chars, bytes, digest: take(rest, 32)?.try_into().ok()? })
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(bytes(rest)?).ok()
}

fn bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(varint::take(rest)?).ok()?;
    take(rest, length)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// Encodes a body, field by field.
#[derive(Clone, Debug, Default)]
pub struct BodyWriter(Vec<u8>);

impl BodyWriter {
    /// Appends a field. The body must not have a field of that name yet.
    pub fn push(&mut self, entry: &BodyField<'_>) {
        self.text(entry.name);
        let kind = match entry.value {
            StoredValue::Null => NULL,
            StoredValue::Bool(false) => FALSE,
            StoredValue::Bool(true) => TRUE,
            StoredValue::Number(_) => NUMBER,
            StoredValue::Text(_) => TEXT,
            StoredValue::Json(_) => JSON,
            StoredValue::LongText(_) => LONG_TEXT,
            StoredValue::LongJson(_) => LONG_JSON,
        };
        self.0.push(kind | if entry.binary { BINARY } else { 0 });
        varint::push(&mut self.0, entry.slot.map_or(0, |slot| u64::from(slot) + 1));
        match entry.value {
            StoredValue::Null | StoredValue::Bool(_) => {}
            StoredValue::Number(text) | StoredValue::Text(text) | StoredValue::Json(text) => {
                self.text(text)
            }
            StoredValue::LongText(long) | StoredValue::LongJson(long) => {
                varint::push(&mut self.0, long.chars);
                varint::push(&mut self.0, long.bytes);
                self.0.extend_from_slice(&long.digest);
            }
        }
    }

    /// Returns the encoded bytes.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    fn text(&mut self, text: &str) {
        varint::push(&mut self.0, text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

impl<'a> StoredValue<'a> {
    /// Returns the point in time that a text holds; `None` for any other value.
    pub fn time(&self) -> Option<Instant> {
        match self {
            Self::Text(text) => Instant::parse(text),
            _ => None,
        }
    }

    /// Returns the value as a person is shown it: a text as it is, and others as JSON. Empty for
    /// one that is kept in pieces.
    pub fn shown(self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(text) | Self::Text(text) | Self::Json(text) => text.to_owned(),
            Self::LongText(_) | Self::LongJson(_) => String::new(),
        }
    }

    /// Returns a value that stays in its record; `None` for one that is kept in pieces.
    pub fn short(&self) -> Option<FieldValue> {
        Some(match self {
            Self::Null => FieldValue::Null,
            Self::Bool(value) => FieldValue::Bool(*value),
            Self::Number(digits) => FieldValue::Number((*digits).into()),
            Self::Text(text) => FieldValue::Text((*text).to_owned()),
            Self::Json(json) => FieldValue::Json((*json).to_owned()),
            Self::LongText(_) | Self::LongJson(_) => return None,
        })
    }

    /// Returns the text in which a search looks for words, of a value that stays in its record: a
    /// text, or the texts of a list in their places. `None` for any other value.
    pub fn searched_text(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Json(json) if json.starts_with('[') => {
                Some(Cow::Owned(ListText::default().feed(json)))
            }
            _ => None,
        }
    }

    /// Whether a search may look for words in the value. An object that is kept in pieces has no
    /// words; only its pieces tell it from a list.
    pub fn may_have_words(&self) -> bool {
        match self {
            Self::Text(_) | Self::LongText(_) | Self::LongJson(_) => true,
            Self::Json(json) => json.starts_with('['),
            Self::Null | Self::Bool(_) | Self::Number(_) => false,
        }
    }

    /// Returns the measures of a value that is kept in pieces.
    pub fn long(&self) -> Option<LongValue> {
        match self {
            Self::LongText(long) | Self::LongJson(long) => Some(*long),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StoredValue::{Bool, Json, LongJson, LongText, Null, Number, Text};
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Owned {
        name: String,
        slot: Option<u16>,
        kind: u8,
        text: String,
        long: LongValue,
    }

    impl Owned {
        fn entry(&self) -> BodyField<'_> {
            let value = match self.kind {
                0 => Null,
                1 => Bool(false),
                2 => Bool(true),
                3 => Number(&self.text),
                4 => Text(&self.text),
                5 => Json(&self.text),
                6 => LongText(self.long),
                _ => LongJson(self.long),
            };
            BodyField {
                name: &self.name,
                slot: self.slot,
                binary: self.kind == 4 && self.text.len() > 3,
                value,
            }
        }
    }

    fn owned() -> impl Strategy<Value = Owned> {
        let long = (any::<u64>(), any::<u64>(), any::<[u8; 32]>());
        let long = long.prop_map(|(chars, bytes, digest)| LongValue { chars, bytes, digest });
        let slot = proptest::option::of(0u16..4096);
        ("\\PC{0,200}", slot, 0u8..8, "\\PC{0,300}", long)
            .prop_map(|(name, slot, kind, text, long)| Owned { name, slot, kind, text, long })
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding_and_a_projection_keeps_the_named_fields(
            fields in proptest::collection::vec(owned(), 0..8),
            kept in any::<u8>(),
        ) {
            let mut writer = BodyWriter::default();
            fields.iter().for_each(|field| writer.push(&field.entry()));
            let bytes = writer.finish();
            let read: Vec<BodyField<'_>> =
                RecordBody::new(&bytes).entries().map(Result::unwrap).collect();
            let written: Vec<BodyField<'_>> = fields.iter().map(Owned::entry).collect();
            prop_assert_eq!(&read, &written);

            let kept = fields.iter().enumerate().filter(|(at, _)| kept >> at & 1 == 1);
            let names: BTreeSet<String> = kept.map(|(_, field)| field.name.clone()).collect();
            let projected = RecordBody::new(&bytes).project(&names).unwrap();
            let read: Vec<BodyField<'_>> =
                RecordBody::new(&projected).entries().map(Result::unwrap).collect();
            let expected: Vec<BodyField<'_>> =
                written.into_iter().filter(|entry| names.contains(entry.name)).collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = RecordBody::new(&bytes).entries().count();
            let _ = RecordBody::new(&bytes).field("x");
        }
    }

    #[test]
    fn a_digested_body_keeps_times_and_reveals_changes_but_no_long_value() {
        let body = |text: &str, json: &str| {
            let mut writer = BodyWriter::default();
            let time = "2026-01-01T00:00:00.00000000000000000000000Z";
            for (name, value) in [("at", Text(time)), ("t", Text(text)), ("j", Json(json))] {
                writer.push(&BodyField { name, slot: Some(3), binary: false, value });
            }
            writer.finish()
        };
        let (text, json) = ("secret ".repeat(10), format!("[{}1]", "1,".repeat(40)));
        let plain = body(&text, &json);
        let digested = RecordBody::new(&plain).digested().unwrap();
        let found = |bytes: &[u8], wanted: &str| {
            bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes())
        };
        assert!(
            found(&plain, &text) && !found(&digested, "secret") && !found(&digested, "1,1,1,1")
        );
        assert!(found(&digested, "2026-01-01T"));
        assert_eq!(
            RecordBody::new(&digested).digested().unwrap(),
            digested,
            "again it is the same"
        );
        for (other, same) in
            [(body(&text, &json), true), (body(&text, "[]"), false), (body(&json, &json), false)]
        {
            let other = RecordBody::new(&other).digested().unwrap();
            assert_eq!(RecordBody::new(&digested).is_same(RecordBody::new(&other), None), Ok(same));
        }
        let short = body("short", "[1]");
        assert_eq!(
            RecordBody::new(&short)
                .is_same(RecordBody::new(&RecordBody::new(&short).digested().unwrap()), None),
            Ok(true)
        );
    }
}
