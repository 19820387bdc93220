//! What an engine must do: the questions it answers and the rows it writes.
//!
//! A [`Snapshot`] answers plain questions about one moment of the database. A [`RowWriter`] writes
//! rows in one transaction. Neither decides a rule: what a grant means is decided in `view`, what a
//! search finds in `search`, and what a write stores in `write`, once for all engines. The
//! questions and answers are types of `model`.
//!
//! Every method can fail with the error of the database. Numbers of records and changes grow in the
//! order of writing and are never used twice. Keys, order keys and tokens compare byte by byte.

mod field_values;
mod row_writer;
mod snapshot;

pub(super) use field_values::{ReadFieldValues, TakeRecord, WriteFieldValues};
pub(super) use row_writer::{NewBlobUse, NewRecord, OldBlob, RowWriter, StreamDeclaration};
pub(super) use snapshot::{
    ReadBlobs, ReadChanges, ReadFields, ReadIndex, ReadLists, ReadRecords, ReadStreams,
    ScannedPart, Snapshot, TakeBytes, TakeFields, TakeState, TakeText,
};
