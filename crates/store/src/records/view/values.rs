//! What is computed over all records that a caller may see.

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::StoredValue;

use super::{LongValueRef, RecordSource, RecordsView};

impl RecordsView<'_> {
    /// How many records of some sources the caller may see that meet conditions, all on fields that
    /// they may see. Without a condition no record is read.
    ///
    /// # Errors
    /// What the database says.
    pub fn count_matching(
        &self,
        sources: &[RecordSource],
        conditions: &[Condition],
    ) -> Result<u64, Problem> {
        sources.iter().map(|source| self.snapshot.matching(source, conditions)).sum()
    }

    /// One field of every record of a source that the caller may see and that meets conditions, in
    /// no order; of a long value also where it is kept. Goes on until `take` says that it is
    /// enough.
    ///
    /// # Errors
    /// What the database says, and what `take` does.
    pub fn field_values(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
        field: &str,
        mut take: impl FnMut(Option<StoredValue<'_>>, Option<LongValueRef>) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
        self.snapshot.values(source, conditions, field, &mut |record, entry| {
            let long = entry.and_then(|entry| {
                Some(LongValueRef { record, slot: entry.slot?, value: entry.value.long()? })
            });
            take(entry.map(|entry| entry.value), long)
        })
    }
}
