//! Reads of one moment of the database.
//!
//! A query of records takes a source, and what the caller may see of the source becomes conditions
//! of the query.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use rusqlite::types::Value as Sql;
use rusqlite::{
    CachedStatement, Connection, OptionalExtension as _, Row as SqlRow, ToSql, params,
    params_from_iter,
};
use stile_domain::records::filter::Condition;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::order::order_key_of_time;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;

use super::error::problem;
use crate::records::model::{
    GrantRow, RecordRow, RecordSource, Scan, ScanStart, SortOrder, StreamRow, TimeFilter,
};
use crate::records::port::{ReadRecords, ReadStreams, TakeText};

mod scan;
mod values;

/// One moment of the database.
pub(in crate::records) struct SqliteSnapshot<'c> {
    connection: &'c Connection,
}

/// The conditions of a query on records, and the values of their question marks.
pub(super) struct Where {
    pub(super) text: String,
    pub(super) values: Vec<Box<dyn ToSql>>,
}

impl Where {
    /// Selects the visible record with a key. `None` if the grant does not name the key, which this
    /// function finds out without copying all keys of the grant into the query.
    fn with_key(source: &RecordSource, key: &str) -> Option<Self> {
        if source.visibility.keys().is_some_and(|keys| !keys.contains(key)) {
            return None;
        }
        let mut this = Self::in_time(source);
        this.and(" AND key = ?", key.as_bytes().to_vec());
        Some(this)
    }

    /// Selects the records of a source that the caller may see, by time and key.
    pub(super) fn visible(source: &RecordSource) -> Self {
        let mut this = Self::in_time(source);
        this.granted_keys(source);
        this
    }

    /// Adds the keys that the caller may see.
    pub(super) fn granted_keys(&mut self, source: &RecordSource) {
        if let Some(keys) = source.visibility.keys() {
            let keys: Vec<Sql> =
                keys.iter().map(|key| Sql::Blob(key.as_bytes().to_vec())).collect();
            self.and(" AND key IN rarray(?)", Rc::new(keys));
        }
    }

    /// Selects all rows of a source, whether the caller may see them or not.
    pub(super) fn stream(source: &RecordSource) -> Self {
        Self { text: "stream = ?".to_owned(), values: vec![Box::new(source.id)] }
    }

    /// Selects the records of a source at times that the caller may see.
    pub(super) fn in_time(source: &RecordSource) -> Self {
        let mut this = Self::stream(source);
        if let Some(time) = &source.visibility.time {
            this.add_time(time);
        }
        this
    }

    fn add_time(&mut self, time: &TimeFilter) {
        let TimeFilter { field, since, until, orders_lists } = time;
        for (bound, sign) in [(since, ">="), (until, "<")] {
            let Some(bound) = bound else { continue };
            match field {
                None => self.and(&format!(" AND happened {sign} ?"), bound.0),
                Some(field) => {
                    self.and(" AND time_in(body, ?)", field.clone());
                    self.and(&format!(" {sign} ?"), bound.0);
                }
            }
            if *orders_lists {
                self.and(&format!(" AND ord {sign} ?"), order_key_of_time(*bound));
            }
        }
    }

    pub(super) fn and(&mut self, text: &str, value: impl ToSql + 'static) {
        self.text.push_str(text);
        self.values.push(Box::new(value));
    }

    /// Adds the conditions of a request.
    pub(super) fn conditions(&mut self, conditions: &[Condition]) -> Result<(), Problem> {
        if !conditions.is_empty() {
            self.and(" AND passes(body, ?)", Self::conditions_json(conditions)?);
        }
        Ok(())
    }

    /// Writes conditions as `passes` takes them.
    fn conditions_json(conditions: &[Condition]) -> Result<String, Problem> {
        serde_json::to_string(conditions).map_err(|_| Problem::Corrupt)
    }

