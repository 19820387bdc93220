//! Reads of all records of a source: their number, and some fields of each.

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;

use super::SqliteSnapshot;
use crate::records::model::RecordSource;
use crate::records::port::{ReadFields, TakeFields};
use crate::records::rows::{Filter, Rows as _, count_of};

impl ReadFields for SqliteSnapshot<'_> {
    fn count_matching(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
    ) -> Result<u64, Problem> {
        let filter = Filter::visible(self.door(), source, conditions)?;
        let by_file = !conditions.is_empty() && self.is_large(source)?;
        count_of(self.door(), table(by_file), &filter)
    }

    fn field_values(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
        fields: &[&str],
        take: TakeFields<'_>,
    ) -> Result<(), Problem> {
        let filter = Filter::visible(self.door(), source, conditions)?;
        let select = format!("SELECT id, body FROM {}", table(self.is_large(source)?));
        self.door().each_where(&select, &filter.conditions, &mut |row| {
            take(row.get(0)?, &source.fields_of(row.get(1)?, fields)?)
        })
    }
}

fn table(by_file: bool) -> &'static str {
    if by_file { "records NOT INDEXED" } else { "records" }
}
