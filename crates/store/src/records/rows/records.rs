//! The rows of records.

use std::collections::HashMap;

use stile_domain::records::filter::Condition;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;

use super::filter::{AFTER_NUMBER, Filter, MOST_ROWS, records_by_number};
use super::transaction::Rows;
use crate::records::model::{RecordRow, RecordSource};
use crate::sql::{Conditions, Row, statement, values};

/// Takes the number and the body of a record.
pub(in crate::records) type TakeRecord<'t> = &'t mut dyn FnMut(i64, &[u8]);

/// Takes the number and the granted fields of a record.
pub(in crate::records) type TakeBytes<'t> = &'t mut dyn FnMut(i64, Vec<u8>);

/// A record with all that its row holds of it.
pub(in crate::records) struct WholeRecord {
    pub(in crate::records) record: i64,
    pub(in crate::records) key: Vec<u8>,
    pub(in crate::records) emitted: Instant,
    pub(in crate::records) body: Vec<u8>,
}

/// Reads records. A question takes a source, and the answer has only what the caller may see of
/// the source, unless the method says otherwise.
pub(in crate::records) trait RecordRows: Rows {
    /// Finds the visible record with a key.
    fn find_by_key(&self, source: &RecordSource, key: &str) -> Result<Option<RecordRow>, Problem> {
        // Finds out without copying all keys of the grant into the query.
        if !source.visibility.shows_key(key) {
            return Ok(None);
        }
        let mut filter = Filter::in_time(self.door(), source, &[])?;
        filter.and(" AND key = ?", key.as_bytes().to_vec());
        Ok(found(self, &filter)?.pop())
    }

    /// Finds the visible records with some keys.
    fn find_by_keys(
        &self,
        source: &RecordSource,
        keys: &[String],
    ) -> Result<Vec<RecordRow>, Problem> {
        let mut filter = Filter::in_time(self.door(), source, &[])?;
        let granted = keys.iter().filter(|key| source.visibility.shows_key(key));
        let keys: Vec<Vec<u8>> = granted.map(|key| key.as_bytes().to_vec()).collect();
        filter.and(&format!(" AND key {}", self.door().is_one_of()), keys);
        found(self, &filter)
    }

    /// Finds a visible record by number.
    fn find_by_number(
        &self,
        source: &RecordSource,
        record: i64,
    ) -> Result<Option<RecordRow>, Problem> {
        self.find_with_conditions(source, record, &[])
    }

    /// Finds a record of a source by number, if the caller may see its time and the conditions
    /// hold. Does not check the key.
    fn find_in_time(
        &self,
        source: &RecordSource,
        record: i64,
        conditions: &[Condition],
    ) -> Result<Option<RecordRow>, Problem> {
        let mut filter = Filter::in_time(self.door(), source, conditions)?;
        filter.and(" AND id = ?", record);
        Ok(found(self, &filter)?.pop())
    }

    /// Finds a visible record of a source by number, if the conditions hold.
    fn find_with_conditions(
        &self,
        source: &RecordSource,
        record: i64,
        conditions: &[Condition],
    ) -> Result<Option<RecordRow>, Problem> {
        let row = self.find_in_time(source, record, conditions)?;
        Ok(row.filter(|row| source.visibility.shows_key(&row.key)))
    }

    /// Returns all records of these sources after a number, hidden ones too, in the order of their
    /// numbers.
    fn in_ingest_order(
        &self,
        sources: &[RecordSource],
        after: i64,
        limit: usize,
    ) -> Result<Vec<RecordRow>, Problem> {
        let wanted: Vec<i64> = sources.iter().map(|source| source.id).collect();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        // The sign keeps a database from sorting all records of a stream for every page.
        let sql = statement!(
            "SELECT id, key, emitted, ord, stream FROM records \
             WHERE tenant = $1 AND id > $2 AND +stream = ANY($3) ORDER BY id LIMIT $4"
        );
        self.door().all(sql, values![after, wanted, limit], |row| {
            let stream: i64 = row.get(4)?;
            let source = sources.iter().position(|source| source.id == stream).unwrap_or_default();
            Ok(RecordRow { source, order_key: None, ..record_row(row)? })
        })
    }

