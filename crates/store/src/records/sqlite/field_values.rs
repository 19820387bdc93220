//! The rows of the index by value in SQLite.

use rusqlite::params;
use stile_domain::records::problem::Problem;
use stile_domain::records::value_key::KeyRange;

use super::read::SqliteSnapshot;
use super::write::SqliteWriter;
use crate::records::field_index::{self, FieldValueKey, FieldValueRow};
use crate::records::port::{ReadFieldValues, WriteFieldValues};
use crate::records::rows::Rows as _;
use crate::sql::{sqlite_problem, statement, values};

impl ReadFieldValues for SqliteSnapshot<'_> {
    fn records_with_values(
        &self,
        runs: &[i64],
        field: i64,
        ranges: &[KeyRange],
        limit: usize,
    ) -> Result<Option<Vec<i64>>, Problem> {
        // The first row may begin before the range.
        let sql = statement!(
            "SELECT entries FROM field_values WHERE tenant = $1 AND run = $2 AND field = $3 \
             AND value >= coalesce((SELECT max(value) FROM field_values \
             WHERE tenant = $1 AND run = $2 AND field = $3 AND value <= $4), $4) AND value <= $5"
        );
        let mut found = Vec::new();
        for run in runs.iter().rev() {
            for KeyRange { first, last } in ranges {
                self.door().each(sql, values![run, field, first, last], &mut |row| {
                    field_index::unpack(*run, row.get(0)?, |key, record| {
                        if first.as_slice() <= key && key <= last.as_slice() {
                            found.push(record);
                        }
                    })?;
                    Ok(found.len() <= limit)
                })?;
                if found.len() > limit {
                    return Ok(None);
                }
            }
        }
        Ok(Some(found))
    }
}

impl WriteFieldValues for SqliteWriter<'_> {
    fn insert_field_values(&self, rows: &[FieldValueRow]) -> Result<(), Problem> {
        let text = "INSERT INTO field_values (run, field, value, entries) VALUES (?1, ?2, ?3, ?4)";
        let mut insert = self.prepare(text)?;
        for FieldValueRow { key: FieldValueKey { run, field, value }, entries } in rows {
            insert.execute(params![run, field, value, entries]).map_err(sqlite_problem)?;
        }
        Ok(())
    }

    fn field_value_rows(&self, fields: &[(i64, i64)]) -> Result<Vec<FieldValueRow>, Problem> {
        let sql = statement!(
            "SELECT value, entries FROM field_values \
             WHERE tenant = $1 AND run = $2 AND field = $3"
        );
        let mut found = Vec::new();
        for &(run, field) in fields {
            found.extend(self.door().all(sql, values![run, field], |row| {
                let key = FieldValueKey { run, field, value: row.get(0)? };
                Ok(FieldValueRow { key, entries: row.get(1)? })
            })?);
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
