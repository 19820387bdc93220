//! Reads of all records of a source: their number, and some fields of each.

use rusqlite::params_from_iter;
use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;

use super::super::error::problem;
use super::{SqliteSnapshot, Where, bytes};
use crate::records::model::RecordSource;
use crate::records::port::{ReadFields, TakeFields};

impl ReadFields for SqliteSnapshot<'_> {
    fn count_matching(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
    ) -> Result<u64, Problem> {
        let mut filter = Where::visible(source);
        filter.conditions(conditions)?;
        let by_file = !conditions.is_empty() && self.is_large(source)?;
        let table = if by_file { "records NOT INDEXED" } else { "records" };
        let mut query =
            self.prepare(&format!("SELECT count(*) FROM {table} WHERE {}", filter.text))?;
        let count: i64 =
            query.query_row(params_from_iter(&filter.values), |row| row.get(0)).map_err(problem)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    fn field_values(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
        fields: &[&str],
        take: TakeFields<'_>,
    ) -> Result<(), Problem> {
        let mut filter = Where::visible(source);
        filter.conditions(conditions)?;
        let table = if self.is_large(source)? { "records NOT INDEXED" } else { "records" };
        let mut query =
            self.prepare(&format!("SELECT id, body FROM {table} WHERE {}", filter.text))?;
        let mut rows = query.query(params_from_iter(&filter.values)).map_err(problem)?;
        while let Some(row) = rows.next().map_err(problem)? {
            let entries = source.fields_of(bytes(row, 1)?, fields)?;
            if !take(row.get(0).map_err(problem)?, &entries)? {
                break;
            }
        }
        Ok(())
    }
}
