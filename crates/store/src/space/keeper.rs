//! Keeps displaced files for a while, and deletes them if nobody changed them.
//!
//! A program that had the old file open continues to write to the displaced file. So a displaced
//! file stays beside the new one, hidden, for ten seconds, or for one second if many are kept. Then
//! it is hashed. If it still is the replaced version, it is deleted. Otherwise it is somebody's
//! save, and becomes a visible conflict copy with a line in the journal. With a history, the file
//! waits in a folder of the history (see [`super::held`]).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use stile_domain::hash::ContentHash;
use stile_domain::lines::has_lines_of;
use stile_domain::path::SpacePath;

use super::conflict::{SpaceEvents, make_conflict_copy, report_copy};
use super::file_hash::hash_file;
use super::held::Held;
use super::identity::Identity;
use super::names::Owner;
use super::os;
use super::whole_file::read_whole;

/// How long a displaced file is kept if many are kept, and otherwise.
const SHORT_KEEP: Duration = Duration::from_secs(1);
const LONG_KEEP: Duration = Duration::from_secs(10);
/// Above half of this number of kept bytes, files are kept for [`SHORT_KEEP`]. Above it, writers
/// wait.
const ROOM_BYTES: u64 = 256 * 1024 * 1024;
/// Above this number of kept files, files are kept for [`SHORT_KEEP`], so that no folder fills up.
const ROOM_FILES: usize = 64;
/// How long one request to hurry counts. Whoever waits asks more often than that.
const HURRY: Duration = Duration::from_millis(500);

/// A folder in which this process keeps files. Its marker keeps cleaners away from them.
#[derive(Debug)]
pub(super) struct MarkedFolder {
    pub(super) owner: Owner,
    handle: Arc<os::Handle>,
    /// The open marker, which holds the lock. Absent while no file of this process outlives the
    /// lock of the folder.
    marker: OnceLock<std::fs::File>,
}

impl MarkedFolder {
    /// Makes the marker, unless there is one. The folder must be locked, so that no cleaner can
    /// find the marker before it is locked.
    pub(super) fn mark(&self) -> std::io::Result<()> {
        if self.marker.get().is_some() {
            return Ok(());
        }
        let (marker, _) = os::make_file(&self.handle, &self.owner.marker(), os::NEW_FILE)?;
        let is_locked = os::try_lock(&marker)?;
        let _ = self.marker.set(marker);
        if is_locked { Ok(()) } else { Err(std::io::ErrorKind::WouldBlock.into()) }
    }
}

impl Drop for MarkedFolder {
    fn drop(&mut self) {
        if self.marker.get().is_some() {
            let _ = os::unlink(&self.handle, &self.owner.marker());
        }
    }
}

/// A displaced file that is kept.
struct Displaced {
    folder: Arc<MarkedFolder>,
    place: KeptPlace,
    name: String,
    path: SpacePath,
    expected: ContentHash,
    size: u64,
    since: Instant,
}

/// Where a displaced file waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptPlace {
    /// In the folder from which it was displaced.
    Beside,
    /// In the folder of the history.
    Held,
    /// In the folder of the file, as a copy of a save that was put back.
    PutBack,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Displaced>,
    bytes: u64,
    folders: HashMap<Identity, Weak<MarkedFolder>>,
    closing: bool,
    /// Until when files are kept for [`SHORT_KEEP`], since the removal of a folder waits.
    hurry_until: Option<Instant>,
    /// Whether the thread releases a file now.
    working: bool,
    started: bool,
}

/// Keeps and releases displaced files, on a thread that starts with the first of them.
pub(super) struct Keeper {
    process: u64,
    folders: AtomicU64,
    sequence: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
    events: SpaceEvents,
    /// Where displaced files are held, if there is a history.
    pub(super) held: Option<Held>,
}

