//! Reads of one moment of the database.
//!
//! A query of records takes a source. What the caller may see of the source becomes conditions of
//! the query as far as columns tell it, and otherwise a [`Residue`] that is decided of each body.

use std::collections::HashMap;
use std::sync::Arc;

use stile_domain::records::filter::{self, Condition};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::order::order_key_of_time;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use crate::postgresql::{PgError, TenantConnection, TenantSql, Values, params, tenant_sql};
use crate::records::model::{GrantRow, RecordRow, RecordSource, StreamRow, TimeFilter};
use crate::records::port::{ReadRecords, ReadStreams, TakeBytes, TakeText};

/// The most pieces that one query reads.
const MOST_PIECES: i64 = 32;

/// The columns of a record that [`record_row`] reads.
pub(super) const COLUMNS: &str = "id, key, emitted, ord";

/// One moment of the database.
pub(super) struct PgSnapshot<'c> {
    connection: &'c TenantConnection<'c>,
}

/// The conditions of a query on records, and their values.
pub(super) struct Where {
    sql: TenantSql,
    values: Vec<Box<dyn ToSql + Sync>>,
}

/// What a query leaves undecided of each record: conditions on its fields.
#[derive(Clone, Copy)]
pub(super) struct Residue<'q> {
    time: Option<&'q TimeFilter>,
    conditions: &'q [Condition],
}

impl Where {
    /// Selects the visible record with a key. `None` if the grant does not name the key.
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
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
            self.and(" AND key = ANY(?)", keys);
        }
    }

    /// Selects all rows of a source, whether the caller may see them or not.
    pub(super) fn stream(source: &RecordSource) -> Self {
        let sql = tenant_sql!("tenant = $1 AND stream = ?");
        Self { sql, values: vec![Box::new(source.id)] }
    }

    /// Selects the records of a source at times that the caller may see.
    pub(super) fn in_time(source: &RecordSource) -> Self {
        let mut this = Self::stream(source);
        if let Some(time) = &source.visibility.time {
            for (bound, sign) in [(&time.since, ">="), (&time.until, "<")] {
                let Some(bound) = bound else { continue };
                if time.field.is_none() {
                    this.and(&format!(" AND happened {sign} ?"), bound.0);
                }
                if time.orders_lists {
                    this.and(&format!(" AND ord {sign} ?"), order_key_of_time(*bound));
                }
            }
        }
        this
    }

    /// Adds a condition with one value, which stands at the question mark.
    pub(super) fn and(&mut self, text: &str, value: impl ToSql + Sync + 'static) {
        self.values.push(Box::new(value));
        self.end(text);
    }

    /// Adds a text without a value at the end.
    pub(super) fn end(&mut self, text: &str) {
        self.sql.push(text);
    }

    /// Puts a text without a value before the conditions.
    pub(super) fn begin(&mut self, text: &str) {
        self.sql = self.sql.clone().with_head(text);
    }

    /// Adds the conditions of another query at the end.
    pub(super) fn append(&mut self, other: Self) {
        self.sql.push(other.sql.text());
        self.values.extend(other.values);
    }
}

impl<'q> Residue<'q> {
    /// Returns what [`Where`] leaves undecided of a source's records and of these conditions.
    pub(super) fn new(source: &'q RecordSource, conditions: &'q [Condition]) -> Self {
        let time =
            source.visibility.time.as_ref().filter(|time| {
                time.field.is_some() && (time.since.is_some() || time.until.is_some())
            });
        Self { time, conditions }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.time.is_none() && self.conditions.is_empty()
    }

    /// Returns whether all of it holds of a record.
    pub(super) fn holds(&self, body: &[u8]) -> Result<bool, Problem> {
        let body = RecordBody::new(body);
        if let Some(TimeFilter { field: Some(field), since, until, .. }) = self.time {
            let time = filter::record_time(body, field).map_err(|_| Problem::Corrupt)?;
            let is_in = time.is_some_and(|time| {
                since.is_none_or(|since| since <= time) && until.is_none_or(|until| time < until)
            });
            if !is_in {
                return Ok(false);
            }
        }
        filter::all_hold(self.conditions, body).map_err(|_| Problem::Corrupt)
    }
}

impl<'c> PgSnapshot<'c> {
    pub(super) fn new(connection: &'c TenantConnection<'c>) -> Self {
        Self { connection }
    }

    pub(super) fn rows(&self, sql: &TenantSql, values: Values<'_>) -> Result<Vec<Row>, Problem> {
        Ok(self.connection.rows(sql, values)?)
    }

    pub(super) fn first(
        &self,
        sql: &TenantSql,
        values: Values<'_>,
    ) -> Result<Option<Row>, Problem> {
        Ok(self.connection.one(sql, values)?)
    }

    /// Runs a query that begins with `select` and ends with the conditions of a filter.
    pub(super) fn filtered(&self, select: &str, filter: &Where) -> Result<Vec<Row>, Problem> {
        let values: Vec<_> = filter.values.iter().map(AsRef::as_ref).collect();
        self.rows(&filter.sql.clone().with_head(select).with_numbered_places(), &values)
    }