    fn add_start(&mut self, scan: &Scan<'_>) {
        let (more, or_equal) = match scan.order {
            SortOrder::Ascending => (">", ">="),
            SortOrder::Descending => ("<", "<="),
        };
        match scan.start {
            ScanStart::Beginning => {}
            ScanStart::AfterRecord(Some(value), key) => {
                self.and(&format!(" AND (ord, key) {more} (?,"), value.to_vec());
                self.and(" ?)", key.as_bytes().to_vec());
            }
            ScanStart::AfterRecord(None, key) => {
                self.and(&format!(" AND key {more} ?"), key.as_bytes().to_vec())
            }
            ScanStart::AfterOrderKey(value) => {
                self.and(&format!(" AND ord {more} ?"), value.to_vec())
            }
            ScanStart::AtOrderKey(value) => {
                self.and(&format!(" AND ord {or_equal} ?"), value.to_vec())
            }
        }
    }
}

impl<'c> SqliteSnapshot<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection }
    }

    pub(super) fn prepare(&self, text: &str) -> Result<CachedStatement<'c>, Problem> {
        self.connection.prepare_cached(text).map_err(problem)
    }

    pub(super) fn one(&self, filter: &Where) -> Result<Option<RecordRow>, Problem> {
        let mut query = self
            .prepare(&format!("SELECT id, key, emitted, ord FROM records WHERE {}", filter.text))?;
        query.query_row(params_from_iter(&filter.values), record_row).optional().map_err(problem)
    }
}

impl ReadStreams for SqliteSnapshot<'_> {
    fn grant(&self, id: &str) -> Result<Option<GrantRow>, Problem> {
        let mut query =
            self.prepare("SELECT id, terms, revoked, bound FROM grants WHERE id = ?1")?;
        query.query_row([id], grant_row).optional().map_err(problem)
    }

    fn grants(&self) -> Result<Vec<GrantRow>, Problem> {
        let mut query = self.prepare("SELECT id, terms, revoked, bound FROM grants ORDER BY id")?;
        query.query_map([], grant_row).and_then(Iterator::collect).map_err(problem)
    }

    fn streams(&self, name: Option<&str>) -> Result<Vec<StreamRow>, Problem> {
        let text = "SELECT s.id, c.name, s.name, s.declaration, s.revision, s.terms \
                    FROM streams s JOIN connections c ON c.id = s.connection WHERE ?1 IS NULL OR s.name = ?1";
        let mut query = self.prepare(text)?;
        let rows = query.query_map([name], |row| {
            let text = |at| row.get_ref(at).and_then(|value| Ok(value.as_str()?.to_owned()));
            Ok((row.get(0)?, text(1)?, text(2)?, text(3)?, row.get(4)?, text(5)?))
        });
        let rows: Vec<(i64, String, String, String, i64, String)> =
            rows.and_then(Iterator::collect).map_err(problem)?;
        let rows =
            rows.into_iter().map(|(row, connection, stream, declaration, revision, indexed)| {
                Ok(StreamRow {
                    id: row,
                    connection: SourceName::parse(&connection).map_err(|_| Problem::Corrupt)?,
                    stream: SourceName::parse(&stream).map_err(|_| Problem::Corrupt)?,
                    declaration: declaration.into(),
                    revision,
                    indexed: Arc::new(
                        serde_json::from_str(&indexed).map_err(|_| Problem::Corrupt)?,
                    ),
                })
            });
        rows.collect()
    }

    fn tags(&self, source: &RecordSource) -> Result<HashMap<String, i64>, Problem> {
        let mut query = self.prepare("SELECT field, id FROM tags WHERE stream = ?1")?;
        let rows = query.query_map([source.id], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(problem)
    }
}

