//! Blobs, and which records expose them.
//!
//! `blob_pieces` has the bytes, in pieces of 64 KiB. The number of a piece is made of the number of
//! its blob and its index, so that the piece with an offset is found by division. `blob_uses` has a
//! row for each field of a record that names a blob, even if the blob is not stored yet.
//!
//! A blob is removed with its last use, unless it was stored within the last day: a record that
//! names it may follow. Each write removes some blobs that were last stored more than a day ago and
//! that no record names.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::rc::Rc;

use ring::digest::{Context, SHA256};
use rusqlite::types::Value as Sql;
use rusqlite::{OptionalExtension as _, params, params_from_iter};
use stile_domain::records::blob::{self, BlobId, MAX_BYTES, PIECE_BYTES};
use stile_domain::records::problem::Problem;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::error::problem;
use super::read::{Snapshot, Where, bytes};
use super::write::WriteBatch;
use crate::records::model::{RecordSource, StoredBlob, WriteRefusal};

/// The bits of a piece's number that count the pieces of one blob.
const PIECE_BITS: u32 = 16;
/// How long a blob without a use is kept, in microseconds: a day.
const UNUSED_KEPT: i64 = 24 * 60 * 60 * 1_000_000;
/// A write checks at most this many unused blobs more than it stores.
const IDLE: i64 = 100;
/// The pieces after which a write removes no further blob.
const PIECES: i64 = 5000;
const _: () = assert!(MAX_BYTES / PIECE_BYTES == 1 << PIECE_BITS);

pub(super) fn piece_number(blob: i64, piece: u64) -> Option<i64> {
    let piece = i64::try_from(piece).ok().filter(|piece| *piece < 1 << PIECE_BITS)?;
    blob.checked_mul(1 << PIECE_BITS)?.checked_add(piece)
}

