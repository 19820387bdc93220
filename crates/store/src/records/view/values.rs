//! Reads of all records that a caller may see: their number, and one field of each.

use std::cmp::Reverse;

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, RecordBody, StoredValue};

use super::matching_rows::{MOST_SEARCHED, MatchUse, MatchingRows};
use super::{LongValueRef, RecordsView};
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

    /// Passes one field of each visible record of which the conditions hold to `take`, in no
    /// particular order, with a reference to the value if it is long. Ends when `take` returns
    /// `false`.
    ///
    /// # Errors
    /// The error of `take` or of the database.
    pub fn field_values<F>(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
        field: &str,
        mut take: F,
    ) -> Result<(), Problem>
    where
        F: FnMut(Option<StoredValue<'_>>, Option<LongValueRef>) -> Result<bool, Problem>,
    {
        let mut take = |record, entry: Option<BodyField<'_>>| {
            let long = entry.and_then(|entry| {
                Some(LongValueRef { record, slot: entry.slot?, value: entry.value.long()? })
            });
            take(entry.map(|entry| entry.value), long)
        };
        let Some(MatchingRows(rows)) = self.matching(source, conditions)? else {
            return self.snapshot.field_values(source, conditions, field, &mut take);
        };
        for some in rows.chunks(ROWS_AHEAD) {
            let records: Vec<_> = some.iter().map(|row| (source, row.number)).collect();
            let mut bodies = Vec::with_capacity(records.len());
            self.snapshot.bodies(&records, &mut |record, body| bodies.push((record, body)))?;
            for (record, body) in &bodies {
                let entry = RecordBody::new(body).field(field).map_err(|_| Problem::Corrupt)?;
                if !take(*record, entry)? {
                    return Ok(());
                }
            }
        }
        Ok(())
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
