//! Writes JSON strings and objects, and measures strings without writing them.

use std::fmt::Write as _;

use serde::Serialize;

use crate::unseen::is_unseen;

/// Returns the text escaped for the inside of a JSON string, without the quotes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_all(&mut out, text);
    out
}

/// Returns the length in bytes of [`escaped`].
pub fn escaped_len(text: &str) -> usize {
    // Most blocks have nothing to be escaped, which is seen of all their bytes at once.
    let blocks = text
        .as_bytes()
        .chunks(16)
        .filter(|block| block.iter().fold(false, |has, byte| has | is_escaped(*byte)));
    text.len() + blocks.flatten().map(|byte| usize::from(escape_len(*byte))).sum::<usize>()
}

fn is_escaped(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

/// Returns how many bytes longer the escape of a byte is than the byte.
pub fn escape_len(byte: u8) -> u8 {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..0x20 => 5,
        _ => 0,
    }
}

/// Returns JSON in which each character that is not seen is escaped, as in `\\u202e`. The ends of
/// lines stay, since they lie between the values.
pub fn with_escapes(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\n' || !is_unseen(character) {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

/// Appends a string in quotes, with as few escapes as JSON allows.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    push_all(out, text);
    out.push('"');
}

fn push_all(out: &mut String, text: &str) {
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte < b' ' || byte == b'"' || byte == b'\\' {
            out.push_str(text.get(plain..at).unwrap_or_default());
            push_escaped(out, char::from(byte));
            plain = at + 1;
        }
    }
    out.push_str(text.get(plain..).unwrap_or_default());
}

/// Appends a character of a string, escaped if JSON wants that.
pub(crate) fn push_escaped(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        // Writing to a string does not fail.
        '\0'..='\u{1f}' => drop(write!(out, "\\u{:04x}", u32::from(character))),
        _ => out.push(character),
    }
}

/// A JSON object as compact text, written one member after another.
///
/// A list has many small objects. As texts they cost a fraction of what trees cost, and the
/// transport sends texts as they are.
pub struct ObjectText {
    /// What is written so far, without the bracket at the end.
    bytes: Vec<u8>,
}

impl ObjectText {
    /// Begins an object. `capacity` is its likely length in bytes.
    pub fn new(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(b'{');
        Self { bytes }
    }

    /// Adds a member with a value that serde serializes.
    pub fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.name(name);
        self.value(value);
    }

    /// Adds a member if it has a value.
    pub fn put_some(&mut self, name: &str, value: Option<&(impl Serialize + ?Sized)>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Adds a member whose value is JSON text.
    pub fn put_json(&mut self, name: &str, json: &str) {
        self.name(name);
        self.bytes.extend_from_slice(json.as_bytes());
    }

    /// Adds a member that is an object itself, whose members `write` adds.
    pub fn put_object(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.name(name);
        self.bytes.push(b'{');
        write(self);
        self.bytes.push(b'}');
    }

    /// Adds a list of values that are JSON texts.
    pub fn put_list<'a>(&mut self, name: &str, items: impl IntoIterator<Item = &'a str>) {
        self.name(name);
        let mut before = b'[';
        for item in items {
            self.bytes.push(before);
            self.bytes.extend_from_slice(item.as_bytes());
            before = b',';
        }
        if before == b'[' {
            self.bytes.push(before);
        }
        self.bytes.push(b']');
    }

    /// Returns how many bytes are written so far.
    pub fn written_len(&self) -> usize {
        self.bytes.len()
    }

    /// Ends the object, and returns it as compact JSON.
    pub fn finish(mut self) -> String {
        self.bytes.push(b'}');
        // Only texts are written.
        String::from_utf8(self.bytes).unwrap_or_default()
    }

    fn name(&mut self, name: &str) {
        // After a bracket comes the first member. No value ends with that bracket.
        if self.bytes.last() != Some(&b'{') {
            self.bytes.push(b',');
        }
        self.value(name);
        self.bytes.push(b':');
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        // Writing texts, numbers and trees to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.bytes, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn json_with_escapes_is_the_same_value_and_shows_all_of_it() {
        let value = serde_json::json!({ "a\u{202e}": ["b\u{200b}\u{7f}", "\u{e0001}x\ty\n"] });
        let json = with_escapes(&format!("{value:#}"));
        assert!(json.chars().all(|it| it == '\n' || !is_unseen(it)), "{json}");
        assert!(json.contains(r"a\u202e") && json.contains(r"\udb40\udc01"), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
    }

    proptest! {
        #[test]
        fn escaped_text_equals_serde_json_and_has_the_reported_length(
            text in "(?s)(.|[\u{0}-\u{1f}\"\\\\]){0,60}"
        ) {
            let json = serde_json::Value::from(text.as_str()).to_string();
            prop_assert_eq!(format!("\"{}\"", escaped(&text)), json);
            prop_assert_eq!(escaped_len(&text), escaped(&text).len());
        }
    }

    #[test]
    fn an_object_as_text_is_what_a_parser_reads_back() {
        let mut object = ObjectText::new(0);
        object.put("a\"b", "line\n\u{2028}");
        object.put_some("none", None::<&str>);
        object.put_some("some", Some(&json!([1, null])));
        object.put_json("json", "{\"x\":1}");
        object.put_list("none of them", []);
        object.put_list("list", ["1", "\"two\""]);
        object.put_object("empty", |_| ());
        object.put_object("{", |inner| {
            inner.put("brackets", "{");
            inner.put_object("deep", |deep| deep.put("x", &1));
        });
        object.put("last", &true);
        let expected = json!({
            "a\"b": "line\n\u{2028}", "some": [1, null], "json": { "x": 1 }, "none of them": [],
            "list": [1, "two"], "empty": {}, "{": { "brackets": "{", "deep": { "x": 1 } },
            "last": true,
        });
        assert_eq!(object.finish(), expected.to_string());
        assert_eq!(ObjectText::new(9).finish(), "{}");
    }
}
