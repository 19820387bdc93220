//! What a folder was, and what it held beside the files and folders that have paths.
//!
//! Links, sockets, and entries whose names no path can hold are in no change of a file. They move
//! with their folder, so the change of the folder names them, and an undo gives them back with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::hash::hex_byte;

/// What a folder holds that no change of a file or of another folder records: the kind of each
/// entry by its name, as [`rest_name`] writes it.
pub type FolderRest = BTreeMap<String, Vec<u8>>;

/// A folder before a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastFolder {
    /// The permission bits of the folder; 0 if nothing is known of them.
    pub mode: u32,
    /// What it held beside files and folders.
    pub rest: FolderRest,
}

/// A folder as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderNow {
    /// The permission bits of the folder.
    pub mode: u32,
    /// The names of its files and of the folders in it, as far as a path can hold them.
    pub names: BTreeSet<String>,
    /// What it holds beside them.
    pub rest: FolderRest,
}

/// Writes the name of an entry as text. `%` and bytes that are no UTF-8 are written as `%E9`.
pub fn rest_name(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text += &chunk.valid().replace('%', "%25");
        for byte in chunk.invalid() {
            text += &format!("%{byte:02X}");
        }
    }
    text
}

/// Returns the bytes of a name that [`rest_name`] wrote.
pub fn rest_name_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after
            .split_first_chunk()
            .and_then(|(&[high, low], after)| Some((hex_byte(high, low)?, after)));
        match (first, escaped) {
            (b'%', Some((byte, after))) => {
                bytes.push(byte);
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_of_any_bytes_comes_back_from_its_text(
            name in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..8),
                "[%0-9A-Fé\\\\]{0,8}".prop_map(String::into_bytes),
            ],
        ) {
            prop_assert_eq!(rest_name_bytes(&rest_name(&name)), name);
        }
    }

    #[test]
    fn a_name_that_a_person_can_read_stays_readable() {
        assert_eq!(rest_name(b"back\\slash.md"), "back\\slash.md");
        assert_eq!(rest_name(b"caf\xe9 50%.md"), "caf%E9 50%25.md");
    }
}
