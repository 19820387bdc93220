//! The names in a folder, sorted and packed, so that each page of a large folder after the first
//! costs what the page holds, and so that a walk reads a folder again only after it has changed.

use std::ops::Range;

use stile_domain::facts::Footprint;
use stile_domain::limits::MAX_LIST_ENTRIES;
use stile_domain::listing::{EntryKind, ListPosition};
use stile_domain::path::SpacePath;

/// Where the name of an entry is in the packed text.
#[derive(Clone, Copy)]
struct Entry {
    start: u32,
    length: u16,
    kind: EntryKind,
}

/// The entries of one folder that a path can name, in the order of a listing.
pub(super) struct FolderNames {
    text: Box<str>,
    entries: Box<[Entry]>,
    /// How many other entries the folder has, without those that Stile made.
    pub(super) unnameable: u64,
    /// Which names a path can hold depends on the length of the folder's own path.
    path_length: usize,
}

impl Footprint for FolderNames {
    fn heap_bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.entries)
    }
}

impl FolderNames {
    /// Whether these are the names for a folder at `path`, too.
    pub(super) fn are_for(&self, path: &SpacePath) -> bool {
        self.path_length == path.as_str().len()
    }

    /// Returns the entries after a position, in the order of a listing.
    pub(super) fn after(
        &self,
        position: Option<&ListPosition>,
    ) -> impl Iterator<Item = (EntryKind, &str)> {
        let entries = self.entries.get(self.index_after(position)..).unwrap_or_default();
        entries.iter().map(|entry| (entry.kind, name(&self.text, *entry)))
    }

    /// Returns the index of the first entry after a position.
    pub(super) fn index_after(&self, position: Option<&ListPosition>) -> usize {
        position.map_or(0, |position| {
            self.entries
                .partition_point(|entry| !position.is_before(entry.kind, name(&self.text, *entry)))
        })
    }

    /// Returns how many entries there are.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the index of the first entry that is not a folder.
    pub(super) fn first_file(&self) -> usize {
        self.entries.partition_point(|entry| entry.kind == EntryKind::Directory)
    }

    /// Returns the index of the first entry of a range of one kind whose name is after `name`.
    pub(super) fn index_after_name(&self, range: Range<usize>, name: &str) -> usize {
        let entries = self.entries.get(range.clone()).unwrap_or_default();
        range.start + entries.partition_point(|entry| self::name(&self.text, *entry) <= name)
    }

    /// Returns the entry at an index.
    pub(super) fn get(&self, index: usize) -> Option<(EntryKind, &str)> {
        self.entries.get(index).map(|entry| (entry.kind, name(&self.text, *entry)))
    }
}

fn name(text: &str, entry: Entry) -> &str {
    let start = entry.start as usize;
    text.get(start..start + usize::from(entry.length)).unwrap_or_default()
}

/// Collects the names of a folder while they are read, within a bound.
pub(super) struct FolderNamesBuilder {
    text: String,
    entries: Vec<Entry>,
    max_bytes: usize,
}

impl FolderNamesBuilder {
    /// Collects at most about `max_bytes` bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { text: String::new(), entries: Vec::new(), max_bytes }
    }

    /// Adds an entry. Of a folder with more than the bound nothing is kept.
    pub(super) fn push(&mut self, kind: EntryKind, name: &str) {
        let length = u16::try_from(name.len());
        let (Ok(length), Ok(start)) = (length, u32::try_from(self.text.len())) else {
            return self.give_up();
        };
        if self.text.len() + size_of_val(&*self.entries) > self.max_bytes {
            return self.give_up();
        }
        self.text.push_str(name);
        self.entries.push(Entry { start, length, kind });
    }

    fn give_up(&mut self) {
        *self = Self::new(0);
    }

    /// Sorts the entries, for a list. Returns `None` for a folder with more than the bound, or with
    /// so few that one page shows all.
    pub(super) fn build_if_long(self, path: &SpacePath, unnameable: u64) -> Option<FolderNames> {
        let is_long = self.entries.len() > MAX_LIST_ENTRIES;
        is_long.then(|| self.build(path, unnameable)).flatten()
    }

    /// Sorts the entries. Returns `None` for a folder with more than the bound.
    pub(super) fn build(self, path: &SpacePath, unnameable: u64) -> Option<FolderNames> {
        let Self { text, mut entries, max_bytes } = self;
        if max_bytes == 0 {
            return None;
        }
        let order = |entry: &Entry| (entry.kind != EntryKind::Directory, name(&text, *entry));
        entries.sort_unstable_by(|one, other| order(one).cmp(&order(other)));
        Some(FolderNames {
            entries: entries.into(),
            text: text.into(),
            unnameable,
            path_length: path.as_str().len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn built(names: &[(EntryKind, String)], max_bytes: usize) -> Option<FolderNames> {
        let mut builder = FolderNamesBuilder::new(max_bytes);
        for (kind, name) in names {
            builder.push(*kind, name);
        }
        builder.build_if_long(&SpacePath::root(), 0)
    }

    fn many(count: usize) -> Vec<(EntryKind, String)> {
        (0..count).map(|number| (EntryKind::File, format!("{number:06}"))).collect()
    }

    #[test]
    fn a_list_remembers_only_folders_of_several_pages_within_the_bound() {
        assert!(built(&many(MAX_LIST_ENTRIES), 1 << 20).is_none());
        let names = built(&many(MAX_LIST_ENTRIES + 1), 1 << 20).unwrap();
        assert_eq!(names.after(None).count(), MAX_LIST_ENTRIES + 1);
        assert!(names.heap_bytes() <= 20 * (MAX_LIST_ENTRIES + 1));
        assert!(built(&many(MAX_LIST_ENTRIES + 1), 1 << 10).is_none());
        assert!(names.are_for(&SpacePath::root()));
        assert!(!names.are_for(&SpacePath::parse("/a").unwrap()));
    }

    proptest! {
        #[test]
        fn what_comes_after_a_position_is_what_a_sorted_list_has_there(
            short in proptest::collection::vec(("[a-cé]{1,3}", any::<bool>()), 1..40),
            at in ("[a-cé]{1,3}", any::<bool>()),
        ) {
            let kind = |is_folder| if is_folder { EntryKind::Directory } else { EntryKind::File };
            let mut all = many(MAX_LIST_ENTRIES);
            all.extend(short.into_iter().map(|(name, is_folder)| (kind(is_folder), name)));
            let position = ListPosition::new(kind(at.1), &at.0);
            let names = built(&all, 1 << 20).unwrap();
            let found: Vec<_> = names
                .after(Some(&position))
                .map(|(kind, name)| ListPosition::new(kind, name))
                .collect();
            let mut slow: Vec<_> =
                all.iter().map(|(kind, name)| ListPosition::new(*kind, name)).collect();
            slow.retain(|other| *other > position);
            slow.sort();
            prop_assert_eq!(found, slow);
        }
    }
}
