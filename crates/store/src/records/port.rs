//! What an engine does in its own way.
//!
//! A [`Snapshot`] answers questions about one moment of the database, and a [`RowWriter`] writes
//! rows in one transaction. Most statements are the same for all engines and stand in
//! [`rows`](super::rows). Here are the others: lists and conditions, the index of words, the rows
//! of the index by value, and what an engine writes many at once. No engine decides a rule: what a
//! grant means is decided in `view`, what a search finds in `search`, and what a write stores in
//! `write`, once for all engines. The questions and answers are types of `model`.
//!
//! Every method can fail with the error of the database. Numbers of records and changes grow in the
//! order of writing and are never used twice. Keys, order keys and tokens compare byte by byte.

mod field_values;
mod row_writer;
mod snapshot;

pub(super) use field_values::{ReadFieldValues, WriteFieldValues};
pub(super) use row_writer::{NewBlobUse, NewRecord, RecordContent, RowWriter};
pub(super) use snapshot::{
    IndexAccess, IndexLists, IndexMatches, MatchReader, MatchedPart, PieceQuery, ReadBlobUses,
    ReadChanges, ReadFields, ReadIndex, ReadLists, ScannedPart, Snapshot, TaggedTerm, TakeFields,
};
