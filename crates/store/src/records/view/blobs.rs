//! Blobs, which a caller can see only through the records that expose them.

use stile_domain::records::blob::{BlobId, PIECE_BYTES};
use stile_domain::records::problem::Problem;

use super::{LoadedRecord, RecordsView};
use crate::records::model::{RecordRow, RecordSource};

/// A blob that the caller may see.
#[derive(Clone, Debug)]
pub struct Blob {
    number: i64,
    /// The size of the blob in bytes.
    pub bytes: u64,
    /// The media type in the records that the caller may see. `None` if they disagree or have none.
    pub media_type: Option<String>,
}

impl RecordsView<'_> {
    /// Finds a blob that a record of these sources exposes to the caller. Returns `None` if no
    /// record does, or if the bytes of the blob are not stored.
    pub fn blob(&self, sources: &[RecordSource], id: &BlobId) -> Result<Option<Blob>, Problem> {
        let mut stated: Option<String> = None;
        let mut agree = true;
        for source in sources {
            let mut after = None;
            while let Some(media_type) = self.snapshot.media_type(source, id, after.as_deref())? {
                agree &= stated.as_ref().is_none_or(|stated| *stated == media_type);
                after = stated.insert(media_type).clone().into();
                if !agree {
                    break;
                }
            }
        }
        let Some(stated) = stated else { return Ok(None) };
        let media_type = Some(stated).filter(|stated| agree && !stated.is_empty());
        Ok(self.snapshot.blob(id.digest())?.map(|(number, bytes)| Blob {
            number,
            bytes,
            media_type,
        }))
    }

    /// Reads at most `limit` bytes of a blob from the offset `start`, and at least one unless the
    /// blob ends there. Reads only the pieces that hold them.
    pub fn blob_bytes(&self, blob: &Blob, start: u64, limit: u64) -> Result<Vec<u8>, Problem> {
        let end = start.saturating_add(limit).min(blob.bytes);
        let mut bytes =
            Vec::with_capacity(usize::try_from(end.saturating_sub(start)).unwrap_or_default());
        let mut at = start;
        while at < end {
            let base = at / PIECE_BYTES * PIECE_BYTES;
            let before = bytes.len();
            self.snapshot.blob_piece(blob.number, at / PIECE_BYTES, &mut |piece| {
                let index = |offset: u64| {
                    usize::try_from(offset - base).unwrap_or(usize::MAX).min(piece.len())
                };
                bytes.extend_from_slice(piece.get(index(at)..index(end)).unwrap_or_default());
            })?;
            if bytes.len() == before {
                return Err(Problem::Corrupt);
            }
            at += (bytes.len() - before) as u64;
        }
        Ok(bytes)
    }

    /// Returns whether a field of a record names a blob, stored or not.
    pub fn names_blobs(&self, loaded: &LoadedRecord, field: &str) -> Result<bool, Problem> {
        self.snapshot.names_blobs(loaded.record, field)
    }

    /// Returns the blobs that any field of a record names. Only for the owner.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`] for a client; the error of the database.
    pub fn blobs_of(&self, row: &RecordRow) -> Result<Vec<BlobId>, Problem> {
        self.require_owner()?;
        self.snapshot.blobs_of(row.number)
    }
}
