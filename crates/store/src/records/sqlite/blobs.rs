//! Reads which records expose a blob.

use stile_domain::records::blob::BlobId;
use stile_domain::records::problem::Problem;

use super::read::SqliteSnapshot;
use crate::records::model::RecordSource;
use crate::records::port::ReadBlobUses;
use crate::records::rows::{Filter, Rows as _};

impl ReadBlobUses for SqliteSnapshot<'_> {
    fn media_type(
        &self,
        source: &RecordSource,
        id: &BlobId,
        after: Option<&str>,
    ) -> Result<Option<String>, Problem> {
        let mut filter = Filter::visible(self.door(), source, &[])?;
        filter.and(" AND digest = ?", id.digest().to_vec());
        if let Some(after) = after {
            filter.and(" AND media_type > ?", after.to_owned());
        }
        if let Some(fields) = source.visibility.fields() {
            filter.and(" AND field IN rarray(?)", fields.iter().cloned().collect::<Vec<_>>());
        }
        filter.end(" ORDER BY media_type LIMIT 1");
        // CROSS JOIN makes SQLite begin at the uses, of which there are few.
        let select = "SELECT media_type \
                      FROM blob_uses CROSS JOIN records ON records.id = blob_uses.record";
        let mut found = None;
        self.door().each_where(select, &filter.conditions, &mut |row| {
            found = Some(row.get(0)?);
            Ok(false)
        })?;
        Ok(found)
    }
}
