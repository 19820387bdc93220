//! One row of an import: a JSON object, parsed from bytes to [`RecordFields`].
//!
//! The parser is written by hand in one pass, because a row must lose nothing, and must be refused
//! for errors that JSON libraries let pass. A number keeps its digits. A name that occurs twice is
//! an error at any depth. Half of a surrogate pair, which real exports contain, becomes U+FFFD and
//! is counted, so the row survives. Arrays and objects are kept as compact JSON. Too many levels
//! are refused, which bounds the recursion.
//!
//! *Source*: RFC 8259; strings are written as `serde_json` writes them.

use super::identifiers;
use super::value::{FieldValue, RecordFields};
use crate::json::text::push_string;

mod json_scanner;
mod row_error;
#[cfg(test)]
mod tests;

use self::json_scanner::{JsonScanner, repeated};
pub use self::row_error::{MAX_DEPTH, MAX_NUMBER_CHARS, RowError, RowFault};

/// A parsed row of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedRow {
    /// The members of the object, in their original order.
    pub fields: RecordFields,
    /// How many halves of surrogate pairs became U+FFFD, in strings and names.
    pub replaced: u64,
}

/// Parses one JSON object, with nothing but white space around it.
///
/// # Errors
/// [`RowError`]: not UTF-8, not JSON, not an object, too deep, a name twice in one object, a name
/// that no field can have, or a number that is too long.
pub fn parse(bytes: &[u8]) -> Result<ParsedRow, RowError> {
    let mut scan = JsonScanner::new(bytes)?;
    scan.white_space();
    if !scan.take(b'{') {
        // Text that is not even JSON gets the more precise error.
        compact(bytes)?;
        return Err(RowFault::NotAnObject.at(scan.at()));
    }
    let mut fields = RecordFields::new();
    let mut offsets = Vec::new();
    let mut more = !scan.take(b'}');
    while more {
        offsets.push(scan.at());
        let name = scan.name()?;
        if !identifiers::is_field_name(&name) {
            return Err(RowFault::BadFieldName.at(scan.at()));
        }
        scan.colon()?;
        fields.push((name, scan.value(1)?));
        more = scan.next_item_follows(b'}')?;
    }
    scan.end()?;
    let name_of = |index: usize| fields.get(index).map_or("", |(name, _)| name.as_str());
    if let Some(index) = repeated(fields.len(), name_of) {
        return Err(
            RowFault::duplicate(name_of(index)).at(offsets.get(index).copied().unwrap_or_default())
        );
    }
    Ok(ParsedRow { fields, replaced: scan.replaced() })
}

/// Parses one JSON value of any type, with nothing but white space around it. Also returns how many
/// halves of surrogate pairs became U+FFFD.
///
/// # Errors
/// As [`parse`], but the value need not be an object, and members may have any names.
pub fn compact(bytes: &[u8]) -> Result<(FieldValue, u64), RowError> {
    let mut scan = JsonScanner::new(bytes)?;
    scan.white_space();
    let value = scan.value(0)?;
    scan.end()?;
    Ok((value, scan.replaced()))
}

/// Parses the members of a compact JSON object; returns `None` for any other text. Unlike the
/// fields of a row, members may have any names.
pub fn members(json: &str) -> Option<RecordFields> {
    let mut scan = JsonScanner::new(json.as_bytes()).ok().filter(|_| json.starts_with('{'))?;
    scan.take(b'{');
    let mut members = RecordFields::new();
    let mut more = !scan.take(b'}');
    while more {
        let name = scan.name().ok()?;
        scan.colon().ok()?;
        members.push((name, scan.value(1).ok()?));
        more = scan.next_item_follows(b'}').ok()?;
    }
    scan.end().ok().map(|()| members)
}

/// Parses the items of a compact JSON array; returns `None` for any other text.
pub fn items(json: &str) -> Option<Vec<FieldValue>> {
    let mut scan = JsonScanner::new(json.as_bytes()).ok().filter(|_| json.starts_with('['))?;
    scan.take(b'[');
    let mut items = Vec::new();
    let mut more = !scan.take(b']');
    while more {
        items.push(scan.value(1).ok()?);
        more = scan.next_item_follows(b']').ok()?;
    }
    scan.end().ok().map(|()| items)
}

/// Formats fields as one compact JSON object, which [`parse`] reads as the same fields.
pub fn to_json(fields: &RecordFields) -> String {
    let mut out = String::from("{");
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push_string(&mut out, name);
        out.push(':');
        match value {
            FieldValue::Null => out.push_str("null"),
            FieldValue::Bool(true) => out.push_str("true"),
            FieldValue::Bool(false) => out.push_str("false"),
            FieldValue::Number(digits) => out.push_str(digits),
            FieldValue::Text(text) => push_string(&mut out, text),
            FieldValue::Json(json) => out.push_str(json),
        }
    }
    out.push('}');
    out
}