impl Keeper {
    /// `process` is a random number for this process, which its files have in their names.
    pub(super) fn new(process: u64, held: Option<Held>, events: SpaceEvents) -> Arc<Self> {
        Arc::new(Self {
            process,
            folders: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            queue: Mutex::default(),
            changed: Condvar::new(),
            events,
            held,
        })
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that no other file of this process has.
    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// Marks a locked folder, so that no cleaner touches this process's files in it.
    pub(super) fn enter(
        &self,
        handle: &Arc<os::Handle>,
        identity: Identity,
    ) -> std::io::Result<Arc<MarkedFolder>> {
        if let Some(kept) = self.queue().folders.get(&identity).and_then(Weak::upgrade) {
            return Ok(kept);
        }
        let owner = Owner::new(self.process, self.folders.fetch_add(1, Ordering::Relaxed));
        let kept = MarkedFolder { owner, handle: Arc::clone(handle), marker: OnceLock::new() };
        // A displaced file that is held outlives no lock here, so the folder needs no marker.
        if !self.held.as_ref().is_some_and(|held| held.may_take_from(identity)) {
            kept.mark()?;
        }
        let kept = Arc::new(kept);
        let mut queue = self.queue();
        queue.folders.retain(|_, kept| kept.strong_count() > 0);
        queue.folders.insert(identity, Arc::downgrade(&kept));
        Ok(kept)
    }

    /// Returns whether one more file may be kept. Otherwise writers wait.
    pub(super) fn has_room(&self) -> bool {
        self.queue().bytes < ROOM_BYTES
    }

    /// Lets the files that are kept now go after [`SHORT_KEEP`].
    pub(super) fn hurry(&self) {
        self.queue().hurry_until = Some(Instant::now() + HURRY);
        self.changed.notify_all();
    }

    /// Keeps a displaced file whose hash should be `expected`.
    pub(super) fn keep(
        self: &Arc<Self>,
        folder: Arc<MarkedFolder>,
        place: KeptPlace,
        name: String,
        path: SpacePath,
        expected: ContentHash,
        size: u64,
    ) {
        let mut queue = self.queue();
        queue.bytes += size;
        queue.waiting.push_back(Displaced {
            folder,
            place,
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

    /// Releases each file that was kept long enough, until the keeper is closed and has no files.
    fn work(&self) {
        let mut queue = self.queue();
        loop {
            let Some(oldest) = queue.waiting.front() else {
                if queue.closing {
                    queue.started = false;
                    return;
                }
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let crowded = queue.closing
                || queue.waiting.len() > ROOM_FILES
                || queue.bytes > ROOM_BYTES / 2
                || queue.hurry_until.is_some_and(|until| Instant::now() < until);
            let due = oldest.since + if crowded { SHORT_KEEP } else { LONG_KEEP };
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
            self.release(&displaced);
            if let Some(held) = &self.held {
                held.history.prune_if_due();
            }
            let size = displaced.size;
            drop(displaced);
            queue = self.queue();
            queue.working = false;
            queue.bytes -= size;
            self.changed.notify_all();
        }
    }

    /// Deletes a displaced file, or saves a copy if somebody changed it.
    fn release(&self, displaced: &Displaced) {
        let Displaced { folder, place, name, path, expected, .. } = displaced;
        if *place == KeptPlace::PutBack {
            return self.release_copy(&folder.handle, name, path);
        }
        let held = self.held.as_ref().filter(|_| *place == KeptPlace::Held);
        let place = held.map_or(&*folder.handle, |held| &held.handle);
        let known = os::open_in(place, name).and_then(|file| hash_file(&file));
        match (known, held) {
            (Ok(hash), Some(held)) if hash == *expected => held.delete(name),
            (Ok(hash), None) if hash == *expected => {
                let _ = os::unlink(&folder.handle, name);
            }
            (Err(error), _) if error.kind() == std::io::ErrorKind::NotFound => {}
            _ => self.save_copy_from(place, &folder.handle, name, path),
        }
    }

    /// Deletes the copy of a save that was put back, if all lines of the save are still in the
    /// file, or no file has its name. Otherwise a program may have read our version before it was
    /// taken back, and then have saved over the save: the copy becomes a conflict copy.
    fn release_copy(&self, folder: &os::Handle, name: &str, path: &SpacePath) {
        let read = |name: &str| {
            let file = os::open_in(folder, name)?;
            read_whole(&file, os::status(&file)?.stamp.size, u64::MAX)
        };
        let file_name = path.split().map_or("", |(_, name)| name);
        let is_kept = match (read(name), read(file_name)) {
            (Ok(Some(saved)), Ok(Some(now))) => has_lines_of(&now, &saved),
            (_, Err(error)) => error.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        };
        if is_kept {
            let _ = os::unlink(folder, name);
        } else {
            self.save_copy(folder, name, path);
        }
    }

    /// Makes a temporary file a conflict copy beside `path`, with a line in the journal.
    pub(super) fn save_copy(&self, folder: &os::Handle, name: &str, path: &SpacePath) {
        self.save_copy_from(folder, folder, name, path);
    }

    /// Makes a file of the folder `from` a conflict copy in `folder`, beside `path`.
    fn save_copy_from(&self, from: &os::Handle, folder: &os::Handle, name: &str, path: &SpacePath) {
        let original = path.split().map_or_else(|| "file".to_owned(), |(_, name)| name.to_owned());
        if let Some(copy) = make_conflict_copy(from, folder, name, &original) {
            report_copy(&self.events, path, &copy);
        }
    }

    /// Releases all kept files after [`SHORT_KEEP`], and returns when none is left.
    pub(super) fn close(&self) {
        let mut queue = self.queue();
        queue.closing = true;
        self.changed.notify_all();
        while queue.started && (queue.working || !queue.waiting.is_empty()) {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
