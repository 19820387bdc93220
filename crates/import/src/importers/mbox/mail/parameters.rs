//! Parses a media type or a disposition with its parameters.
//!
//! A parameter in a charset (`filename*`), and one in numbered pieces (`filename*0*`), precedes the
//! plain one of the same name. The pieces are joined before they are decoded. A file name of
//! encoded words is decoded too, although the standard has none there, because most programs write
//! them.
//!
//! *Source*: RFC 2045, section 5.1; RFC 2183; RFC 2231, sections 3 and 4.

use std::collections::BTreeMap;

use super::encoded_words;
use super::transfer_encoding::hexadecimal_byte;
use crate::charset::decode_text;

/// A media type such as `text/plain; charset=utf-8`, or a disposition.
#[derive(Debug)]
pub(super) struct ParameterizedValue {
    /// The type of a media type, or the whole disposition, in lower case: `text`.
    pub(super) kind: String,
    /// The subtype of a media type in lower case: `plain`. Empty for a disposition.
    pub(super) subtype: String,
    parameters: BTreeMap<String, String>,
}

/// The spellings of one parameter.
#[derive(Debug, Default)]
struct Spellings<'v> {
    plain: Option<Vec<u8>>,
    /// The pieces by number. A value in a charset and in one piece is piece 0.
    pieces: BTreeMap<usize, Piece<'v>>,
}

#[derive(Debug)]
struct Piece<'v> {
    name: &'v str,
    value: Vec<u8>,
}

impl ParameterizedValue {
    /// Parses a value of a header field. `None` if it does not begin with a type.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (main, mut rest) = value.split_once(';').unwrap_or((value, ""));
        let main = main.split('(').next().unwrap_or_default().trim().to_ascii_lowercase();
        if main.is_empty() {
            return None;
        }
        let (kind, subtype) = main.split_once('/').unwrap_or((&main, ""));
        let subtype = subtype.split_whitespace().next().unwrap_or_default();
        let mut spellings: BTreeMap<String, Spellings<'_>> = BTreeMap::new();
        while let Some((name, value, behind)) = next_parameter(rest) {
            rest = behind;
            let (base, piece) = match name.split_once('*') {
                None => (name, None),
                Some((base, piece)) => {
                    let number = piece.trim_end_matches('*');
                    match (number.is_empty(), number.parse()) {
                        (true, _) => (base, Some(0)),
                        (false, Ok(number)) => (base, Some(number)),
                        (false, Err(_)) => continue,
                    }
                }
            };
            let spelled = spellings.entry(base.to_ascii_lowercase()).or_default();
            match piece {
                None => drop(spelled.plain.get_or_insert(value)),
                Some(number) => drop(spelled.pieces.entry(number).or_insert(Piece { name, value })),
            }
        }
        let parameters = spellings.into_iter().map(|(name, spelled)| {
            let value = spelled.value(&name);
            (name, value)
        });
        Some(Self {
            kind: kind.trim().to_owned(),
            subtype: subtype.to_owned(),
            parameters: parameters.collect(),
        })
    }

    /// Returns a parameter that is not empty.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl Spellings<'_> {
    fn value(self, name: &str) -> String {
        let is_file_name = matches!(name, "filename" | "name");
        let plain = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) if is_file_name && text.contains("=?") => {
                encoded_words::decoded(bytes).unwrap_or_else(|| text.to_owned())
            }
            _ => decode_text(bytes, None).into_owned(),
        };
        let mut charset = None;
        let mut joined = Vec::new();
        let mut is_in_charset = false;
        for (expected, (number, piece)) in self.pieces.into_iter().enumerate() {
            // What follows a piece that is absent cannot be joined.
            if number != expected {
                break;
            }
            if !piece.name.ends_with('*') {
                joined.extend(piece.value);
                continue;
            }
            let mut value = piece.value.as_slice();
            if number == 0 {
                let mut parts = value.splitn(3, |&byte| byte == b'\'');
                if let (Some(named), Some(_), Some(rest)) =
                    (parts.next(), parts.next(), parts.next())
                {
                    charset = Some(String::from_utf8_lossy(named).into_owned());
                    value = rest;
                }
            }
            is_in_charset = true;
            joined.extend(percent_decoded(value));
        }
        match self.plain {
            Some(bytes) if joined.is_empty() => plain(&bytes),
            _ if is_in_charset => decode_text(&joined, charset.as_deref()).into_owned(),
            _ => plain(&joined),
        }
    }
}

