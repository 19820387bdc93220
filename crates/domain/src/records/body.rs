//! The fields of a record as a store keeps them: one run of bytes, read without a copy.
//!
//! *Shape*: for each field, in the order given: the name's length and the name; a byte that says
//! what is held; the slot, plus one, under which pieces and search tokens of the value are kept, or
//! zero; then the value. A length is a LEB128 number. A value that is kept in pieces has its number
//! of scalar values, its number of bytes and its SHA-256 here, so that previews, sizes and
//! comparisons touch no piece.
//!
//! Equal records have equal bytes. That is how an import knows that nothing has changed.

use std::collections::BTreeSet;

use super::instant::Instant;
use super::pieces;
use super::value::Value;
use crate::hash::ContentHash;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const TEXT: u8 = 4;
const JSON: u8 = 5;
const LONG_TEXT: u8 = 6;
const LONG_JSON: u8 = 7;
/// Set beside [`TEXT`] and [`LONG_TEXT`] where the text is bytes in base64.
const BINARY: u8 = 0x80;
/// The longest value that stays itself where digests take the place of values.
const SHORT_BYTES: usize = 32;

/// A value that is kept in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Long {
    /// Scalar values.
    pub chars: u64,
    /// Bytes of UTF-8.
    pub bytes: u64,
    /// SHA-256 of those bytes.
    pub digest: [u8; 32],
}

impl Long {
    /// Of a text that is in memory.
    fn of(text: &str) -> Self {
        let digest = *ContentHash::digest(text.as_bytes()).as_bytes();
        Self { chars: pieces::count(text), bytes: text.len() as u64, digest }
    }
}

/// What a field holds, as far as it is in the record itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// The digits of a number.
    Number(&'a str),
    /// A string.
    Text(&'a str),
    /// A compact array or object.
    Json(&'a str),
    /// A string that is kept in pieces.
    LongText(Long),
    /// An array or object that is kept in pieces.
    LongJson(Long),
}

/// One field of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The field's name.
    pub name: &'a str,
    /// Where pieces and tokens of its value are kept.
    pub slot: Option<u16>,
    /// Whether it is a text that holds bytes in base64.
    pub binary: bool,
    /// The value.
    pub held: Held<'a>,
}

/// The bytes are not those of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes of a record are damaged")]
pub struct Damaged;

/// A body, to be read.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    /// The body that these bytes are; whether they are one shows as it is read.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The fields, in order.
    pub fn entries(self) -> impl Iterator<Item = Result<Entry<'a>, Damaged>> {
        self.spans().map(|span| span.map(|(entry, _)| entry))
    }

    /// One field; the rest is skipped unread.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn field(self, name: &str) -> Result<Option<Entry<'a>>, Damaged> {
        for entry in self.entries() {
            let entry = entry?;
            if entry.name == name {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// The body of those fields alone that are named.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn project(self, fields: &BTreeSet<String>) -> Result<Vec<u8>, Damaged> {
        let mut projected = Vec::new();
        for span in self.spans() {
            let (entry, bytes) = span?;
            if fields.contains(entry.name) {
                projected.extend_from_slice(bytes);
            }
        }
        Ok(projected)
    }

    /// Whether two bodies tell somebody the same who may see these fields; none means all. Where
    /// values are kept is not told.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn is_same(
        self,
        other: Body<'_>,
        fields: Option<&BTreeSet<String>>,
    ) -> Result<bool, Damaged> {
        let mut ours = self.told(fields);
        let mut theirs = other.told(fields);
        loop {
            match (ours.next().transpose()?, theirs.next().transpose()?) {
                (None, None) => return Ok(true),
                (Some(a), Some(b)) if a == b => {}
                _ => return Ok(false),
            }
        }
    }

    /// The same with the size and the digest of each text, array and object in its place, unless it
    /// is short or a time: enough to tell whether it is another one, and when the record happened.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn digested(self) -> Result<Vec<u8>, Damaged> {
        let mut writer = BodyWriter::default();
        for entry in self.entries() {
            let entry = entry?;
            let held = match entry.held {
                Held::Text(text) if text.len() > SHORT_BYTES && Instant::parse(text).is_none() => {
                    Held::LongText(Long::of(text))
                }
                Held::Json(json) if json.len() > SHORT_BYTES => Held::LongJson(Long::of(json)),
                held => held,
            };
            writer.push(&Entry { slot: None, held, ..entry });
        }
        Ok(writer.finish())
    }

    fn told(
        self,
        fields: Option<&BTreeSet<String>>,
    ) -> impl Iterator<Item = Result<Entry<'a>, Damaged>> {
        let is_told = move |entry: &Result<Entry<'_>, Damaged>| match (entry, fields) {
            (Ok(entry), Some(fields)) => fields.contains(entry.name),
            _ => true,
        };
        self.entries().filter(is_told).map(|entry| entry.map(|entry| Entry { slot: None, ..entry }))
    }

    fn spans(self) -> impl Iterator<Item = Result<(Entry<'a>, &'a [u8]), Damaged>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let before = rest;
            let Some(entry) = entry(&mut rest) else {
                rest = &[];
                return Some(Err(Damaged));
            };
            let taken = before.len() - rest.len();
            Some(Ok((entry, before.get(..taken).unwrap_or_default())))
        })
    }
}

