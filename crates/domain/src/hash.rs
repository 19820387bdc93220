//! SHA-256 hashes of file contents. A caller gets the hash with the text, and every write names the
//! hash that it replaces.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::inline_schema::inline_schema;

/// The SHA-256 of the stored bytes, without any normalization of newlines or Unicode.
///
/// *Shape*: 64 lower-case hexadecimal digits. *Source*: MCP-031, FIPS 180-4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash([u8; 32]);

/// The error for a text that is not 64 lower-case hexadecimal digits. It does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not 64 lower-case hexadecimal digits")]
pub struct BadHash;

impl ContentHash {
    /// Hashes bytes that are all in memory. [`ContentHasher`] takes them in pieces.
    pub fn digest(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses 64 lower-case hexadecimal digits.
    ///
    /// # Errors
    /// [`BadHash`] for any other text.
    pub fn parse(text: &str) -> Result<Self, BadHash> {
        let is_lower_case = !text.bytes().any(|digit| digit.is_ascii_uppercase());
        from_hex(text).filter(|_| is_lower_case).map(Self).ok_or(BadHash)
    }

    /// Returns the 32 bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Wraps the 32 bytes of a digest.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Returns the bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Returns the byte that two hexadecimal digits are, in upper or lower case; `None` if one of them
/// is another character.
pub fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Returns the bytes that a text of hexadecimal digits is, in upper or lower case; `None` for
/// another text, and for another number of digits.
pub fn from_hex<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let (pairs, rest) = text.as_bytes().as_chunks();
    if pairs.len() != BYTES || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = hex_byte(high, low)?;
    }
    Some(bytes)
}

/// A hasher for bytes that arrive in pieces.
#[derive(Clone, Default)]
pub struct ContentHasher(Sha256);

impl ContentHasher {
    /// Hashes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the hash of all pieces.
    pub fn finish(self) -> ContentHash {
        ContentHash(self.0.finalize().into())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for ContentHash {
    type Error = BadHash;
    fn try_from(text: String) -> Result<Self, BadHash> {
        Self::parse(&text)
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> Self {
        hash.to_string()
    }
}

inline_schema!(ContentHash, { "type": "string", "pattern": "^[0-9a-f]{64}$" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_read_as_they_are_written_and_nothing_else_is() {
        assert_eq!(from_hex(&hex(&[0, 1, 0xab, 0xff])), Some([0, 1, 0xab, 0xff]));
        assert_eq!(from_hex("ABcd"), Some([0xab, 0xcd]));
        for other in ["", "ab", "abc", "abcde", "abcdef", "+1ab", "ab g", "é1c"] {
            assert_eq!(from_hex::<2>(other), None, "{other}");
        }
    }
    use proptest::prelude::*;

    #[test]
    fn the_empty_file_has_the_published_digest() {
        assert_eq!(
            ContentHash::digest(b"").to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn every_other_spelling_is_refused() {
        let text = ContentHash::digest(b"a").to_string();
        assert_eq!(ContentHash::parse(&text.to_uppercase()), Err(BadHash));
        assert_eq!(ContentHash::parse(&text[..63]), Err(BadHash));
        assert_eq!(ContentHash::parse(&format!("{} ", &text[..63])), Err(BadHash));
        assert_eq!(ContentHash::parse(""), Err(BadHash));
    }

    proptest! {
        #[test]
        fn parsing_undoes_formatting(bytes in any::<[u8; 32]>()) {
            let hash = ContentHash::from_bytes(bytes);
            prop_assert_eq!(ContentHash::parse(&hash.to_string()), Ok(hash));
        }

        #[test]
        fn pieces_have_the_hash_of_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300
        ) {
            let cut = cut.min(bytes.len());
            let mut hasher = ContentHasher::default();
            hasher.update(&bytes[..cut]);
            hasher.update(&bytes[cut..]);
            prop_assert_eq!(hasher.finish(), ContentHash::digest(&bytes));
        }
    }
}
