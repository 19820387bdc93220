//! Lists a page of a directory. Reads every name, keeps one page of names in memory, and reads the
//! attributes of these only.

use std::collections::BinaryHeap;

use stile_domain::error::Refusal;
use stile_domain::limits::MAX_LIST_ENTRIES;
use stile_domain::listing::{self, EntryKind, ListEntry, ListPage, ListPosition};
use stile_domain::path::RESERVED_PREFIX;
use stile_domain::permit::{List, Permit};

use super::{Inner, os, refusal};

/// A candidate for the page, ordered by its position.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    position: ListPosition,
    name: String,
    kind: EntryKind,
}

impl Inner {
    /// Lists a page for `list://`.
    pub(super) fn list(
        &self,
        permit: &Permit<List>,
        after: Option<&ListPosition>,
    ) -> Result<ListPage, Refusal> {
        let path = permit.path();
        let folder = self.root.open_folder(path).map_err(|error| refusal(&error, path))?;
        // The names of the page and one more, with the last one on top.
        let mut first: BinaryHeap<Candidate> = BinaryHeap::with_capacity(MAX_LIST_ENTRIES + 2);
        let may_list_all = permit.may_list_all();
        let mut unnameable = 0;
        os::entries(&folder, |name, kind| {
            // No request could name a file that no path can express, so no scope covers it alone.
            let Some(name) = name.filter(|name| path.can_hold(name)) else {
                let is_ours = name.is_some_and(|name| name.starts_with(RESERVED_PREFIX));
                unnameable += u64::from(may_list_all && !is_ours);
                return;
            };
            // Most names of a large folder are not on this page, so this check comes first.
            let full = first.len() > MAX_LIST_ENTRIES;
            if after.is_some_and(|after| !after.is_before(kind, name))
                || full && first.peek().is_some_and(|last| last.position.is_before(kind, name))
            {
                return;
            }
            if !(may_list_all || permit.may_list(name)) {
                return;
            }
            first.push(Candidate {
                position: ListPosition::new(kind, name),
                name: name.to_owned(),
                kind,
            });
            if full {
                first.pop();
            }
        })
        .map_err(|error| refusal(&error, path))?;
        let mut page = first.into_sorted_vec();
        let truncated = page.len() > MAX_LIST_ENTRIES;
        page.truncate(MAX_LIST_ENTRIES);
        let next_uri = page
            .last()
            .filter(|_| truncated)
            .map(|last| listing::next_page_uri(path, &last.position));
        let entries = page.into_iter().map(|candidate| self.entry(&folder, candidate)).collect();
        Ok(ListPage {
            path: path.clone(),
            entries,
            unnameable_entries: unnameable,
            truncated,
            next_uri,
        })
    }

    fn entry(&self, folder: &std::os::fd::OwnedFd, candidate: Candidate) -> ListEntry {
        let Candidate { name, mut kind, .. } = candidate;
        // A mounted file is not a file of the space, so its size and its hash are not shown.
        if kind == EntryKind::File && os::is_mount_point_at(folder, &name) {
            kind = EntryKind::Other;
        }
        let stamp = match kind {
            EntryKind::File => os::status_at(folder, &name)
                .ok()
                .filter(|status| status.kind == EntryKind::File)
                .map(|status| status.stamp),
            _ => None,
        };
        let hash = stamp.and_then(|stamp| self.memory().get(&stamp)).map(|facts| facts.hash);
        ListEntry { name, kind, size_bytes: stamp.map(|stamp| stamp.size), hash }
    }
}
