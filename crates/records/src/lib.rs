//! What can be asked of records: one file per operation, for every way in.
//!
//! An operation gets a view of the store that shows what its caller may see, and parameters that
//! were checked against their declaration; it writes JSON to a [`sink::Sink`], so that no answer is
//! ever held as a whole. [`endpoints::ENDPOINTS`] lists them with their parameters, from which the
//! requests are checked and the OpenAPI document is made.

pub mod aggregate;
pub mod blobs;
mod bounded;
mod bytes;
pub mod calls;
mod changes;
pub mod detail;
pub mod endpoints;
pub mod fields;
pub mod granting;
pub mod ingest;
pub mod list;
pub mod openapi;
pub mod owner;
pub mod parameters;
mod related;
mod render;
#[cfg(test)]
pub(crate) mod rig;
pub mod rows;
pub mod schema;
pub mod search;
pub mod sink;
pub mod storing;
pub mod streams;
mod values;
pub mod window;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use stile_domain::records::declaration::Declaration;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::problem::Problem;
use stile_store::journal::Journal;
use stile_store::records::{RecordSource, Records, RecordsView};

/// What operations on records are made on. Clones are one.
#[derive(Clone)]
pub struct RecordServices {
    /// The database.
    pub records: Records,
    /// Declarations that were read before.
    pub declarations: Arc<Declarations>,
    /// What the owner can read afterwards.
    journal: Option<Arc<Journal>>,
}

impl RecordServices {
    /// On this database.
    pub fn new(records: Records) -> Self {
        Self { records, declarations: Arc::default(), journal: None }
    }

    /// The same, with a line in a journal for each request.
    #[must_use]
    pub fn journalled(self, journal: Arc<Journal>) -> Self {
        Self { journal: Some(journal), ..self }
    }
}

/// Declarations that were read before.
#[derive(Default)]
pub struct Declarations {
    read: Mutex<HashMap<(i64, i64), Arc<Declaration>>>,
}

impl Declarations {
    /// The declaration of a source.
    ///
    /// # Errors
    /// [`Problem::Corrupt`] where what is stored is none.
    pub fn of(&self, source: &RecordSource) -> Result<Arc<Declaration>, Problem> {
        /// More streams than anybody has; beyond that the memory is given back.
        const MOST: usize = 1000;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(declaration) = read.get(&source.declaration_id()) {
            return Ok(Arc::clone(declaration));
        }
        let json = serde_json::from_str(source.declaration()).map_err(|_| Problem::Corrupt)?;
        let declaration = Arc::new(Declaration::parse_stored(&json).map_err(|_| Problem::Corrupt)?);
        if read.len() >= MOST {
            read.clear();
        }
        read.insert(source.declaration_id(), Arc::clone(&declaration));
        Ok(declaration)
    }
}

/// A view and what is known of its streams.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// What the caller may see.
    pub view: &'a RecordsView<'a>,
    /// What is declared.
    pub declarations: &'a Declarations,
}

/// The terms on which records of a declared stream are stored.
pub fn terms_of(declaration: &Declaration) -> IndexedFields {
    let is_time = |name: &str| declaration.field(name).is_some_and(|field| field.format.is_some());
    let searchable = declaration
        .fields()
        .iter()
        .filter(|field| field.searchable)
        .map(|field| field.name.clone());
    let cursor = declaration.cursor_field();
    IndexedFields {
        cursor_field: cursor.map(str::to_owned),
        cursor_is_time: cursor.is_some_and(is_time),
        time_field: declaration.consent_time_field().map(str::to_owned),
        searchable: searchable.collect(),
    }
}
