//! Finds out what changed in watched folders and files.
//!
//! The kernel's events are hints, which say soon and by name that something changed. What is true
//! is decided by stamps, which a slow round compares: an event may be lost in a storm, a network
//! file system has none, and a folder may be moved away and another one put in its place. One
//! thread serves all watches of a space.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use stile_domain::hash::{ContentHash, ContentHasher};
use stile_domain::listing::{EntryKind, ListPosition};
use stile_domain::permit::{List, Permit};
use tokio::sync::Notify;

use super::change_feed::kernel_events::KernelEvents;
use super::change_feed::{ChangeFeed, Seen, Table, Target, Watch, WatchRefused, Watched, Watcher};
use super::disclosure::Disclosure;
use super::{Inner, Space, os, refusal};

/// How often the kernel's events are taken. Events in between become one.
const ROUND: Duration = Duration::from_millis(100);
/// Every so many rounds the stamps of all watched folders are compared.
const ROUNDS_PER_COMPARISON: u32 = 20;
/// Of the folders of a tree that the kernel watches, each such comparison looks at one in so many.
const TREE_PARTS: u64 = 16;
/// The most pages of a listing that are compared for a caller who may see only parts of it.
const MAX_COMPARED_PAGES: usize = 16;

impl Target {
    /// Looks at what is there now. Also returns the open folder, if there is one.
    fn look(&self, space: &Inner) -> (Seen, Option<os::Handle>) {
        let Ok(folder) = space.root.open_folder(&self.folder) else { return (Seen::Absent, None) };
        let seen = match &self.file {
            Some(name) => os::status_at(&folder, name).ok().map(|status| Seen::Stamp(status.stamp)),
            None => match self.permit.as_ref().filter(|permit| !permit.may_list_all()) {
                Some(permit) => digest(space, permit).map(Seen::Listing),
                None => os::status(&folder).ok().map(|status| Seen::Stamp(status.stamp)),
            },
        };
        (seen.unwrap_or(Seen::Absent), Some(folder))
    }
}

