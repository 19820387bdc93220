//! Plain questions to one moment of the database. What a caller may see comes with each as the
//! sight of a source and goes into the query.

use std::rc::Rc;
use std::sync::Arc;

use rusqlite::types::Value as Sql;
use rusqlite::{
    CachedStatement, Connection, OptionalExtension as _, Row as SqlRow, ToSql, params,
    params_from_iter,
};
use stile_domain::records::filter::Condition;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::instant::Instant;
use stile_domain::records::order::order_key_of_time;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;

use super::super::view::{AfterKey, RecordRow, RecordSource, SortOrder, Time};
use super::problem;

mod values;

/// One moment of the database.
pub(in super::super) struct Snapshot<'c> {
    connection: &'c Connection,
}

/// A stream as it is kept.
pub(in super::super) struct StreamRow {
    pub(in super::super) row: i64,
    pub(in super::super) connection: SourceName,
    pub(in super::super) stream: SourceName,
    pub(in super::super) declaration: Arc<str>,
    pub(in super::super) revision: i64,
    pub(in super::super) terms: Arc<IndexedFields>,
}

/// A grant as it is kept.
pub(in super::super) struct GrantRow {
    pub(in super::super) id: String,
    pub(in super::super) terms: String,
    pub(in super::super) revoked: Option<Instant>,
    pub(in super::super) bound: Option<String>,
}

/// Which records of a source, by their place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Range {
    /// Those with a place, by it and then by key.
    Ordered,
    /// Those without, by key.
    WithoutOrder,
    /// All, by key.
    ByKey,
}

/// A piece of the list of one source.
pub(in super::super) struct Scan<'q> {
    pub(in super::super) range: Range,
    pub(in super::super) order: SortOrder,
    pub(in super::super) after: Option<AfterKey<'q>>,
    pub(in super::super) conditions: &'q [Condition],
    pub(in super::super) limit: usize,
}

/// A query as it is put together: its conditions, and what stands for their question marks.
pub(super) struct Where {
    pub(super) text: String,
    pub(super) values: Vec<Box<dyn ToSql>>,
}

impl Where {
    /// The record of a source that has this key, if the caller may see it. None where the grant
    /// does not name the key, which takes a look at the grant and not a copy of all that it names.
    fn keyed(source: &RecordSource, key: &str) -> Option<Self> {
        if source.sight.keys().is_some_and(|keys| !keys.contains(key)) {
            return None;
        }
        let mut this = Self::timely(source);
        this.and(" AND key = ?", key.as_bytes().to_vec());
        Some(this)
    }

    /// The records of a source that the caller may see. All that a grant says of records is here.
    pub(super) fn seen(source: &RecordSource) -> Result<Self, Problem> {
        let mut this = Self::timely(source);
        if let Some(keys) = source.sight.keys() {
            let keys: Vec<Sql> =
                keys.iter().map(|key| Sql::Blob(key.as_bytes().to_vec())).collect();
            this.and(" AND key IN rarray(?)", Rc::new(keys));
        }
        Ok(this)
    }

    /// What is kept of a source, whether the caller may see it or not.
    pub(super) fn of(source: &RecordSource) -> Self {
        Self { text: "stream = ?".to_owned(), values: vec![Box::new(source.row)] }
    }

    /// The records of a source at the times that the caller may see.
    pub(super) fn timely(source: &RecordSource) -> Self {
        let mut this = Self::of(source);
        if let Some(time) = &source.sight.time {
            this.time(time);
        }
        this
    }

    fn time(&mut self, time: &Time) {
        let Time { field, since, until, orders } = time;
        for (bound, sign) in [(since, ">="), (until, "<")] {
            let Some(bound) = bound else { continue };
            match field {
                None => self.and(&format!(" AND happened {sign} ?"), bound.0),
                Some(field) => {
                    self.and(" AND time_in(body, ?)", field.clone());
                    self.and(&format!(" {sign} ?"), bound.0);
                }
            }
            if *orders {
                self.and(&format!(" AND ord {sign} ?"), order_key_of_time(*bound));
            }
        }
    }

    pub(super) fn and(&mut self, text: &str, value: impl ToSql + 'static) {
        self.text.push_str(text);
        self.values.push(Box::new(value));
    }