    /// Passes the numbers and the granted fields of some records to `take`, in no particular order.
    /// Each record was found through the source beside it.
    fn bodies(&self, records: &[(&RecordSource, i64)], take: TakeBytes<'_>) -> Result<(), Problem> {
        let sources: HashMap<i64, &RecordSource> =
            records.iter().map(|(source, record)| (*record, *source)).collect();
        let granted = |record: i64, body: &[u8]| -> Result<Vec<u8>, Problem> {
            let source = sources.get(&record).ok_or(Problem::Corrupt)?;
            match source.visibility.fields() {
                None => Ok(body.to_vec()),
                Some(fields) => RecordBody::new(body).project(fields).map_err(|_| Problem::Corrupt),
            }
        };
        let mut numbers = Vec::new();
        for record in sources.keys().copied() {
            match self.body_read_along(record) {
                Some(body) => take(record, granted(record, &body)?),
                None => numbers.push(record),
            }
        }
        if numbers.is_empty() {
            return Ok(());
        }
        let sql = statement!("SELECT id, body FROM records WHERE tenant = $1 AND id = ANY($2)");
        self.door().each(sql, values![numbers], &mut |row| {
            let record: i64 = row.get(0)?;
            take(record, granted(record, row.get(1)?)?);
            Ok(true)
        })
    }

    /// Returns the granted fields of a record that was found through the same source.
    fn granted_body(&self, source: &RecordSource, record: i64) -> Result<Vec<u8>, Problem> {
        let mut found = None;
        self.bodies(&[(source, record)], &mut |_, body| found = Some(body))?;
        found.ok_or(Problem::Corrupt)
    }

