//! A path as one segment of another.

use std::fmt::Write as _;

/// Percent-encodes UTF-8 as JavaScript's `encodeURIComponent` does, so that what servers written in
/// it decode is what was meant. *Source*: ECMA-262, `encodeURIComponent`: all but
/// `A-Za-z0-9-_.!~*'()`.
pub fn encode_component(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::digest::{SHA256, digest};

    /// The digest is of what `encodeURIComponent` makes of every character of the first plane, one
    /// a line, in Node.js: `for (c = 0; c < 0x10000; c++) if (c < 0xd800 || c > 0xdfff) out +=
    /// encodeURIComponent(String.fromCharCode(c)) + "\n"`
    #[test]
    fn unit_the_first_plane_is_encoded_as_javascript_does() {
        let lines: String = (0..=0xffff)
            .filter_map(char::from_u32)
            .map(|c| encode_component(&c.to_string()) + "\n")
            .collect();
        let hex: String = digest(&SHA256, lines.as_bytes())
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, "185908d5c4108be753889c9caaad3caff688ff92f84e3a9e1fef4f0d68861c80");
    }

    #[test]
    fn unit_a_path_is_one_segment() {
        for (path, segment) in [
            ("inbox/one.md", "inbox%2Fone.md"),
            ("a b/c?d#e&f=g+h;i:j@k,l$m", "a%20b%2Fc%3Fd%23e%26f%3Dg%2Bh%3Bi%3Aj%40k%2Cl%24m"),
            ("100%/..a", "100%25%2F..a"),
            ("-_.!~*'()", "-_.!~*'()"),
            ("\u{1f680}", "%F0%9F%9A%80"),
        ] {
            assert_eq!(encode_component(path), segment);
        }
    }
}
