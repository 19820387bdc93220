//! The rows of records that both engines read and write alike: each statement stands here once.
//!
//! An engine offers a [`Door`] to its database, and these traits are then there for it. What an
//! engine does in its own way is in [`port`](super::port).

mod blobs;
mod changes;
mod field_runs;
mod filter;
mod grants;
mod lists;
mod pieces;
mod records;
mod streams;

use stile_domain::records::problem::Problem;

use crate::sql::Door;

pub(super) use blobs::{BlobRows, WriteBlobRows};
pub(super) use changes::{ChangeRows, ChangedKeys, WriteChangeRows};
pub(super) use field_runs::{FieldRunRows, WriteFieldRunRows};
pub(super) use filter::{Filter, conditions_json};
pub(super) use grants::{GrantRows, WriteGrantRows};
pub(super) use lists::{FIRST_ROWS, ListRows, MOST_ROWS, ScanParts, add_start, each_of_page};
pub(super) use pieces::PieceRows;
pub(super) use records::{RecordRows, WriteRecordRows, record_row};
pub(super) use streams::{StreamRows, WriteStreamRows};

/// One transaction on the rows of one person.
pub(in crate::records) trait Rows {
    /// Returns the way into the database.
    fn door(&self) -> Door<'_>;

    /// Writes the rows that a writer still keeps back. A statement on records, pieces, changes or
    /// uses of blobs that may be among them comes after that.
    fn settle(&self) -> Result<(), Problem> {
        Ok(())
    }
}
