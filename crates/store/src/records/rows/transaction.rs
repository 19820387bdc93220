//! [`Rows`]: what an engine offers to have the statements that all engines share.

use stile_domain::records::problem::Problem;

use crate::sql::Door;

/// One transaction on the rows of one person.
pub(in crate::records) trait Rows {
    /// Returns the way into the database.
    fn door(&self) -> Door<'_>;

    /// Takes the body of a record that was read together with its row. `None` if it was not.
    fn body_read_along(&self, _record: i64) -> Option<Vec<u8>> {
        None
    }

    /// Writes the rows that a writer still keeps back. A statement on records, pieces, changes or
    /// uses of blobs that may be among them comes after that.
    fn settle(&self) -> Result<(), Problem> {
        Ok(())
    }
}
