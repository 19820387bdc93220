//! Reads of all records that a caller may see: their number, and one field of each.

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::StoredValue;

use super::{LongValueRef, RecordsView};
use crate::records::model::RecordSource;

impl RecordsView<'_> {
    /// Counts the visible records of some sources of which the conditions hold, all on fields that
    /// the caller may see. Reads no record if there is no condition.
    pub fn count_matching(
        &self,
        sources: &[RecordSource],
        conditions: &[Condition],
    ) -> Result<u64, Problem> {
        sources.iter().map(|source| self.snapshot.count_matching(source, conditions)).sum()
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
        self.snapshot.field_values(source, conditions, field, &mut |record, entry| {
            let long = entry.and_then(|entry| {
                Some(LongValueRef { record, slot: entry.slot?, value: entry.value.long()? })
            });
            take(entry.map(|entry| entry.value), long)
        })
    }
}
