//! Percent-encoding (RFC 3986, section 2.1), the one encoder and decoder of the workspace.
//!
//! Encoders differ in the bytes that they keep; the name of each function says which. Every decoder
//! decodes once and refuses a malformed escape and a result that is not UTF-8.

use std::fmt::Write as _;

use crate::hash::hex_byte;

/// Percent-encodes a path component or a query value: every byte except the unreserved ones of
/// RFC 3986, section 2.3 (`A-Za-z0-9._~-`).
pub fn encode_component(text: &str) -> String {
    encode_except(text, is_unreserved)
}

/// Percent-encodes as JavaScript's `encodeURIComponent` does, for servers that are written in it.
///
/// *Source*: ECMA-262, `encodeURIComponent`: keeps `A-Za-z0-9-_.!~*'()`.
pub fn encode_uri_component(text: &str) -> String {
    encode_except(text, |byte| byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte))
}

/// Percent-encodes every byte that `keep` rejects. Bytes outside ASCII are always encoded.
pub fn encode_except(text: &str, keep: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii() && keep(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Decodes every escape; other characters stay as they are, `+` too.
///
/// Returns `None` for a malformed escape and for a result that is not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    decode_bytes(text, |byte| byte)
}

/// Decodes a name or a value of an `application/x-www-form-urlencoded` query, where `+` is a space.
///
/// Returns `None` as [`decode`] does. *Source*: URL Standard, section 5.1.
pub fn decode_form(text: &str) -> Option<String> {
    decode_bytes(text, |byte| if byte == b'+' { b' ' } else { byte })
}

/// Decodes a text in which every byte that `keep` rejects must be encoded: undoes
/// [`encode_except`].
///
/// Returns `None` for a byte that should have been encoded, and as [`decode`] does.
pub fn decode_except(text: &str, keep: impl Fn(u8) -> bool) -> Option<String> {
    text.bytes().all(|byte| byte == b'%' || keep(byte)).then(|| decode(text)).flatten()
}

/// Undoes [`encode_component`]; returns `None` as [`decode_except`] does.
pub fn decode_component(text: &str) -> Option<String> {
    decode_except(text, is_unreserved)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-')
}

fn decode_bytes(text: &str, unescaped: impl Fn(u8) -> u8) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            hex_byte(rest.next()?, rest.next()?)?
        } else {
            unescaped(byte)
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::ContentHash;
    use proptest::prelude::*;

    /// The digest is of what `encodeURIComponent` makes of every character of the first plane, one
    /// a line, in Node.js: `for (c = 0; c < 0x10000; c++) if (c < 0xd800 || c > 0xdfff) out +=
    /// encodeURIComponent(String.fromCharCode(c)) + "\n"`
    #[test]
    fn the_first_plane_is_encoded_as_javascript_does() {
        let lines: String = (0..=0xffff)
            .filter_map(char::from_u32)
            .map(|c| encode_uri_component(&c.to_string()) + "\n")
            .collect();
        assert_eq!(
            ContentHash::digest(lines.as_bytes()).to_string(),
            "185908d5c4108be753889c9caaad3caff688ff92f84e3a9e1fef4f0d68861c80"
        );
    }

    #[test]
    fn a_path_becomes_one_segment() {
        for (path, segment) in [
            ("inbox/one.md", "inbox%2Fone.md"),
            ("a b/c?d#e&f=g+h;i:j@k,l$m", "a%20b%2Fc%3Fd%23e%26f%3Dg%2Bh%3Bi%3Aj%40k%2Cl%24m"),
            ("100%/..a", "100%25%2F..a"),
            ("-_.!~*'()", "-_.!~*'()"),
            ("\u{1f680}", "%F0%9F%9A%80"),
        ] {
            assert_eq!(encode_uri_component(path), segment);
        }
        assert_eq!(encode_component("-_.!~*'()"), "-_.%21~%2A%27%28%29");
    }

    #[test]
    fn a_malformed_escape_is_refused() {
        for text in ["%", "%4", "%zz", "%+1", "%ff", "%c3", "a%2"] {
            assert_eq!((decode(text), decode_form(text)), (None, None), "{text}");
        }
        assert_eq!(decode("a+%2b/%C3%A9"), Some("a++/é".to_owned()));
        assert_eq!(decode_form("a+%2b/%C3%A9"), Some("a +/é".to_owned()));
        assert_eq!((decode_component("a/b"), decode_component("é")), (None, None));
        assert_eq!(decode_component("a%2fb"), Some("a/b".to_owned()));
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(text in "\\PC{0,20}") {
            prop_assert_eq!(decode_component(&encode_component(&text)), Some(text.clone()));
            prop_assert_eq!(decode(&encode_uri_component(&text)), Some(text.clone()));
            prop_assert_eq!(decode_form(&encode_component(&text)), Some(text));
        }
    }
}
