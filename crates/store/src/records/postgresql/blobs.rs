//! Reads which records expose a blob.

use stile_domain::records::blob::BlobId;
use stile_domain::records::problem::Problem;

use super::read::PgSnapshot;
use crate::records::model::RecordSource;
use crate::records::port::ReadBlobUses;
use crate::records::rows::{Filter, Rows as _};

/// The uses of a blob that one query reads if each body is looked at.
const USES: i64 = 64;

impl ReadBlobUses for PgSnapshot<'_> {
    fn media_type(
        &self,
        source: &RecordSource,
        id: &BlobId,
        after: Option<&str>,
    ) -> Result<Option<String>, Problem> {
        let mut last: Option<(String, i64)> = None;
        loop {
            let mut filter = Filter::visible(self.door(), source, &[])?;
            let residue = filter.residue;
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
            filter.and(
                " AND records.id = blob_uses.record ORDER BY media_type, record LIMIT ?",
                limit,
            );
            let select = format!(
                "SELECT media_type, record{} FROM blob_uses JOIN records USING (tenant)",
                residue.body_column()
            );
            let (mut read, mut found) = (0, None);
            self.door().each_where(&select, &filter.conditions, &mut |row| {
                read += 1;
                let media_type: String = row.get(0)?;
                last = Some((media_type.clone(), row.get(1)?));
                found = residue.holds_of(row, 2)?.then_some(media_type);
                Ok(found.is_none())
            })?;
            if found.is_some() || read < limit {
                return Ok(found);
            }
        }
    }
}
