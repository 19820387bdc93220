//! The rows of the log of changes, and how far it reaches back.

use std::collections::HashMap;

use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{ChangeRange, SyncPoint};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;

use super::filter::Filter;
use super::transaction::Rows;
use crate::records::model::{RecordSource, StoredState};
use crate::sql::{Door, Row, statement, values};

/// The lines that one query reads.
const LINES: i64 = 256;

/// Takes the index of a key and a state of the record with the key.
pub(in crate::records) type TakeState<'t> =
    &'t mut dyn FnMut(usize, StoredState) -> Result<(), Problem>;

/// Reads the log of changes.
pub(in crate::records) trait ChangeRows: Rows {
    /// Returns the time since which the log is complete.
    fn log_start(&self) -> Result<Instant, Problem> {
        let sql = statement!("SELECT forgotten FROM history WHERE tenant = $1");
        self.door().number(sql, &[])?.map(Instant).ok_or(Problem::Corrupt)
    }

    /// Passes the states of some keys after a sync point to `take`, key by key in the given order,
    /// which is ascending: of each the oldest first and the present one last.
    fn states_of_keys(
        &self,
        source: &RecordSource,
        keys: &[String],
        since: &SyncPoint,
        take: TakeState<'_>,
    ) -> Result<(), Problem> {
        let wanted: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        let sql = statement!(
            "SELECT id, emitted, body, key FROM records \
             WHERE tenant = $1 AND stream = $2 AND key = ANY($3)"
        );
        let mut present = HashMap::new();
        self.door().each(sql, values![source.id, wanted], &mut |row| {
            let now = state(row, None)?;
            let body = RecordBody::new(&now.body).digested().map_err(|_| Problem::Corrupt)?;
            present.insert(row.get(3)?, StoredState { body, ..now });
            Ok(true)
        })?;
        // SQLite reads row by row. PostgreSQL sends all rows of a query, so it is asked for some.
        let all = statement!(
            "SELECT record, emitted, body, version, at, key FROM changes \
             WHERE tenant = $1 AND stream = $2 AND key = ANY($3) \
             AND version > $4 ORDER BY key, version"
        );
        let some = statement!(
            "SELECT record, emitted, body, version, at, key FROM changes \
             WHERE tenant = $1 AND stream = $2 AND key = ANY($3) \
             AND version > $4 AND (key, version) > ($5, $6) ORDER BY key, version LIMIT $7"
        );
        let is_streamed = matches!(self.door(), Door::Sqlite(_));
        let mut last: (Vec<u8>, i64) = (Vec::new(), since.version);
        // The key whose lines come next.
        let mut at = 0;
        loop {
            let (after, mut lines) = (last.clone(), 0);
            let mut take_line = |row: &Row<'_>| {
                lines += 1;
                let key: &[u8] = row.get(5)?;
                while wanted.get(at).is_some_and(|next| next.as_slice() < key) {
                    finish_key(keys, at, &mut present, take)?;
                    at += 1;
                }
                let version = row.get(3)?;
                take(at, state(row, Some((version, Instant(row.get(4)?))))?)?;
                last = (key.to_vec(), version);
                Ok(true)
            };
            let (stream, since) = (source.id, since.version);
            if is_streamed {
                self.door().each(all, values![stream, wanted, since], &mut take_line)?;
                break;
            }
            let values = values![stream, wanted, since, after.0, after.1, LINES];
            self.door().each(some, values, &mut take_line)?;
            if lines < LINES {
                break;
            }
        }
        (at..keys.len()).try_for_each(|at| finish_key(keys, at, &mut present, take))
    }
}

/// Shortens the log of changes.
pub(in crate::records) trait WriteChangeRows: Rows {
    /// Deletes some lines from before a time.
    fn delete_changes(&self, before: Instant, limit: i64) -> Result<(), Problem> {
        let sql = statement!(
            "DELETE FROM changes WHERE tenant = $1 AND version = ANY(ARRAY( \
             SELECT version FROM changes WHERE tenant = $1 AND at < $2 LIMIT $3))"
        );
        self.door().execute(sql, values![before.0, limit]).map(drop)
    }
}

impl<R: Rows> ChangeRows for R {}
impl<R: Rows> WriteChangeRows for R {}

/// The two queries of the keys that may have changed in a session: keys with a line in the log, and
/// keys of new visible records.
pub(in crate::records) struct ChangedKeys<'q> {
    pub(in crate::records) logged: Filter<'q>,
    pub(in crate::records) new: Filter<'q>,
    pub(in crate::records) limit: i64,
}

impl<'q> ChangedKeys<'q> {
    /// Selects the keys after `after`.
    pub(in crate::records) fn of(
        door: Door<'_>,
        source: &'q RecordSource,
        session: &ChangeRange,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Self, Problem> {
        let ChangeRange { since, until } = session;
        let after = after.map(|key| key.as_bytes().to_vec()).unwrap_or_default();
        let mut logged = Filter::stream(source);
        logged.granted_keys(door, source);
        let mut new = Filter::visible(door, source, &[])?;
        for (part, column, from, to) in [
            (&mut logged, "version", since.version, until.version),
            (&mut new, "id", since.record, until.record),
        ] {
            part.and(" AND key > ?", after.clone());
            part.and(&format!(" AND {column} > ?"), from);
            part.and(&format!(" AND {column} <= ?"), to);
        }
        Ok(Self { logged, new, limit: i64::try_from(limit).unwrap_or(i64::MAX) })
    }
}

/// Passes the present state of a key, after all earlier ones.
fn finish_key(
    keys: &[String],
    at: usize,
    present: &mut HashMap<String, StoredState>,
    take: TakeState<'_>,
) -> Result<(), Problem> {
    let state = keys.get(at).and_then(|key| present.remove(key));
    state.map_or(Ok(()), |state| take(at, state))
}

fn state(row: &Row<'_>, ended: Option<(i64, Instant)>) -> Result<StoredState, Problem> {
    Ok(StoredState { ended, record: row.get(0)?, emitted: Instant(row.get(1)?), body: row.get(2)? })
}
