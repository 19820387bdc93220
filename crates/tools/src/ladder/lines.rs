//! The lines of a text answer. What records hold stands in them as JSON only, so that no record can write a line.

use serde_json::{Value as Json, json};

use super::climb::Climb;

/// The longest literal call that goes on with a page. Longer ones are told by what differs.
const LITERAL_BYTES: usize = 400;

/// The line that names a next call: `next: tool {arguments} (note)`.
pub(super) fn next(tool: &str, arguments: &Json, note: &str) -> String {
    if note.is_empty() { format!("next: {tool} {arguments}") } else { format!("next: {tool} {arguments} ({note})") }
}

/// The line that goes on with this call's list after a cursor.
pub(super) fn again(climb: &Climb<'_>, tool: &str, cursor: &str, note: &str) -> String {
    let literal = next(tool, &climb.arguments_with(cursor), note);
    if literal.len() <= LITERAL_BYTES.max(cursor.len() + 120) {
        return literal;
    }
    next(&format!("{tool} with the same arguments and"), &json!({ "cursor": cursor }), note)
}

/// How much of a field is shown.
pub(super) fn shown_of(shown: u64, size: Option<u64>) -> String {
    match size {
        Some(size) => format!("{shown} of {size} chars shown"),
        None => format!("{shown} chars shown, there is more"),
    }
}
