//! Decodes bytes as text: parts of files at once, and whole files while they are read.

pub mod file_encoding;

use std::borrow::Cow;

use mail_parser::decoders::charsets::map::charset_decoder;
use stile_domain::text_encoding::TextEncoding;

/// Decodes bytes as text. Without a known charset the text is UTF-8 with U+FFFD for each fault, or
/// windows-1252 if the bytes have more faults than characters of several bytes.
pub(crate) fn decode_text<'b>(bytes: &'b [u8], charset: Option<&str>) -> Cow<'b, str> {
    let is_utf8 = |name: &&str| {
        !["utf-8", "utf8", "us-ascii", "ascii"].iter().any(|own| name.eq_ignore_ascii_case(own))
    };
    let named = charset.filter(is_utf8).and_then(|name| charset_decoder(name.as_bytes()));
    if let Some(decode) = named {
        return Cow::Owned(decode(bytes));
    }
    let decoded = || TextEncoding::WINDOWS_1252.decode(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) if is_utf8_with_faults(bytes) => String::from_utf8_lossy(bytes),
        Err(_) => decoded().unwrap_or_else(|| String::from_utf8_lossy(bytes)),
    }
}

/// Returns whether bytes that are not UTF-8 are so at a few places only: a text that was cut within
/// a character, for example. In windows-1252, two letters in a row that happen to be one character
/// of UTF-8 are rare.
fn is_utf8_with_faults(bytes: &[u8]) -> bool {
    let (mut characters, mut faults) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        characters += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
        faults += usize::from(!chunk.invalid().is_empty());
    }
    characters > 0 && characters >= faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_byte_spoils_one_character() {
        for (bytes, text) in [
            ("Привет мир".as_bytes().to_vec(), "Привет мир"),
            ([&b"\xd1"[..], "Grüße".as_bytes(), b"\xff"].concat(), "\u{fffd}Grüße\u{fffd}"),
            (b"caf\xe9 \x80".to_vec(), "café €"),
            (b"caf\xe9, na\xc3\xafve, \xe9t\xe9".to_vec(), "café, naÃ¯ve, été"),
        ] {
            for charset in [None, Some("UTF-8")] {
                assert_eq!(decode_text(&bytes, charset), text);
            }
        }
    }
}