impl WriteBatch<'_> {
    /// Stores the bytes of a source as a blob, with one piece in memory at a time. The same bytes
    /// are stored once. If the source fails or has too many bytes, nothing is stored.
    pub fn put_blob(
        &mut self,
        source: &mut dyn Read,
    ) -> Result<Result<StoredBlob, WriteRefusal>, Problem> {
        self.execute("SAVEPOINT blob", [])?;
        let put = self.store_blob(source)?;
        if put.is_err() {
            self.execute("ROLLBACK TO blob", [])?;
        }
        self.execute("RELEASE blob", [])?;
        if let Ok(info) = &put {
            self.execute(
                "UPDATE blobs SET put = ?2 WHERE digest = ?1",
                params![info.digest, self.now.0],
            )?;
            self.stored_blobs += 1;
        }
        Ok(put)
    }

    /// Returns whether the bytes of a blob are stored.
    pub fn has_blob(&self, id: &BlobId) -> Result<bool, Problem> {
        Ok(self.blob(id.digest())?.is_some())
    }

    fn store_blob(
        &self,
        source: &mut dyn Read,
    ) -> Result<Result<StoredBlob, WriteRefusal>, Problem> {
        let blob = self.next_blob()?;
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
            self.execute(
                "INSERT INTO blob_pieces (id, data) VALUES (?1, ?2)",
                params![number, piece],
            )?;
            bytes += count as u64;
        }
        let digest: [u8; 32] =
            context.finish().as_ref().try_into().map_err(|_| Problem::Corrupt)?;
        if self.blob(&digest)?.is_some() {
            self.drop_pieces(blob)?;
        } else {
            let text = "INSERT INTO blobs (id, digest, bytes) VALUES (?1, ?2, ?3)";
            self.execute(text, params![blob, digest, i64::try_from(bytes).unwrap_or(i64::MAX)])?;
        }
        Ok(Ok(StoredBlob { id: BlobId::from_digest(digest).to_string(), bytes, digest }))
    }

    fn next_blob(&self) -> Result<i64, Problem> {
        let mut query = self
            .transaction
            .prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM blobs")
            .map_err(problem)?;
        query.query_row([], |row| row.get(0)).map_err(problem)
    }

    fn blob(&self, digest: &[u8; 32]) -> Result<Option<i64>, Problem> {
        let mut query = self.prepare("SELECT id FROM blobs WHERE digest = ?1")?;
        query.query_row([digest], |row| row.get(0)).optional().map_err(problem)
    }

    fn drop_pieces(&self, blob: i64) -> Result<(), Problem> {
        let (first, end) = (
            piece_number(blob, 0).ok_or(Problem::Corrupt)?,
            piece_number(blob + 1, 0).ok_or(Problem::Corrupt)?,
        );
        self.execute("DELETE FROM blob_pieces WHERE id >= ?1 AND id < ?2", params![first, end])
    }

    /// Adds the blobs that a new record exposes.
    pub(super) fn add_blob_uses(&self, record: i64, fields: &RecordFields) -> Result<(), Problem> {
        for (name, value) in fields {
            let FieldValue::Json(json) = value else { continue };
            for reference in blob::blob_references(json) {
                let text = "INSERT INTO blob_uses (digest, media_type, record, field) VALUES (?1, ?2, ?3, ?4) \
                            ON CONFLICT DO NOTHING";
                let media_type = reference.media_type.unwrap_or_default();
                self.execute(text, params![reference.id.digest(), media_type, record, name])?;
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
        let before = self.uses(record)?;
        if !before.is_empty() {
            self.execute("DELETE FROM blob_uses WHERE record = ?1", params![record])?;
        }
        fields.map_or(Ok(()), |fields| self.add_blob_uses(record, fields))?;
        before.into_iter().try_for_each(|digest| self.drop_unused(digest))
    }

    fn uses(&self, record: i64) -> Result<BTreeSet<[u8; 32]>, Problem> {
        let text = "SELECT digest FROM blob_uses WHERE record = ?1";
        let mut query = self.prepare(text)?;
        query.query_map([record], |row| row.get(0)).and_then(Iterator::collect).map_err(problem)
    }

    fn is_used(&self, digest: [u8; 32]) -> Result<bool, Problem> {
        let mut query = self.prepare("SELECT 1 FROM blob_uses WHERE digest = ?1")?;
        query.exists([digest]).map_err(problem)
    }

    fn drop_unused(&self, digest: [u8; 32]) -> Result<(), Problem> {
        if self.is_used(digest)? {
            return Ok(());
        }
        let text = "SELECT id FROM blobs WHERE digest = ?1 AND (put IS NULL OR put <= ?2)";
        let mut query = self.prepare(text)?;
        let blob =
            query.query_row(params![digest, self.unused_since()], |row| row.get(0)).optional();
        blob.map_err(problem)?.map_or(Ok(()), |blob| self.drop_blob(blob))
    }

    /// Removes some blobs that were stored long ago and have no use. A blob with a use is not
    /// checked again until its last use is removed.
    pub(super) fn drop_unused_blobs(&self) -> Result<(), Problem> {
        let most = IDLE.saturating_add(self.stored_blobs);
        // A time in the future is from before the clock was set back.
        let text =
            "UPDATE blobs SET put = ?1 WHERE id IN (SELECT id FROM blobs WHERE put > ?2 LIMIT ?3)";
        self.execute(text, params![self.now.0, self.now.0.saturating_add(UNUSED_KEPT), most])?;
        let mut pieces = 0;
        for (blob, digest, bytes) in self.old_blobs(most)? {
            if self.is_used(digest)? {
                self.execute("UPDATE blobs SET put = NULL WHERE id = ?1", params![blob])?;
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

    /// Returns the number, digest and size of some blobs that were stored long ago.
    fn old_blobs(&self, most: i64) -> Result<Vec<(i64, [u8; 32], i64)>, Problem> {
        let text = "SELECT id, digest, bytes FROM blobs WHERE put <= ?1 ORDER BY put LIMIT ?2";
        let mut query = self.prepare(text)?;
        let rows = query.query_map([self.unused_since(), most], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        });
        rows.and_then(Iterator::collect).map_err(problem)
    }

    /// The time before which unused blobs are removed.
    fn unused_since(&self) -> i64 {
        self.now.0.saturating_sub(UNUSED_KEPT)
    }

    fn drop_blob(&self, blob: i64) -> Result<(), Problem> {
        self.drop_pieces(blob)?;
        self.execute("DELETE FROM blobs WHERE id = ?1", params![blob])
    }
}

impl Snapshot<'_> {
    /// Returns the media type of a blob that comes next after `after`, among the types that visible
    /// records give in visible fields.
    pub(in crate::records) fn media_type(
        &self,
        source: &RecordSource,
        id: &BlobId,
        after: Option<&str>,
    ) -> Result<Option<String>, Problem> {
        let mut filter = Where::visible(source);
        filter.and(" AND digest = ?", *id.digest());
        if let Some(after) = after {
            filter.and(" AND media_type > ?", after.to_owned());
        }
        if let Some(fields) = source.visibility.fields() {
            let fields: Vec<Sql> = fields.iter().map(|field| Sql::Text(field.clone())).collect();
            filter.and(" AND field IN rarray(?)", Rc::new(fields));
        }
        // CROSS JOIN makes SQLite begin at the uses, of which there are few.
        let text = format!(
            "SELECT media_type FROM blob_uses CROSS JOIN records ON records.id = blob_uses.record \
             WHERE {} ORDER BY media_type LIMIT 1",
            filter.text
        );
        let mut query = self.prepare(&text)?;
        let media_type = query.query_row(params_from_iter(&filter.values), |row| row.get(0));
        media_type.optional().map_err(problem)
    }

    /// Returns the number and the size of a stored blob.
    pub(in crate::records) fn blob(&self, id: &BlobId) -> Result<Option<(i64, u64)>, Problem> {
        let mut query = self.prepare("SELECT id, bytes FROM blobs WHERE digest = ?1")?;
        let row = query
            .query_row([id.digest()], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))
            .optional();
        Ok(row
            .map_err(problem)?
            .map(|(blob, bytes)| (blob, u64::try_from(bytes).unwrap_or_default())))
    }

    /// Passes one piece of a blob to `take`.
    pub(in crate::records) fn blob_piece(
        &self,
        blob: i64,
        piece: u64,
        take: impl FnOnce(&[u8]),
    ) -> Result<(), Problem> {
        let mut query = self.prepare("SELECT data FROM blob_pieces WHERE id = ?1")?;
        let mut rows =
            query.query([piece_number(blob, piece).ok_or(Problem::Corrupt)?]).map_err(problem)?;
        take(bytes(rows.next().map_err(problem)?.ok_or(Problem::Corrupt)?, 0)?);
        Ok(())
    }

    /// Returns whether a field of a record names a blob.
    pub(in crate::records) fn names_blobs(
        &self,
        record: i64,
        field: &str,
    ) -> Result<bool, Problem> {
        let text = "SELECT 1 FROM blob_uses WHERE record = ?1 AND field = ?2";
        let mut query = self.prepare(text)?;
        query.exists(params![record, field]).map_err(problem)
    }

    /// Returns all blobs that the fields of a record name.
    pub(in crate::records) fn blobs_of(&self, record: i64) -> Result<Vec<BlobId>, Problem> {
        let mut query = self
            .prepare("SELECT DISTINCT digest FROM blob_uses WHERE record = ?1 ORDER BY digest")?;
        let digests = query.query_map([record], |row| row.get(0).map(BlobId::from_digest));
        digests.and_then(Iterator::collect).map_err(problem)
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
