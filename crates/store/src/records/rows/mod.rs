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
mod transaction;

pub(super) use blobs::{BlobRows, WriteBlobRows};
pub(super) use changes::{ChangeRows, ChangedKeys, WriteChangeRows};
pub(super) use field_runs::{FieldRunRows, WriteFieldRunRows};
pub(super) use filter::{FIRST_ROWS, Filter, MOST_ROWS, conditions_json};
pub(super) use grants::{GrantRows, WriteGrantRows};
pub(super) use lists::{ListRows, ScanParts, add_start, count_of, each_of_page};
pub(super) use pieces::{PieceRows, TakeText};
pub(super) use records::{RecordRows, WholeRecord, WriteRecordRows, record_row};
pub(super) use streams::{StreamRows, WriteStreamRows};
pub(super) use transaction::Rows;
