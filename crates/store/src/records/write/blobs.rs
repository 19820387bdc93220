//! Blobs, and which records expose them.
//!
//! The bytes are stored in pieces of 64 KiB. The number of a piece is made of the number of its
//! blob and its index, so that the piece with an offset is found by division. A use is a field of a
//! record that names a blob, even if the blob is not stored yet.
//!
//! A blob is removed with its last use, unless it was stored within the last day: a record that
//! names it may follow. Each write removes some blobs that were last stored more than a day ago and
//! that no record names.

use std::io::{self, Read};

use ring::digest::{Context, SHA256};
use stile_domain::records::blob::{self, BlobId, PIECE_BYTES};
use stile_domain::records::instant::{Instant, MICROS_A_DAY};
use stile_domain::records::problem::Problem;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::WriteBatch;
use crate::records::model::{OldBlob, StoredBlob, WriteRefusal, blob_piece_number as piece_number};
use crate::records::port::NewBlobUse;

/// How long a blob without a use is kept, in microseconds: a day.
const UNUSED_KEPT: i64 = MICROS_A_DAY;
/// A write checks at most this many unused blobs more than it stores.
const IDLE: i64 = 100;
/// The pieces after which a write removes no further blob.
const PIECES: i64 = 5000;

impl WriteBatch<'_> {
    /// Stores the bytes of a source as a blob, with one piece in memory at a time. The same bytes
    /// are stored once. If the source fails or has too many bytes, nothing is stored.
    pub fn put_blob(
        &mut self,
        source: &mut dyn Read,
    ) -> Result<Result<StoredBlob, WriteRefusal>, Problem> {
        self.rows.begin_step()?;
        let put = self.store_blob(source)?;
        match put {
            Ok((blob, info)) => {
                self.rows.set_blob_put(blob, Some(self.now))?;
                self.rows.keep_step()?;
                self.stored_blobs += 1;
                Ok(Ok(info))
            }
            Err(refused) => {
                self.rows.undo_step()?;
                Ok(Err(refused))
            }
        }
    }

    /// Returns whether the bytes of a blob are stored.
    pub fn has_blob(&self, id: &BlobId) -> Result<bool, Problem> {
        Ok(self.rows.blob(id.digest())?.is_some())
    }

    fn store_blob(
        &self,
        source: &mut dyn Read,
    ) -> Result<Result<(i64, StoredBlob), WriteRefusal>, Problem> {
        let blob = self.rows.next_blob()?;
        let mut context = Context::new(&SHA256);
        let mut buffer = vec![0; usize::try_from(PIECE_BYTES).unwrap_or_default()];
        let mut bytes = 0;
        loop {
            let Ok(count) = fill(source, &mut buffer) else {
                return Ok(Err(WriteRefusal::Unreadable));
            };
            let piece = buffer.get(..count).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            context.update(piece);
            let Some(number) = piece_number(blob, bytes / PIECE_BYTES) else {
                return Ok(Err(WriteRefusal::BlobTooLarge));
            };
            self.rows.insert_blob_piece(number, piece)?;
            bytes += count as u64;
        }
        let digest: [u8; 32] =
            context.finish().as_ref().try_into().map_err(|_| Problem::Corrupt)?;
        let stored = match self.rows.blob(&digest)? {
            Some((stored, _)) => {
                self.drop_pieces(blob)?;
                stored
            }
            None => {
                self.rows.insert_blob(blob, &digest, bytes)?;
                blob
            }
        };
        let id = BlobId::from_digest(digest).to_string();
        Ok(Ok((stored, StoredBlob { id, bytes, digest })))
    }

    fn drop_pieces(&self, blob: i64) -> Result<(), Problem> {
        let (first, end) = (
            piece_number(blob, 0).ok_or(Problem::Corrupt)?,
            piece_number(blob + 1, 0).ok_or(Problem::Corrupt)?,
        );
        self.rows.delete_blob_pieces(first, end)
    }

    /// Adds the blobs that a new record exposes.
    pub(super) fn add_blob_uses(&self, record: i64, fields: &RecordFields) -> Result<(), Problem> {
        for (name, value) in fields {
            let FieldValue::Json(json) = value else { continue };
            for reference in blob::blob_references(json) {
                let media_type = reference.media_type.unwrap_or_default();
                self.rows.add_blob_use(&NewBlobUse {
                    digest: reference.id.digest(),
                    media_type: media_type.as_ref(),
                    record,
                    field: name,
                })?;
            }
        }
        Ok(())
    }

    /// Replaces the blobs that a record exposes. `None` stands for a removed record.
    pub(super) fn replace_blob_uses(
        &self,
        record: i64,
        fields: Option<&RecordFields>,
    ) -> Result<(), Problem> {
        let before = match self.rows.uses_no_blob(record) {
            true => Vec::new(),
            false => self.rows.blobs_of(record)?,
        };
        if !before.is_empty() {
            self.rows.delete_blob_uses(record)?;
        }
        fields.map_or(Ok(()), |fields| self.add_blob_uses(record, fields))?;
        before.into_iter().try_for_each(|id| self.drop_unused(id.digest()))
    }

    fn drop_unused(&self, digest: &[u8; 32]) -> Result<(), Problem> {
        if self.rows.is_blob_used(digest)? {
            return Ok(());
        }
        let blob = self.rows.blob_put_by(digest, self.unused_since())?;
        blob.map_or(Ok(()), |blob| self.drop_blob(blob))
    }

    /// Removes some blobs that were stored long ago and have no use. A blob with a use is not
    /// checked again until its last use is removed.
    pub(super) fn drop_unused_blobs(&self) -> Result<(), Problem> {
        let most = IDLE.saturating_add(self.stored_blobs);
        // A time in the future is from before the clock was set back.
        let latest = Instant(self.now.0.saturating_add(UNUSED_KEPT));
        self.rows.correct_blob_times(latest, self.now, most)?;
        let mut pieces = 0;
        for OldBlob { blob, digest, bytes } in self.rows.old_blobs(self.unused_since(), most)? {
            if self.rows.is_blob_used(&digest)? {
                self.rows.set_blob_put(blob, None)?;
                continue;
            }
            self.drop_blob(blob)?;
            pieces += bytes / PIECE_BYTES as i64 + 1;
            if pieces >= PIECES {
                break;
            }
        }
        Ok(())
    }

    /// The time before which unused blobs are removed.
    fn unused_since(&self) -> Instant {
        Instant(self.now.0.saturating_sub(UNUSED_KEPT))
    }

    fn drop_blob(&self, blob: i64) -> Result<(), Problem> {
        self.drop_pieces(blob)?;
        self.rows.delete_blob(blob)
    }
}

/// Fills a buffer, unless the source ends first.
fn fill(source: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(free) = buffer.get_mut(filled..).filter(|free| !free.is_empty()) {
        match source.read(free) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
