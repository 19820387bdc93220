//! Reads blobs, and which records expose them.

use stile_domain::records::blob::BlobId;
use stile_domain::records::problem::Problem;

use super::read::{PgSnapshot, Residue, Where, column, text_of};
use crate::postgresql::{params, tenant_sql};
use crate::records::model::{RecordSource, blob_piece_number};
use crate::records::port::ReadBlobs;

/// The uses of a blob that one query reads if each body is looked at.
const USES: i64 = 64;

impl ReadBlobs for PgSnapshot<'_> {
    fn media_type(
        &self,
        source: &RecordSource,
        id: &BlobId,
        after: Option<&str>,
    ) -> Result<Option<String>, Problem> {
        let residue = Residue::new(source, &[]);
        let mut last: Option<(String, i64)> = None;
        loop {
            let mut filter = Where::visible(source);
            filter.and(" AND digest = ?", id.digest().to_vec());
            if let Some(after) = after {
                filter.and(" AND media_type > ?", after.as_bytes().to_vec());
            }
            if let Some((media_type, record)) = &last {
                filter.and(" AND (media_type, record) > (?,", media_type.as_bytes().to_vec());
                filter.and(" ?)", *record);
            }
            if let Some(fields) = source.visibility.fields() {
                let fields: Vec<Vec<u8>> =
                    fields.iter().map(|field| field.as_bytes().to_vec()).collect();
                filter.and(" AND field = ANY(?)", fields);
            }
            let limit = if residue.is_empty() { 1 } else { USES };
            filter.and(" ORDER BY media_type, record LIMIT ?", limit);
            let body = if residue.is_empty() { "" } else { ", body" };
            let select = format!(
                "SELECT media_type, record{body} FROM blob_uses \
                 JOIN records USING (tenant) WHERE records.id = blob_uses.record AND "
            );
            let rows = self.filtered(&select, &filter)?;
            for row in &rows {
                if residue.is_empty() || residue.holds(column(row, 2)?)? {
                    return Ok(Some(text_of(row, 0)?.to_owned()));
                }
                last = Some((text_of(row, 0)?.to_owned(), column(row, 1)?));
            }
            if (rows.len() as i64) < limit {
                return Ok(None);
            }
        }
    }

    fn blob(&self, id: &BlobId) -> Result<Option<(i64, u64)>, Problem> {
        let digest = &id.digest()[..];
        let sql = tenant_sql!("SELECT id, bytes FROM blobs WHERE tenant = $1 AND digest = $2");
        let row = self.first(&sql, params![digest])?;
        let Some(row) = row else { return Ok(None) };
        let bytes: i64 = column(&row, 1)?;
        Ok(Some((column(&row, 0)?, u64::try_from(bytes).unwrap_or_default())))
    }

    fn blob_piece(
        &self,
        blob: i64,
        piece: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Problem> {
        let number = blob_piece_number(blob, piece).ok_or(Problem::Corrupt)?;
        let sql = tenant_sql!("SELECT data FROM blob_pieces WHERE tenant = $1 AND id = $2");
        let row = self.first(&sql, params![number])?;
        take(column(&row.ok_or(Problem::Corrupt)?, 0)?);
        Ok(())
    }

    fn names_blobs(&self, record: i64, field: &str) -> Result<bool, Problem> {
        let sql = tenant_sql!(
            "SELECT 1 FROM blob_uses \
             WHERE tenant = $1 AND record = $2 AND field = $3 LIMIT 1"
        );
        Ok(self.first(&sql, params![record, field.as_bytes()])?.is_some())
    }

    fn blobs_of(&self, record: i64) -> Result<Vec<BlobId>, Problem> {
        let sql = tenant_sql!(
            "SELECT DISTINCT digest FROM blob_uses \
             WHERE tenant = $1 AND record = $2 ORDER BY digest"
        );
        let rows = self.rows(&sql, params![record])?;
        let blob = |row| {
            let digest: &[u8] = column(row, 0)?;
            digest.try_into().map(BlobId::from_digest).map_err(|_| Problem::Corrupt)
        };
        rows.iter().map(blob).collect()
    }
}
