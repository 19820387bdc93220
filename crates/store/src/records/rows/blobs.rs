//! The rows of blobs: their digests, their pieces, and which fields of records use them.

use stile_domain::records::blob::BlobId;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::transaction::Rows;
use crate::records::model::{OldBlob, blob_piece_number};
use crate::sql::{statement, values};

/// Reads blobs.
pub(in crate::records) trait BlobRows: Rows {
    /// Returns the number and the size of the blob with a digest.
    fn blob(&self, digest: &[u8; 32]) -> Result<Option<(i64, u64)>, Problem> {
        let sql = statement!("SELECT id, bytes FROM blobs WHERE tenant = $1 AND digest = $2");
        self.door().first(sql, values![digest], |row| {
            Ok((row.get(0)?, u64::try_from(row.get::<i64>(1)?).unwrap_or_default()))
        })
    }

    /// Passes one piece of a blob to `take`.
    fn blob_piece(
        &self,
        blob: i64,
        piece: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Problem> {
        let number = blob_piece_number(blob, piece).ok_or(Problem::Corrupt)?;
        let sql = statement!("SELECT data FROM blob_pieces WHERE tenant = $1 AND id = $2");
        let mut is_found = false;
        self.door().each(sql, values![number], &mut |row| {
            take(row.get(0)?);
            is_found = true;
            Ok(false)
        })?;
        if is_found { Ok(()) } else { Err(Problem::Corrupt) }
    }

    /// Returns whether a field of a record names a blob.
    fn names_blobs(&self, record: i64, field: &str) -> Result<bool, Problem> {
        let sql = statement!(
            "SELECT record FROM blob_uses WHERE tenant = $1 AND record = $2 AND field = $3 LIMIT 1"
        );
        Ok(self.door().number(sql, values![record, field])?.is_some())
    }

    /// Returns all blobs that the fields of a record name, in order.
    fn blobs_of(&self, record: i64) -> Result<Vec<BlobId>, Problem> {
        self.settle()?;
        let sql = statement!(
            "SELECT DISTINCT digest FROM blob_uses \
             WHERE tenant = $1 AND record = $2 ORDER BY digest"
        );
        self.door().all(sql, values![record], |row| row.get(0).map(BlobId::from_digest))
    }
}

/// Writes blobs.
pub(in crate::records) trait WriteBlobRows: BlobRows {
    /// Returns a number for the next blob.
    fn next_blob(&self) -> Result<i64, Problem> {
        let sql = statement!("SELECT coalesce(max(id), 0) + 1 FROM blobs WHERE tenant = $1");
        self.door().number(sql, &[])?.ok_or(Problem::Corrupt)
    }

    /// Inserts a blob.
    fn insert_blob(&self, blob: i64, digest: &[u8; 32], bytes: u64) -> Result<(), Problem> {
        let sql =
            statement!("INSERT INTO blobs (tenant, id, digest, bytes) VALUES ($1, $2, $3, $4)");
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.door().execute(sql, values![blob, digest, bytes]).map(drop)
    }

    /// Inserts one piece of a blob.
    fn insert_blob_piece(&self, number: i64, bytes: &[u8]) -> Result<(), Problem> {
        let sql = statement!("INSERT INTO blob_pieces (tenant, id, data) VALUES ($1, $2, $3)");
        self.door().execute(sql, values![number, bytes]).map(drop)
    }

    /// Deletes the pieces with the numbers from `first` up to but not including `end`.
    fn delete_blob_pieces(&self, first: i64, end: i64) -> Result<(), Problem> {
        let sql = statement!("DELETE FROM blob_pieces WHERE tenant = $1 AND id >= $2 AND id < $3");
        self.door().execute(sql, values![first, end]).map(drop)
    }

    /// Deletes the row of a blob alone.
    fn delete_blob(&self, blob: i64) -> Result<(), Problem> {
        let sql = statement!("DELETE FROM blobs WHERE tenant = $1 AND id = $2");
        self.door().execute(sql, values![blob]).map(drop)
    }

    /// Sets when a blob was last put. `None` means long ago.
    fn set_blob_put(&self, blob: i64, put: Option<Instant>) -> Result<(), Problem> {
        let sql = statement!("UPDATE blobs SET put = $3 WHERE tenant = $1 AND id = $2");
        self.door().execute(sql, values![blob, put.map(|put| put.0)]).map(drop)
    }

    /// Deletes all uses by a record.
    fn delete_blob_uses(&self, record: i64) -> Result<(), Problem> {
        self.settle()?;
        let sql = statement!("DELETE FROM blob_uses WHERE tenant = $1 AND record = $2");
        self.door().execute(sql, values![record]).map(drop)
    }

    /// Returns whether any record uses a blob.
    fn is_blob_used(&self, digest: &[u8; 32]) -> Result<bool, Problem> {
        self.settle()?;
        let sql =
            statement!("SELECT record FROM blob_uses WHERE tenant = $1 AND digest = $2 LIMIT 1");
        Ok(self.door().number(sql, values![digest])?.is_some())
    }

    /// Returns the number of the blob with a digest, if it was put at a time, before, or long ago.
    fn blob_put_by(&self, digest: &[u8; 32], put: Instant) -> Result<Option<i64>, Problem> {
        let sql = statement!(
            "SELECT id FROM blobs WHERE tenant = $1 AND digest = $2 AND (put IS NULL OR put <= $3)"
        );
        self.door().number(sql, values![digest, put.0])
    }

    /// Sets the time of some blobs that were put after `latest` to `now`.
    fn correct_blob_times(&self, latest: Instant, now: Instant, limit: i64) -> Result<(), Problem> {
        let sql = statement!(
            "UPDATE blobs SET put = $2 WHERE tenant = $1 AND id = ANY(ARRAY( \
             SELECT id FROM blobs WHERE tenant = $1 AND put > $3 LIMIT $4))"
        );
        self.door().execute(sql, values![now.0, latest.0, limit]).map(drop)
    }

    /// Returns some blobs that were put at a time or before, the oldest first.
    fn old_blobs(&self, put: Instant, limit: i64) -> Result<Vec<OldBlob>, Problem> {
        let sql = statement!(
            "SELECT id, digest, bytes FROM blobs \
             WHERE tenant = $1 AND put <= $2 ORDER BY put, id LIMIT $3"
        );
        self.door().all(sql, values![put.0, limit], |row| {
            Ok(OldBlob { blob: row.get(0)?, digest: row.get(1)?, bytes: row.get(2)? })
        })
    }
}

impl<R: Rows> BlobRows for R {}
impl<R: Rows> WriteBlobRows for R {}