/// Returns the name and the value of the next parameter, and what follows it.
fn next_parameter(text: &str) -> Option<(&str, Vec<u8>, &str)> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|first: char| first == ';' || first.is_whitespace());
        let at = rest.find(['=', ';'])?;
        let (name, behind) = rest.split_at(at);
        let Some(value) = behind.strip_prefix('=') else {
            rest = behind;
            continue;
        };
        let value = value.trim_start();
        let Some(quoted) = value.strip_prefix('"') else {
            let (value, rest) = value.split_at(value.find(';').unwrap_or(value.len()));
            return Some((name.trim(), value.trim().as_bytes().to_vec(), rest));
        };
        let (mut spelled, mut is_escaped) = (Vec::new(), false);
        for (at, character) in quoted.char_indices() {
            match character {
                '"' if !is_escaped => {
                    let behind = quoted.get(at + 1..).unwrap_or_default();
                    return Some((name.trim(), spelled, behind));
                }
                '\\' if !is_escaped => is_escaped = true,
                // A folded line ends with the space that the next one begins with.
                '\r' | '\n' => {}
                _ => {
                    is_escaped = false;
                    spelled.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        return Some((name.trim(), spelled, ""));
    }
}

fn percent_decoded(value: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, behind)) = rest.split_first() {
        let encoded = hexadecimal_byte(behind).filter(|_| byte == b'%');
        rest = if encoded.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
        decoded.push(encoded.unwrap_or(byte));
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_is_read_in_every_spelling() {
        for (value, expected) in [
            ("attachment; filename=a.pdf", "a.pdf"),
            ("attachment; filename=\"a; \\\"b\\\".pdf\"; size=3", "a; \"b\".pdf"),
            ("attachment; filename=my file.pdf ; size=3", "my file.pdf"),
            ("attachment; filename=\"Gr.pdf\"; filename*=UTF-8''Gr%C3%BC.pdf", "Grü.pdf"),
            ("attachment; filename*=UTF-8''Gr%C3%BC.pdf; filename=\"Gr.pdf\"", "Grü.pdf"),
            (
                "a; filename*0*=UTF-8''Gr%C3;\r\n filename*1*=%BC%C3%9F; filename*2=\"e.pdf\"",
                "Grüße.pdf",
            ),
            ("a; filename*1=b.pdf; filename*0=\"a \"", "a b.pdf"),
            ("a; filename*0=a; filename*2=c", "a"),
            ("a; filename*=iso-8859-1'de'Gr%FC%DFe", "Grüße"),
            ("a; filename*=%41.pdf", "A.pdf"),
            ("a; filename=\"=?utf-8?Q?Gr=C3?=\r\n =?utf-8?Q?=BC=C3=9Fe?=.pdf\"", "Grüße .pdf"),
            ("a; filename=\"=?utf-8?Q?Gr=C3?= =?utf-8?Q?=BC?=\"", "Grü"),
            ("a; filename=\"open", "open"),
            ("a; other; filename = x", "x"),
        ] {
            let parsed = ParameterizedValue::parse(value).unwrap();
            assert_eq!(parsed.parameter("filename"), Some(expected), "{value}");
        }
        let parsed = ParameterizedValue::parse("Text/HTML (page) ; Boundary=\"=?a\"").unwrap();
        assert_eq!((parsed.kind.as_str(), parsed.subtype.as_str()), ("text", "html"));
        assert_eq!(parsed.parameter("boundary"), Some("=?a"), "only file names are decoded");
        assert_eq!(parsed.parameter("filename"), None);
        assert!(ParameterizedValue::parse(";;;").is_none());
        assert!(ParameterizedValue::parse("").is_none());
    }
}
