//! The watches on folders and files, and what wakes those who hold them.
//!
//! A watcher that does not look misses nothing: the watch remembers one change, however many there
//! were, and no writer ever waits for a watcher. `changes` finds out what changed.

#[cfg(target_os = "linux")]
pub(super) mod kernel_events;
#[cfg(not(target_os = "linux"))]
#[path = "change_feed/no_kernel_events.rs"]
pub(super) mod kernel_events;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use stile_domain::error::Refusal;
use stile_domain::facts::FileStamp;
use stile_domain::hash::ContentHash;
use stile_domain::path::{RESERVED_PREFIX, SpacePath};
use stile_domain::permit::{List, Permit};
use tokio::sync::Notify;

use kernel_events::{FolderWatch, KernelEvent, KernelEvents};

/// The most watches of one space.
const MAX_WATCHES: usize = 4096;
/// The most watches of one user in one space.
pub(super) const MAX_WATCHES_PER_SUBJECT: usize = 256;

/// Why a path is not watched.
#[derive(Debug)]
pub enum WatchRefused {
    /// The path cannot be read.
    Refused(Box<Refusal>),
    /// The caller, or all callers together, watch too many paths.
    TooMany,
}

/// The most folders of which the kernel is asked for events for the records of the owner. Changes
/// in further ones are found when all folders are looked at.
pub(super) const MAX_TREE_WATCHES: usize = 1 << 16;

/// A watch on a folder or a file. Dropping it ends it.
pub struct Watch {
    pub(super) id: u64,
    pub(super) changed: Arc<Notify>,
    pub(super) feed: Arc<ChangeFeed>,
}

impl Watch {
    /// Waits until something changed since the last call. Changes that come close together count as
    /// one. May return although nothing changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.feed.lock().remove(self.id);
    }
}

/// All watches of a space.
pub(super) struct ChangeFeed {
    pub(super) table: Mutex<Table>,
    pub(super) added: Condvar,
}

#[derive(Default)]
pub(super) struct Table {
    pub(super) watches: BTreeMap<u64, Watched>,
    /// The watches of each folder that the kernel watches.
    pub(super) by_folder: BTreeMap<FolderWatch, BTreeSet<u64>>,
    pub(super) events: Option<KernelEvents>,
    pub(super) next_id: u64,
    pub(super) has_thread: bool,
}

/// The path that a watch is for.
pub(super) struct Target {
    /// What the caller may know. `None` for the owner, who may know everything.
    pub(super) permit: Option<Permit<List>>,
    /// The folder: the path itself, or the folder of a file.
    pub(super) folder: SpacePath,
    /// The name of the file, where a file is watched.
    pub(super) file: Option<String>,
}

/// A watch, and what it saw last.
pub(super) struct Watched {
    pub(super) target: Arc<Target>,
    /// The user whose watches are counted. `None` for a folder of a tree.
    pub(super) subject: Option<Arc<str>>,
    pub(super) folder_watch: Option<FolderWatch>,
    pub(super) seen: Seen,
    /// Whether the kernel reported a change since the last comparison. Then the comparison has
    /// nothing to find.
    pub(super) had_event: bool,
    pub(super) watcher: Watcher,
}

/// Who waits for a change.
pub(super) enum Watcher {
    /// Who holds a [`Watch`] on one path.
    OnePath(Arc<Notify>),
    /// Who watches many folders, and asks which of them changed.
    Tree(Arc<ChangedFolders>),
}

/// The folders of a tree that changed since somebody asked. There are never more than the tree has.
#[derive(Default)]
pub(super) struct ChangedFolders {
    folders: Mutex<BTreeSet<SpacePath>>,
    pub(super) changed: Notify,
}

impl ChangedFolders {
    fn add(&self, folder: &SpacePath) {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if !folders.contains(folder) {
            folders.insert(folder.clone());
        }
        drop(folders);
        self.changed.notify_one();
    }

    /// Takes the folders that changed since the last call.
    pub(super) fn take(&self) -> BTreeSet<SpacePath> {
        std::mem::take(&mut *self.folders.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Watched {
    pub(super) fn wake(&self) {
        match &self.watcher {
            Watcher::OnePath(changed) => changed.notify_one(),
            Watcher::Tree(changes) => changes.add(&self.target.folder),
        }
    }
}

/// What a path was like at the last comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing that can be opened.
    Absent,
    /// The stamp of the folder, or of the file in it.
    Stamp(FileStamp),
    /// A digest of what the caller may see of the folder.
    Listing(ContentHash),
}

impl Target {
    /// Whether the caller may know of a change of this name in the folder.
    fn may_know(&self, name: &str) -> bool {
        match &self.file {
            Some(file) => file == name,
            None if name.starts_with(RESERVED_PREFIX) => false,
            None => self.permit.as_ref().is_none_or(|permit| permit.may_list(name)),
        }
    }
}

impl Table {
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(watched) = self.watches.remove(&id)
            && let Some(folder) = watched.folder_watch
        {
            self.leave(folder, id);
        }
    }

    /// Takes a watch from a folder. The last one ends the kernel's watch.
    pub(super) fn leave(&mut self, folder: FolderWatch, id: u64) {
        let ids = self.by_folder.entry(folder).or_default();
        ids.remove(&id);
        if ids.is_empty() {
            self.by_folder.remove(&folder);
            self.events.iter().for_each(|events| events.forget(folder));
        }
    }

    pub(super) fn has_room_for(&self, subject: &str) -> bool {
        let subjects = || self.watches.values().filter_map(|watched| watched.subject.as_deref());
        subjects().count() < MAX_WATCHES
            && subjects().filter(|own| *own == subject).count() < MAX_WATCHES_PER_SUBJECT
    }

    /// Takes the kernel's events, and wakes who may know of them.
    pub(super) fn take_events(&mut self) {
        let Some(events) = &mut self.events else { return };
        for event in events.take() {
            match event {
                KernelEvent::Named(folder, name) => {
                    let ids = self.by_folder.get(&folder).into_iter().flatten();
                    for id in ids {
                        if let Some(watched) = self.watches.get_mut(id) {
                            watched.had_event = true;
                            if watched.target.may_know(&name) {
                                watched.wake();
                            }
                        }
                    }
                }
                // The comparison finds what became of the folder.
                KernelEvent::Gone(folder) => {
                    for id in self.by_folder.remove(&folder).unwrap_or_default() {
                        if let Some(watched) = self.watches.get_mut(&id) {
                            watched.folder_watch = None;
                        }
                    }
                }
                // Nobody knows what was lost, so every watcher looks.
                KernelEvent::Lost => {
                    self.watches.values().for_each(Watched::wake);
                }
            }
        }
    }
}

impl ChangeFeed {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), added: Condvar::new() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
