//! Reads blobs, and which records expose them.
//!
//! `blob_pieces` has the bytes. `blob_uses` has a row for each field of a record that names a blob.

use std::rc::Rc;

use rusqlite::types::Value as Sql;
use rusqlite::{OptionalExtension as _, params, params_from_iter};
use stile_domain::records::blob::BlobId;
use stile_domain::records::problem::Problem;

use super::error::problem;
use super::read::{SqliteSnapshot, Where, bytes};
use crate::records::model::{RecordSource, blob_piece_number as piece_number};
use crate::records::port::ReadBlobs;

impl ReadBlobs for SqliteSnapshot<'_> {
    fn media_type(
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

    fn blob(&self, id: &BlobId) -> Result<Option<(i64, u64)>, Problem> {
        let mut query = self.prepare("SELECT id, bytes FROM blobs WHERE digest = ?1")?;
        let row = query
            .query_row([id.digest()], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))
            .optional();
        Ok(row
            .map_err(problem)?
            .map(|(blob, bytes)| (blob, u64::try_from(bytes).unwrap_or_default())))
    }

    fn blob_piece(
        &self,
        blob: i64,
        piece: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Problem> {
        let mut query = self.prepare("SELECT data FROM blob_pieces WHERE id = ?1")?;
        let mut rows =
            query.query([piece_number(blob, piece).ok_or(Problem::Corrupt)?]).map_err(problem)?;
        take(bytes(rows.next().map_err(problem)?.ok_or(Problem::Corrupt)?, 0)?);
        Ok(())
    }

    fn names_blobs(&self, record: i64, field: &str) -> Result<bool, Problem> {
        let text = "SELECT 1 FROM blob_uses WHERE record = ?1 AND field = ?2";
        let mut query = self.prepare(text)?;
        query.exists(params![record, field]).map_err(problem)
    }

    fn blobs_of(&self, record: i64) -> Result<Vec<BlobId>, Problem> {
        let mut query = self
            .prepare("SELECT DISTINCT digest FROM blob_uses WHERE record = ?1 ORDER BY digest")?;
        let digests = query.query_map([record], |row| row.get(0).map(BlobId::from_digest));
        digests.and_then(Iterator::collect).map_err(problem)
    }
}
