//! The index by value in SQLite.

use std::rc::Rc;

use rusqlite::types::Value as Sql;
use rusqlite::{CachedStatement, OptionalExtension as _, Row as SqlRow, params, params_from_iter};
use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::value_key::KeyRange;

use super::error::problem;
use super::read::{SqliteSnapshot, Where, bytes, record_row};
use super::write::SqliteWriter;
use crate::records::field_index::{self, FieldIndex, FieldRuns, FieldValueKey, FieldValueRow};
use crate::records::model::{RecordRow, RecordSource};
use crate::records::port::{ReadFieldValues, TakeRecord, WriteFieldValues};

const READ_INDEX: &str =
    "SELECT fields, covered, indexed, tail FROM field_indexes WHERE stream = ?1";

impl ReadFieldValues for SqliteSnapshot<'_> {
    fn field_runs(&self, source: &RecordSource) -> Result<Option<FieldRuns>, Problem> {
        let Some(index) = read_index(&mut self.prepare(READ_INDEX)?, source.id)? else {
            return Ok(None);
        };
        let mut query =
            self.prepare("SELECT run FROM field_runs WHERE stream = ?1 ORDER BY run")?;
        let runs = query.query_map([source.id], |row| row.get(0));
        let runs = runs.and_then(Iterator::collect).map_err(problem)?;
        Ok(Some(FieldRuns { index, runs }))
    }

    fn records_with_values(
        &self,
        runs: &[i64],
        field: i64,
        ranges: &[KeyRange],
        limit: usize,
    ) -> Result<Option<Vec<i64>>, Problem> {
        // The first row may begin before the range.
        let text = "SELECT entries FROM field_values WHERE run = ?1 AND field = ?2 \
                    AND value >= coalesce((SELECT max(value) FROM field_values \
                    WHERE run = ?1 AND field = ?2 AND value <= ?3), ?3) AND value <= ?4";
        let mut query = self.prepare(text)?;
        let mut found = Vec::new();
        for run in runs.iter().rev() {
            for KeyRange { first, last } in ranges {
                let mut rows = query.query(params![run, field, first, last]).map_err(problem)?;
                while let Some(row) = rows.next().map_err(problem)? {
                    field_index::unpack(*run, bytes(row, 0)?, |key, record| {
                        if first.as_slice() <= key && key <= last.as_slice() {
                            found.push(record);
                        }
                    })?;
                    if found.len() > limit {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(found))
    }

    fn visible_among(
        &self,
        source: &RecordSource,
        records: &[i64],
        conditions: &[Condition],
    ) -> Result<Vec<RecordRow>, Problem> {
        let mut filter = Where::in_time(source);
        filter.conditions(conditions)?;
        let numbers: Vec<Sql> = records.iter().map(|record| Sql::Integer(*record)).collect();
        filter.and(" AND id IN rarray(?)", Rc::new(numbers));
        // No index but that of the numbers.
        self.visible_rows("records NOT INDEXED", source, &filter)
    }

    fn visible_after(
        &self,
        source: &RecordSource,
        after: i64,
        conditions: &[Condition],
    ) -> Result<Vec<RecordRow>, Problem> {
        let mut filter = Where::in_time(source);
        filter.conditions(conditions)?;
        filter.and(" AND id > ?", after);
        self.visible_rows("records INDEXED BY records_by_number", source, &filter)
    }
}

impl SqliteSnapshot<'_> {
    /// Returns the rows of a query whose keys the caller may see.
    fn visible_rows(
        &self,
        table: &str,
        source: &RecordSource,
        filter: &Where,
    ) -> Result<Vec<RecordRow>, Problem> {
        let text = format!("SELECT id, key, emitted, ord FROM {table} WHERE {}", filter.text);
        let mut query = self.prepare(&text)?;
        let rows = query.query_map(params_from_iter(&filter.values), record_row);
        let mut rows: Vec<RecordRow> = rows.and_then(Iterator::collect).map_err(problem)?;
        if let Some(keys) = source.visibility.keys() {
            rows.retain(|row| keys.contains(&row.key));
        }
        Ok(rows)
    }
}

impl WriteFieldValues for SqliteWriter<'_> {
    fn field_index(&self, stream: i64) -> Result<Option<FieldIndex>, Problem> {
        read_index(&mut self.prepare(READ_INDEX)?, stream)
    }

    fn put_field_index(&self, stream: i64, index: &FieldIndex) -> Result<(), Problem> {
        let FieldIndex { fields, covered, indexed, tail } = index;
        let fields = fields.as_ref().map(serde_json::to_string).transpose();
        let fields = fields.map_err(|_| Problem::Corrupt)?;
        let text = "INSERT OR REPLACE INTO field_indexes (stream, fields, covered, indexed, tail) \
                    VALUES (?1, ?2, ?3, ?4, ?5)";
        self.execute(text, params![stream, fields, covered, indexed, tail])
    }

    fn stream_behind(&self, tail: i64) -> Result<Option<i64>, Problem> {
        let text = "SELECT s.id FROM streams s LEFT JOIN field_indexes f ON f.stream = s.id \
                    WHERE f.stream IS NULL OR f.tail >= ?1 AND f.fields IS NOT '[]' LIMIT 1";
        let mut query = self.prepare(text)?;
        query.query_row([tail], |row| row.get(0)).optional().map_err(problem)
    }

    fn declaration(&self, stream: i64) -> Result<String, Problem> {
        let mut query = self.prepare("SELECT declaration FROM streams WHERE id = ?1")?;
        query.query_row([stream], |row| row.get(0)).map_err(problem)
    }

    fn count_after(&self, stream: i64, after: i64) -> Result<i64, Problem> {
        let text = "SELECT count(*) FROM records INDEXED BY records_by_number \
                    WHERE stream = ?1 AND id > ?2";
        let mut query = self.prepare(text)?;
        query.query_row([stream, after], |row| row.get(0)).map_err(problem)
    }

    fn bodies_after(
        &self,
        stream: i64,
        after: i64,
        limit: u32,
        take: TakeRecord<'_>,
    ) -> Result<(), Problem> {
        let text = "SELECT id, body FROM records INDEXED BY records_by_number \
                    WHERE stream = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
        let mut query = self.prepare(text)?;
        let mut rows = query.query(params![stream, after, limit]).map_err(problem)?;
        while let Some(row) = rows.next().map_err(problem)? {
            take(row.get(0).map_err(problem)?, bytes(row, 1)?);
        }
        Ok(())
    }

    fn runs(&self, stream: i64) -> Result<Vec<(i64, i64)>, Problem> {
        let text = "SELECT run, records FROM field_runs WHERE stream = ?1 ORDER BY run";
        let mut query = self.prepare(text)?;
        let rows = query.query_map([stream], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(problem)
    }

    fn set_run(&self, stream: i64, run: i64, records: i64) -> Result<(), Problem> {
        if records == 0 {
            let text = "DELETE FROM field_runs WHERE stream = ?1 AND run = ?2";
            return self.execute(text, [stream, run]);
        }
        let text = "INSERT OR REPLACE INTO field_runs (stream, run, records) VALUES (?1, ?2, ?3)";
        self.execute(text, [stream, run, records])
    }

    fn delete_runs(&self, stream: i64) -> Result<(), Problem> {
        let text = "DELETE FROM field_values WHERE run IN \
                    (SELECT run FROM field_runs WHERE stream = ?1)";
        self.execute(text, [stream])?;
        self.execute("DELETE FROM field_runs WHERE stream = ?1", [stream])
    }

    fn insert_field_values(&self, rows: &[FieldValueRow]) -> Result<(), Problem> {
        let text = "INSERT INTO field_values (run, field, value, entries) VALUES (?1, ?2, ?3, ?4)";
        let mut insert = self.prepare(text)?;
        for FieldValueRow { key: FieldValueKey { run, field, value }, entries } in rows {
            insert.execute(params![run, field, value, entries]).map_err(problem)?;
        }
        Ok(())
    }

    fn field_value_rows(&self, fields: &[(i64, i64)]) -> Result<Vec<FieldValueRow>, Problem> {
        let text = "SELECT value, entries FROM field_values WHERE run = ?1 AND field = ?2";
        let mut query = self.prepare(text)?;
        let mut found = Vec::new();
        for &(run, field) in fields {
            let mut rows = query.query([run, field]).map_err(problem)?;
            while let Some(row) = rows.next().map_err(problem)? {
                let value = bytes(row, 0)?.to_vec();
                let key = FieldValueKey { run, field, value };
                found.push(FieldValueRow { key, entries: bytes(row, 1)?.to_vec() });
            }
        }
        Ok(found)
    }

    fn put_field_values(&self, rows: &[FieldValueRow]) -> Result<(), Problem> {
        for FieldValueRow { key: FieldValueKey { run, field, value }, entries } in rows {
            if entries.is_empty() {
                let text = "DELETE FROM field_values WHERE run = ?1 AND field = ?2 AND value = ?3";
                self.execute(text, params![run, field, value])?;
            } else {
                let text = "INSERT OR REPLACE INTO field_values (run, field, value, entries) \
                            VALUES (?1, ?2, ?3, ?4)";
                self.execute(text, params![run, field, value, entries])?;
            }
        }
        Ok(())
    }
}

fn read_index(query: &mut CachedStatement<'_>, stream: i64) -> Result<Option<FieldIndex>, Problem> {
    let row = |row: &SqlRow<'_>| {
        let fields: Option<String> = row.get(0)?;
        Ok((fields, row.get(1)?, row.get(2)?, row.get(3)?))
    };
    let Some((fields, covered, indexed, tail)) =
        query.query_row([stream], row).optional().map_err(problem)?
    else {
        return Ok(None);
    };
    let fields = fields.map(|fields| serde_json::from_str(&fields)).transpose();
    let fields = fields.map_err(|_| Problem::Corrupt)?;
    Ok(Some(FieldIndex { fields, covered, indexed, tail }))
}
