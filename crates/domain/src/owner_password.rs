//! The password with which an owner signs in, as a value that was checked once.
//!
//! *Source*: NIST SP 800-63B, section 3.1.1 (length, no rules about characters, normalisation);
//! RFC 8265, section 4.2 (normalisation form C).

use std::fmt;

use unicode_normalization::UnicodeNormalization as _;

/// A password of 12 characters to 1024 bytes, in normalisation form C.
///
/// Two keyboards may send one letter as different characters. Form C makes them equal. Spaces and
/// all other characters count, at the ends too.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnerPassword(String);

/// Why a text is not accepted as a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPassword {
    /// The text has fewer than 12 characters, so it could be guessed.
    #[error(
        "a password has at least {} characters; the old one, if any, stays",
        OwnerPassword::MIN_CHARS
    )]
    TooShort,
    /// The text has more than 1024 bytes.
    #[error(
        "a password has at most {} bytes; the old one, if any, stays",
        OwnerPassword::MAX_BYTES
    )]
    TooLong,
    /// The text has a line break or another control character, which forms do not send unchanged.
    #[error("a password has no control characters; the old one, if any, stays")]
    ControlCharacter,
}

impl OwnerPassword {
    /// The fewest characters of a password.
    pub const MIN_CHARS: usize = 12;
    /// The most bytes of a password, before and after normalisation.
    pub const MAX_BYTES: usize = 1024;

    /// Checks and normalises what a person typed.
    ///
    /// # Errors
    /// [`BadPassword`], which repeats nothing of the text.
    pub fn parse(text: &str) -> Result<Self, BadPassword> {
        if text.len() > Self::MAX_BYTES {
            return Err(BadPassword::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(BadPassword::ControlCharacter);
        }
        let normalised: String = text.nfc().collect();
        if normalised.len() > Self::MAX_BYTES {
            return Err(BadPassword::TooLong);
        }
        if normalised.chars().count() < Self::MIN_CHARS {
            return Err(BadPassword::TooShort);
        }
        Ok(Self(normalised))
    }

    /// Returns the bytes that are hashed.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for OwnerPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerPassword(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_has_twelve_characters_to_1024_bytes() {
        for (text, expected) in [
            ("elevenchars", Some(BadPassword::TooShort)),
            ("twelve chars", None),
            ("ééééééééééé", Some(BadPassword::TooShort)),
            ("éééééééééééé", None),
            ("            ", None),
            ("twelve chars\n", Some(BadPassword::ControlCharacter)),
            ("", Some(BadPassword::TooShort)),
        ] {
            assert_eq!(OwnerPassword::parse(text).err(), expected, "{text:?}");
        }
        assert_eq!(OwnerPassword::parse(&"x".repeat(1024)).err(), None);
        assert_eq!(OwnerPassword::parse(&"x".repeat(1025)).err(), Some(BadPassword::TooLong));
    }

    #[test]
    fn one_letter_in_two_spellings_is_one_password() {
        let composed = OwnerPassword::parse("caf\u{e9} au lait au lit").unwrap();
        let decomposed = OwnerPassword::parse("cafe\u{301} au lait au lit").unwrap();
        assert_eq!(composed.as_bytes(), decomposed.as_bytes());
        let capital = OwnerPassword::parse("Caf\u{e9} au lait au lit").unwrap();
        assert_ne!(composed, capital);
    }

    #[test]
    fn debug_output_does_not_contain_the_password() {
        let password = OwnerPassword::parse("correct horse battery").unwrap();
        assert_eq!(format!("{password:?}"), "OwnerPassword(…)");
    }
}
