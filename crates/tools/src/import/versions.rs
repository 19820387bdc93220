//! What tells two rows of one import apart that have the same key and are not the same: copies of a message that came
//! by two ways, or an edited one that kept its identifier.
//!
//! The first keeps the key; behind that of another the beginning of its digest is put. So nothing is lost, and a second
//! run finds each where it was. That costs about 40 MB for each million rows while it runs.

use std::collections::HashMap;

use stile_domain::hash::ContentHash;
use stile_domain::records::row;
use stile_domain::records::value::{Fields, Value};

use super::known::Known;

/// What was seen of the keys of one run.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// By the digest of a key the one of the first row, of which 16 and 8 bytes are enough.
    first: HashMap<[u8; 16], [u8; 8]>,
}

impl Versions {
    /// Gives a row another key if one with its key and other content came before it.
    pub(super) fn tell_apart(&mut self, known: &Known, fields: &mut Fields) {
        let content = ContentHash::of(row::to_json(fields).as_bytes());
        let Some((_, Value::Text(key))) = fields.iter_mut().find(|(name, _)| name == known.key) else { return };
        let name = ContentHash::of(key.as_bytes()).as_bytes().first_chunk().copied().unwrap_or_default();
        let content = content.as_bytes().first_chunk().copied().unwrap_or_default();
        if *self.first.entry(name).or_insert(content) != content {
            let hex: String = content.iter().map(|byte| format!("{byte:02x}")).collect();
            key.push('#');
            key.push_str(&hex);
        }
    }
}
