//! The index by value on PostgreSQL.

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::value_key::KeyRange;
use tokio_postgres::Row;

use super::read::{COLUMNS, PgSnapshot, Residue, Where, column, record_row, text_of};
use super::write::PgWriter;
use crate::postgresql::{params, tenant_sql};
use crate::records::field_index::{self, FieldIndex, FieldRuns, FieldValueKey, FieldValueRow};
use crate::records::model::{RecordRow, RecordSource};
use crate::records::port::{ReadFieldValues, TakeRecord, WriteFieldValues};

/// The records that one query reads with their bodies.
const MOST_ROWS: usize = 1024;
/// The rows of the index that one statement writes.
const MOST_WRITTEN: usize = 8192;

impl ReadFieldValues for PgSnapshot<'_> {
    fn field_runs(&self, source: &RecordSource) -> Result<Option<FieldRuns>, Problem> {
        let sql = tenant_sql!(
            "SELECT fields, covered, indexed, tail, ARRAY(SELECT run FROM field_runs \
             WHERE tenant = $1 AND stream = $2 ORDER BY run) \
             FROM field_indexes WHERE tenant = $1 AND stream = $2"
        );
        let Some(row) = self.first(&sql, params![source.id])? else { return Ok(None) };
        Ok(Some(FieldRuns { index: index_of(&row)?, runs: column(&row, 4)? }))
    }

    fn records_with_values(
        &self,
        runs: &[i64],
        field: i64,
        ranges: &[KeyRange],
        limit: usize,
    ) -> Result<Option<Vec<i64>>, Problem> {
        let first: Vec<&[u8]> = ranges.iter().map(|range| range.first.as_slice()).collect();
        let last: Vec<&[u8]> = ranges.iter().map(|range| range.last.as_slice()).collect();
        // Each run is one step down the primary key, for each range. The limits keep PostgreSQL
        // from reading the table as a whole. The first row may begin before the range.
        let sql = tenant_sql!(
            "SELECT v.run, v.entries, range.first, range.last \
             FROM unnest($4::bytea[], $5::bytea[]) AS range (first, last) \
             CROSS JOIN unnest($2::bigint[]) AS runs (run) \
             CROSS JOIN LATERAL (SELECT run, entries FROM field_values \
             WHERE tenant = $1 AND run = runs.run AND field = $3 \
             AND value >= coalesce((SELECT b.value FROM field_values b \
             WHERE b.tenant = $1 AND b.run = runs.run AND b.field = $3 \
             AND b.value <= range.first ORDER BY b.value DESC LIMIT 1), range.first) \
             AND value <= range.last LIMIT $6) AS v LIMIT $6"
        );
        // All rows have records that count, but for the ends of each range.
        let firsts = runs.len().saturating_mul(ranges.len());
        let most = limit.saturating_add(firsts).saturating_add(1);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.rows(&sql, params![runs, field, first, last, most])?;
        if i64::try_from(rows.len()).is_ok_and(|rows| rows >= most) {
            return Ok(None);
        }
        let mut found = Vec::new();
        for row in &rows {
            let (first, last): (&[u8], &[u8]) = (column(row, 2)?, column(row, 3)?);
            field_index::unpack(column(row, 0)?, column(row, 1)?, |key, record| {
                if first <= key && key <= last {
                    found.push(record);
                }
            })?;
            if found.len() > limit {
                return Ok(None);
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
        let mut found = Vec::new();
        for some in records.chunks(MOST_ROWS) {
            let mut filter = Where::in_time(source);
            filter.and(" AND id = ANY(?)", some.to_vec());
            self.add_visible(source, conditions, &filter, &mut found)?;
        }
        Ok(found)
    }

    fn visible_after(
        &self,
        source: &RecordSource,
        after: i64,
        conditions: &[Condition],
    ) -> Result<Vec<RecordRow>, Problem> {
        let (mut found, mut after) = (Vec::new(), after);
        loop {
            let mut filter = Where::in_time(source);
            // The index by number has the first condition, and is chosen by it.
            filter.and(" AND id > 0 AND id > ?", after);
            filter.end(&format!(" ORDER BY id LIMIT {MOST_ROWS}"));
            let Some(last) = self.add_visible(source, conditions, &filter, &mut found)? else {
                return Ok(found);
            };
            after = last;
        }
    }
}

impl PgSnapshot<'_> {
    /// Adds the visible records of a query. Returns the last record that was read if there may be
    /// more.
    fn add_visible(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
        filter: &Where,
        found: &mut Vec<RecordRow>,
    ) -> Result<Option<i64>, Problem> {
        let residue = Residue::new(source, conditions);
        let body = if residue.is_empty() { "" } else { ", body" };
        let select = format!("SELECT {COLUMNS}{body} FROM records WHERE ");
        let rows = self.filtered(&select, filter)?;
        for row in &rows {
            if residue.is_empty() || residue.holds(column(row, 4)?)? {
                let row = record_row(row)?;
                if source.visibility.keys().is_none_or(|keys| keys.contains(&row.key)) {
                    found.push(row);
                }
            }
        }
        let last = rows.last().filter(|_| rows.len() == MOST_ROWS);
        last.map(|row| column(row, 0)).transpose()
    }
}

