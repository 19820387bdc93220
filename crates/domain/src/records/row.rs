//! One row of an import: a JSON object, from its bytes to [`RecordFields`].
//!
//! One pass, written by hand, because a row must lose nothing and be refused for what a JSON
//! library lets pass: a number keeps its digits, a name that occurs twice is an error at any depth,
//! and half of a surrogate pair, which real exports have, becomes U+FFFD and is counted instead of
//! costing the row. Arrays and objects are kept as compact JSON. What goes too deep is refused,
//! which bounds the recursion.
//!
//! *Source*: RFC 8259; strings are written as `serde_json` writes them.

use super::identifiers;
use super::value::{FieldValue, RecordFields};
use json_scanner::Scan;

mod json_scanner;
#[cfg(test)]
mod tests;

/// How deep arrays and objects may stand in each other; the row itself is the first.
pub const MAX_DEPTH: usize = 128;
/// Characters that a number may have as it is written.
pub const MAX_NUMBER_CHARS: usize = 4096;
/// Characters of a name that an error repeats.
const MAX_NAME_CHARS: usize = 64;

/// A row that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedRow {
    /// The members of the object, in the order given.
    pub fields: RecordFields,
    /// How many halves of surrogate pairs became U+FFFD, in strings and names.
    pub replaced: u64,
}

/// Why a row cannot be used. It says where, and repeats nothing of the row but the name of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} (at byte {at} of the row)")]
pub struct RowError {
    /// Bytes from the beginning of the row, 0-based.
    pub at: usize,
    /// What is wrong there.
    pub fault: RowFault,
}

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// The bytes are no text.
    #[error("it is not UTF-8")]
    InvalidUtf8,
    /// It is not JSON.
    #[error("it is not valid JSON: {0}")]
    InvalidJson(&'static str),
    /// It is JSON and not an object.
    #[error("it is not a JSON object")]
    NotAnObject,
    /// More than [`MAX_DEPTH`] arrays and objects stand in each other.
    #[error("its arrays and objects are more than {MAX_DEPTH} deep")]
    TooDeep,
    /// A name occurs twice in one object.
    #[error("the name `{name}` occurs twice in one object")]
    DuplicateKey {
        /// At most 64 characters of it, control characters as `?`.
        name: String,
    },
    /// A member of the row has a name that no field can have.
    #[error(
        "the name of a field must have 1 to {} bytes without U+0000",
        identifiers::MAX_FIELD_NAME_BYTES
    )]
    BadFieldName,
    /// A number has more than [`MAX_NUMBER_CHARS`] characters.
    #[error("a number has more than {MAX_NUMBER_CHARS} characters")]
    NumberTooLong,
}

impl RowFault {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "invalid_utf8",
            Self::InvalidJson(_) => "invalid_json",
            Self::NotAnObject => "not_an_object",
            Self::TooDeep => "too_deep",
            Self::DuplicateKey { .. } => "duplicate_key",
            Self::BadFieldName => "bad_field_name",
            Self::NumberTooLong => "number_too_long",
        }
    }

    fn at(self, at: usize) -> RowError {
        RowError { at, fault: self }
    }

    /// A name that occurs twice, cut and made fit for a line of a terminal.
    fn duplicate(name: &str) -> Self {
        let fit = |character: char| if character.is_control() { '?' } else { character };
        Self::DuplicateKey { name: name.chars().take(MAX_NAME_CHARS).map(fit).collect() }
    }
}

