//! Gives different rows of one import different keys: copies of a message that came by two ways,
//! or an edited message that kept its identifier.
//!
//! The first row keeps the key. A later row with the same key and other fields gets the beginning
//! of its digest behind the key. So no row is lost, and a second import gives each row the key that
//! it has. The digests take about 40 MB of memory for each million rows.
//!
//! A row that says when it was changed is a version of the record with its key. Two such rows that
//! say the same time are still two: the later one gets a number behind the key, so that its next
//! version replaces it.
//!
//! Anybody can send a message with the identifier of another message. So for mail a stored record
//! counts as the first, in whatever import it came.

use std::collections::HashMap;

use stile_domain::hash::{ContentHash, hex};
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};

use crate::preset::PresetDeclaration;

/// The keys that one import has given away.
#[derive(Debug, Default)]
pub(crate) struct VersionKeys {
    /// For each key the row that has it. 16 and 8 bytes of their digests are enough.
    taken: HashMap<[u8; 16], [u8; 8]>,
    /// The same for rows that say when they were changed, for each key and time.
    taken_at: HashMap<[u8; 16], [u8; 8]>,
}

impl VersionKeys {
    /// Appends a digest to the key of a row if another row of this import has the key, or if
    /// `is_stored_differently` returns `true` for it.
    pub(crate) fn make_unique<E>(
        &mut self,
        preset: &PresetDeclaration,
        fields: &mut RecordFields,
        is_stored_differently: impl Fn(&RecordKey, &RecordFields) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Some(at) = fields.iter().position(|(name, _)| name == preset.key) else {
            return Ok(());
        };
        let content: [u8; 8] = digest_prefix(&json_without(fields, preset.derived_fields));
        let mut suffix = None;
        // The loop ends: the key grows, and a text that is too long is not a key.
        while let Some((_, FieldValue::Text(key))) = fields.get(at) {
            let Ok(parsed) = RecordKey::parse(key) else { break };
            let name = digest_prefix(key);
            match self.taken.get(&name) {
                Some(other) if *other == content => break,
                None if !preset.keys_can_be_forged || !is_stored_differently(&parsed, fields)? => {
                    self.taken.insert(name, content);
                    break;
                }
                _ => {}
            }
            let suffix = suffix.get_or_insert_with(|| key_suffix(preset, fields)).as_str();
            if let Some((_, FieldValue::Text(key))) = fields.get_mut(at) {
                key.push_str(suffix);
            }
        }
        Ok(())
    }

    /// Appends a number to the key of a row if another row of this import has the key and says the
    /// same time of its last change.
    pub(crate) fn number(
        &mut self,
        preset: &PresetDeclaration,
        time_field: &str,
        fields: &mut RecordFields,
    ) {
        let Some(at) = fields.iter().position(|(name, _)| name == preset.key) else { return };
        let Some((_, FieldValue::Text(first))) = fields.get(at) else { return };
        let first = first.clone();
        let time = fields.iter().filter(|(name, _)| name == time_field);
        let time = row::to_json(&time.cloned().collect());
        let content: [u8; 8] = digest_prefix(&json_without(fields, preset.derived_fields));
        let mut key = first.clone();
        for number in 2_u64.. {
            match *self.taken_at.entry(digest_prefix(&format!("{key}\n{time}"))).or_insert(content)
            {
                own if own == content => break,
                _ => key = format!("{first}#{number}"),
            }
        }
        if let Some((_, FieldValue::Text(own))) = fields.get_mut(at) {
            *own = key;
        }
    }
}

/// Returns what follows the key of a later version. The suffix depends neither on the owner's
/// fields nor on other rows, so it is the same in each import.
fn key_suffix(preset: &PresetDeclaration, fields: &RecordFields) -> String {
    let left_out = [preset.owner_fields, preset.derived_fields].concat();
    format!("#{}", hex(&digest_prefix::<8>(&json_without(fields, &left_out))))
}

/// Returns a row as JSON without some fields.
fn json_without(fields: &RecordFields, left_out: &[&str]) -> String {
    if left_out.is_empty() {
        return row::to_json(fields);
    }
    let kept = fields.iter().filter(|(name, _)| !left_out.contains(&name.as_str()));
    row::to_json(&kept.cloned().collect())
}

fn digest_prefix<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let digest = ContentHash::digest(text.as_bytes());
    digest.as_bytes().first_chunk().copied().unwrap_or([0; BYTES])
}
