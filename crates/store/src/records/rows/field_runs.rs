//! The rows of the index by value that say how far it is: its state for each stream, and its runs.

use stile_domain::records::problem::Problem;

use super::transaction::Rows;
use crate::records::field_index::{FieldIndex, FieldRuns};
use crate::sql::{Row, statement, values};

/// Reads the state of the index by value.
pub(in crate::records) trait FieldRunRows: Rows {
    /// Returns the state of the index of a stream. `None` if no writer has made one.
    fn field_index(&self, stream: i64) -> Result<Option<FieldIndex>, Problem> {
        let sql = statement!(
            "SELECT fields, covered, indexed, tail FROM field_indexes \
             WHERE tenant = $1 AND stream = $2"
        );
        self.door().first(sql, values![stream], index_of)
    }

    /// Returns the runs of a stream, in order, each with the number of its records.
    fn runs(&self, stream: i64) -> Result<Vec<(i64, i64)>, Problem> {
        let sql = statement!(
            "SELECT run, records FROM field_runs WHERE tenant = $1 AND stream = $2 ORDER BY run"
        );
        self.door().all(sql, values![stream], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the index of a stream. `None` if no writer has made one.
    fn field_runs(&self, stream: i64) -> Result<Option<FieldRuns>, Problem> {
        let sql = statement!(
            "SELECT i.fields, i.covered, i.indexed, i.tail, r.run FROM field_indexes i \
             LEFT JOIN field_runs r ON r.tenant = i.tenant AND r.stream = i.stream \
             WHERE i.tenant = $1 AND i.stream = $2 ORDER BY r.run"
        );
        let mut found: Option<FieldRuns> = None;
        self.door().each(sql, values![stream], &mut |row| {
            let runs = match &mut found {
                Some(found) => &mut found.runs,
                none => &mut none.insert(FieldRuns { index: index_of(row)?, runs: vec![] }).runs,
            };
            runs.extend(row.get::<Option<i64>>(4)?);
            Ok(true)
        })?;
        Ok(found)
    }
}

/// Writes the state of the index by value.
pub(in crate::records) trait WriteFieldRunRows: FieldRunRows {
    /// Inserts or replaces the state of the index of a stream.
    fn put_field_index(&self, stream: i64, index: &FieldIndex) -> Result<(), Problem> {
        let FieldIndex { fields, covered, indexed, tail } = index;
        let fields = fields.as_ref().map(serde_json::to_string).transpose();
        let fields = fields.map_err(|_| Problem::Corrupt)?;
        let sql = statement!(
            "INSERT INTO field_indexes (tenant, stream, fields, covered, indexed, tail) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant, stream) DO UPDATE \
             SET fields = excluded.fields, covered = excluded.covered, \
             indexed = excluded.indexed, tail = excluded.tail"
        );
        self.door().execute(sql, values![stream, fields, covered, indexed, tail]).map(drop)
    }

    /// Returns a stream whose index has no state, or a tail of at least `tail` records.
    fn stream_behind(&self, tail: i64) -> Result<Option<i64>, Problem> {
        let sql = statement!(
            "SELECT s.id FROM streams s LEFT JOIN field_indexes f \
             ON f.tenant = s.tenant AND f.stream = s.id WHERE s.tenant = $1 \
             AND (f.stream IS NULL OR f.tail >= $2 AND f.fields IS DISTINCT FROM '[]') LIMIT 1"
        );
        self.door().number(sql, values![tail])
    }

    /// Inserts a run, or sets the number of its records. Deletes the run if that is zero.
    fn set_run(&self, stream: i64, run: i64, records: i64) -> Result<(), Problem> {
        if records == 0 {
            let sql =
                statement!("DELETE FROM field_runs WHERE tenant = $1 AND stream = $2 AND run = $3");
            return self.door().execute(sql, values![stream, run]).map(drop);
        }
        let sql = statement!(
            "INSERT INTO field_runs (tenant, stream, run, records) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (tenant, stream, run) DO UPDATE SET records = excluded.records"
        );
        self.door().execute(sql, values![stream, run, records]).map(drop)
    }

    /// Deletes all runs of a stream with their rows.
    fn delete_runs(&self, stream: i64) -> Result<(), Problem> {
        let sql = statement!(
            "DELETE FROM field_values WHERE tenant = $1 AND run = ANY(ARRAY( \
             SELECT run FROM field_runs WHERE tenant = $1 AND stream = $2))"
        );
        self.door().execute(sql, values![stream])?;
        let sql = statement!("DELETE FROM field_runs WHERE tenant = $1 AND stream = $2");
        self.door().execute(sql, values![stream]).map(drop)
    }
}

impl<R: Rows> FieldRunRows for R {}
impl<R: Rows> WriteFieldRunRows for R {}

fn index_of(row: &Row<'_>) -> Result<FieldIndex, Problem> {
    let fields = row.get::<Option<&str>>(0)?.map(serde_json::from_str).transpose();
    let fields = fields.map_err(|_| Problem::Corrupt)?;
    Ok(FieldIndex { fields, covered: row.get(1)?, indexed: row.get(2)?, tail: row.get(3)? })
}