    /// Those of which these conditions hold.
    pub(super) fn passing(&mut self, conditions: &[Condition]) -> Result<(), Problem> {
        if !conditions.is_empty() {
            let conditions = serde_json::to_string(conditions).map_err(|_| Problem::Corrupt)?;
            self.and(" AND passes(body, ?)", conditions);
        }
        Ok(())
    }

    fn after(&mut self, scan: &Scan<'_>) {
        let (more, or_equal) = match scan.order {
            SortOrder::Ascending => (">", ">="),
            SortOrder::Descending => ("<", "<="),
        };
        match scan.after {
            None | Some(AfterKey::Beginning) => {}
            Some(AfterKey::Both(Some(value), key)) => {
                self.and(&format!(" AND (ord, key) {more} (?,"), value.to_vec());
                self.and(" ?)", key.as_bytes().to_vec());
            }
            Some(AfterKey::Both(None, key)) => {
                self.and(&format!(" AND key {more} ?"), key.as_bytes().to_vec())
            }
            Some(AfterKey::Value(value)) => self.and(&format!(" AND ord {more} ?"), value.to_vec()),
            Some(AfterKey::AtValue(value)) => {
                self.and(&format!(" AND ord {or_equal} ?"), value.to_vec())
            }
        }
    }
}

impl<'c> Snapshot<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection }
    }

    pub(super) fn prepare(&self, text: &str) -> Result<CachedStatement<'c>, Problem> {
        self.connection.prepare_cached(text).map_err(problem)
    }

    pub(in super::super) fn grant(&self, id: &str) -> Result<Option<GrantRow>, Problem> {
        let mut query =
            self.prepare("SELECT id, terms, revoked, bound FROM grants WHERE id = ?1")?;
        query.query_row([id], grant_row).optional().map_err(problem)
    }

    pub(in super::super) fn grants(&self) -> Result<Vec<GrantRow>, Problem> {
        let mut query = self.prepare("SELECT id, terms, revoked, bound FROM grants ORDER BY id")?;
        query.query_map([], grant_row).and_then(Iterator::collect).map_err(problem)
    }

    /// Streams, of one name or all.
    pub(in super::super) fn streams(&self, name: Option<&str>) -> Result<Vec<StreamRow>, Problem> {
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
            rows.into_iter().map(|(row, connection, stream, declaration, revision, terms)| {
                Ok(StreamRow {
                    row,
                    connection: SourceName::parse(&connection).map_err(|_| Problem::Corrupt)?,
                    stream: SourceName::parse(&stream).map_err(|_| Problem::Corrupt)?,
                    declaration: declaration.into(),
                    revision,
                    terms: Arc::new(serde_json::from_str(&terms).map_err(|_| Problem::Corrupt)?),
                })
            });
        rows.collect()
    }

    pub(in super::super) fn count(
        &self,
        source: &RecordSource,
    ) -> Result<(u64, Option<Instant>), Problem> {
        let seen = Where::seen(source)?;
        let mut query = self
            .prepare(&format!("SELECT count(*), max(emitted) FROM records WHERE {}", seen.text))?;
        let counted =
            query.query_row(params_from_iter(&seen.values), |row| Ok((row.get(0)?, row.get(1)?)));
        let (count, latest): (i64, Option<i64>) = counted.map_err(problem)?;
        Ok((u64::try_from(count).unwrap_or_default(), latest.map(Instant)))
    }

    pub(in super::super) fn scan(
        &self,
        source: &RecordSource,
        scan: &Scan<'_>,
    ) -> Result<Vec<RecordRow>, Problem> {
        let mut seen = Where::seen(source)?;
        let direction = match scan.order {
            SortOrder::Ascending => "ASC",
            SortOrder::Descending => "DESC",
        };
        let (columns, bounds, order) = match scan.range {
            Range::Ordered => {
                ("ord", " AND ord IS NOT NULL", format!("ord {direction}, key {direction}"))
            }
            Range::WithoutOrder => ("NULL", " AND ord IS NULL", format!("key {direction}")),
            Range::ByKey => ("NULL", "", format!("key {direction}")),
        };
        seen.text.push_str(bounds);
        seen.after(scan);
        seen.passing(scan.conditions)?;
        seen.values.push(Box::new(i64::try_from(scan.limit).unwrap_or(i64::MAX)));
        let text = format!(
            "SELECT id, key, emitted, {columns} FROM records WHERE {} ORDER BY {order} LIMIT ?",
            seen.text
        );
        let mut query = self.prepare(&text)?;
        let rows = query.query_map(params_from_iter(&seen.values), found);
        rows.and_then(Iterator::collect).map_err(problem)
    }

    pub(in super::super) fn find(
        &self,
        source: &RecordSource,
        key: &str,
    ) -> Result<Option<RecordRow>, Problem> {
        Where::keyed(source, key).map_or(Ok(None), |seen| self.one(&seen))
    }

    pub(in super::super) fn find_by_number(
        &self,
        source: &RecordSource,
        record: i64,
    ) -> Result<Option<RecordRow>, Problem> {
        let mut seen = Where::seen(source)?;
        seen.and(" AND id = ?", record);
        self.one(&seen)
    }

    /// Records of these sources by their numbers, all of them.
    pub(in super::super) fn by_ingest(
        &self,
        sources: &[RecordSource],
        after: i64,
        limit: usize,
    ) -> Result<Vec<RecordRow>, Problem> {
        let wanted: Vec<Sql> = sources.iter().map(|source| Sql::Integer(source.row)).collect();
        // The sign keeps SQLite from sorting all records of a stream for every page.
        let text = "SELECT id, key, emitted, NULL, stream FROM records \
                    WHERE id > ?1 AND +stream IN rarray(?2) ORDER BY id LIMIT ?3";
        let mut query = self.prepare(text)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query.query_map(params![after, Rc::new(wanted), limit], |row| {
            let stream: i64 = row.get(4)?;
            let source = sources.iter().position(|source| source.row == stream).unwrap_or_default();
            Ok(RecordRow { source, ..found(row)? })
        });
        rows.and_then(Iterator::collect).map_err(problem)
    }

    pub(super) fn one(&self, seen: &Where) -> Result<Option<RecordRow>, Problem> {
        let mut query = self
            .prepare(&format!("SELECT id, key, emitted, ord FROM records WHERE {}", seen.text))?;
        query.query_row(params_from_iter(&seen.values), found).optional().map_err(problem)
    }

    /// The granted fields of a record that was found through the same source. The others are not
    /// copied out of the database's own memory.
    pub(in super::super) fn body(
        &self,
        source: &RecordSource,
        record: i64,
    ) -> Result<Vec<u8>, Problem> {
        let mut query = self.prepare("SELECT body FROM records WHERE id = ?1")?;
        let mut rows = query.query([record]).map_err(problem)?;
        let row = rows.next().map_err(problem)?.ok_or(Problem::Corrupt)?;
        let body = row.get_ref(0).map_err(problem)?.as_blob().map_err(|_| Problem::Corrupt)?;
        match source.sight.fields() {
            None => Ok(body.to_vec()),
            Some(fields) => RecordBody::new(body).project(fields).map_err(|_| Problem::Corrupt),
        }
    }

    /// One piece of a long value.
    pub(in super::super) fn piece(
        &self,
        number: i64,
        take: impl FnOnce(&str),
    ) -> Result<(), Problem> {
        let mut query = self.prepare("SELECT text FROM pieces WHERE id = ?1")?;
        let mut rows = query.query([number]).map_err(problem)?;
        let row = rows.next().map_err(problem)?.ok_or(Problem::Corrupt)?;
        take(text(row)?);
        Ok(())
    }

    /// Consecutive pieces, until `take` says that it is enough.
    pub(in super::super) fn pieces(
        &self,
        first: i64,
        last: i64,
        take: &mut dyn FnMut(&str) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
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

fn text<'r>(row: &'r SqlRow<'_>) -> Result<&'r str, Problem> {
    let bytes = row.get_ref(0).map_err(problem)?.as_blob().map_err(|_| Problem::Corrupt)?;
    std::str::from_utf8(bytes).map_err(|_| Problem::Corrupt)
}

fn grant_row(row: &SqlRow<'_>) -> rusqlite::Result<GrantRow> {
    Ok(GrantRow {
        id: row.get(0)?,
        terms: row.get(1)?,
        revoked: row.get::<_, Option<i64>>(2)?.map(Instant),
        bound: row.get(3)?,
    })
}

fn found(row: &SqlRow<'_>) -> rusqlite::Result<RecordRow> {
    let key = String::from_utf8(row.get(1)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Blob, Box::new(error))
    })?;
    Ok(RecordRow {
        record: row.get(0)?,
        source: 0,
        key,
        emitted: Instant(row.get(2)?),
        order: row.get(3)?,
    })
}