impl WriteFieldValues for PgWriter<'_> {
    fn field_index(&self, stream: i64) -> Result<Option<FieldIndex>, Problem> {
        let sql = tenant_sql!(
            "SELECT fields, covered, indexed, tail FROM field_indexes \
             WHERE tenant = $1 AND stream = $2"
        );
        self.one(&sql, params![stream])?.as_ref().map(index_of).transpose()
    }

    fn put_field_index(&self, stream: i64, index: &FieldIndex) -> Result<(), Problem> {
        let FieldIndex { fields, covered, indexed, tail } = index;
        let fields = fields.as_ref().map(serde_json::to_vec).transpose();
        let fields = fields.map_err(|_| Problem::Corrupt)?;
        let sql = tenant_sql!(
            "INSERT INTO field_indexes (tenant, stream, fields, covered, indexed, tail) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant, stream) DO UPDATE \
             SET fields = excluded.fields, covered = excluded.covered, \
             indexed = excluded.indexed, tail = excluded.tail"
        );
        self.execute(&sql, params![stream, fields, *covered, *indexed, *tail])
    }

    fn stream_behind(&self, tail: i64) -> Result<Option<i64>, Problem> {
        let sql = tenant_sql!(
            "SELECT s.id FROM streams s LEFT JOIN field_indexes f \
             ON f.tenant = s.tenant AND f.stream = s.id WHERE s.tenant = $1 \
             AND (f.stream IS NULL OR f.tail >= $2 AND f.fields IS DISTINCT FROM '[]') \
             LIMIT 1"
        );
        self.number(&sql, params![tail])
    }

    fn declaration(&self, stream: i64) -> Result<String, Problem> {
        let sql = tenant_sql!("SELECT declaration FROM streams WHERE tenant = $1 AND id = $2");
        let row = self.one(&sql, params![stream])?;
        text_of(&row.ok_or(Problem::Corrupt)?, 0).map(str::to_owned)
    }

    fn count_after(&self, stream: i64, after: i64) -> Result<i64, Problem> {
        self.flush()?;
        let sql = tenant_sql!(
            "SELECT count(*) FROM records \
             WHERE tenant = $1 AND stream = $2 AND id > 0 AND id > $3"
        );
        self.number(&sql, params![stream, after])?.ok_or(Problem::Corrupt)
    }

    fn bodies_after(
        &self,
        stream: i64,
        after: i64,
        limit: u32,
        take: TakeRecord<'_>,
    ) -> Result<(), Problem> {
        self.flush()?;
        let sql = tenant_sql!(
            "SELECT id, body FROM records WHERE tenant = $1 AND stream = $2 \
             AND id > 0 AND id > $3 ORDER BY id LIMIT $4"
        );
        let (mut after, mut left) = (after, usize::try_from(limit).unwrap_or(usize::MAX));
        while left > 0 {
            let page = left.min(MOST_ROWS);
            let most = i64::try_from(page).unwrap_or(i64::MAX);
            let rows = self.rows(&sql, params![stream, after, most])?;
            for row in &rows {
                after = column(row, 0)?;
                take(after, column(row, 1)?);
            }
            if rows.len() < page {
                break;
            }
            left -= page;
        }
        Ok(())
    }

    fn runs(&self, stream: i64) -> Result<Vec<(i64, i64)>, Problem> {
        let sql = tenant_sql!(
            "SELECT run, records FROM field_runs WHERE tenant = $1 AND stream = $2 \
             ORDER BY run"
        );
        let rows = self.rows(&sql, params![stream])?;
        rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect()
    }

    fn set_run(&self, stream: i64, run: i64, records: i64) -> Result<(), Problem> {
        if records == 0 {
            let sql = tenant_sql!(
                "DELETE FROM field_runs WHERE tenant = $1 AND stream = $2 AND run = $3"
            );
            return self.execute(&sql, params![stream, run]);
        }
        let sql = tenant_sql!(
            "INSERT INTO field_runs (tenant, stream, run, records) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (tenant, stream, run) DO UPDATE SET records = excluded.records"
        );
        self.execute(&sql, params![stream, run, records])
    }

    fn delete_runs(&self, stream: i64) -> Result<(), Problem> {
        let sql = tenant_sql!(
            "DELETE FROM field_values WHERE tenant = $1 AND run = ANY(ARRAY( \
             SELECT run FROM field_runs WHERE tenant = $1 AND stream = $2))"
        );
        self.execute(&sql, params![stream])?;
        self.execute(
            &tenant_sql!("DELETE FROM field_runs WHERE tenant = $1 AND stream = $2"),
            params![stream],
        )
    }

    fn insert_field_values(&self, rows: &[FieldValueRow]) -> Result<(), Problem> {
        self.write_rows(rows, "")
    }

    fn field_value_rows(&self, fields: &[(i64, i64)]) -> Result<Vec<FieldValueRow>, Problem> {
        let sql = tenant_sql!(
            "SELECT v.run, v.field, v.value, v.entries \
             FROM unnest($2::bigint[], $3::bigint[]) AS k (run, field) \
             CROSS JOIN LATERAL (SELECT run, field, value, entries FROM field_values \
             WHERE tenant = $1 AND run = k.run AND field = k.field OFFSET 0) AS v"
        );
        let (runs, fields): (Vec<i64>, Vec<i64>) = fields.iter().copied().unzip();
        let row = |row: &Row| {
            let (run, field, value) = (column(row, 0)?, column(row, 1)?, column(row, 2)?);
            let key = FieldValueKey { run, field, value };
            Ok(FieldValueRow { key, entries: column(row, 3)? })
        };
        self.rows(&sql, params![runs, fields])?.iter().map(row).collect()
    }

    fn put_field_values(&self, rows: &[FieldValueRow]) -> Result<(), Problem> {
        let (gone, kept): (Vec<FieldValueRow>, Vec<FieldValueRow>) =
            rows.iter().cloned().partition(|row| row.entries.is_empty());
        let sql = tenant_sql!(
            "DELETE FROM field_values \
             USING unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS k (run, field, value) \
             WHERE field_values.tenant = $1 AND field_values.run = k.run \
             AND field_values.field = k.field AND field_values.value = k.value"
        );
        for some in gone.chunks(MOST_WRITTEN) {
            let (runs, fields, values) = columns(some.iter().map(|row| &row.key));
            self.execute(&sql, params![runs, fields, values])?;
        }
        let replace =
            " ON CONFLICT (tenant, run, field, value) DO UPDATE SET entries = excluded.entries";
        self.write_rows(&kept, replace)
    }
}

