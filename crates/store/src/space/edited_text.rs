//! The text of a file that is edited, what a caller knows of the file, and the bytes of the new
//! text.
//!
//! A file in another encoding than UTF-8 is decoded as `text.read` decodes it: in the encoding that
//! the caller states, or else in the one that is recognised. It is edited only if encoding its text
//! gives exactly its bytes. So an edit changes no byte that it leaves alone. The new text must be
//! encodable. If no encoding is stated, the text must be recognised as the same afterwards, and a
//! guessed encoding takes new text in ASCII alone.

use std::borrow::Cow;

use stile_domain::document::DocumentKind;
use stile_domain::error::{EncodingFault, Refusal};
use stile_domain::hash::ContentHash;
use stile_domain::lines::count_lines;
use stile_domain::path::SpacePath;
use stile_domain::text_encoding::{
    DecodedText, EncodingSource, MAX_DECODED_BYTES, TextEncoding, recognise, text_of, utf_8,
};

use super::EditedFile;
use super::edit_refusal::too_large_to_edit;
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

/// The text of a file for a change of it, without a byte order mark of UTF-16.
pub(super) struct EditableText<'a> {
    pub(super) text: Cow<'a, str>,
    /// The encoding of a file that is not UTF-8, and how it is known.
    encoding: Option<(TextEncoding, EncodingSource)>,
    /// The byte order mark that belongs to the file and not to its text, or nothing.
    mark: &'static str,
    path: &'a SpacePath,
}

impl<'a> EditableText<'a> {
    /// Returns the text of a file, in the encoding that the caller states or else in the one that
    /// is recognised. Refuses a file that is not text or cannot be written back.
    pub(super) fn of(
        bytes: &'a [u8],
        path: &'a SpacePath,
        base: Base,
        stated: Option<TextEncoding>,
    ) -> Result<Self, Refusal> {
        let in_utf_8 = |text: &'a str| Self { text: text.into(), encoding: None, mark: "", path };
        let (size_bytes, hash) = (bytes.len() as u64, || ContentHash::digest(bytes));
        let kind = DocumentKind::of_file(path, bytes);
        let is_stated_otherwise = stated.is_some_and(|stated| stated != TextEncoding::UTF_8);
        if let Some(text) = utf_8(bytes).filter(|_| !is_stated_otherwise)
            && !kind.is_some_and(|kind| kind.is_never_text(path))
        {
            return Ok(in_utf_8(text));
        }
        // Bytes of a document may look like a text in another encoding.
        if kind.is_some() {
            let path = path.clone();
            return Err(Refusal::UnchangeableDocument { path, size_bytes, hash: hash() });
        }
        if stated == Some(TextEncoding::UTF_8) {
            let text = std::str::from_utf8(bytes).map(in_utf_8);
            let fault = |_| bad_encoding(path, TextEncoding::UTF_8, EncodingFault::Invalid);
            return text.map_err(fault);
        }
        let may_decode = size_bytes <= MAX_DECODED_BYTES;
        let decoded = match stated {
            Some(_) if !may_decode => return Err(too_large_to_edit(path, MAX_DECODED_BYTES)),
            Some(stated) => DecodedText::of(bytes, stated, EncodingSource::Stated)
                .ok_or_else(|| bad_encoding(path, stated, EncodingFault::Invalid))?,
            None => may_decode
                .then(|| recognise(bytes))
                .flatten()
                .ok_or_else(|| Refusal::NotText { path: path.clone(), size_bytes, hash: hash() })?,
        };
        let DecodedText { text, encoding, source, has_mark } = decoded;
        if matches!(base, Base::Unread) {
            return Err(bad_encoding(path, encoding, EncodingFault::Unread));
        }
        let mark = if has_mark { "\u{feff}" } else { "" };
        let text = Self { text: text.into(), encoding: Some((encoding, source)), mark, path };
        if !encoding.is_exact(bytes, &text.with_mark(&text.text)) {
            return Err(bad_encoding(path, encoding, EncodingFault::Inexact));
        }
        Ok(text)
    }

    /// Returns the bytes of a new text, in the encoding of the file. `is_ascii` says whether all
    /// that the caller wrote into it is ASCII.
    pub(super) fn encode(&self, new: String, is_ascii: bool) -> Result<Vec<u8>, Refusal> {
        let Some((encoding, source)) = self.encoding else { return Ok(new.into_bytes()) };
        let refused = |why| bad_encoding(self.path, encoding, why);
        if source == EncodingSource::Guessed && !is_ascii {
            return Err(refused(EncodingFault::Guessed));
        }
        let bytes = encoding.encode(&self.with_mark(&new)).map(Cow::into_owned);
        let bytes = bytes.ok_or_else(|| refused(EncodingFault::Lacking))?;
        let is_recognised = || text_of(&bytes).is_some_and(|text| *text == new);
        if source != EncodingSource::Stated && !is_recognised() {
            return Err(refused(EncodingFault::Unrecognisable));
        }
        Ok(bytes)
    }

    /// Returns the bytes of a text that is added to the end of the file.
    pub(super) fn encode_added(&self, added: &str) -> Result<Vec<u8>, Refusal> {
        let Some((encoding, _)) = self.encoding else { return Ok(added.as_bytes().to_vec()) };
        // The bytes of a text are those of its parts.
        self.encode([&*self.text, added].concat(), added.is_ascii())?;
        encoded(self.path, encoding, added)
    }

    fn with_mark<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.mark.is_empty() { text.into() } else { [self.mark, text].concat().into() }
    }
}

/// Returns the bytes of a text in an encoding.
pub(super) fn encoded(
    path: &SpacePath,
    encoding: TextEncoding,
    text: &str,
) -> Result<Vec<u8>, Refusal> {
    let bytes = encoding.encode(text).map(Cow::into_owned);
    bytes.ok_or_else(|| bad_encoding(path, encoding, EncodingFault::Lacking))
}

fn bad_encoding(path: &SpacePath, encoding: TextEncoding, why: EncodingFault) -> Refusal {
    Refusal::BadEncoding { path: path.clone(), encoding: encoding.to_string(), why }
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
