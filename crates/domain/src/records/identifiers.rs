//! The names of connections, streams and fields, and the keys of records.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest record key, in bytes.
pub const MAX_KEY_BYTES: usize = 512;
/// The longest field name, in bytes.
pub const MAX_FIELD_NAME_BYTES: usize = 512;
/// The longest name of a connection, a stream or a view, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// The name of a connection or of a stream.
///
/// *Shape*: 1 to 64 of `A-Z a-z 0-9 . _ -`, beginning with a letter, a digit or `_`. Such a name
/// needs no quoting in a shell, in an address or in an identifier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct SourceName(String);

/// A text that cannot name a connection or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name has 1 to 64 of the characters A-Z a-z 0-9 . _ - and begins with a letter, a digit or _"
)]
pub struct BadSourceName;

impl SourceName {
    /// Parses the name of a connection or a stream.
    pub fn parse(text: &str) -> Result<Self, BadSourceName> {
        let first = text.bytes().next().ok_or(BadSourceName)?;
        let fits = text.len() <= MAX_NAME_BYTES
            && (first.is_ascii_alphanumeric() || first == b'_')
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
        if fits { Ok(Self(text.to_owned())) } else { Err(BadSourceName) }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SourceName {
    type Error = BadSourceName;

    fn try_from(text: String) -> Result<Self, BadSourceName> {
        Self::parse(&text)
    }
}

impl From<SourceName> for String {
    fn from(name: SourceName) -> Self {
        name.0
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The canonical key of a record in its stream.
///
/// *Shape*: 1 to 512 bytes of UTF-8. A simple key is the value itself. A compound key is a compact
/// JSON array of the components as strings, in the order of the primary key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(String);

/// A text that cannot be a record key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record key has 1 to 512 bytes")]
pub struct BadKey;

impl RecordKey {
    /// Parses a canonical key.
    ///
    /// # Errors
    /// [`BadKey`] if the text is empty or too long.
    pub fn parse(text: &str) -> Result<Self, BadKey> {
        if (1..=MAX_KEY_BYTES).contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadKey)
        }
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Whether a text can be the name of a field: 1 to 512 bytes without U+0000.
pub fn is_field_name(text: &str) -> bool {
    (1..=MAX_FIELD_NAME_BYTES).contains(&text.len()) && !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_quoting() {
        for good in ["a", "gmail-work", "0", "_x", "A.b_c-d", &"x".repeat(64)] {
            assert_eq!(SourceName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "-x", ".x", "a/b", "a b", "ä", "a\0", "a:b", &"x".repeat(65)] {
            assert_eq!(SourceName::parse(bad), Err(BadSourceName), "{bad}");
        }
    }

    #[test]
    fn keys_are_measured_in_bytes() {
        assert!(RecordKey::parse(&"ä".repeat(256)).is_ok());
        assert_eq!(RecordKey::parse(&"ä".repeat(257)), Err(BadKey));
        assert_eq!(RecordKey::parse(""), Err(BadKey));
    }
}
