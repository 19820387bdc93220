//! The values within a value and their places, the obvious way: all of them, by reading again.

use stile_domain::records::value::FieldValue;

use super::json::{J, after_string, read};

/// A value within JSON: its place as a JSON pointer, its own JSON, and where that ends, in
/// characters.
pub(crate) struct Placed<'t> {
    pub(crate) pointer: String,
    pub(crate) json: &'t str,
    pub(crate) end_chars: usize,
}

/// Returns all values within compact JSON, in the order in which they end. The last is the whole.
pub(crate) fn all(json: &str) -> Vec<Placed<'_>> {
    let mut all = Vec::new();
    let rest = walk(json, "", &mut all);
    assert_eq!(rest, "");
    // The values are in the order in which they end, so each character is counted once.
    let (mut end, mut chars) = (0, 0);
    for placed in &mut all {
        let own = placed.json.as_ptr() as usize - json.as_ptr() as usize + placed.json.len();
        chars += json[end..own].chars().count();
        (end, placed.end_chars) = (own, chars);
    }
    all
}

/// Adds the values within the value that a text begins with, and returns the text after it. Leaves
/// out where they end.
fn walk<'t>(text: &'t str, pointer: &str, all: &mut Vec<Placed<'t>>) -> &'t str {
    let rest = match text.as_bytes()[0] {
        b'[' => {
            let mut rest = &text[1..];
            for at in 0.. {
                if let Some(after) = rest.strip_prefix(']') {
                    rest = after;
                    break;
                }
                rest = rest.strip_prefix(',').unwrap_or(rest);
                rest = walk(rest, &format!("{pointer}/{at}"), all);
            }
            rest
        }
        b'{' => {
            let mut rest = &text[1..];
            loop {
                if let Some(after) = rest.strip_prefix('}') {
                    break after;
                }
                rest = rest.strip_prefix(',').unwrap_or(rest);
                let (name, after) = after_string(rest);
                let step = name.replace('~', "~0").replace('/', "~1");
                rest = walk(&after[1..], &format!("{pointer}/{step}"), all);
            }
        }
        _ => read(text).1,
    };
    let json = &text[..text.len() - rest.len()];
    all.push(Placed { pointer: pointer.to_owned(), json, end_chars: 0 });
    rest
}

/// Returns the value at a place within a value.
pub(crate) fn value_at(value: &FieldValue, pointer: &str) -> Option<FieldValue> {
    if pointer.is_empty() {
        return Some(value.clone());
    }
    let FieldValue::Json(json) = value else { return None };
    let placed = all(json).into_iter().find(|placed| placed.pointer == pointer)?;
    Some(match J::parse(placed.json) {
        J::Null => FieldValue::Null,
        J::Bool(truth) => FieldValue::Bool(truth),
        J::Num(digits) => FieldValue::Number(digits.into()),
        J::Str(text) => FieldValue::Text(text),
        J::Arr(_) | J::Obj(_) => FieldValue::Json(placed.json.to_owned()),
    })
}

/// Returns whether JSON is an object that names a blob as some server may.
pub(crate) fn may_name_blob(json: &str) -> bool {
    J::parse(json).get("blob_id").text().is_some()
}

/// Returns whether JSON is an object that names a blob as this server does.
pub(crate) fn names_blob(json: &str) -> bool {
    let json = J::parse(json);
    let named = json.get("blob_id").text().unwrap_or_default();
    let digits = named.strip_prefix("sha256-").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}
