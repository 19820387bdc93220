//! Lists a page of a directory, and reads the attributes of the names on this page alone.
//!
//! The first page of a large directory reads every name. The names are then remembered, within a
//! bound, for as long as the directory's stamp says that no entry came or went.

use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};

use stile_domain::error::Refusal;
use stile_domain::facts::{FileStamp, StampCache};
use stile_domain::limits::MAX_LIST_ENTRIES;
use stile_domain::listing::{self, EntryKind, ListEntry, ListPage, ListPosition};
use stile_domain::permit::{List, Permit};

use super::folder_names::{FolderNames, FolderNamesBuilder};
use super::inner::FOLDER_NAMES_BYTES;
use super::names::is_ours;
use super::{Inner, os, refusal};

/// A candidate for the page, ordered by its position.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    position: ListPosition,
    name: String,
    kind: EntryKind,
}

impl Candidate {
    fn new(kind: EntryKind, name: &str) -> Self {
        Self { position: ListPosition::new(kind, name), name: name.to_owned(), kind }
    }
}

/// How often a large folder that changes is read for one page. After that, names that came or went
/// meanwhile may be missing, and so may some that were there.
pub(super) const MOST_READS: usize = 4;

/// The candidates for a page and one more, in order, and how many entries no path can name.
type Candidates = (Vec<Candidate>, u64);

impl Inner {
    /// Lists a page for `list://`.
    pub(super) fn list(
        &self,
        permit: &Permit<List>,
        after: Option<&ListPosition>,
    ) -> Result<ListPage, Refusal> {
        let path = permit.path();
        let refuse = |error: io::Error| refusal(&error, path);
        let folder = self.root.open_folder(path).map_err(refuse)?;
        let (mut page, unnameable) = self.candidates(permit, after, &folder).map_err(refuse)?;
        let truncated = page.len() > MAX_LIST_ENTRIES;
        page.truncate(MAX_LIST_ENTRIES);
        let next_uri = page
            .last()
            .filter(|_| truncated)
            .map(|last| listing::next_page_uri(path, &last.position));
        let entries = page.into_iter().map(|candidate| self.entry(&folder, candidate)).collect();
        let unnameable_entries = if permit.may_list_all() { unnameable } else { 0 };
        Ok(ListPage { path: path.clone(), entries, unnameable_entries, truncated, next_uri })
    }

    /// Returns names of a folder that no path can express, for its owner. A caller who may not list
    /// all of the folder gets none.
    pub(super) fn odd_names(
        &self,
        permit: &Permit<List>,
        most: usize,
    ) -> Result<Vec<String>, Refusal> {
        if !permit.may_list_all() {
            return Ok(Vec::new());
        }
        let path = permit.path();
        let folder = self.root.open_folder(path);
        let is_odd = |name: &str| !path.can_hold(name) && !is_ours(name);
        let names = folder.and_then(|folder| os::odd_names(&folder, most, is_odd));
        names.map_err(|error| refusal(&error, path))
    }

    fn candidates(
        &self,
        permit: &Permit<List>,
        after: Option<&ListPosition>,
        folder: &os::Handle,
    ) -> io::Result<Candidates> {
        let stamp = os::status(folder)?.stamp;
        let known = self.folder_names().get(&stamp);
        if let Some(names) = known.filter(|names| names.are_for(permit.path())) {
            let may_list_all = permit.may_list_all();
            let page = names
                .after(after)
                .filter(|(_, name)| may_list_all || permit.may_list(name))
                .take(MAX_LIST_ENTRIES + 1)
                .map(|(kind, name)| Candidate::new(kind, name))
                .collect();
            return Ok((page, names.unnameable));
        }
        self.read_candidates(permit, after, folder, stamp)
    }

    /// Reads the candidates from the folder, whose stamp was taken just before. Reads again if the
    /// folder changed while the system gave its names in parts.
    fn read_candidates(
        &self,
        permit: &Permit<List>,
        after: Option<&ListPosition>,
        folder: &os::Handle,
        mut stamp: FileStamp,
    ) -> io::Result<Candidates> {
        let mut reads_left = MOST_READS;
        loop {
            reads_left -= 1;
            let began = os::now();
            let read = read_names(permit, after, folder)?;
            let now = os::status(folder)?.stamp;
            if now == stamp
                && let Some(names) = read.names.build_if_long(permit.path(), read.candidates.1)
            {
                self.folder_names().insert(stamp, &Arc::new(names), began);
            }
            if now == stamp || read.is_of_one_moment || reads_left == 0 {
                return Ok(read.candidates);
            }
            stamp = now;
        }
    }

    pub(super) fn folder_names(&self) -> MutexGuard<'_, StampCache<FolderNames>> {
        self.folder_names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, folder: &os::Handle, candidate: Candidate) -> ListEntry {
        let Candidate { name, mut kind, .. } = candidate;
        let found = match kind {
            EntryKind::File => os::status_and_mount_at(folder, &name).ok(),
            _ => None,
        };
        // A mounted file is not a file of the space, so its size and its hash are not shown.
        if found.is_some_and(|(_, is_mounted)| is_mounted) {
            kind = EntryKind::Other;
        }
        let stamp = found
            .filter(|(status, is_mounted)| status.kind == EntryKind::File && !is_mounted)
            .map(|(status, _)| status.stamp);
        let hash = stamp.and_then(|stamp| self.memory().get(&stamp)).map(|facts| facts.hash);
        ListEntry { name, kind, size_bytes: stamp.map(|stamp| stamp.size), hash }
    }
}

/// What one pass over a folder found.
struct NamesRead {
    candidates: Candidates,
    /// All names, to be remembered.
    names: FolderNamesBuilder,
    is_of_one_moment: bool,
}

fn read_names(
    permit: &Permit<List>,
    after: Option<&ListPosition>,
    folder: &os::Handle,
) -> io::Result<NamesRead> {
    // The names of the page and one more, with the last one on top.
    let mut first: BinaryHeap<Candidate> = BinaryHeap::with_capacity(MAX_LIST_ENTRIES + 2);
    let mut names = FolderNamesBuilder::new(FOLDER_NAMES_BYTES);
    let may_list_all = permit.may_list_all();
    let mut unnameable = 0;
    let is_of_one_moment = os::entries(folder, |name, kind| {
        // No request could name a file that no path can express, so no scope covers it alone.
        let Some(name) = name.filter(|name| permit.path().can_hold(name)) else {
            unnameable += u64::from(!name.is_some_and(is_ours));
            return;
        };
        names.push(kind, name);
        // Most names of a large folder are not on this page, so this check comes first.
        let full = first.len() > MAX_LIST_ENTRIES;
        if after.is_some_and(|after| !after.is_before(kind, name))
            || full && first.peek().is_some_and(|last| last.position.is_before(kind, name))
            || !(may_list_all || permit.may_list(name))
        {
            return;
        }
        first.push(Candidate::new(kind, name));
        if full {
            first.pop();
        }
    })?;
    let candidates = (first.into_sorted_vec(), unnameable);
    Ok(NamesRead { candidates, names, is_of_one_moment })
}
