//! The lines of a text answer. What records hold stands in them as JSON only, so that no record can
//! write a line.

use serde_json::{Value as Json, json};

use super::call_context::CallContext;

/// The longest literal call that goes on with a page. Longer ones are told by what differs.
const LITERAL_BYTES: usize = 400;

/// The line that names a next call: `next: tool {arguments} (note)`.
pub(super) fn next_call(tool: &str, arguments: &Json, note: &str) -> String {
    if note.is_empty() {
        format!("next: {tool} {arguments}")
    } else {
        format!("next: {tool} {arguments} ({note})")
    }
}

/// The line that goes on with this call's list after a cursor.
pub(super) fn next_page(context: &CallContext, tool: &str, cursor: &str, note: &str) -> String {
    let literal = escape_line_breaks(next_call(tool, &context.arguments_with(cursor), note));
    if literal.len() <= LITERAL_BYTES.max(cursor.len() + 120) {
        return literal;
    }
    next_call(&format!("{tool} with the same arguments and"), &json!({ "cursor": cursor }), note)
}

/// A text of a resource server in a line: as it is where it is one plain word, as JSON otherwise.
pub(super) fn bare_or_json(text: &str) -> String {
    let is_word =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
    if is_word { text.to_owned() } else { escape_line_breaks(Json::from(text).to_string()) }
}

/// How much of a field is shown.
pub(super) fn shown_note(shown: u64, size: Option<u64>) -> String {
    match (shown, size) {
        (_, Some(size)) => format!("{shown} of {size} chars shown"),
        // Whatever is shown of it, not counted.
        (0, None) => "incomplete, read from its beginning".to_owned(),
        (_, None) => format!("{shown} chars shown, there is more"),
    }
}

/// JSON, in which what JSON leaves as it is and some clients take for the end of a line is escaped
/// too.
pub(super) fn escape_line_breaks(json: String) -> String {
    if json.is_ascii() || !json.contains(is_line_break) {
        return json;
    }
    let mut plain = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_line_break(c) {
            plain += &format!("\\u{:04x}", u32::from(c));
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Next line, line separator and paragraph separator (Unicode Standard Annex 14, classes NL and
/// BK).
pub(super) fn is_line_break(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}')
}
