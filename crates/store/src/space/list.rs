//! A page of a directory: every name is looked at, a page of them is held, and only those are
//! opened up.

use std::collections::BinaryHeap;

use stile_domain::error::Refusal;
use stile_domain::limits::PAGE_ENTRIES;
use stile_domain::listing::{self, Entry, Kind, Page, Position};
use stile_domain::permit::{List, Permit};

use super::{Inner, os, read::relative, refusal};

/// A candidate for the page, ordered by its position.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    position: Position,
    name: String,
    kind: Kind,
}

impl Inner {
    /// Lists a page; the body of `list://`.
    pub(super) fn list(
        &self,
        permit: &Permit<List>,
        after: Option<&Position>,
    ) -> Result<Page, Refusal> {
        let path = permit.path();
        let folder =
            os::open_folder(&self.root, relative(path)).map_err(|error| refusal(&error, path))?;
        // The first page and one more in order, the last of them on top.
        let mut first: BinaryHeap<Candidate> = BinaryHeap::with_capacity(PAGE_ENTRIES + 2);
        let shows_all = permit.shows_all();
        os::entries(&folder, |name, kind| {
            // Most names of a large folder are not on this page, so that is asked first.
            let full = first.len() > PAGE_ENTRIES;
            if after.is_some_and(|after| !after.is_before(kind, name))
                || full && first.peek().is_some_and(|last| last.position.is_before(kind, name))
            {
                return;
            }
            // A name that no path can express cannot be asked for, so it is not shown either.
            if !path.can_hold(name) || !(shows_all || permit.shows(name)) {
                return;
            }
            first.push(Candidate {
                position: Position::of(kind, name),
                name: name.to_owned(),
                kind,
            });
            if full {
                first.pop();
            }
        })
        .map_err(|error| refusal(&error, path))?;
        let mut page = first.into_sorted_vec();
        let truncated = page.len() > PAGE_ENTRIES;
        page.truncate(PAGE_ENTRIES);
        let next_uri =
            page.last().filter(|_| truncated).map(|last| listing::uri_after(path, &last.position));
        let entries = page.into_iter().map(|candidate| self.entry(&folder, candidate)).collect();
        Ok(Page { path: path.clone(), entries, truncated, next_uri })
    }

    fn entry(&self, folder: &std::os::fd::OwnedFd, candidate: Candidate) -> Entry {
        let Candidate { name, kind, .. } = candidate;
        let stamp = match kind {
            Kind::File => os::look_at(folder, &name)
                .ok()
                .filter(|status| status.kind == Kind::File)
                .map(|status| status.stamp),
            _ => None,
        };
        let hash = stamp.and_then(|stamp| self.memory().recall(&stamp)).map(|facts| facts.hash);
        Entry { name, kind, size_bytes: stamp.map(|stamp| stamp.size), hash }
    }
}
