//! The engine that stores records: the seam at which a second one is added.
//!
//! [`view`](super::view), [`search`](super::search), [`grants`](super::grants) and
//! [`database`](super::database) use the engine by the names below and by nothing else. An engine
//! answers plain questions; what a grant means is decided in `view`, once for all engines.
//!
//! - `Engine` opens, reads, writes, copies and checks the database.
//! - [`Snapshot`] answers questions about one moment: streams and grants, a page of a list
//!   (`scan`), records by key or number, fields and long values, counts, changes, blobs.
//! - [`Postings`] lists the records in which a search term occurs, the newest first.
//! - [`WriteBatch`] stores, declares and removes, all or nothing.
//!
//! The questions and answers are types of [`model`](super::model). A second engine implements the
//! same methods, and the names become enums of two engines.

pub use super::sqlite::{MAX_READERS, WriteBatch};
pub(super) use super::sqlite::{Postings, Snapshot, Sqlite as Engine};
