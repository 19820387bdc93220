//! A load of many records, which the engine gives more memory than a single write.
//!
//! Each batch remains a transaction of its own, durable when it ends.

use stile_domain::records::problem::Problem;

use super::database::Records;

/// A bulk load in progress. Dropping it gives the memory back.
#[must_use]
pub struct BulkLoad {
    records: Records,
    batch_records: usize,
}

impl BulkLoad {
    pub(super) fn begin(records: Records) -> Result<Self, Problem> {
        let batch_records = records.engine().begin_bulk_load()?;
        Ok(Self { records, batch_records })
    }

    /// Returns the number of records after which a batch should end.
    pub fn batch_records(&self) -> usize {
        self.batch_records
    }
}

impl Drop for BulkLoad {
    fn drop(&mut self) {
        // Without effect on what is stored. The next load tries again.
        let _ = self.records.engine().end_bulk_load();
    }
}
