//! Reads the log of changes.

use rusqlite::types::Value as Sql;
use rusqlite::{OptionalExtension as _, Row, params, params_from_iter};
use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{ChangeRange, SyncPoint};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;

use super::error::problem;
use super::read::{SqliteSnapshot, Where};
use crate::records::model::{RecordSource, StoredState};
use crate::records::port::ReadChanges;

/// The most changes, or new records, that are read and sorted for each page of a session. If there
/// are more, all pages together walk once over all keys of the stream, in order.
const FEW: i64 = 2000;

impl ReadChanges for SqliteSnapshot<'_> {
    fn sync_point(&self, at: Instant) -> Result<SyncPoint, Problem> {
        let lineage = self
            .prepare("SELECT lineage FROM history")?
            .query_row([], |row| row.get(0))
            .map_err(problem)?;
        let mut query = self.prepare("SELECT seq FROM sqlite_sequence WHERE name = ?1")?;
        let mut last =
            |table: &str| query.query_row([table], |row| row.get(0)).optional().map_err(problem);
        Ok(SyncPoint {
            lineage,
            version: last("changes")?.unwrap_or(0),
            record: last("records")?.unwrap_or(0),
            at,
        })
    }

    fn log_start(&self) -> Result<Instant, Problem> {
        let mut query = self.prepare("SELECT forgotten FROM history")?;
        query.query_row([], |row| row.get(0).map(Instant)).map_err(problem)
    }

    fn changed_keys(
        &self,
        source: &RecordSource,
        session: &ChangeRange,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, Problem> {
        let ChangeRange { since, until } = session;
        let after = after.map(|key| key.as_bytes().to_vec()).unwrap_or_default();
        let mut logged = Where::stream(source);
        logged.granted_keys(source);
        let mut new = Where::visible(source);
        for (part, column, from, to) in [
            (&mut logged, "version", since.version, until.version),
            (&mut new, "id", since.record, until.record),
        ] {
            part.and(" AND key > ?", after.clone());
            part.and(&format!(" AND {column} > ?"), from);
            part.and(&format!(" AND {column} <= ?"), to);
        }
        let text = format!(
            "SELECT key FROM changes {} WHERE {} UNION SELECT key FROM records {} WHERE {} ORDER BY key LIMIT ?",
            index_hint(until.version - since.version, "changes_by_key"),
            logged.text,
            index_hint(until.record - since.record, "records_by_key"),
            new.text
        );
        let limit = Sql::Integer(i64::try_from(limit).unwrap_or(i64::MAX));
        let values = logged.values.into_iter().chain(new.values).chain([Box::new(limit) as _]);
        let mut query = self.prepare(&text)?;
        let keys = query.query_map(params_from_iter(values), |row| row.get::<_, Vec<u8>>(0));
        let keys: Vec<Vec<u8>> = keys.and_then(Iterator::collect).map_err(problem)?;
        keys.into_iter().map(|key| String::from_utf8(key).map_err(|_| Problem::Corrupt)).collect()
    }

    fn states(
        &self,
        source: &RecordSource,
        key: &str,
        since: &SyncPoint,
        take: &mut dyn FnMut(StoredState) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let text = "SELECT record, emitted, body, version, at FROM changes \
                    WHERE stream = ?1 AND key = ?2 AND version > ?3 ORDER BY version";
        let mut query = self.prepare(text)?;
        let mut rows =
            query.query(params![source.id, key.as_bytes(), since.version]).map_err(problem)?;
        while let Some(row) = rows.next().map_err(problem)? {
            let ended = (row.get(3).map_err(problem)?, Instant(row.get(4).map_err(problem)?));
            take(state(row, Some(ended)).map_err(problem)?)?;
        }
        let mut query =
            self.prepare("SELECT id, emitted, body FROM records WHERE stream = ?1 AND key = ?2")?;
        let now =
            query.query_row(params![source.id, key.as_bytes()], |row| state(row, None)).optional();
        let Some(now) = now.map_err(problem)? else { return Ok(()) };
        let body = RecordBody::new(&now.body).digested().map_err(|_| Problem::Corrupt)?;
        take(StoredState { body, ..now })
    }
}

/// Chooses the index by which `count` rows are found: the index of keys if there are many, and
/// otherwise the numbers of the rows.
fn index_hint(count: i64, keys: &str) -> String {
    if count > FEW { format!("INDEXED BY {keys}") } else { "NOT INDEXED".to_owned() }
}

fn state(row: &Row<'_>, ended: Option<(i64, Instant)>) -> rusqlite::Result<StoredState> {
    Ok(StoredState { ended, record: row.get(0)?, emitted: Instant(row.get(1)?), body: row.get(2)? })
}
