//! The lines of a text answer. Content of records appears as JSON only, so that no record can forge
//! a line.

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value as Json;

/// Renders a line that names a call: `next: tool {arguments} (note)`. The arguments are JSON.
pub(super) fn next_call(tool: &str, arguments: &impl Display, note: &str) -> String {
    if note.is_empty() {
        format!("next: {tool} {arguments}")
    } else {
        format!("next: {tool} {arguments} ({note})")
    }
}

/// Renders a text from a resource server: bare if it is one printable word, as JSON otherwise.
pub(super) fn bare_or_json(text: &str) -> String {
    let is_word =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
    if is_word { text.to_owned() } else { escape_line_breaks(Json::from(text).to_string()) }
}

/// Renders a value as JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Says how much of a field is shown.
pub(super) fn shown_note(shown: u64, size: Option<u64>) -> String {
    match (shown, size) {
        (_, Some(size)) => format!("{shown} of {size} chars shown"),
        // An unknown part is shown.
        (0, None) => "incomplete, read from its beginning".to_owned(),
        (_, None) => format!("{shown} chars shown, there is more"),
    }
}

/// Escapes the line breaks that JSON allows within strings and some clients act on.
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

/// Returns whether a character is NEL, LINE SEPARATOR or PARAGRAPH SEPARATOR (Unicode Standard
/// Annex 14, classes NL and BK).
pub(super) fn is_line_break(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}')
}