impl PgWriter<'_> {
    fn write_rows(&self, rows: &[FieldValueRow], on_conflict: &str) -> Result<(), Problem> {
        let sql = tenant_sql!(
            "INSERT INTO field_values (tenant, run, field, value, entries) \
             SELECT $1, new.* FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[]) \
             AS new"
        )
        .with_tail(on_conflict);
        for some in rows.chunks(MOST_WRITTEN) {
            let (runs, fields, values) = columns(some.iter().map(|row| &row.key));
            let entries: Vec<&[u8]> = some.iter().map(|row| row.entries.as_slice()).collect();
            self.execute(&sql, params![runs, fields, values, entries])?;
        }
        Ok(())
    }
}

fn columns<'k>(
    keys: impl Iterator<Item = &'k FieldValueKey>,
) -> (Vec<i64>, Vec<i64>, Vec<&'k [u8]>) {
    let (mut runs, mut fields, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for FieldValueKey { run, field, value } in keys {
        runs.push(*run);
        fields.push(*field);
        values.push(value.as_slice());
    }
    (runs, fields, values)
}

fn index_of(row: &Row) -> Result<FieldIndex, Problem> {
    let fields: Option<&[u8]> = column(row, 0)?;
    let fields = fields.map(serde_json::from_slice).transpose().map_err(|_| Problem::Corrupt)?;
    let (covered, indexed, tail) = (column(row, 1)?, column(row, 2)?, column(row, 3)?);
    Ok(FieldIndex { fields, covered, indexed, tail })
}
