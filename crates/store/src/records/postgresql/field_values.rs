//! The rows of the index by value on PostgreSQL.

use stile_domain::records::problem::Problem;
use stile_domain::records::value_key::KeyRange;
use tokio_postgres::Row;

use super::read::{PgSnapshot, column};
use super::write::PgWriter;
use crate::postgresql::{params, tenant_sql};
use crate::records::field_index::{self, FieldValueKey, FieldValueRow};
use crate::records::port::{ReadFieldValues, WriteFieldValues};

/// The rows of the index that one statement writes.
const MOST_WRITTEN: usize = 8192;

impl ReadFieldValues for PgSnapshot<'_> {
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
}

impl WriteFieldValues for PgWriter<'_> {
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
