//! The text of a file that is edited, what a caller knows of the file, and the bytes of the new
//! text.
//!
//! A file in another encoding than UTF-8 is decoded as `text.read` decodes it. It is edited only if
//! encoding its text gives exactly its bytes. So an edit changes no byte that it leaves alone. The
//! new text must be encodable, and must be recognised as the same text afterwards.

use std::borrow::Cow;

use stile_domain::document::DocumentKind;
use stile_domain::error::{EncodingFault, Refusal};
use stile_domain::hash::ContentHash;
use stile_domain::lines::count_lines;
use stile_domain::path::SpacePath;
use stile_domain::text_encoding::{MAX_DECODED_BYTES, TextEncoding, recognise, text_of};

use super::EditedFile;
use super::read::facts_of;

/// What a caller knows of the file that it changes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    /// The hash of the whole file.
    Whole(ContentHash),
    /// The hash of its first bytes. The file may have grown since.
    Prefix { hash: ContentHash, size: u64 },
    /// Nothing: the caller only adds to the end.
    Unread,
}

impl Base {
    /// Whether a file with these bytes is the one that the caller knows.
    pub(super) fn is_of(self, bytes: &[u8]) -> bool {
        match self {
            Self::Whole(hash) => ContentHash::digest(bytes) == hash,
            Self::Prefix { hash, size } => usize::try_from(size)
                .ok()
                .and_then(|size| bytes.get(..size))
                .is_some_and(|prefix| ContentHash::digest(prefix) == hash),
            Self::Unread => true,
        }
    }
}

/// The text of a file for a change of it.
pub(super) struct EditableText<'a> {
    pub(super) text: Cow<'a, str>,
    /// The encoding of a file that is not UTF-8.
    encoding: Option<TextEncoding>,
    path: &'a SpacePath,
}

impl<'a> EditableText<'a> {
    /// Returns the text of a file, or refuses one that is not text or cannot be written back.
    pub(super) fn of(bytes: &'a [u8], path: &'a SpacePath, base: Base) -> Result<Self, Refusal> {
        let kind = DocumentKind::of_file(path, bytes);
        if let Ok(text) = std::str::from_utf8(bytes)
            && !kind.is_some_and(|kind| kind.is_never_text(path))
        {
            return Ok(Self { text: text.into(), encoding: None, path });
        }
        // To a caller who may not read the file, the encoding would tell something of it.
        let may_decode = bytes.len() as u64 <= MAX_DECODED_BYTES && !matches!(base, Base::Unread);
        // Bytes of a document may look like a text in another encoding.
        let may_decode = may_decode && kind.is_none();
        let Some(decoded) = may_decode.then(|| recognise(bytes)).flatten() else {
            return Err(match base {
                Base::Unread => Refusal::NotPermitted { path: path.clone() },
                Base::Whole(_) | Base::Prefix { .. } if kind.is_some() => {
                    Refusal::UnchangeableDocument {
                        path: path.clone(),
                        size_bytes: bytes.len() as u64,
                        hash: ContentHash::digest(bytes),
                    }
                }
                Base::Whole(_) | Base::Prefix { .. } => Refusal::NotText {
                    path: path.clone(),
                    size_bytes: bytes.len() as u64,
                    hash: ContentHash::digest(bytes),
                },
            });
        };
        let encoding = Some(decoded.encoding);
        let text = Self { text: decoded.text.into(), encoding, path };
        if !decoded.encoding.is_exact(bytes, &text.text) {
            return Err(text.refusal(decoded.encoding, EncodingFault::Inexact));
        }
        Ok(text)
    }

    /// Returns the bytes of a new text, in the encoding of the file.
    pub(super) fn encode(&self, new: String) -> Result<Vec<u8>, Refusal> {
        let Some(encoding) = self.encoding else { return Ok(new.into_bytes()) };
        let Some(bytes) = encoding.encode(&new) else {
            return Err(self.refusal(encoding, EncodingFault::Lacking));
        };
        if text_of(&bytes).is_none_or(|text| *text != new) {
            return Err(self.refusal(encoding, EncodingFault::Unrecognisable));
        }
        Ok(bytes.into_owned())
    }

    /// Returns the bytes of a text that is added to the end of the file.
    pub(super) fn encode_added(&self, added: &str) -> Result<Vec<u8>, Refusal> {
        let Some(encoding) = self.encoding else { return Ok(added.as_bytes().to_vec()) };
        // The bytes of a text are those of its parts.
        self.encode([&*self.text, added].concat())?;
        let bytes = encoding.encode(added);
        bytes.map(Cow::into_owned).ok_or_else(|| self.refusal(encoding, EncodingFault::Lacking))
    }

    fn refusal(&self, encoding: TextEncoding, why: EncodingFault) -> Refusal {
        Refusal::BadEncoding { path: self.path.clone(), encoding: encoding.to_string(), why }
    }
}

/// Returns what an answer says of a file with new bytes.
pub(super) fn edited_file(bytes: &[u8]) -> EditedFile {
    let facts = facts_of(bytes);
    let is_small = bytes.len() as u64 <= MAX_DECODED_BYTES;
    let total_lines = match facts.lines {
        Some(lines) => lines.total_lines(),
        None if is_small => recognise(bytes).map_or(0, |decoded| count_lines(&decoded.text)),
        None => 0,
    };
    EditedFile { hash: facts.hash, size_bytes: bytes.len() as u64, total_lines }
}
