//! A load of many records, which the engine gives more memory than a single write.
//!
//! Each batch remains a transaction of its own, durable when it ends.

use stile_domain::records::authority::OwnerPermit;
use stile_domain::records::problem::Problem;

use super::database::Records;

/// A bulk load in progress. Dropping it gives the memory back.
#[must_use]
pub struct BulkLoad {
    records: Records,
    batch_records: usize,
}

impl Records {
    /// Prepares for many writes in a row, until the returned value is dropped.
    ///
    /// # Errors
    /// The error of the database.
    pub fn bulk_load(&self, _permit: &OwnerPermit) -> Result<BulkLoad, Problem> {
        let batch_records = self.engine().begin_bulk_load()?;
        Ok(BulkLoad { records: self.clone(), batch_records })
    }
}

impl BulkLoad {
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
