//! Reads the log of changes.

use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{ChangeRange, SyncPoint};
use stile_domain::records::problem::Problem;

use super::read::SqliteSnapshot;
use crate::records::model::RecordSource;
use crate::records::port::ReadChanges;
use crate::records::rows::{ChangedKeys, Rows as _};
use crate::sql::sqlite_problem;

/// The most changes, or new records, that are read and sorted for each page of a session. If there
/// are more, all pages together walk once over all keys of the stream, in order.
const FEW: i64 = 2000;

impl ReadChanges for SqliteSnapshot<'_> {
    fn sync_point(&self, at: Instant) -> Result<SyncPoint, Problem> {
        let text = "SELECT lineage, \
                    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0), \
                    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'records'), 0) \
                    FROM history";
        let point = self.prepare(text)?.query_row([], |row| {
            Ok(SyncPoint { lineage: row.get(0)?, version: row.get(1)?, record: row.get(2)?, at })
        });
        point.map_err(sqlite_problem)
    }

    fn changed_keys(
        &self,
        source: &RecordSource,
        session: &ChangeRange,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, Problem> {
        let ChangedKeys { mut logged, new, limit } =
            ChangedKeys::of(self.door(), source, session, after, limit)?;
        let ChangeRange { since, until } = session;
        let select = format!(
            "SELECT key FROM changes {}",
            index_hint(until.version - since.version, "changes_by_key")
        );
        let from = format!(
            " UNION SELECT key FROM records {} WHERE ",
            index_hint(until.record - since.record, "records_by_key")
        );
        logged.conditions.append(&from, new.conditions);
        logged.and(" ORDER BY key LIMIT ?", limit);
        let mut keys = Vec::new();
        self.door().each_where(&select, &logged.conditions, &mut |row| {
            keys.push(row.get(0)?);
            Ok(true)
        })?;
        Ok(keys)
    }
}

/// Chooses the index by which `count` rows are found: the index of keys if there are many, and
/// otherwise the numbers of the rows.
fn index_hint(count: i64, keys: &str) -> String {
    if count > FEW { format!("INDEXED BY {keys}") } else { "NOT INDEXED".to_owned() }
}