    /// Finds the record of a query that selects one at most.
    fn one(&self, filter: &Where, residue: Residue<'_>) -> Result<Option<RecordRow>, Problem> {
        let body = if residue.is_empty() { "" } else { ", body" };
        let select = format!("SELECT {COLUMNS}{body} FROM records WHERE ");
        let rows = self.filtered(&select, filter)?;
        let Some(row) = rows.first() else { return Ok(None) };
        if !residue.is_empty() && !residue.holds(column(row, 4)?)? {
            return Ok(None);
        }
        record_row(row).map(Some)
    }
}

impl ReadStreams for PgSnapshot<'_> {
    fn grant(&self, id: &str) -> Result<Option<GrantRow>, Problem> {
        let sql = tenant_sql!(
            "SELECT id, terms, revoked, bound FROM grants WHERE tenant = $1 AND id = $2"
        );
        self.first(&sql, params![id.as_bytes()])?.as_ref().map(grant_row).transpose()
    }

    fn grants(&self) -> Result<Vec<GrantRow>, Problem> {
        let sql = tenant_sql!(
            "SELECT id, terms, revoked, bound FROM grants WHERE tenant = $1 ORDER BY id"
        );
        self.rows(&sql, &[])?.iter().map(grant_row).collect()
    }

    fn streams(&self, name: Option<&str>) -> Result<Vec<StreamRow>, Problem> {
        let sql = tenant_sql!(
            "SELECT s.id, c.name, s.name, s.declaration, s.revision, s.terms \
             FROM streams s JOIN connections c \
             ON c.tenant = s.tenant AND c.id = s.connection \
             WHERE s.tenant = $1 AND ($2::bytea IS NULL OR s.name = $2) ORDER BY s.id"
        );
        let rows = self.rows(&sql, params![name.map(str::as_bytes)])?;
        let stream = |row: &Row| {
            let name = |at| SourceName::parse(text_of(row, at)?).map_err(|_| Problem::Corrupt);
            Ok(StreamRow {
                id: column(row, 0)?,
                connection: name(1)?,
                stream: name(2)?,
                declaration: text_of(row, 3)?.into(),
                revision: column(row, 4)?,
                indexed: Arc::new(
                    serde_json::from_str(text_of(row, 5)?).map_err(|_| Problem::Corrupt)?,
                ),
            })
        };
        rows.iter().map(stream).collect()
    }

    fn tags(&self, source: &RecordSource) -> Result<HashMap<String, i64>, Problem> {
        let sql = tenant_sql!("SELECT field, id FROM tags WHERE tenant = $1 AND stream = $2");
        let rows = self.rows(&sql, params![source.id])?;
        rows.iter().map(|row| Ok((text_of(row, 0)?.to_owned(), column(row, 1)?))).collect()
    }
}

