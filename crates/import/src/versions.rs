//! What tells two rows of one import apart that have the same key and are not the same: copies of a
//! message that came by two ways, or an edited one that kept its identifier.
//!
//! The first keeps the key; behind that of another the beginning of its digest is put. So nothing
//! is lost, and a second run finds each where it was. That costs about 40 MB for each million rows
//! while it runs.
//!
//! A message of mail can be sent by anybody with the identifier of another. So one that is stored
//! counts as the first, in whatever import it came.

use std::collections::HashMap;

use stile_domain::hash::{ContentHash, hex};
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::known::Known;

/// What was seen of the keys of one run.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// By the digest of a key the one of the row that has it, of which 16 and 8 bytes are enough.
    taken: HashMap<[u8; 16], [u8; 8]>,
}

impl Versions {
    /// Gives a row another key if a row with its key and other content came before it, or
    /// `has_another` says of its key that there is one.
    ///
    /// # Errors
    /// What `has_another` says.
    pub(super) fn tell_apart<E>(
        &mut self,
        known: &Known,
        fields: &mut RecordFields,
        has_another: impl Fn(&RecordKey, &RecordFields) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Some(at) = fields.iter().position(|(name, _)| name == known.key) else { return Ok(()) };
        let content = beginning(&row::to_json(fields));
        let mut mark = None;
        // It ends, since what gets longer is no key some time.
        while let Some((_, FieldValue::Text(key))) = fields.get(at) {
            let Ok(parsed) = RecordKey::parse(key) else { break };
            let name = ContentHash::digest(key.as_bytes())
                .as_bytes()
                .first_chunk()
                .copied()
                .unwrap_or_default();
            match self.taken.get(&name) {
                Some(other) if *other == content => break,
                None if !known.is_from_anybody || !has_another(&parsed, fields)? => {
                    self.taken.insert(name, content);
                    break;
                }
                _ => {}
            }
            let mark = mark.get_or_insert_with(|| mark_of(known, fields)).as_str();
            if let Some((_, FieldValue::Text(key))) = fields.get_mut(at) {
                key.push_str(mark);
            }
        }
        Ok(())
    }
}

/// What is put behind the key of a row: the same in each import, also where the owner's fields are
/// others.
fn mark_of(known: &Known, fields: &RecordFields) -> String {
    let sent =
        fields.iter().filter(|(name, _)| !known.own.contains(&name.as_str())).cloned().collect();
    format!("#{}", hex(&beginning(&row::to_json(&sent))))
}

fn beginning(text: &str) -> [u8; 8] {
    ContentHash::digest(text.as_bytes()).as_bytes().first_chunk().copied().unwrap_or_default()
}
