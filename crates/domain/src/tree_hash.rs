//! The hash of a folder: over the paths, sizes and content hashes of all that it holds.
//!
//! Whoever sends the hash of a folder with a change has seen everything that the change concerns. A
//! file whose content the caller may not read counts by its path and its size alone, so that its
//! hash tells nothing of its content. Times and modes do not count.

use crate::hash::{ContentHash, ContentHasher};

/// What a folder holds at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeItem {
    /// A folder.
    Folder,
    /// A file.
    File {
        /// The size in bytes.
        size: u64,
        /// The hash of the content; `None` if the caller may not read the file.
        hash: Option<ContentHash>,
    },
    /// A symbolic link, which is not followed.
    Link,
    /// Something else, such as a socket.
    Other,
    /// Entries whose names no path can express, by their number.
    Unnameable(u64),
}

/// Returns the hash of a folder that holds these items, each with its path from the folder, such as
/// `b/c.md`. The order of the items does not matter.
///
/// *Shape*: SHA-256 over one line for each item in the order of the paths: the kind, the size, the
/// content hash or `-`, the length of the path in bytes, and the path.
pub fn tree_hash<'p>(items: impl IntoIterator<Item = (&'p str, &'p TreeItem)>) -> ContentHash {
    let mut items: Vec<(&str, &TreeItem)> = items.into_iter().collect();
    items.sort_by(|one, other| one.0.cmp(other.0));
    let mut hasher = ContentHasher::default();
    for (path, item) in items {
        let (kind, size, hash) = match item {
            TreeItem::Folder => ("folder", 0, None),
            TreeItem::File { size, hash } => ("file", *size, *hash),
            TreeItem::Link => ("link", 0, None),
            TreeItem::Other => ("other", 0, None),
            TreeItem::Unnameable(count) => ("unnameable", *count, None),
        };
        let hash = hash.map_or_else(|| "-".to_owned(), |hash| hash.to_string());
        hasher.update(format!("{kind} {size} {hash} {} {path}\n", path.len()).as_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item() -> impl Strategy<Value = TreeItem> {
        let hash =
            proptest::option::of("[ab]".prop_map(|text| ContentHash::digest(text.as_bytes())));
        prop_oneof![
            Just(TreeItem::Folder),
            Just(TreeItem::Link),
            Just(TreeItem::Other),
            (0..3_u64).prop_map(TreeItem::Unnameable),
            (0..3_u64, hash).prop_map(|(size, hash)| TreeItem::File { size, hash }),
        ]
    }

    fn hash_of(items: &[(String, TreeItem)]) -> ContentHash {
        tree_hash(items.iter().map(|(path, item)| (path.as_str(), item)))
    }

    proptest! {
        #[test]
        fn two_folders_have_one_hash_if_and_only_if_they_hold_the_same(
            one in proptest::collection::btree_map("[ab\n/ ]{1,4}", item(), 0..4),
            other in proptest::collection::btree_map("[ab\n/ ]{1,4}", item(), 0..4),
        ) {
            let list = |items: &std::collections::BTreeMap<String, TreeItem>| -> Vec<_> {
                items.iter().map(|(path, item)| (path.clone(), item.clone())).collect()
            };
            let mut reversed = list(&one);
            reversed.reverse();
            prop_assert_eq!(hash_of(&reversed), hash_of(&list(&one)));
            prop_assert_eq!(hash_of(&list(&one)) == hash_of(&list(&other)), one == other);
        }
    }

    #[test]
    fn the_hash_of_a_folder_is_that_of_its_lines() {
        let content = ContentHash::digest(b"x");
        let file = TreeItem::File { size: 1, hash: Some(content) };
        let lines = format!("file 1 {content} 4 a/é\nfolder 0 - 1 a\n");
        let items = [("a/é", &file), ("a", &TreeItem::Folder)];
        let sorted = "folder 0 - 1 a\n".to_owned() + lines.split_inclusive('\n').next().unwrap();
        assert_eq!(tree_hash(items), ContentHash::digest(sorted.as_bytes()));
    }
}