impl ReadRecords for PgSnapshot<'_> {
    fn count(&self, source: &RecordSource) -> Result<(u64, Option<Instant>), Problem> {
        let (filter, residue) = (Where::visible(source), Residue::new(source, &[]));
        if residue.is_empty() {
            let select = "SELECT count(*), max(emitted) FROM records WHERE ";
            let rows = self.filtered(select, &filter)?;
            let row = rows.first().ok_or(Problem::Corrupt)?;
            let count: i64 = column(row, 0)?;
            let latest: Option<i64> = column(row, 1)?;
            return Ok((u64::try_from(count).unwrap_or_default(), latest.map(Instant)));
        }
        let (mut count, mut latest) = (0, None);
        self.each_visible(source, residue, &mut |row, _| {
            count += 1;
            latest = latest.max(Some(row.emitted));
            Ok(true)
        })?;
        Ok((count, latest))
    }

    fn find_by_key(&self, source: &RecordSource, key: &str) -> Result<Option<RecordRow>, Problem> {
        let residue = Residue::new(source, &[]);
        Where::with_key(source, key).map_or(Ok(None), |filter| self.one(&filter, residue))
    }

    fn find_by_keys(
        &self,
        source: &RecordSource,
        keys: &[String],
    ) -> Result<Vec<RecordRow>, Problem> {
        let residue = Residue::new(source, &[]);
        let mut filter = Where::visible(source);
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        filter.and(" AND key = ANY(?)", keys);
        let body = if residue.is_empty() { "" } else { ", body" };
        let select = format!("SELECT {COLUMNS}{body} FROM records WHERE ");
        let mut found = Vec::new();
        for row in &self.filtered(&select, &filter)? {
            if residue.is_empty() || residue.holds(column(row, 4)?)? {
                found.push(record_row(row)?);
            }
        }
        Ok(found)
    }

    fn find_by_number(
        &self,
        source: &RecordSource,
        record: i64,
    ) -> Result<Option<RecordRow>, Problem> {
        let mut filter = Where::visible(source);
        filter.and(" AND id = ?", record);
        self.one(&filter, Residue::new(source, &[]))
    }

    fn find_in_time(
        &self,
        source: &RecordSource,
        record: i64,
        conditions: &[Condition],
    ) -> Result<Option<RecordRow>, Problem> {
        let mut filter = Where::in_time(source);
        filter.and(" AND id = ?", record);
        self.one(&filter, Residue::new(source, conditions))
    }

    fn in_ingest_order(
        &self,
        sources: &[RecordSource],
        after: i64,
        limit: usize,
    ) -> Result<Vec<RecordRow>, Problem> {
        let wanted: Vec<i64> = sources.iter().map(|source| source.id).collect();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = tenant_sql!(
            "SELECT id, key, emitted, NULL::bytea, stream FROM records \
             WHERE tenant = $1 AND id > $2 AND stream = ANY($3) ORDER BY id LIMIT $4"
        );
        let rows = self.rows(&sql, params![after, wanted, limit])?;
        let row = |row: &Row| {
            let stream: i64 = column(row, 4)?;
            let source = sources.iter().position(|source| source.id == stream).unwrap_or_default();
            Ok(RecordRow { source, ..record_row(row)? })
        };
        rows.iter().map(row).collect()
    }

    fn body(&self, source: &RecordSource, record: i64) -> Result<Vec<u8>, Problem> {
        let sql = tenant_sql!("SELECT body FROM records WHERE tenant = $1 AND id = $2");
        let row = self.first(&sql, params![record])?;
        granted_fields(source, column(&row.ok_or(Problem::Corrupt)?, 0)?)
    }

    fn bodies(&self, records: &[(&RecordSource, i64)], take: TakeBytes<'_>) -> Result<(), Problem> {
        let sources: HashMap<i64, &RecordSource> =
            records.iter().map(|(source, record)| (*record, *source)).collect();
        let numbers: Vec<i64> = sources.keys().copied().collect();
        let sql = tenant_sql!("SELECT id, body FROM records WHERE tenant = $1 AND id = ANY($2)");
        for row in &self.rows(&sql, params![numbers])? {
            let record: i64 = column(row, 0)?;
            let source = sources.get(&record).ok_or(Problem::Corrupt)?;
            take(record, granted_fields(source, column(row, 1)?)?);
        }
        Ok(())
    }

    fn some_pieces(&self, numbers: &[i64], take: &mut dyn FnMut(i64, &str)) -> Result<(), Problem> {
        let sql = tenant_sql!("SELECT id, text FROM pieces WHERE tenant = $1 AND id = ANY($2)");
        for row in &self.rows(&sql, params![numbers])? {
            take(column(row, 0)?, text_of(row, 1)?);
        }
        Ok(())
    }

    fn piece(&self, number: i64, take: &mut dyn FnMut(&str)) -> Result<(), Problem> {
        let sql = tenant_sql!("SELECT text FROM pieces WHERE tenant = $1 AND id = $2");
        let row = self.first(&sql, params![number])?;
        take(text_of(&row.ok_or(Problem::Corrupt)?, 0)?);
        Ok(())
    }

    fn pieces(&self, first: i64, last: i64, take: TakeText<'_>) -> Result<(), Problem> {
        let sql = tenant_sql!(
            "SELECT text FROM pieces WHERE tenant = $1 AND id BETWEEN $2 AND $3 ORDER BY id"
        );
        let (mut from, mut count) = (first, 1);
        while from <= last {
            let to = last.min(from.saturating_add(count - 1));
            for row in &self.rows(&sql, params![from, to])? {
                if !take(text_of(row, 0)?)? {
                    return Ok(());
                }
            }
            from = to + 1;
            count = (2 * count).min(MOST_PIECES);
        }
        Ok(())
    }
}

/// Reads a column.
pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, Problem> {
    Ok(row.try_get(at).map_err(PgError::from)?)
}

/// Reads a column that holds a text.
pub(super) fn text_of(row: &Row, at: usize) -> Result<&str, Problem> {
    std::str::from_utf8(column(row, at)?).map_err(|_| Problem::Corrupt)
}

/// Returns the fields of a body that the caller may see.
fn granted_fields(source: &RecordSource, body: &[u8]) -> Result<Vec<u8>, Problem> {
    match source.visibility.fields() {
        None => Ok(body.to_vec()),
        Some(fields) => RecordBody::new(body).project(fields).map_err(|_| Problem::Corrupt),
    }
}

fn grant_row(row: &Row) -> Result<GrantRow, Problem> {
    let bound: Option<&[u8]> = column(row, 3)?;
    let bound = bound.map(|bound| std::str::from_utf8(bound).map(str::to_owned));
    Ok(GrantRow {
        id: text_of(row, 0)?.to_owned(),
        json: text_of(row, 1)?.to_owned(),
        revoked: column::<Option<i64>>(row, 2)?.map(Instant),
        bound: bound.transpose().map_err(|_| Problem::Corrupt)?,
    })
}

pub(super) fn record_row(row: &Row) -> Result<RecordRow, Problem> {
    Ok(RecordRow {
        number: column(row, 0)?,
        source: 0,
        key: text_of(row, 1)?.to_owned(),
        emitted: Instant(column(row, 2)?),
        order_key: column(row, 3)?,
    })
}
