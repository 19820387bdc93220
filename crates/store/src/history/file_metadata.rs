//! What a removed file had beside its content, so that it comes back as it was.

use std::collections::BTreeMap;

use stile_domain::path::SpacePath;

/// The most bytes that the extended attributes of a file may take in the history, as JSON.
const MOST_ATTRIBUTE_BYTES: usize = 64 * 1024;

/// The mode and the extended attributes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileMetadata {
    /// The permission bits.
    pub(crate) mode: u32,
    /// The extended attributes by name. Access lists are among them.
    pub(crate) attributes: BTreeMap<String, Vec<u8>>,
}

/// Where the mode and the extended attributes of a version are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MetadataOf {
    /// The file was removed with them.
    Removed(FileMetadata),
    /// The file has this path now.
    File(SpacePath),
    /// Nothing is known of the file.
    Unknown,
}

impl FileMetadata {
    /// Returns the attributes as the database keeps them: a JSON object of lists of bytes; `None`
    /// if there are none, or more than fit.
    pub(super) fn attribute_text(&self) -> Option<String> {
        if self.attributes.is_empty() {
            return None;
        }
        let text = serde_json::to_string(&self.attributes).ok()?;
        (text.len() <= MOST_ATTRIBUTE_BYTES).then_some(text)
    }

    /// Makes metadata of what the database has. Attributes that cannot be read are left out.
    pub(super) fn from_columns(mode: u32, attributes: Option<&str>) -> Self {
        let attributes = attributes.and_then(|text| serde_json::from_str(text).ok());
        Self { mode, attributes: attributes.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn attributes_come_back_from_their_text(
            mode in 0u32..0o1000,
            attributes in prop::collection::btree_map(
                "user[.][a-z\"\u{e9}]{1,8}",
                prop::collection::vec(any::<u8>(), 0..20),
                0..4,
            ),
        ) {
            let metadata = FileMetadata { mode, attributes };
            let text = metadata.attribute_text();
            prop_assert_eq!(FileMetadata::from_columns(mode, text.as_deref()), metadata);
        }
    }

    #[test]
    fn attributes_that_are_too_large_are_left_out_and_the_mode_stays() {
        let attributes = BTreeMap::from([("user.big".to_owned(), vec![200; 60_000])]);
        let text = FileMetadata { mode: 0o640, attributes }.attribute_text();
        assert_eq!(text, None);
        assert_eq!(FileMetadata::from_columns(0o640, Some("no JSON")).mode, 0o640);
    }
}
