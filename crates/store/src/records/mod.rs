//! The database of a person's records, and the only way to it.
//!
//! [`Records`] is the database: one SQLite file in the state folder, or a database on PostgreSQL. A
//! [`RecordsView`] reads one moment of the database as one caller may see it. It is made from a
//! permit, looks the caller's grant up in that same moment, and puts what the grant excludes into
//! every query. A [`WriteBatch`] writes, durably, all or nothing; only the owner can make one.
//!
//! `view` decides what a grant means, `search` what a query finds, and `write` what a write stores.
//! All three use an engine through the traits of `port` and `rows`: `rows` has the statements that
//! all engines share, and `port` the rest. `sqlite` and `postgresql` are the engines, and `engine`
//! opens one.

mod bulk_load;
#[cfg(test)]
mod cancelled_tests;
pub(crate) mod copying;
mod database;
mod engine;
mod field_index;
#[cfg(test)]
mod field_value_tests;
mod grants;
mod model;
mod port;
mod postgresql;
mod removal;
mod rows;
mod search;
mod spool_file;
mod sqlite;
mod tagged_tokens;
mod view;
mod write;

pub use bulk_load::BulkLoad;
pub use database::Records;
pub use grants::{GrantRecord, GrantStatus};
pub(crate) use model::PROGRESS_TABLE;
pub use model::{
    IncomingRecord, LastRecord, RecordRow, RecordSource, RecordsError, SortOrder, StoredBlob,
    StreamedField, TargetStream, TextSource, UpsertOutcome, WriteRefusal,
};
pub use removal::{KeptRemoval, RemovalId, RemovedStream};
pub use search::{
    EXCERPT_BEFORE, EXCERPT_CHARS, FieldMatch, MAX_RANKED, RecordHit, RecordSearchPage,
    RecordSearchQuery, SearchOrder,
};
pub use spool_file::SpoolFile;
pub use view::blobs::Blob;
pub use view::changes::RecordChange;
pub use view::{
    LoadedRecord, LongValueRef, RecordPage, RecordQuery, RecordsView, StoredField, TakeValues,
};
pub use write::WriteBatch;
pub use write::prepared::{PreparedRecord, RecordPreparer};
pub use write::removal::RestoreStep;
