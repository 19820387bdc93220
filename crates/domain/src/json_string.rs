//! Escapes text for JSON strings and measures the result without building it.

use crate::unseen::is_unseen;

/// Returns the text escaped for the inside of a JSON string, without the quotes.
pub fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
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

#[cfg(test)]
mod tests {
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
}
