//! Cursors with which `text.read` continues exactly where the last answer stopped.
//!
//! A cursor names a position in one version of one file. A cursor carries the digest of the path
//! and the hash of the bytes, and decoding refuses any other path. The store refuses any other
//! hash. A cursor holds no content and gives no access, because every call is authorized by its
//! path. A checksum makes a damaged cursor malformed; without one it could name a different
//! position.

use crate::base64;
use crate::hash::ContentHash;
use crate::path::SpacePath;

/// A position in one version of a file, and the end of the requested range.
///
/// *Shape* on the wire: 99 URL-safe characters, opaque to callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCursor {
    /// The hash of the version that was read.
    pub hash: ContentHash,
    /// The byte offset of the next byte to read.
    pub offset: u64,
    /// The 1-based line that holds the byte at `offset`.
    pub line: u64,
    /// One past the last requested line, 1-based.
    pub end: u64,
}

/// Why a cursor cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFileCursor {
    /// The text is not a cursor of this server, or was changed on the way.
    #[error("`cursor` is not one that a read returned")]
    Malformed,
    /// The cursor belongs to another file, or to another stated encoding.
    #[error("`cursor` belongs to another `path` or `encoding`")]
    Mismatch,
}

const VERSION: u8 = 1;
const LENGTH: usize = 1 + 8 + 32 + 8 + 8 + 8 + 9;

impl FileCursor {
    /// Returns the text that a caller sends back.
    pub fn encode(&self, path: &SpacePath) -> String {
        self.encode_in(path, "")
    }

    /// Returns the text that a caller sends back together with what they stated of how to read the
    /// file: its encoding, or its form. The offset is then one in the text that was read so.
    pub fn encode_in(&self, path: &SpacePath, stated: &str) -> String {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.push(VERSION);
        bytes.extend(digest_of(path, stated));
        bytes.extend(self.hash.as_bytes());
        for number in [self.offset, self.line, self.end] {
            bytes.extend(number.to_be_bytes());
        }
        let check = checksum(&bytes);
        bytes.extend(check);
        base64::url_safe(bytes)
    }

    /// Parses the text that [`FileCursor::encode`] returned for the same path.
    ///
    /// # Errors
    /// [`BadFileCursor::Malformed`] for any other text. [`BadFileCursor::Mismatch`] for another
    /// path.
    pub fn decode(text: &str, path: &SpacePath) -> Result<Self, BadFileCursor> {
        Self::decode_in(text, path, "")
    }

    /// Parses the text that [`FileCursor::encode_in`] returned for the same path and way to read
    /// it.
    ///
    /// # Errors
    /// As [`FileCursor::decode`]. Another way to read the file is a mismatch, too.
    pub fn decode_in(text: &str, path: &SpacePath, stated: &str) -> Result<Self, BadFileCursor> {
        let bytes = base64::from_url_safe(text).ok_or(BadFileCursor::Malformed)?;
        let (body, check) = bytes.split_at_checked(LENGTH - 9).ok_or(BadFileCursor::Malformed)?;
        if bytes.len() != LENGTH || check != checksum(body) || body.first() != Some(&VERSION) {
            return Err(BadFileCursor::Malformed);
        }
        if body.get(1..9) != Some(&digest_of(path, stated)[..]) {
            return Err(BadFileCursor::Mismatch);
        }
        let hash = body
            .get(9..41)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(BadFileCursor::Malformed)?;
        let number = |from: usize| {
            body.get(from..from + 8)
                .and_then(|bytes| bytes.try_into().ok())
                .map(u64::from_be_bytes)
                .ok_or(BadFileCursor::Malformed)
        };
        Ok(Self {
            hash: ContentHash::from_bytes(hash),
            offset: number(41)?,
            line: number(49)?,
            end: number(57)?,
        })
    }
}

fn digest_of(path: &SpacePath, stated: &str) -> [u8; 8] {
    // No path holds a zero byte.
    let stated = if stated.is_empty() { String::new() } else { format!("\0{stated}") };
    first_bytes(&ContentHash::digest(format!("{path}{stated}").as_bytes()))
}

fn checksum(bytes: &[u8]) -> [u8; 9] {
    first_bytes(&ContentHash::digest(bytes))
}

fn first_bytes<const N: usize>(hash: &ContentHash) -> [u8; N] {
    let mut first = [0; N];
    first.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cursor() -> impl Strategy<Value = FileCursor> {
        (any::<[u8; 32]>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
            |(hash, offset, line, end)| FileCursor {
                hash: ContentHash::from_bytes(hash),
                offset,
                line,
                end,
            },
        )
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(cursor in cursor()) {
            let path = SpacePath::parse("/notes/a.md").unwrap();
            prop_assert_eq!(FileCursor::decode(&cursor.encode(&path), &path), Ok(cursor));
            let other = SpacePath::parse("/notes/b.md").unwrap();
            let decoded = FileCursor::decode(&cursor.encode(&path), &other);
            prop_assert_eq!(decoded, Err(BadFileCursor::Mismatch));
            let stated = "gbk";
            let text = cursor.encode_in(&path, stated);
            prop_assert_eq!(FileCursor::decode_in(&text, &path, stated), Ok(cursor));
            prop_assert_eq!(FileCursor::decode(&text, &path), Err(BadFileCursor::Mismatch));
        }

        #[test]
        fn a_cursor_with_a_changed_character_is_malformed(
            cursor in cursor(), at in 0usize..99, to in "[A-Za-z0-9_-]"
        ) {
            let path = SpacePath::root();
            let text = cursor.encode(&path);
            prop_assert_eq!(text.len(), 99);
            let mut changed = text.clone();
            changed.replace_range(at..=at, &to);
            if changed != text {
                prop_assert_eq!(FileCursor::decode(&changed, &path), Err(BadFileCursor::Malformed));
            }
        }

        #[test]
        fn arbitrary_text_is_malformed_and_never_panics(text in "\\PC{0,140}") {
            let decoded = FileCursor::decode(&text, &SpacePath::root());
            prop_assert_eq!(decoded, Err(BadFileCursor::Malformed));
        }
    }
}