impl ReadRecords for SqliteSnapshot<'_> {
    fn find_in_time(
        &self,
        source: &RecordSource,
        record: i64,
        conditions: &[Condition],
    ) -> Result<Option<RecordRow>, Problem> {
        let mut filter = Where::in_time(source);
        filter.conditions(conditions)?;
        filter.and(" AND id = ?", record);
        self.one(&filter)
    }

    fn count(&self, source: &RecordSource) -> Result<(u64, Option<Instant>), Problem> {
        let filter = Where::visible(source);
        let mut query = self.prepare(&format!(
            "SELECT count(*), max(emitted) FROM records WHERE {}",
            filter.text
        ))?;
        let counted =
            query.query_row(params_from_iter(&filter.values), |row| Ok((row.get(0)?, row.get(1)?)));
        let (count, latest): (i64, Option<i64>) = counted.map_err(problem)?;
        Ok((u64::try_from(count).unwrap_or_default(), latest.map(Instant)))
    }

    fn find_by_key(&self, source: &RecordSource, key: &str) -> Result<Option<RecordRow>, Problem> {
        Where::with_key(source, key).map_or(Ok(None), |filter| self.one(&filter))
    }

    fn find_by_number(
        &self,
        source: &RecordSource,
        record: i64,
    ) -> Result<Option<RecordRow>, Problem> {
        let mut filter = Where::visible(source);
        filter.and(" AND id = ?", record);
        self.one(&filter)
    }

    fn in_ingest_order(
        &self,
        sources: &[RecordSource],
        after: i64,
        limit: usize,
    ) -> Result<Vec<RecordRow>, Problem> {
        let wanted: Vec<Sql> = sources.iter().map(|source| Sql::Integer(source.id)).collect();
        // The sign keeps SQLite from sorting all records of a stream for every page.
        let text = "SELECT id, key, emitted, NULL, stream FROM records \
                    WHERE id > ?1 AND +stream IN rarray(?2) ORDER BY id LIMIT ?3";
        let mut query = self.prepare(text)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query.query_map(params![after, Rc::new(wanted), limit], |row| {
            let stream: i64 = row.get(4)?;
            let source = sources.iter().position(|source| source.id == stream).unwrap_or_default();
            Ok(RecordRow { source, ..record_row(row)? })
        });
        rows.and_then(Iterator::collect).map_err(problem)
    }

    fn body(&self, source: &RecordSource, record: i64) -> Result<Vec<u8>, Problem> {
        let mut query = self.prepare("SELECT body FROM records WHERE id = ?1")?;
        let mut rows = query.query([record]).map_err(problem)?;
        let body = bytes(rows.next().map_err(problem)?.ok_or(Problem::Corrupt)?, 0)?;
        match source.visibility.fields() {
            None => Ok(body.to_vec()),
            Some(fields) => RecordBody::new(body).project(fields).map_err(|_| Problem::Corrupt),
        }
    }

    fn piece(&self, number: i64, take: &mut dyn FnMut(&str)) -> Result<(), Problem> {
        let mut query = self.prepare("SELECT text FROM pieces WHERE id = ?1")?;
        let mut rows = query.query([number]).map_err(problem)?;
        take(text(rows.next().map_err(problem)?.ok_or(Problem::Corrupt)?)?);
        Ok(())
    }

    fn pieces(&self, first: i64, last: i64, take: TakeText<'_>) -> Result<(), Problem> {
        let mut query =
            self.prepare("SELECT text FROM pieces WHERE id BETWEEN ?1 AND ?2 ORDER BY id")?;
        let mut rows = query.query([first, last]).map_err(problem)?;
        while let Some(row) = rows.next().map_err(problem)? {
            if !take(text(row)?)? {
                break;
            }
        }
        Ok(())
    }
}

/// Borrows the bytes of a column.
pub(super) fn bytes<'r>(row: &'r SqlRow<'_>, column: usize) -> Result<&'r [u8], Problem> {
    row.get_ref(column).map_err(problem)?.as_blob().map_err(|_| Problem::Corrupt)
}

fn text<'r>(row: &'r SqlRow<'_>) -> Result<&'r str, Problem> {
    std::str::from_utf8(bytes(row, 0)?).map_err(|_| Problem::Corrupt)
}

fn grant_row(row: &SqlRow<'_>) -> rusqlite::Result<GrantRow> {
    Ok(GrantRow {
        id: row.get(0)?,
        json: row.get(1)?,
        revoked: row.get::<_, Option<i64>>(2)?.map(Instant),
        bound: row.get(3)?,
    })
}

pub(super) fn record_row(row: &SqlRow<'_>) -> rusqlite::Result<RecordRow> {
    let key = String::from_utf8(row.get(1)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Blob, Box::new(error))
    })?;
    Ok(RecordRow {
        number: row.get(0)?,
        source: 0,
        key,
        emitted: Instant(row.get(2)?),
        order_key: row.get(3)?,
    })
}
