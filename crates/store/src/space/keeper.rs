//! What was displaced is kept a while, hashed again, and only then let go.
//!
//! A program that had the old file open when it was exchanged goes on writing into what we
//! displaced. So a displaced file stays beside the new one, hidden, for ten seconds, or one where
//! many are kept. Then it is hashed: what still is the version that was replaced is deleted, and
//! anything else is somebody's save, which becomes a visible conflict copy and a line in the
//! journal.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use stile_domain::hash::ContentHash;
use stile_domain::journal::JournalLine;
use stile_domain::path::SpacePath;

use super::names::{self, Owner};
use super::os::{self, Identity};
use super::read::hash_file;

/// How long a displaced file is kept at least, and how long where there is room.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(10);
/// Past so many bytes kept, files go after [`LEAST`], and writers wait while even that does not
/// help.
const ROOM_BYTES: u64 = 256 * 1024 * 1024;
/// Past so many files kept, they go after [`LEAST`]: a folder should not fill with them.
const ROOM_FILES: usize = 64;

/// Says what happened that no call asked for.
pub type SpaceEvents = Arc<dyn Fn(JournalLine) + Send + Sync>;

/// A folder in which files of this process are kept; its marker says to every cleaner that they are
/// in use.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) owner: Owner,
    handle: Arc<OwnedFd>,
    /// Holds the lock on the marker.
    _marker: std::fs::File,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = os::unlink(&self.handle, &self.owner.marker());
    }
}

/// A displaced file.
struct Displaced {
    folder: Arc<Kept>,
    name: String,
    path: SpacePath,
    expected: ContentHash,
    size: u64,
    since: Instant,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Displaced>,
    bytes: u64,
    folders: HashMap<Identity, Weak<Kept>>,
    closing: bool,
    /// Whether the thread is letting one go just now.
    working: bool,
    started: bool,
}

/// Keeps displaced files and lets them go, on a thread of its own that starts with the first of
/// them.
pub(super) struct Keeper {
    process: u64,
    folders: AtomicU64,
    sequence: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
    events: SpaceEvents,
}

impl Keeper {
    pub(super) fn new(events: SpaceEvents) -> Arc<Self> {
        let (process, _) = uuid::Uuid::new_v4().as_u64_pair();
        Arc::new(Self {
            process,
            folders: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            queue: Mutex::default(),
            changed: Condvar::new(),
            events,
        })
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other file of this process bears.
    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// The owner under which files may be named in a locked folder; while it is held, no cleaner
    /// touches them.
    pub(super) fn enter(
        &self,
        handle: &Arc<OwnedFd>,
        identity: Identity,
    ) -> std::io::Result<Arc<Kept>> {
        if let Some(kept) = self.queue().folders.get(&identity).and_then(Weak::upgrade) {
            return Ok(kept);
        }
        let owner = Owner::new(self.process, self.folders.fetch_add(1, Ordering::Relaxed));
        // The folder is locked, so no cleaner can look between making the marker and locking it.
        let (marker, _) = os::make_file(handle, &owner.marker(), os::NEW_FILE)?;
        let kept = Arc::new(Kept { owner, handle: Arc::clone(handle), _marker: marker });
        if !os::try_lock(&kept._marker)? {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        let mut queue = self.queue();
        queue.folders.retain(|_, kept| kept.strong_count() > 0);
        queue.folders.insert(identity, Arc::downgrade(&kept));
        Ok(kept)
    }

    /// Waits while more is kept than there is room for; `false` where that lasts past `deadline`.
    pub(super) fn await_room(&self, deadline: Instant) -> bool {
        let mut queue = self.queue();
        while queue.bytes >= ROOM_BYTES {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue =
                self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Takes charge of a displaced file that should hash to `expected`.
    pub(super) fn keep(
        self: &Arc<Self>,
        folder: Arc<Kept>,
        name: String,
        path: SpacePath,
        expected: ContentHash,
        size: u64,
    ) {
        let mut queue = self.queue();
        queue.bytes += size;
        queue.waiting.push_back(Displaced {
            folder,
            name,
            path,
            expected,
            size,
            since: Instant::now(),
        });
        if !queue.started {
            queue.started = true;
            let keeper = Arc::clone(self);
            let spawned = std::thread::Builder::new()
                .name("stile-keeper".to_owned())
                .spawn(move || keeper.work());
            queue.started = spawned.is_ok();
        }
        self.changed.notify_all();
    }

    /// Lets everything go that was kept long enough, until it is closed and nothing is left.
    fn work(&self) {
        let mut queue = self.queue();
        loop {
            let Some(oldest) = queue.waiting.front() else {
                if queue.closing {
                    return;
                }
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let crowded =
                queue.closing || queue.waiting.len() > ROOM_FILES || queue.bytes > ROOM_BYTES / 2;
            let due = oldest.since + if crowded { LEAST } else { MOST };
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                queue = self
                    .changed
                    .wait_timeout(queue, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                continue;
            }
            let Some(displaced) = queue.waiting.pop_front() else { continue };
            queue.working = true;
            drop(queue);
            self.let_go(&displaced);
            let size = displaced.size;
            drop(displaced);
            queue = self.queue();
            queue.working = false;
            queue.bytes -= size;
            self.changed.notify_all();
        }
    }

    fn let_go(&self, displaced: &Displaced) {
        let Displaced { folder, name, path, expected, .. } = displaced;
        let known = os::open_in(&folder.handle, name).and_then(|file| hash_file(&file));
        match known {
            Ok(hash) if hash == *expected => {
                let _ = os::unlink(&folder.handle, name);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            _ => self.save_copy(&folder.handle, name, path),
        }
    }

    /// Gives a file that nobody may lose a visible name beside `path`, and says so in the journal.
    pub(super) fn save_copy(&self, folder: &OwnedFd, name: &str, path: &SpacePath) {
        let about = path.split().map_or_else(|| "file".to_owned(), |(_, about)| about.to_owned());
        if let Some(copy) = make_conflict_copy(folder, name, &about) {
            report_copy(&self.events, path, &copy);
        }
    }

    /// Lets everything go that is kept, after its least time, and returns when nothing is left.
    pub(super) fn close(&self) {
        let mut queue = self.queue();
        queue.closing = true;
        self.changed.notify_all();
        while queue.started && (queue.working || !queue.waiting.is_empty()) {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Renames a file of ours to a free visible name; `None` where even that fails, and then it stays
/// where it is and the next start tries again.
pub(super) fn make_conflict_copy(folder: &OwnedFd, name: &str, about: &str) -> Option<String> {
    let when = jiff::Zoned::now().strftime("%Y-%m-%d %H-%M-%S").to_string();
    for attempt in 1..1000 {
        let copy = names::conflict_copy(about, &when, attempt);
        match os::rename_new(folder, name, &copy) {
            Ok(()) => {
                let _ = os::sync(folder);
                return Some(copy);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                tracing::error!(kind = ?error.kind(), "a save of another program could not be given a visible name");
                return None;
            }
        }
    }
    None
}

/// One line in the journal for a conflict copy, under the copy's own path.
pub(super) fn report_copy(events: &SpaceEvents, beside: &SpacePath, copy: &str) {
    let folder = beside.split().map_or_else(SpacePath::root, |(folder, _)| folder);
    tracing::warn!("a save of another program was kept as a conflict copy");
    events(JournalLine {
        tool: "conflict_copy".to_owned(),
        path: folder.child(copy),
        outcome: "ok".to_owned(),
        ..JournalLine::default()
    });
}