impl ChangeFeed {
    /// Serves the watches until the space is closed. Sleeps while there are none.
    fn serve(&self, space: &Weak<Inner>) {
        for round in 1u32.. {
            std::thread::sleep(ROUND);
            let Some(space) = space.upgrade() else { return };
            let mut table = self.lock();
            table.take_events();
            if table.watches.is_empty() {
                // The space stays open only as long as somebody else holds it.
                drop(space);
                let waited = self.added.wait_timeout(table, Duration::from_secs(1));
                drop(waited.unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            if round.is_multiple_of(ROUNDS_PER_COMPARISON) {
                let part = u64::from(round / ROUNDS_PER_COMPARISON) % TREE_PARTS;
                let due = table.due(part);
                drop(table);
                due.into_iter().for_each(|id| self.compare(&space, id));
            }
        }
    }

    /// Compares what each watch saw last with what is there now.
    #[cfg(test)]
    fn compare_all(&self, space: &Inner) {
        let ids: Vec<u64> = self.lock().watches.keys().copied().collect();
        ids.into_iter().for_each(|id| self.compare(space, id));
    }

    /// Compares what a watch saw last with what is there now. Looks without the lock, since a disk
    /// may be slow.
    pub(super) fn compare(&self, space: &Inner, id: u64) {
        let target = self.lock().watches.get(&id).map(|watched| Arc::clone(&watched.target));
        let Some(target) = target else { return };
        let (now, folder) = target.look(space);
        let mut table = self.lock();
        let is_watched = folder
            .and_then(|folder| table.events.as_ref().and_then(|events| events.watch(&folder)));
        let Some(watched) = table.watches.get_mut(&id) else {
            // The watch ended meanwhile.
            is_watched.into_iter().for_each(|folder| table.leave(folder, id));
            return;
        };
        let had_event = std::mem::take(&mut watched.had_event);
        let differs = std::mem::replace(&mut watched.seen, now.clone()) != now;
        let was_watched = std::mem::replace(&mut watched.folder_watch, is_watched);
        // Another folder may be at the path that looks the same.
        if (differs && !had_event) || was_watched != is_watched {
            watched.wake();
        }
        if was_watched != is_watched {
            was_watched.into_iter().for_each(|folder| table.leave(folder, id));
            if let Some(folder) = is_watched {
                table.by_folder.entry(folder).or_default().insert(id);
            }
        }
    }
}

impl Table {
    /// Returns the watches that the next comparison looks at: those of clients, and those of which
    /// the kernel tells nothing. A tree has many folders, so the others take turns.
    fn due(&self, part: u64) -> Vec<u64> {
        let is_due = |id: u64, watched: &Watched| {
            watched.subject.is_some() || watched.folder_watch.is_none() || id % TREE_PARTS == part
        };
        let due = self.watches.iter().filter(|(id, watched)| is_due(**id, watched));
        due.map(|(id, _)| *id).collect()
    }
}

/// Digests the part of a folder that a caller may see.
fn digest(space: &Inner, permit: &Permit<List>) -> Option<ContentHash> {
    let mut hasher = ContentHasher::default();
    let mut after = None;
    for _ in 0..MAX_COMPARED_PAGES {
        let page = space.list(permit, after.as_ref()).ok()?;
        for entry in &page.entries {
            hasher
                .update(format!("{:?}\n", (&entry.name, entry.kind, entry.size_bytes)).as_bytes());
        }
        after = page.entries.last().map(|entry| ListPosition::new(entry.kind, &entry.name));
        if !page.truncated {
            break;
        }
    }
    Some(hasher.finish())
}

impl Space {
    /// Watches a folder, or a file, for changes that the caller may see. `subject` is the user
    /// whose watches are counted.
    ///
    /// # Errors
    /// [`WatchRefused`].
    pub async fn watch(&self, permit: Permit<List>, subject: &str) -> Result<Watch, WatchRefused> {
        let subject: Arc<str> = subject.into();
        let to = Disclosure::of(&permit);
        let watching = self.run(move |inner| {
            Ok(inner.watch(permit, subject).map_err(|refused| match refused {
                WatchRefused::Refused(refusal) => {
                    WatchRefused::Refused(Box::new(inner.disclosed(*refusal, &to)))
                }
                WatchRefused::TooMany => WatchRefused::TooMany,
            }))
        });
        watching.await.unwrap_or_else(|refusal| Err(WatchRefused::Refused(Box::new(refusal))))
    }
}

impl Inner {
    fn watch(
        self: &Arc<Self>,
        permit: Permit<List>,
        subject: Arc<str>,
    ) -> Result<Watch, WatchRefused> {
        let path = permit.path().clone();
        let (folder, file) = match self.root.open_folder(&path) {
            Ok(_) => (path, None),
            Err(error) => {
                let refused = || WatchRefused::Refused(Box::new(refusal(&error, &path)));
                let (parent, name) = path.split().ok_or_else(refused)?;
                let opened = self.root.open_folder(&parent).map_err(|_| refused())?;
                let status = os::status_at(&opened, name).map_err(|_| refused())?;
                if status.kind != EntryKind::File {
                    return Err(refused());
                }
                (parent, Some(name.to_owned()))
            }
        };
        let feed = &self.changes;
        let mut table = feed.lock();
        if !table.has_room_for(&subject) {
            return Err(WatchRefused::TooMany);
        }
        let changed = Arc::new(Notify::new());
        let target = Target { permit: Some(permit), folder, file };
        let watcher = Watcher::OnePath(Arc::clone(&changed));
        let id = self
            .add_watch(&mut table, target, Some(subject), watcher)
            .map_err(|_| WatchRefused::TooMany)?;
        Ok(Watch { id, changed, feed: Arc::clone(feed) })
    }

    /// Adds a watch. Fails if the system gives no thread for the first one.
    pub(super) fn add_watch(
        self: &Arc<Self>,
        table: &mut Table,
        target: Target,
        subject: Option<Arc<str>>,
        watcher: Watcher,
    ) -> io::Result<u64> {
        let feed = &self.changes;
        if !table.has_thread {
            let (feed, space) = (Arc::clone(feed), Arc::downgrade(self));
            let thread = std::thread::Builder::new().name("changes".to_owned());
            thread.spawn(move || feed.serve(&space))?;
            table.events = KernelEvents::open();
            table.has_thread = true;
        }
        let target = Arc::new(target);
        // The kernel watches first, so that no change falls between the two.
        let opened = self.root.open_folder(&target.folder).ok();
        let folder_watch = opened
            .and_then(|folder| table.events.as_ref().and_then(|events| events.watch(&folder)));
        let id = table.next_id;
        table.next_id += 1;
        if let Some(folder) = folder_watch {
            table.by_folder.entry(folder).or_default().insert(id);
        }
        let seen = target.look(self).0;
        let watched = Watched { seen, target, subject, folder_watch, had_event: false, watcher };
        table.watches.insert(id, watched);
        feed.added.notify_one();
        Ok(id)
    }
}
