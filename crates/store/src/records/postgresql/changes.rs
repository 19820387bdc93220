//! Reads the log of changes.

use std::collections::HashMap;

use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{ChangeRange, SyncPoint};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;
use tokio_postgres::Row;

use super::read::{PgSnapshot, Where, column, text_of};
use crate::postgresql::{params, tenant_sql};
use crate::records::model::{RecordSource, StoredState};
use crate::records::port::{ReadChanges, TakeState};

/// The lines that one query reads.
const LINES: i64 = 256;

impl ReadChanges for PgSnapshot<'_> {
    fn sync_point(&self, at: Instant) -> Result<SyncPoint, Problem> {
        let sql = tenant_sql!("SELECT lineage, changes, records FROM history WHERE tenant = $1");
        let row = self.first(&sql, &[])?;
        let row = row.ok_or(Problem::Corrupt)?;
        let lineage: &[u8] = column(&row, 0)?;
        let lineage = lineage.try_into().map_err(|_| Problem::Corrupt)?;
        Ok(SyncPoint { lineage, version: column(&row, 1)?, record: column(&row, 2)?, at })
    }

    fn log_start(&self) -> Result<Instant, Problem> {
        let sql = tenant_sql!("SELECT forgotten FROM history WHERE tenant = $1");
        let row = self.first(&sql, &[])?.ok_or(Problem::Corrupt)?;
        column(&row, 0).map(Instant)
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
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        logged.begin("(SELECT DISTINCT key FROM changes WHERE ");
        logged.and(" ORDER BY key LIMIT ?)", limit);
        new.begin(" UNION (SELECT key FROM records WHERE ");
        new.and(" ORDER BY key LIMIT ?)", limit);
        logged.append(new);
        logged.and(" ORDER BY key LIMIT ?", limit);
        let rows = self.filtered("", &logged)?;
        rows.iter().map(|row| text_of(row, 0).map(str::to_owned)).collect()
    }

    fn states(
        &self,
        source: &RecordSource,
        key: &str,
        since: &SyncPoint,
        take: &mut dyn FnMut(StoredState) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let keys = [key.to_owned()];
        self.states_of_keys(source, &keys, since, &mut |_, state| take(state))
    }

    fn states_of_keys(
        &self,
        source: &RecordSource,
        keys: &[String],
        since: &SyncPoint,
        take: TakeState<'_>,
    ) -> Result<(), Problem> {
        let wanted: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let sql = tenant_sql!(
            "SELECT id, emitted, body, key FROM records \
             WHERE tenant = $1 AND stream = $2 AND key = ANY($3)"
        );
        let mut present = HashMap::new();
        for row in &self.rows(&sql, params![source.id, wanted])? {
            let now = state(row, None)?;
            let body = RecordBody::new(&now.body).digested().map_err(|_| Problem::Corrupt)?;
            present.insert(text_of(row, 3)?.to_owned(), StoredState { body, ..now });
        }
        let sql = tenant_sql!(
            "SELECT record, emitted, body, version, at, key FROM changes \
             WHERE tenant = $1 AND stream = $2 AND key = ANY($3) \
             AND (key, version) > ($4, $5) AND version > $6 ORDER BY key, version LIMIT $7"
        );
        let mut last: (Vec<u8>, i64) = (Vec::new(), since.version);
        // The key whose lines come next.
        let mut at = 0;
        loop {
            let values = params![source.id, wanted, last.0, last.1, since.version, LINES];
            let rows = self.rows(&sql, values)?;
            for row in &rows {
                let key: &[u8] = column(row, 5)?;
                while wanted.get(at).is_some_and(|next| *next < key) {
                    finish_key(keys, at, &mut present, take)?;
                    at += 1;
                }
                let version = column(row, 3)?;
                take(at, state(row, Some((version, Instant(column(row, 4)?))))?)?;
                last = (key.to_vec(), version);
            }
            if (rows.len() as i64) < LINES {
                break;
            }
        }
        (at..keys.len()).try_for_each(|at| finish_key(keys, at, &mut present, take))
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

fn state(row: &Row, ended: Option<(i64, Instant)>) -> Result<StoredState, Problem> {
    Ok(StoredState {
        ended,
        record: column(row, 0)?,
        emitted: Instant(column(row, 1)?),
        body: column(row, 2)?,
    })
}
