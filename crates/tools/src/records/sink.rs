//! Where an answer goes, piece by piece.

/// Takes an answer as it is made.
pub trait Sink {
    /// Takes the next part. After the reader has gone it does nothing.
    fn put(&mut self, part: &str);

    /// Whether nobody reads any more, so that what is long need not go on.
    fn is_gone(&self) -> bool;
}

impl Sink for String {
    fn put(&mut self, part: &str) {
        self.push_str(part);
    }

    fn is_gone(&self) -> bool {
        false
    }
}

/// A text as the inside of a JSON string.
pub fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

/// Puts a JSON string.
pub fn put_string(out: &mut dyn Sink, text: &str) {
    out.put("\"");
    if escaped_len(text) == text.len() {
        out.put(text);
    } else {
        out.put(&escaped(text));
    }
    out.put("\"");
}

/// The bytes of a text as the inside of a JSON string.
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

/// The bytes that the escape of a byte has more than the byte.
pub fn escape_len(byte: u8) -> u8 {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..0x20 => 5,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_string_is_written_as_json_has_it_and_as_long_as_is_said(text in "(?s)(.|[\u{0}-\u{1f}\"\\\\]){0,60}") {
            let mut written = String::new();
            put_string(&mut written, &text);
            prop_assert_eq!(&written, &serde_json::Value::from(text.as_str()).to_string());
            prop_assert_eq!(escaped_len(&text) + 2, written.len());
        }
    }
}
