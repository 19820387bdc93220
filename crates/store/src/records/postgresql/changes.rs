//! Reads the log of changes.

use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{ChangeRange, SyncPoint};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;
use tokio_postgres::Row;

use super::read::{PgSnapshot, Where, column, text_of};
use crate::postgresql::params;
use crate::records::model::{RecordSource, StoredState};
use crate::records::port::ReadChanges;

/// The lines that one query reads.
const LINES: i64 = 256;

impl ReadChanges for PgSnapshot<'_> {
    fn sync_point(&self, at: Instant) -> Result<SyncPoint, Problem> {
        let text = "SELECT lineage, changes, records FROM history WHERE tenant = $1";
        let row = self.first(text, &[])?;
        let row = row.ok_or(Problem::Corrupt)?;
        let lineage: &[u8] = column(&row, 0)?;
        let lineage = lineage.try_into().map_err(|_| Problem::Corrupt)?;
        Ok(SyncPoint { lineage, version: column(&row, 1)?, record: column(&row, 2)?, at })
    }

    fn log_start(&self) -> Result<Instant, Problem> {
        let text = "SELECT forgotten FROM history WHERE tenant = $1";
        let row = self.first(text, &[])?.ok_or(Problem::Corrupt)?;
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
        logged.text = format!("(SELECT DISTINCT key FROM changes WHERE {}", logged.text);
        logged.and(" ORDER BY key LIMIT ?)", limit);
        new.text = format!(" UNION (SELECT key FROM records WHERE {}", new.text);
        new.and(" ORDER BY key LIMIT ?)", limit);
        logged.append(new);
        logged.and(" ORDER BY key LIMIT ?", limit);
        let rows = self.filtered(&logged.text, &logged)?;
        rows.iter().map(|row| text_of(row, 0).map(str::to_owned)).collect()
    }

    fn states(
        &self,
        source: &RecordSource,
        key: &str,
        since: &SyncPoint,
        take: &mut dyn FnMut(StoredState) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let text = "SELECT record, emitted, body, version, at FROM changes \
                    WHERE tenant = $1 AND stream = $2 AND key = $3 AND version > $4 \
                    ORDER BY version LIMIT $5";
        let mut after = since.version;
        loop {
            let rows = self.rows(text, params![source.id, key.as_bytes(), after, LINES])?;
            for row in &rows {
                after = column(row, 3)?;
                take(state(row, Some((after, Instant(column(row, 4)?))))?)?;
            }
            if (rows.len() as i64) < LINES {
                break;
            }
        }
        let text = "SELECT id, emitted, body FROM records \
                    WHERE tenant = $1 AND stream = $2 AND key = $3";
        let Some(row) = self.first(text, params![source.id, key.as_bytes()])? else {
            return Ok(());
        };
        let now = state(&row, None)?;
        let body = RecordBody::new(&now.body).digested().map_err(|_| Problem::Corrupt)?;
        take(StoredState { body, ..now })
    }
}

fn state(row: &Row, ended: Option<(i64, Instant)>) -> Result<StoredState, Problem> {
    Ok(StoredState {
        ended,
        record: column(row, 0)?,
        emitted: Instant(column(row, 1)?),
        body: column(row, 2)?,
    })
}