    /// Returns the newest record of all streams that is not newer than `target`, and its stream.
    fn newest_record(&self, target: i64) -> Result<Option<(i64, i64)>, Problem> {
        let sql = statement!(
            "SELECT id, stream FROM records WHERE tenant = $1 AND id <= $2 ORDER BY id DESC LIMIT 1"
        );
        self.door().first(sql, values![target], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the stream of a record, hidden or not.
    fn stream_of(&self, record: i64) -> Result<Option<i64>, Problem> {
        let sql = statement!("SELECT stream FROM records WHERE tenant = $1 AND id = $2");
        self.door().number(sql, values![record])
    }

    /// Returns records with the numbers of their streams, hidden ones too.
    fn rows_of(&self, records: &[i64]) -> Result<Vec<(i64, RecordRow)>, Problem> {
        let sql = statement!(
            "SELECT id, key, emitted, ord, stream FROM records WHERE tenant = $1 AND id = ANY($2)"
        );
        self.door().all(sql, values![records], |row| Ok((row.get(4)?, record_row(row)?)))
    }
}

/// Asks for records that a transaction writes.
pub(in crate::records) trait WriteRecordRows: Rows {
    /// Returns whether the stream has a record.
    fn has_records(&self, stream: i64) -> Result<bool, Problem> {
        self.settle()?;
        let sql = statement!("SELECT id FROM records WHERE tenant = $1 AND stream = $2 LIMIT 1");
        Ok(self.door().number(sql, values![stream])?.is_some())
    }

    /// Returns the last record of a stream.
    fn last_record(&self, stream: i64) -> Result<Option<i64>, Problem> {
        self.settle()?;
        // The sum keeps a database from walking all its records.
        let sql = statement!("SELECT max(id + 0) FROM records WHERE tenant = $1 AND stream = $2");
        self.door().number(sql, values![stream])
    }

    /// Returns some records of a stream, none of them newer than `last`.
    fn records_up_to(&self, stream: i64, last: i64, limit: i64) -> Result<Vec<i64>, Problem> {
        self.settle()?;
        let sql = statement!(
            "SELECT id FROM records WHERE tenant = $1 AND stream = $2 AND id + 0 <= $3 LIMIT $4"
        );
        self.door().all(sql, values![stream, last, limit], |row| row.get(0))
    }

    /// Returns the numbers and keys of the next records after a key, in the order of keys. An empty
    /// key is before all others.
    fn keys_after(
        &self,
        stream: i64,
        after: &[u8],
        limit: i64,
    ) -> Result<Vec<(i64, Vec<u8>)>, Problem> {
        self.settle()?;
        let sql = statement!(
            "SELECT id, key FROM records WHERE tenant = $1 AND stream = $2 AND key > $3 \
             ORDER BY key LIMIT $4"
        );
        self.door().all(sql, values![stream, after, limit], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the next records of a stream after a key, in the order of keys: number, key, time of
    /// ingest and body.
    fn whole_records_after(
        &self,
        stream: i64,
        after: &[u8],
        limit: i64,
    ) -> Result<Vec<WholeRecord>, Problem> {
        self.settle()?;
        let sql = statement!(
            "SELECT id, key, emitted, body FROM records \
             WHERE tenant = $1 AND stream = $2 AND key > $3 ORDER BY key LIMIT $4"
        );
        self.door().all(sql, values![stream, after, limit], |row| {
            let (key, emitted) = (row.get(1)?, Instant(row.get(2)?));
            Ok(WholeRecord { record: row.get(0)?, key, emitted, body: row.get(3)? })
        })
    }

    /// Returns the body of a record, as the database has it.
    fn stored_body(&self, record: i64) -> Result<Vec<u8>, Problem> {
        let sql = statement!("SELECT body FROM records WHERE tenant = $1 AND id = $2");
        let found = self.door().all(sql, values![record], |row| row.get(0))?;
        found.into_iter().next().ok_or(Problem::Corrupt)
    }

    /// Moves records to a stream that orders none.
    fn move_records(&self, records: &[i64], to: i64) -> Result<(), Problem> {
        self.settle()?;
        let sql = statement!(
            "UPDATE records SET stream = $2, ord = NULL, happened = NULL \
             WHERE tenant = $1 AND id = ANY($3)"
        );
        self.door().execute(sql, values![to, records]).map(drop)
    }

    /// Counts the records of a stream after a number.
    fn count_after(&self, stream: i64, after: i64) -> Result<i64, Problem> {
        self.settle()?;
        let mut count = 0;
        let mut conditions = Conditions::new("stream = ?", stream);
        conditions.and(AFTER_NUMBER, after);
        let select = format!("SELECT count(*) FROM {}", records_by_number(self.door()));
        self.door().each_where(&select, &conditions, &mut |row| {
            count = row.get(0)?;
            Ok(false)
        })?;
        Ok(count)
    }

    /// Passes the numbers and bodies of the next records of a stream after a number to `take`, in
    /// order.
    fn bodies_after(
        &self,
        stream: i64,
        after: i64,
        limit: u32,
        take: TakeRecord<'_>,
    ) -> Result<(), Problem> {
        self.settle()?;
        let (mut after, mut left) = (after, usize::try_from(limit).unwrap_or(usize::MAX));
        let select = format!("SELECT id, body FROM {}", records_by_number(self.door()));
        while left > 0 {
            let (page, mut read) = (left.min(MOST_ROWS), 0);
            let mut conditions = Conditions::new("stream = ?", stream);
            conditions.and(AFTER_NUMBER, after);
            conditions.end(&format!(" ORDER BY id LIMIT {page}"));
            self.door().each_where(&select, &conditions, &mut |row| {
                read += 1;
                after = row.get(0)?;
                take(after, row.get(1)?);
                Ok(true)
            })?;
            if read < page {
                break;
            }
            left -= page;
        }
        Ok(())
    }

    /// Gives a piece another number.
    fn renumber_piece(&self, from: i64, to: i64) -> Result<(), Problem> {
        self.settle()?;
        let sql = statement!("UPDATE pieces SET id = $3 WHERE tenant = $1 AND id = $2");
        self.door().execute(sql, values![from, to]).map(drop)
    }
}

impl<R: Rows> RecordRows for R {}
impl<R: Rows> WriteRecordRows for R {}

/// Returns the records of a query that are few.
fn found<R: Rows + ?Sized>(rows: &R, filter: &Filter<'_>) -> Result<Vec<RecordRow>, Problem> {
    let mut found = Vec::new();
    filter.each(rows.door(), "records", &mut |row| {
        found.push(record_row(row)?);
        Ok(true)
    })?;
    Ok(found)
}

/// Reads the columns `id, key, emitted, ord`.
pub(in crate::records) fn record_row(row: &Row<'_>) -> Result<RecordRow, Problem> {
    Ok(RecordRow {
        number: row.get(0)?,
        source: 0,
        key: row.get(1)?,
        emitted: Instant(row.get(2)?),
        order_key: row.get(3)?,
    })
}
