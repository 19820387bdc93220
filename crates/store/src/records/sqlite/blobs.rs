//! Blobs, and which records expose them.
//!
//! The bytes lie in `blob_pieces`, 64 KiB each but for the last, under numbers that are made of the
//! blob's and the piece's, so that the piece with a position is found by division. `blob_uses` has
//! a row for each field of a record that names a blob, whether its bytes are here or come later.
//! Where the last use of a blob goes its bytes go with it, except for those that were put within
//! the last day: a record that names them may be about to come. Of bytes that no record names a day
//! after they were last put, some go with each write.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::rc::Rc;

use ring::digest::{Context, SHA256};
use rusqlite::types::Value as Sql;
use rusqlite::{OptionalExtension as _, params, params_from_iter};
use stile_domain::records::blob::{self, BlobId, MAX_BYTES, PIECE_BYTES};
use stile_domain::records::problem::Problem;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::super::view::RecordSource;
use super::problem;
use super::read::{Snapshot, Where};
use super::write::{WriteBatch, WriteRefusal};

/// Bits of a piece's number that count the pieces of one blob.
const PIECE_BITS: u32 = 16;
/// For how long bytes that were put stay without a use, in microseconds: a day.
const WAITING: i64 = 24 * 60 * 60 * 1_000_000;
/// Blobs that are looked at with a write, beside as many as it puts.
const IDLE: i64 = 100;
/// Pieces that go with a write, but for those of the last blob.
const PIECES: i64 = 5000;
const _: () = assert!(MAX_BYTES / PIECE_BYTES == 1 << PIECE_BITS);

/// A blob that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    /// Its name, as [`BlobId`] writes it.
    pub id: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Their SHA-256.
    pub digest: [u8; 32],
}

/// The number of a piece.
pub(super) fn number(blob: i64, piece: u64) -> Option<i64> {
    let piece = i64::try_from(piece).ok().filter(|piece| *piece < 1 << PIECE_BITS)?;
    blob.checked_mul(1 << PIECE_BITS)?.checked_add(piece)
}

