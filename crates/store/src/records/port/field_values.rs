//! [`ReadFieldValues`] and [`WriteFieldValues`]: the index by value, which names records that may
//! fulfil conditions.

use stile_domain::records::problem::Problem;
use stile_domain::records::value_key::KeyRange;

use crate::records::field_index::FieldValueRow;

/// Questions about the index by value.
pub(in crate::records) trait ReadFieldValues {
    /// Returns the records in some runs that have a value in one of these ranges, hidden ones too,
    /// in no particular order. `None` if there are more than `limit`.
    fn records_with_values(
        &self,
        runs: &[i64],
        field: i64,
        ranges: &[KeyRange],
        limit: usize,
    ) -> Result<Option<Vec<i64>>, Problem>;
}

/// The rows of the index by value.
pub(in crate::records) trait WriteFieldValues {
    /// Inserts rows that are sorted and new.
    fn insert_field_values(&self, rows: &[FieldValueRow]) -> Result<(), Problem>;
    /// Returns the rows of some runs and fields.
    fn field_value_rows(&self, fields: &[(i64, i64)]) -> Result<Vec<FieldValueRow>, Problem>;
    /// Inserts or replaces rows. Deletes a row that is left with no entry.
    fn put_field_values(&self, rows: &[FieldValueRow]) -> Result<(), Problem>;
}
