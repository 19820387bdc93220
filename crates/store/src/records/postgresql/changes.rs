//! Reads the log of changes.

use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{ChangeRange, SyncPoint};
use stile_domain::records::problem::Problem;

use super::read::{PgSnapshot, column};
use crate::postgresql::tenant_sql;
use crate::records::model::RecordSource;
use crate::records::port::ReadChanges;
use crate::records::rows::{ChangedKeys, Rows as _};

impl ReadChanges for PgSnapshot<'_> {
    fn sync_point(&self, at: Instant) -> Result<SyncPoint, Problem> {
        let sql = tenant_sql!("SELECT lineage, changes, records FROM history WHERE tenant = $1");
        let rows = self.rows(&sql, &[])?;
        let row = rows.first().ok_or(Problem::Corrupt)?;
        let lineage: &[u8] = column(row, 0)?;
        let lineage = lineage.try_into().map_err(|_| Problem::Corrupt)?;
        Ok(SyncPoint { lineage, version: column(row, 1)?, record: column(row, 2)?, at })
    }

    fn changed_keys(
        &self,
        source: &RecordSource,
        session: &ChangeRange,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, Problem> {
        let ChangedKeys { mut logged, mut new, limit } =
            ChangedKeys::of(self.door(), source, session, after, limit)?;
        logged.and(" ORDER BY key LIMIT ?)", limit);
        new.and(" ORDER BY key LIMIT ?)", limit);
        let from = tenant_sql!(" UNION (SELECT key FROM records WHERE tenant = $1 AND ");
        logged.conditions.append(from.text(), new.conditions);
        logged.and(" ORDER BY key LIMIT ?", limit);
        let mut keys = Vec::new();
        let select = "(SELECT DISTINCT key FROM changes";
        self.door().each_where(select, &logged.conditions, &mut |row| {
            keys.push(row.get(0)?);
            Ok(true)
        })?;
        Ok(keys)
    }
}
