//! What can be asked of records: one file per operation, for every way in.
//!
//! An operation gets a view of the store that shows what its caller may see, and parameters that
//! were checked against their declaration; it writes JSON to a [`sink::ResponseSink`], so that no answer is
//! ever held as a whole. [`endpoints::ENDPOINTS`] lists them with their parameters, from which the
//! requests are checked and the OpenAPI document is made.

pub mod aggregate;
pub mod batch;
pub mod blobs;
mod bounded;
mod bytes;
pub mod calls;
mod changes;
pub mod declarations;
pub mod detail;
pub mod endpoints;
pub mod fields;
pub mod granting;
pub mod ingest;
pub mod list;
pub mod openapi;
pub mod owner;
pub mod parameters;
mod printable;
mod related;
mod render;
#[cfg(test)]
pub(crate) mod rig;
pub mod rows;
pub mod schema;
pub mod search;
pub mod sink;
pub mod streams;
mod values;
pub mod window;

use std::sync::Arc;

use declarations::DeclarationCache;
use stile_store::journal::Journal;
use stile_store::records::{Records, RecordsView};

/// What operations on records are made on. Clones are one.
#[derive(Clone)]
pub struct RecordService {
    /// The database.
    pub records: Records,
    /// DeclarationCache that were read before.
    pub declarations: Arc<DeclarationCache>,
    /// What the owner can read afterwards.
    journal: Option<Arc<Journal>>,
}

impl RecordService {
    /// On this database.
    pub fn new(records: Records) -> Self {
        Self { records, declarations: Arc::default(), journal: None }
    }

    /// The same, with a line in a journal for each request.
    #[must_use]
    pub fn with_journal(self, journal: Arc<Journal>) -> Self {
        Self { journal: Some(journal), ..self }
    }
}

/// A view and what is known of its streams.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// What the caller may see.
    pub view: &'a RecordsView<'a>,
    /// What is declared.
    pub declarations: &'a DeclarationCache,
}
