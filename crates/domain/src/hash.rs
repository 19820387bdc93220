//! The name of a file's exact bytes: what a caller read, and what a write replaces.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The SHA-256 of the stored bytes, without any normalization of newlines or Unicode.
///
/// *Shape*: 64 lower-case hexadecimal digits. *Source*: MCP-031, FIPS 180-4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash([u8; 32]);

/// A text is not 64 lower-case hexadecimal digits. It is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not 64 lower-case hexadecimal digits")]
pub struct BadHash;

impl ContentHash {
    /// Hashes bytes that are all in memory.
    pub fn digest(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses the text form.
    ///
    /// # Errors
    /// [`BadHash`] for anything else than 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, BadHash> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(BadHash);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().try_fold(0, |value, digit| {
                let digit = match digit {
                    b'0'..=b'9' => digit - b'0',
                    b'a'..=b'f' => digit - b'a' + 10,
                    _ => return Err(BadHash),
                };
                Ok(value << 4 | digit)
            })?;
        }
        Ok(Self(bytes))
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// From the 32 bytes of a digest.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Bytes as hexadecimal digits in lower case.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        digits.extend(
            [byte >> 4, byte & 15]
                .into_iter()
                .filter_map(|digit| char::from_digit(digit.into(), 16)),
        );
    }
    digits
}

/// Hashes bytes that arrive in pieces.
#[derive(Clone, Default)]
pub struct ContentHasher(Sha256);

impl ContentHasher {
    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all pieces.
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

impl JsonSchema for ContentHash {
    fn schema_name() -> Cow<'static, str> {
        "ContentHash".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_empty_file_has_the_published_digest() {
        assert_eq!(
            ContentHash::digest(b"").to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn other_spellings_are_refused() {
        let text = ContentHash::digest(b"a").to_string();
        assert_eq!(ContentHash::parse(&text.to_uppercase()), Err(BadHash));
        assert_eq!(ContentHash::parse(&text[..63]), Err(BadHash));
        assert_eq!(ContentHash::parse(&format!("{} ", &text[..63])), Err(BadHash));
        assert_eq!(ContentHash::parse(""), Err(BadHash));
    }

    proptest! {
        #[test]
        fn text_and_back_is_the_identity(bytes in any::<[u8; 32]>()) {
            let hash = ContentHash::from_bytes(bytes);
            prop_assert_eq!(ContentHash::parse(&hash.to_string()), Ok(hash));
        }

        #[test]
        fn pieces_hash_like_the_whole(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
            let cut = cut.min(bytes.len());
            let mut hasher = ContentHasher::default();
            hasher.update(&bytes[..cut]);
            hasher.update(&bytes[cut..]);
            prop_assert_eq!(hasher.finish(), ContentHash::digest(&bytes));
        }
    }
}
