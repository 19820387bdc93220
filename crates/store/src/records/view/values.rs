//! Reads of all records that a caller may see: their number, and some fields of each.

use std::cmp::Reverse;

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::BodyField;

use super::matching_rows::{MOST_SEARCHED, MatchUse, MatchingRows};
use super::{LongValueRef, RecordsView, StoredField, TakeValues};
use crate::records::model::{RecordRow, RecordSource};

/// The records whose fields are read at once.
const ROWS_AHEAD: usize = 256;

impl RecordsView<'_> {
    /// Counts the visible records of some sources of which the conditions hold, all on fields that
    /// the caller may see. Reads no record if there is no condition.
    pub fn count_matching(
        &self,
        sources: &[RecordSource],
        conditions: &[Condition],
    ) -> Result<u64, Problem> {
        let count = |source| match self.matching(source, conditions)? {
            Some(MatchingRows(rows)) => Ok(rows.len() as u64),
            None => self.snapshot.count_matching(source, conditions),
        };
        sources.iter().map(count).sum()
    }

    /// Passes some fields of each visible record of which the conditions hold to `take`, in no
    /// particular order of the records. Ends when `take` returns `false`.
    ///
    /// # Errors
    /// The error of `take` or of the database.
    pub fn field_values(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
        fields: &[&str],
        take: TakeValues<'_>,
    ) -> Result<(), Problem> {
        match self.matching(source, conditions)? {
            Some(MatchingRows(rows)) => self.row_values(source, &rows, fields, take).map(drop),
            None => {
                let mut take = |record, entries: &[Option<BodyField<'_>>]| {
                    take(&stored_fields(record, entries))
                };
                self.snapshot.field_values(source, conditions, fields, &mut take)
            }
        }
    }

    /// Passes some fields of these visible records of a source to `take`, as
    /// [`RecordsView::field_values`] does. Returns whether `take` wants more.
    ///
    /// # Errors
    /// The error of `take` or of the database.
    pub fn row_values(
        &self,
        source: &RecordSource,
        rows: &[RecordRow],
        fields: &[&str],
        take: TakeValues<'_>,
    ) -> Result<bool, Problem> {
        for some in rows.chunks(ROWS_AHEAD) {
            let records: Vec<_> = some.iter().map(|row| (source, row.number)).collect();
            let mut bodies = Vec::with_capacity(records.len());
            self.snapshot.bodies(&records, &mut |record, body| bodies.push((record, body)))?;
            for (record, body) in &bodies {
                let entries = source.fields_of(body, fields)?;
                if !take(&stored_fields(*record, &entries))? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Finds all records of which the conditions hold by the index of values, if they are few.
    fn matching(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
    ) -> Result<Option<MatchingRows>, Problem> {
        MatchingRows::find(self.snapshot, source, conditions, MatchUse::All)
    }

    /// Returns all visible records of some sources of which the conditions hold, the newest first.
    /// `None` if they may be many, or if the index by value does not tell.
    pub(in crate::records) fn few_matching(
        &self,
        sources: &[RecordSource],
        conditions: &[Condition],
    ) -> Result<Option<Vec<RecordRow>>, Problem> {
        let mut all = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            let found = MatchingRows::find(self.snapshot, source, conditions, MatchUse::Search)?;
            let Some(MatchingRows(rows)) = found else { return Ok(None) };
            let is_ordered = source.ordered_by().is_some();
            all.extend(rows.into_iter().map(|row| {
                let order_key = row.order_key.filter(|_| is_ordered);
                RecordRow { source: at, order_key, ..row }
            }));
            if all.len() > MOST_SEARCHED {
                return Ok(None);
            }
        }
        all.sort_unstable_by_key(|row| Reverse(row.number));
        Ok(Some(all))
    }
}

fn stored_fields<'b>(
    record: i64,
    entries: &[Option<BodyField<'b>>],
) -> Vec<Option<StoredField<'b>>> {
    let field = |entry: &BodyField<'b>| (entry.value, LongValueRef::new(record, entry));
    entries.iter().map(|entry| entry.as_ref().map(field)).collect()
}
