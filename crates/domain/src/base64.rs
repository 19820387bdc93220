//! Base64 (RFC 4648): the two variants that the program writes and reads strictly, and the guesses
//! for texts of people, which may be in either alphabet, padded or not.
//!
//! `Base64Check` says whether a whole text of a declared field is base64, `encoded_text` guesses it
//! of a text that nobody declared, and `embedded` finds where it begins within other text.

pub mod embedded;
pub mod encoded_text;

use base64::alphabet;
use base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD,
};
use base64::engine::{DecodePaddingMode, Engine as _};

/// Decodes the standard alphabet however a text ends.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Encodes with the URL-safe alphabet and without padding, as tokens and cursors are.
pub fn url_safe(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes what [`url_safe`] encodes; `None` for every other text.
pub fn from_url_safe(text: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Encodes with the standard alphabet and padding, as values in JSON are.
pub fn standard(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// Decodes what [`standard`] encodes; `None` for every other text.
pub fn from_standard(text: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Decodes a text that [`is_base64`], or four characters and more from within one.
pub fn from_any(text: &str) -> Option<Vec<u8>> {
    LENIENT.decode(text.replace('-', "+").replace('_', "/")).ok()
}

/// Returns whether a byte is one of the 64 characters in either alphabet.
pub fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Returns how many bytes so many characters encode, without the padding.
pub fn decoded_len(letters: u64) -> u64 {
    letters / 4 * 3 + letters % 4 * 3 / 4
}

/// Recognises base64 in a text that arrives in parts: RFC 4648 in either alphabet, with or without
/// padding, without line breaks, and at least two characters.
#[derive(Clone, Debug, Default)]
pub struct Base64Check {
    letters: u64,
    padding: u64,
    has_other: bool,
}

impl Base64Check {
    /// Takes the next part of the text.
    pub fn feed(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                b'=' => self.padding += 1,
                _ if is_letter(byte) && self.padding == 0 => self.letters += 1,
                _ => self.has_other = true,
            }
        }
    }

    /// Whether all of the text is base64.
    pub fn is_base64(&self) -> bool {
        let whole = (self.letters + self.padding).is_multiple_of(4) && self.padding <= 2;
        let unpadded = self.padding == 0 && self.letters % 4 != 1;
        !self.has_other && self.letters > 0 && (whole || unpadded)
    }
}

/// Whether all of a text is base64, as [`Base64Check`] has it.
pub fn is_base64(text: &str) -> bool {
    let mut check = Base64Check::default();
    check.feed(text);
    check.is_base64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_distinguished_from_text() {
        for yes in ["QUJD", "QUI=", "QQ==", "QUI", "QQ", "_-8", "AAAA"] {
            assert!(is_base64(yes), "{yes}");
            let mut check = Base64Check::default();
            yes.char_indices().for_each(|(at, c)| check.feed(&yes[at..at + c.len_utf8()]));
            assert!(check.is_base64(), "{yes} in parts");
        }
        for no in ["", "=", "====", "Q", "QUJDR", "QU=D", "QUI=\n", "QU JD", "QUJD=", "Q===", "é"]
        {
            assert!(!is_base64(no), "{no}");
        }
    }
}
