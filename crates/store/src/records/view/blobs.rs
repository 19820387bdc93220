//! Blobs, as one caller may see them: through the records that expose them and in no other way.

use stile_domain::records::blob::{BlobId, PIECE_BYTES};
use stile_domain::records::problem::Problem;

use super::{Authority, RecordRow, RecordSource, RecordsView};

/// A blob that the caller may see.
#[derive(Clone, Debug)]
pub struct Blob {
    number: i64,
    /// How many bytes it has.
    pub bytes: u64,
    /// What all records say of it that the caller may see, where they agree.
    pub media_type: Option<String>,
}

impl RecordsView<'_> {
    /// A blob that a record of these sources exposes to the caller. None where there is none, or
    /// its bytes are not here.
    ///
    /// # Errors
    /// What the database says.
    pub fn blob(&self, sources: &[RecordSource], id: &BlobId) -> Result<Option<Blob>, Problem> {
        let mut said: Option<String> = None;
        let mut agreed = true;
        for source in sources {
            let mut after = None;
            while let Some(media_type) = self.snapshot.media_type(source, id, after.as_deref())? {
                agreed &= said.as_ref().is_none_or(|said| *said == media_type);
                after = said.insert(media_type).clone().into();
                if !agreed {
                    break;
                }
            }
        }
        let Some(said) = said else { return Ok(None) };
        let media_type = Some(said).filter(|said| agreed && !said.is_empty());
        Ok(self.snapshot.blob(id)?.map(|(number, bytes)| Blob { number, bytes, media_type }))
    }

    /// Some bytes of a blob, from `start` on: at most so many, and at least one unless it ends
    /// there. Reads the pieces that hold them and no other.
    ///
    /// # Errors
    /// What the database says.
    pub fn blob_bytes(&self, blob: &Blob, start: u64, most: u64) -> Result<Vec<u8>, Problem> {
        let end = start.saturating_add(most).min(blob.bytes);
        let mut bytes =
            Vec::with_capacity(usize::try_from(end.saturating_sub(start)).unwrap_or_default());
        let mut at = start;
        while at < end {
            let base = at / PIECE_BYTES * PIECE_BYTES;
            let before = bytes.len();
            self.snapshot.blob_piece(blob.number, at / PIECE_BYTES, |piece| {
                let place = |position: u64| {
                    usize::try_from(position - base).unwrap_or(usize::MAX).min(piece.len())
                };
                bytes.extend_from_slice(piece.get(place(at)..place(end)).unwrap_or_default());
            })?;
            if bytes.len() == before {
                return Err(Problem::Corrupt);
            }
            at += (bytes.len() - before) as u64;
        }
        Ok(bytes)
    }

    /// The blobs that a record names in any of its fields, for the owner alone.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`] for a client; what the database says.
    pub fn blobs_of(&self, row: &RecordRow) -> Result<Vec<BlobId>, Problem> {
        match self.authority {
            Authority::Owner => self.snapshot.blobs_of(row.record),
            Authority::Client { .. } => {
                Err(Problem::InsufficientScope { message: "this is for the owner alone" })
            }
        }
    }
}