/// Reads one JSON object, with white space around it and nothing else.
///
/// # Errors
/// [`RowError`]: not UTF-8, not JSON, not an object, too deep, a name twice in one object, a name that no field can
/// have, a number too long.
pub fn parse(bytes: &[u8]) -> Result<ParsedRow, RowError> {
    let mut scan = Scan::new(bytes)?;
    scan.white_space();
    if !scan.take(b'{') {
        // What is not even JSON is told to be that.
        compact(bytes)?;
        return Err(RowFault::NotAnObject.at(scan.at()));
    }
    let mut fields = RecordFields::new();
    let mut places = Vec::new();
    let mut more = !scan.closes(b'}');
    while more {
        places.push(scan.at());
        let name = scan.name()?;
        if !identifiers::is_field_name(&name) {
            return Err(RowFault::BadFieldName.at(scan.at()));
        }
        scan.colon()?;
        fields.push((name, scan.value(1)?));
        more = scan.another(b'}')?;
    }
    scan.end()?;
    let name_of = |index: usize| fields.get(index).map_or("", |(name, _)| name.as_str());
    if let Some(index) = repeated(fields.len(), name_of) {
        return Err(
            RowFault::duplicate(name_of(index)).at(places.get(index).copied().unwrap_or_default())
        );
    }
    Ok(ParsedRow { fields, replaced: scan.replaced() })
}

/// Reads one JSON value of any kind, with white space around it and nothing else, and says how many
/// halves of surrogate pairs became U+FFFD.
///
/// # Errors
/// As [`parse`], but it need not be an object, and its members may be called anything.
pub fn compact(bytes: &[u8]) -> Result<(FieldValue, u64), RowError> {
    let mut scan = Scan::new(bytes)?;
    scan.white_space();
    let value = scan.value(0)?;
    scan.end()?;
    Ok((value, scan.replaced()))
}

/// The members of a compact JSON object. Unlike the fields of a row they may be called anything.
/// None for what is no such object.
pub fn members(json: &str) -> Option<RecordFields> {
    let mut scan = Scan::new(json.as_bytes()).ok().filter(|_| json.starts_with('{'))?;
    scan.take(b'{');
    let mut members = RecordFields::new();
    let mut more = !scan.closes(b'}');
    while more {
        let name = scan.name().ok()?;
        scan.colon().ok()?;
        members.push((name, scan.value(1).ok()?));
        more = scan.another(b'}').ok()?;
    }
    scan.end().ok().map(|()| members)
}

/// The items of a compact JSON array. None for what is no such array.
pub fn items(json: &str) -> Option<Vec<FieldValue>> {
    let mut scan = Scan::new(json.as_bytes()).ok().filter(|_| json.starts_with('['))?;
    scan.take(b'[');
    let mut items = Vec::new();
    let mut more = !scan.closes(b']');
    while more {
        items.push(scan.value(1).ok()?);
        more = scan.another(b']').ok()?;
    }
    scan.end().ok().map(|()| items)
}

/// The fields as one compact JSON object, which [`parse`] reads as the same fields.
pub fn to_json(fields: &RecordFields) -> String {
    let mut out = String::from("{");
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        json_scanner::push_string(&mut out, name);
        out.push(':');
        match value {
            FieldValue::Null => out.push_str("null"),
            FieldValue::Bool(true) => out.push_str("true"),
            FieldValue::Bool(false) => out.push_str("false"),
            FieldValue::Number(digits) => out.push_str(digits),
            FieldValue::Text(text) => json_scanner::push_string(&mut out, text),
            FieldValue::Json(json) => out.push_str(json),
        }
    }
    out.push('}');
    out
}

/// The second of two equal names among `count`, if there are such.
///
/// Few are compared with each other; many are sorted, which needs no more memory than their places
/// and, unlike a set, holds no names a second time.
fn repeated<'a>(count: usize, name_of: impl Fn(usize) -> &'a str) -> Option<usize> {
    const FEW: usize = 16;
    if count <= FEW {
        return (1..count)
            .find(|&later| (0..later).any(|earlier| name_of(earlier) == name_of(later)));
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by_key(|&index| (name_of(index), index));
    order.windows(2).find_map(|pair| match pair {
        &[earlier, later] if name_of(earlier) == name_of(later) => Some(later),
        _ => None,
    })
}