impl WriteBatch<'_> {
    /// Stores bytes that are read from a source, a piece in memory at a time. The same bytes are
    /// stored once.
    ///
    /// Where the source fails or has too many bytes nothing of them is stored.
    ///
    /// # Errors
    /// What the database says; the batch must then be given up.
    pub fn put_blob(
        &mut self,
        source: &mut dyn Read,
    ) -> Result<Result<StoredBlob, WriteRefusal>, Problem> {
        self.execute("SAVEPOINT blob", [])?;
        let put = self.take_blob(source)?;
        if put.is_err() {
            self.execute("ROLLBACK TO blob", [])?;
        }
        self.execute("RELEASE blob", [])?;
        if let Ok(info) = &put {
            self.execute(
                "UPDATE blobs SET put = ?2 WHERE digest = ?1",
                params![info.digest, self.now.0],
            )?;
            self.put += 1;
        }
        Ok(put)
    }

    /// Whether the bytes of a blob are stored.
    ///
    /// # Errors
    /// What the database says.
    pub fn has_blob(&self, id: &BlobId) -> Result<bool, Problem> {
        Ok(self.blob(id.digest())?.is_some())
    }

    fn take_blob(
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
            let Some(number) = number(blob, bytes / PIECE_BYTES) else {
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
        let mut query = self
            .transaction
            .prepare_cached("SELECT id FROM blobs WHERE digest = ?1")
            .map_err(problem)?;
        query.query_row([digest], |row| row.get(0)).optional().map_err(problem)
    }

    fn drop_pieces(&self, blob: i64) -> Result<(), Problem> {
        let (first, end) = (
            number(blob, 0).ok_or(Problem::Corrupt)?,
            number(blob + 1, 0).ok_or(Problem::Corrupt)?,
        );
        self.execute("DELETE FROM blob_pieces WHERE id >= ?1 AND id < ?2", params![first, end])
    }

    /// Notes which blobs a new record exposes.
    pub(super) fn note_uses(&self, record: i64, fields: &RecordFields) -> Result<(), Problem> {
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

    /// Notes which blobs a record exposes that was there before; none where it is gone.
    pub(super) fn note_uses_anew(
        &self,
        record: i64,
        fields: Option<&RecordFields>,
    ) -> Result<(), Problem> {
        let before = self.uses(record)?;
        if !before.is_empty() {
            self.execute("DELETE FROM blob_uses WHERE record = ?1", params![record])?;
        }
        fields.map_or(Ok(()), |fields| self.note_uses(record, fields))?;
        before.into_iter().try_for_each(|digest| self.drop_unused(digest))
    }

    fn uses(&self, record: i64) -> Result<BTreeSet<[u8; 32]>, Problem> {
        let text = "SELECT digest FROM blob_uses WHERE record = ?1";
        let mut query = self.transaction.prepare_cached(text).map_err(problem)?;
        query.query_map([record], |row| row.get(0)).and_then(Iterator::collect).map_err(problem)
    }

    fn is_used(&self, digest: [u8; 32]) -> Result<bool, Problem> {
        let query = self.transaction.prepare_cached("SELECT 1 FROM blob_uses WHERE digest = ?1");
        query.and_then(|mut query| query.exists([digest])).map_err(problem)
    }

    fn drop_unused(&self, digest: [u8; 32]) -> Result<(), Problem> {
        if self.is_used(digest)? {
            return Ok(());
        }
        let text = "SELECT id FROM blobs WHERE digest = ?1 AND (put IS NULL OR put <= ?2)";
        let mut query = self.transaction.prepare_cached(text).map_err(problem)?;
        let blob =
            query.query_row(params![digest, self.waiting_since()], |row| row.get(0)).optional();
        blob.map_err(problem)?.map_or(Ok(()), |blob| self.drop_blob(blob))
    }

    /// Lets go of some blobs that were put long enough ago and have no use. Those that have one are
    /// not looked at again until it goes.
    pub(super) fn drop_idle_blobs(&self) -> Result<(), Problem> {
        let most = IDLE.saturating_add(self.put);
        // Of a clock that was set back since.
        let text =
            "UPDATE blobs SET put = ?1 WHERE id IN (SELECT id FROM blobs WHERE put > ?2 LIMIT ?3)";
        self.execute(text, params![self.now.0, self.now.0.saturating_add(WAITING), most])?;
        let mut pieces = 0;
        for (blob, digest, bytes) in self.long_put(most)? {
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

    /// The number, digest and size of some blobs that were put long enough ago.
    fn long_put(&self, most: i64) -> Result<Vec<(i64, [u8; 32], i64)>, Problem> {
        let text = "SELECT id, digest, bytes FROM blobs WHERE put <= ?1 ORDER BY put LIMIT ?2";
        let mut query = self.transaction.prepare_cached(text).map_err(problem)?;
        let rows = query.query_map([self.waiting_since(), most], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        });
        rows.and_then(Iterator::collect).map_err(problem)
    }

    /// What was put after this stays.
    fn waiting_since(&self) -> i64 {
        self.now.0.saturating_sub(WAITING)
    }

    fn drop_blob(&self, blob: i64) -> Result<(), Problem> {
        self.drop_pieces(blob)?;
        self.execute("DELETE FROM blobs WHERE id = ?1", params![blob])
    }
}

impl Snapshot<'_> {
    /// The first media type after another one of which a record that the caller may see says a blob
    /// to be, in a field that they may see. Uses of one type are looked at until one may be seen.
    pub(in super::super) fn media_type(
        &self,
        source: &RecordSource,
        id: &BlobId,
        after: Option<&str>,
    ) -> Result<Option<String>, Problem> {
        let mut seen = Where::seen(source)?;
        seen.and(" AND digest = ?", *id.digest());
        if let Some(after) = after {
            seen.and(" AND media_type > ?", after.to_owned());
        }
        if let Some(fields) = source.sight.fields() {
            let fields: Vec<Sql> = fields.iter().map(|field| Sql::Text(field.clone())).collect();
            seen.and(" AND field IN rarray(?)", Rc::new(fields));
        }
        // The join is written so that it begins at the uses, of which there are few.
        let text = format!(
            "SELECT media_type FROM blob_uses CROSS JOIN records ON records.id = blob_uses.record \
             WHERE {} ORDER BY media_type LIMIT 1",
            seen.text
        );
        let mut query = self.prepare(&text)?;
        query
            .query_row(params_from_iter(&seen.values), |row| row.get(0))
            .optional()
            .map_err(problem)
    }

    /// The number and the size of a blob whose bytes are stored.
    pub(in super::super) fn blob(&self, id: &BlobId) -> Result<Option<(i64, u64)>, Problem> {
        let mut query = self.prepare("SELECT id, bytes FROM blobs WHERE digest = ?1")?;
        let row = query
            .query_row([id.digest()], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))
            .optional();
        Ok(row
            .map_err(problem)?
            .map(|(blob, bytes)| (blob, u64::try_from(bytes).unwrap_or_default())))
    }

    /// One piece of a blob.
    pub(in super::super) fn blob_piece(
        &self,
        blob: i64,
        piece: u64,
        take: impl FnOnce(&[u8]),
    ) -> Result<(), Problem> {
        let mut query = self.prepare("SELECT data FROM blob_pieces WHERE id = ?1")?;
        let mut rows =
            query.query([number(blob, piece).ok_or(Problem::Corrupt)?]).map_err(problem)?;
        let row = rows.next().map_err(problem)?.ok_or(Problem::Corrupt)?;
        take(row.get_ref(0).map_err(problem)?.as_blob().map_err(|_| Problem::Corrupt)?);
        Ok(())
    }

    /// The blobs that the fields of a record name, all of them.
    pub(in super::super) fn blobs_of(&self, record: i64) -> Result<Vec<BlobId>, Problem> {
        let mut query = self
            .prepare("SELECT DISTINCT digest FROM blob_uses WHERE record = ?1 ORDER BY digest")?;
        let digests = query.query_map([record], |row| row.get(0).map(BlobId::from_digest));
        digests.and_then(Iterator::collect).map_err(problem)
    }
}

/// Fills a buffer as far as there are bytes.
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
