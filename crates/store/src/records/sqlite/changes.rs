//! The log of changes: of each record that was changed or removed, the state before that, with
//! digests for all but short values. It is compared and never shown.
//!
//! What is inserted needs no line, since the numbers of records grow. A line goes when it is older
//! than what is promised and a day, which is for clocks that were set back; some lines go with each
//! write.

use std::rc::Rc;

use rusqlite::types::Value as Sql;
use rusqlite::{OptionalExtension as _, params, params_from_iter};
use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{ChangeRange, KEPT, MARGIN, SyncPoint};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;

use super::super::view::RecordSource;
use super::problem;
use super::read::{Snapshot, Where};
use super::write::WriteBatch;

/// Lines that go with a write, beside as many as it makes.
const EXPIRING: i64 = 1000;
/// The most changes, or new records, that are looked at and sorted for each page of a session.
/// Where there are more all keys of the stream are walked over in their order, once in all pages
/// together.
const FEW: i64 = 2000;

/// The state of a key, as it is kept.
pub(in super::super) struct StateRow {
    /// The number and the time of the change that ended it; none of the one that there is.
    pub(in super::super) ended: Option<(i64, Instant)>,
    pub(in super::super) record: i64,
    pub(in super::super) emitted: Instant,
    /// With digests for values.
    pub(in super::super) body: Vec<u8>,
}

impl WriteBatch<'_> {
    /// Keeps the state of a record that is about to change or to go.
    pub(super) fn keep_state(&mut self, record: i64, body: &[u8]) -> Result<(), Problem> {
        let body = RecordBody::new(body).digested().map_err(|_| Problem::Corrupt)?;
        let text = "INSERT INTO changes (stream, key, at, record, emitted, body) \
                    SELECT stream, key, ?2, id, emitted, ?3 FROM records WHERE id = ?1";
        self.execute(text, params![record, self.now.0, body])?;
        self.kept += 1;
        Ok(())
    }

    /// Lets go of some lines that are too old.
    ///
    /// Where that was done by a clock that has been set back since, further than lines are kept
    /// beyond what is promised, tokens of these days may lack lines, and another history begins.
    pub(super) fn forget_states(&self) -> Result<(), Problem> {
        let text = "DELETE FROM changes WHERE version IN (SELECT version FROM changes WHERE at < ?1 LIMIT ?2)";
        let oldest = self.now.0.saturating_sub(KEPT).saturating_sub(MARGIN);
        let anew =
            "UPDATE history SET lineage = randomblob(16), forgotten = ?1 WHERE forgotten > ?2";
        self.execute(anew, params![oldest, self.now.0.saturating_sub(KEPT)])?;
        self.execute("UPDATE history SET forgotten = ?1 WHERE forgotten < ?1", params![oldest])?;
        self.execute(text, params![oldest, EXPIRING.saturating_add(self.kept)])
    }
}

impl Snapshot<'_> {
    /// The last change and the last record that there ever were in this history.
    pub(in super::super) fn mark(&self, at: Instant) -> Result<SyncPoint, Problem> {
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

    /// Lines of the log from before this may be gone.
    pub(in super::super) fn forgotten(&self) -> Result<Instant, Problem> {
        let mut query = self.prepare("SELECT forgotten FROM history")?;
        query.query_row([], |row| row.get(0).map(Instant)).map_err(problem)
    }

    /// Keys of a source that may have changed in a session, in their order: those with a line,
    /// which may be of a change that the caller did not see, and those of new records that they
    /// see.
    pub(in super::super) fn changed_keys(
        &self,
        source: &RecordSource,
        session: &ChangeRange,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, Problem> {
        let ChangeRange { since, until } = session;
        let after = after.map(|key| key.as_bytes().to_vec()).unwrap_or_default();
        let mut logged = Where::of(source);
        if let Some(keys) = source.sight.keys() {
            let keys: Vec<Sql> =
                keys.iter().map(|key| Sql::Blob(key.as_bytes().to_vec())).collect();
            logged.and(" AND key IN rarray(?)", Rc::new(keys));
        }
        let mut new = Where::seen(source)?;
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
            by(until.version - since.version, "changes_by_key"),
            logged.text,
            by(until.record - since.record, "records_by_key"),
            new.text
        );
        let limit = Sql::Integer(i64::try_from(limit).unwrap_or(i64::MAX));
        let values = logged.values.into_iter().chain(new.values).chain([Box::new(limit) as _]);
        let mut query = self.prepare(&text)?;
        let keys = query.query_map(params_from_iter(values), |row| row.get::<_, Vec<u8>>(0));
        let keys: Vec<Vec<u8>> = keys.and_then(Iterator::collect).map_err(problem)?;
        keys.into_iter().map(|key| String::from_utf8(key).map_err(|_| Problem::Corrupt)).collect()
    }

    /// The states of a key from a mark on, the oldest first; the one that there is comes last.
    pub(in super::super) fn states(
        &self,
        source: &RecordSource,
        key: &str,
        since: &SyncPoint,
        take: &mut dyn FnMut(StateRow) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let text = "SELECT record, emitted, body, version, at FROM changes \
                    WHERE stream = ?1 AND key = ?2 AND version > ?3 ORDER BY version";
        let mut query = self.prepare(text)?;
        let mut rows =
            query.query(params![source.row, key.as_bytes(), since.version]).map_err(problem)?;
        while let Some(row) = rows.next().map_err(problem)? {
            take(state(row, true).map_err(problem)?)?;
        }
        let mut query =
            self.prepare("SELECT id, emitted, body FROM records WHERE stream = ?1 AND key = ?2")?;
        let now = query
            .query_row(params![source.row, key.as_bytes()], |row| state(row, false))
            .optional();
        let Some(now) = now.map_err(problem)? else { return Ok(()) };
        let body = RecordBody::new(&now.body).digested().map_err(|_| Problem::Corrupt)?;
        take(StateRow { body, ..now })
    }
}

/// How rows are found of which so many have a number within bounds: by that, or in the order of
/// keys.
fn by(count: i64, keys: &str) -> String {
    if count > FEW { format!("INDEXED BY {keys}") } else { "NOT INDEXED".to_owned() }
}

fn state(row: &rusqlite::Row<'_>, ended: bool) -> rusqlite::Result<StateRow> {
    let ended = if ended { Some((row.get(3)?, Instant(row.get(4)?))) } else { None };
    Ok(StateRow { ended, record: row.get(0)?, emitted: Instant(row.get(1)?), body: row.get(2)? })
}
