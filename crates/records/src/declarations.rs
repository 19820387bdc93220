//! Declarations of streams as the database keeps them: parsed, cached, and turned into what the
//! store indexes.
//!
//! The rules of a declaration are in `stile_domain::records::declaration`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use stile_domain::records::declaration::Declaration;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::problem::Problem;
use stile_store::records::RecordSource;

use crate::printable::printable;

/// Declarations that were parsed before, by the identity that the store gives each version.
#[derive(Default)]
pub struct DeclarationCache {
    parsed: Mutex<HashMap<(i64, i64), Arc<Declaration>>>,
}

impl DeclarationCache {
    /// Returns the declaration of a source, parsed at most once for each version.
    ///
    /// # Errors
    /// [`Problem::Corrupt`] if the stored text is not a declaration.
    pub fn get(&self, source: &RecordSource) -> Result<Arc<Declaration>, Problem> {
        /// More streams than anybody has. A cache that has grown to this size is emptied.
        const MAX_CACHED: usize = 1000;
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(declaration) = parsed.get(&source.declaration_id()) {
            return Ok(Arc::clone(declaration));
        }
        let declaration = Arc::new(parse_stored(source.declaration())?);
        if parsed.len() >= MAX_CACHED {
            parsed.clear();
        }
        parsed.insert(source.declaration_id(), Arc::clone(&declaration));
        Ok(declaration)
    }
}

/// Parses a declaration from the JSON text that the database keeps.
///
/// # Errors
/// [`Problem::Corrupt`] if the text is not a declaration.
pub fn parse_stored(text: &str) -> Result<Declaration, Problem> {
    let json = serde_json::from_str(text).map_err(|_| Problem::Corrupt)?;
    Declaration::parse_stored(&json).map_err(|_| Problem::Corrupt)
}

/// Returns the fields that the store indexes for a stream with this declaration: the order, the
/// time that grants are limited by, the searchable texts, and the texts that are base64.
pub fn indexed_fields(declaration: &Declaration) -> IndexedFields {
    let is_time = |name: &str| declaration.field(name).is_some_and(|field| field.format.is_some());
    let searchable = declaration
        .fields()
        .iter()
        .filter(|field| field.searchable)
        .map(|field| field.name.clone());
    let binary = declaration.fields().iter().filter(|field| field.binary);
    let cursor = declaration.cursor_field();
    IndexedFields {
        cursor_field: cursor.map(str::to_owned),
        cursor_is_time: cursor.is_some_and(is_time),
        time_field: declaration.consent_time_field().map(str::to_owned),
        searchable: searchable.collect(),
        binary: binary.map(|field| field.name.clone()).collect(),
    }
}

/// Describes a primary key within a sentence, such as `` `id`, `day` ``.
pub fn describe_primary_key(fields: &[String]) -> String {
    if fields.is_empty() {
        return "made from the content".to_owned();
    }
    fields.iter().map(|name| format!("`{}`", printable(name))).collect::<Vec<_>>().join(", ")
}
