//! The bytes of a binary field: those that a base64 text encodes, or those of the blob that the
//! field refers to.
//!
//! Four characters of base64 are three bytes. The position of a byte is found by division, and only
//! the characters that encode the requested bytes are read.

use stile_domain::base64;
use stile_domain::hash::ContentHash;
use stile_domain::records::blob::{BlobId, BlobReference};
use stile_domain::records::problem::Problem;
use stile_store::records::{Blob, RecordSource, RecordsView};

use crate::field_text::FieldText;
use crate::media_types;

/// The bytes of a field, wherever they are.
pub(crate) enum FieldBytes<'a> {
    Base64(FieldText<'a>),
    Blob { id: BlobId, blob: Blob, media_type: String },
}

impl FieldBytes<'_> {
    /// Finds the bytes that a record of this source refers to.
    ///
    /// # Errors
    /// [`Problem::BlobNotFound`]; what the database reports.
    pub(crate) fn of_blob(
        view: &RecordsView<'_>,
        source: &RecordSource,
        reference: BlobReference,
    ) -> Result<Self, Problem> {
        // The caller may see the blob if a record exposes it, and this record does.
        let blob =
            view.blob(std::slice::from_ref(source), &reference.id)?.ok_or(Problem::BlobNotFound)?;
        let media_type = reference.media_type;
        let media_type = media_type.unwrap_or_else(|| media_types::OCTET_STREAM.to_owned());
        Ok(Self::Blob { id: reference.id, blob, media_type })
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self, view: &RecordsView<'_>) -> Result<u64, Problem> {
        match self {
            Self::Blob { blob, .. } => Ok(blob.bytes),
            Self::Base64(text) => base64_len(view, text),
        }
    }

    /// Returns a digest that differs whenever the bytes differ, to bind a cursor to: that of the
    /// blob's identifier, or that of the digest of the base64 text. An identifier can be base64.
    pub(crate) fn version_digest(&self) -> [u8; 32] {
        match self {
            Self::Blob { id, .. } => *ContentHash::digest(id.to_string().as_bytes()).as_bytes(),
            Self::Base64(text) => *ContentHash::digest(&text.digest()).as_bytes(),
        }
    }

    /// Reads the bytes from `start` up to but not including `end`.
    pub(crate) fn slice(
        &self,
        view: &RecordsView<'_>,
        start: u64,
        end: u64,
    ) -> Result<Vec<u8>, Problem> {
        let length = end.saturating_sub(start);
        match self {
            Self::Blob { blob, .. } => view.blob_bytes(blob, start, length),
            Self::Base64(text) => {
                let groups = text.slice(view, start / 3 * 4, end.div_ceil(3) * 4)?;
                let bytes = base64::from_any(&groups).ok_or(Problem::Corrupt)?;
                let before = usize::try_from(start % 3).unwrap_or_default();
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                Ok(bytes.into_iter().skip(before).take(length).collect())
            }
        }
    }
}

/// Returns how many bytes a text of base64 encodes. The padding at its end decides it.
pub(crate) fn base64_len(view: &RecordsView<'_>, text: &FieldText<'_>) -> Result<u64, Problem> {
    let chars = text.chars();
    let end = text.slice(view, chars.saturating_sub(2), chars)?;
    let padding = end.bytes().filter(|byte| *byte == b'=').count() as u64;
    Ok(base64::decoded_len(chars.saturating_sub(padding)))
}