fn entry<'a>(rest: &mut &'a [u8]) -> Option<Entry<'a>> {
    let name = text(rest)?;
    let kind = *take(rest, 1)?.first()?;
    let slot = match number(rest)? {
        0 => None,
        slot => Some(u16::try_from(slot - 1).ok()?),
    };
    let held = match kind & !BINARY {
        NULL => Held::Null,
        FALSE => Held::Bool(false),
        TRUE => Held::Bool(true),
        NUMBER => Held::Number(text(rest)?),
        TEXT => Held::Text(text(rest)?),
        JSON => Held::Json(text(rest)?),
        LONG_TEXT => Held::LongText(long(rest)?),
        LONG_JSON => Held::LongJson(long(rest)?),
        _ => return None,
    };
    Some(Entry { name, slot, binary: kind & BINARY != 0, held })
}

fn long(rest: &mut &[u8]) -> Option<Long> {
    let (chars, bytes) = (number(rest)?, number(rest)?);
    Some(Long { chars, bytes, digest: take(rest, 32)?.try_into().ok()? })
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(number(rest)?).ok()?;
    std::str::from_utf8(take(rest, length)?).ok()
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Writes a body, field by field.
#[derive(Clone, Debug, Default)]
pub struct BodyWriter(Vec<u8>);

impl BodyWriter {
    /// Adds a field. Its name must not be there yet.
    pub fn push(&mut self, entry: &Entry<'_>) {
        self.text(entry.name);
        let kind = match entry.held {
            Held::Null => NULL,
            Held::Bool(false) => FALSE,
            Held::Bool(true) => TRUE,
            Held::Number(_) => NUMBER,
            Held::Text(_) => TEXT,
            Held::Json(_) => JSON,
            Held::LongText(_) => LONG_TEXT,
            Held::LongJson(_) => LONG_JSON,
        };
        self.0.push(kind | if entry.binary { BINARY } else { 0 });
        self.number(entry.slot.map_or(0, |slot| u64::from(slot) + 1));
        match entry.held {
            Held::Null | Held::Bool(_) => {}
            Held::Number(text) | Held::Text(text) | Held::Json(text) => self.text(text),
            Held::LongText(long) | Held::LongJson(long) => {
                self.number(long.chars);
                self.number(long.bytes);
                self.0.extend_from_slice(&long.digest);
            }
        }
    }

    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

impl<'a> Held<'a> {
    /// A value that is short enough to stay in its record.
    pub fn inline(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(digits) => Self::Number(digits),
            Value::Text(text) => Self::Text(text),
            Value::Json(json) => Self::Json(json),
        }
    }

    /// What is kept in pieces, if it is.
    pub fn long(&self) -> Option<Long> {
        match self {
            Self::LongText(long) | Self::LongJson(long) => Some(*long),
            _ => None,
        }
    }
}

/// Whether a text is bytes in base64: 256 characters or more, a multiple of four, of that alphabet
/// alone with `=` at the end only, and at least four different ones.
pub fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 256 || !bytes.len().is_multiple_of(4) {
        return false;
    }
    let unpadded = text.trim_end_matches('=');
    let fits = bytes.len() - unpadded.len() <= 2
        && unpadded
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_'));
    fits && unpadded.bytes().collect::<BTreeSet<u8>>().len() >= 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Owned {
        name: String,
        slot: Option<u16>,
        kind: u8,
        text: String,
        long: Long,
    }

    impl Owned {
        fn entry(&self) -> Entry<'_> {
            let held = match self.kind {
                0 => Held::Null,
                1 => Held::Bool(false),
                2 => Held::Bool(true),
                3 => Held::Number(&self.text),
                4 => Held::Text(&self.text),
                5 => Held::Json(&self.text),
                6 => Held::LongText(self.long),
                _ => Held::LongJson(self.long),
            };
            Entry {
                name: &self.name,
                slot: self.slot,
                binary: self.kind == 4 && self.text.len() > 3,
                held,
            }
        }
    }

    fn owned() -> impl Strategy<Value = Owned> {
        let long = (any::<u64>(), any::<u64>(), any::<[u8; 32]>());
        let long = long.prop_map(|(chars, bytes, digest)| Long { chars, bytes, digest });
        let slot = proptest::option::of(0u16..4096);
        ("\\PC{0,200}", slot, 0u8..8, "\\PC{0,300}", long)
            .prop_map(|(name, slot, kind, text, long)| Owned { name, slot, kind, text, long })
    }

    proptest! {
        #[test]
        fn reading_undoes_writing_and_a_projection_is_what_it_says(fields in proptest::collection::vec(owned(), 0..8), kept in any::<u8>()) {
            let mut writer = BodyWriter::default();
            fields.iter().for_each(|field| writer.push(&field.entry()));
            let bytes = writer.finish();
            let read: Vec<Entry<'_>> = Body::new(&bytes).entries().map(Result::unwrap).collect();
            let written: Vec<Entry<'_>> = fields.iter().map(Owned::entry).collect();
            prop_assert_eq!(&read, &written);

            let names: BTreeSet<String> =
                fields.iter().enumerate().filter(|(at, _)| kept >> at & 1 == 1).map(|(_, field)| field.name.clone()).collect();
            let projected = Body::new(&bytes).project(&names).unwrap();
            let read: Vec<Entry<'_>> = Body::new(&projected).entries().map(Result::unwrap).collect();
            let expected: Vec<Entry<'_>> = written.into_iter().filter(|entry| names.contains(entry.name)).collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn any_bytes_are_a_body_or_damaged(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Body::new(&bytes).entries().count();
            let _ = Body::new(&bytes).field("x");
        }
    }

    #[test]
    fn a_digested_body_tells_of_changes_and_times_and_no_long_value() {
        let body = |text: &str, json: &str| {
            let mut writer = BodyWriter::default();
            let time = "2026-01-01T00:00:00.00000000000000000000000Z";
            for (name, held) in
                [("at", Held::Text(time)), ("t", Held::Text(text)), ("j", Held::Json(json))]
            {
                writer.push(&Entry { name, slot: Some(3), binary: false, held });
            }
            writer.finish()
        };
        let (text, json) = ("secret ".repeat(10), format!("[{}1]", "1,".repeat(40)));
        let plain = body(&text, &json);
        let digested = Body::new(&plain).digested().unwrap();
        let found = |bytes: &[u8], wanted: &str| {
            bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes())
        };
        assert!(
            found(&plain, &text) && !found(&digested, "secret") && !found(&digested, "1,1,1,1")
        );
        assert!(found(&digested, "2026-01-01T"));
        assert_eq!(Body::new(&digested).digested().unwrap(), digested, "again it is the same");
        for (other, same) in
            [(body(&text, &json), true), (body(&text, "[]"), false), (body(&json, &json), false)]
        {
            let other = Body::new(&other).digested().unwrap();
            assert_eq!(Body::new(&digested).is_same(Body::new(&other), None), Ok(same));
        }
        let short = body("short", "[1]");
        assert_eq!(
            Body::new(&short).is_same(Body::new(&Body::new(&short).digested().unwrap()), None),
            Ok(true)
        );
    }

    #[test]
    fn base64_is_told_from_text() {
        let data = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0NTY3ODkw".repeat(8);
        assert!(is_base64(&data[..256]) && is_base64(&format!("{}==", &data[..254])));
        assert!(!is_base64(&data[..252]) && !is_base64(&data[..257]));
        assert!(
            !is_base64(&"a".repeat(256))
                && !is_base64(&format!("{} {}", &data[..128], &data[..127]))
        );
    }
}
