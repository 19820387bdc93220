//! The journal: one line for each call, written before the answer leaves.
//!
//! Each process writes its own file, and a reader merges all files. A line is written with one
//! system call before its call is answered, so it survives a kill. A background thread syncs at
//! most a second later. Space for further lines is reserved ahead, so that a change that could not
//! be journalled is refused before it happens.
//!
//! After a failure the file stays as it is, and the next line begins a new file. A torn line can
//! therefore only be the last of its file, and readers ignore it. A file that is long or a day old
//! is followed by a new one. Its process holds a lock on it until then. A file to which no line
//! will be added is finished, which its anchor says: when it is followed by another one, when its
//! process ends, or at the next start after a kill (`finishing`).
//!
//! The lines of a file form a chain ([`JournalChain`]), and a database outside of the files keeps
//! how far each file was synced, so that [`JournalPlace::verify`] finds what was changed later.
//!
//! Servers that share a database copy their lines into it ([`SharedJournal`]), so that the owner
//! reads and verifies the lines of all servers in one place.

mod anchor_key;
mod anchors;
mod copying;
mod finishing;
mod place;
mod reading;
mod removal;
mod shared;
#[cfg(test)]
mod shared_tests;
#[cfg(test)]
mod tests;
mod timestamp;
mod verify;
#[cfg(test)]
mod verify_tests;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use stile_domain::journal::JournalLine;
use stile_domain::journal::refusals::{LineAdmission, RefusalMeter};
use stile_domain::journal_chain::JournalChain;
use stile_domain::records::instant::Instant;
use uuid::Uuid;

use anchors::{Anchor, Anchors, FilePhase};
use copying::Copier;
pub use place::JournalPlace;
use reading::{EXTENSION, FILE_LIFE, FOLDER, chained_files, journal_files};
pub use reading::{JournalContents, MergedLines, NewLines, read_all};
pub use removal::RemovedLines;
pub use shared::SharedJournal;
use timestamp::{time_in_name, timestamp};
pub use verify::{FaultKind, JournalFault, Verification, verify_newest};

use crate::now;
use crate::platform;
use crate::state::{StateDir, create_private, make_private_folder, sync_folder};

/// The length of the longest line in bytes, with its newline.
///
/// A path has at most 4,096 bytes and no control character, so JSON at most doubles it (quotes).
/// Subject, token and client come from one token of at most 8 KiB, whose claims are JSON already
/// and at most 6 KiB. The rest is two hashes and a few words. The sum is less than 15 KiB.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// How many bytes are reserved at a time. [`Journal::check_writable`] requires this much, so that
/// concurrent calls have room for their lines too. Most lines have about 400 bytes.
const STEP: u64 = 64 * 1024;

/// The length of a file in bytes after which the next line begins a new one.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// How long after a line its sync begins. The sync itself ends within the same second.
const SYNC_AFTER: Duration = Duration::from_millis(500);

/// The journal of this process, to which it appends lines.
pub struct Journal {
    shared: Arc<Shared>,
    syncer: Option<JoinHandle<()>>,
    copier: Option<JoinHandle<()>>,
}

/// Where a journal is kept, and for how long.
#[derive(Clone, Default)]
pub struct JournalOptions {
    /// How long lines are kept; `None` for ever. Lines are removed a whole file at a time.
    pub keep: Option<Duration>,
    /// The journal of all servers, into which the lines are copied.
    pub shared: Option<SharedJournal>,
}

/// The part of the journal that the syncing thread shares.
struct Shared {
    state_dir: StateDir,
    folder: PathBuf,
    /// How long lines are kept; `None` for ever.
    keep: Option<Duration>,
    /// Creates a file. Tests use a function of their own.
    create: fn(&Path) -> io::Result<File>,
    state: Mutex<State>,
    changed: Condvar,
    /// Whether this process saw that the name of the folder is on the disk.
    is_folder_synced: AtomicBool,
    /// The database of anchors, opened by the first sync.
    anchors: Mutex<Option<Anchors>>,
    /// Wakes the thread that copies lines to the database of all servers.
    copier: Mutex<Option<SyncSender<()>>>,
}

struct State {
    /// The file to write to. `None` before the first line and after a failure.
    current: Option<Current>,
    /// The file that follows the current one, made before it is needed. `None` while the current
    /// one has room.
    next: Option<Current>,
    /// The files with lines that are not synced, each with how far it has come.
    unsynced: Vec<(Arc<File>, Anchor)>,
    /// The files that get no more lines, as far as no anchor says so yet.
    finished: Vec<Anchor>,
    closing: bool,
    /// When the last line was written.
    last: Instant,
    /// How many lines refused calls get.
    refusals: RefusalMeter,
}

/// The file that lines are written to.
struct Current {
    file: Arc<File>,
    path: PathBuf,
    name: String,
    /// When the file was created.
    begun: Instant,
    chain: JournalChain,
    /// The length of the file in bytes.
    written: u64,
    /// The length up to which space is reserved. `None` if the file system cannot reserve.
    reserved: Option<u64>,
}

impl Journal {
    /// Opens the journal of a state folder alone, whose lines are kept for ever. The first line
    /// creates the file.
    pub fn open(state: &StateDir) -> io::Result<Self> {
        Self::open_with(state, JournalOptions::default(), create_private)
    }

    /// Opens the journal of a state folder. Removes files that are too old now and whenever a file
    /// begins; those that are copied to a database, only once they are copied.
    pub fn open_as(state: &StateDir, options: JournalOptions) -> io::Result<Self> {
        Self::open_with(state, options, create_private)
    }

    fn open_with(
        state_dir: &StateDir,
        JournalOptions { keep, shared: shared_journal }: JournalOptions,
        create: fn(&Path) -> io::Result<File>,
    ) -> io::Result<Self> {
        let folder = state_dir.path().join(FOLDER);
        let state = State {
            current: None,
            next: None,
            unsynced: Vec::new(),
            finished: Vec::new(),
            closing: false,
            last: Instant(0),
            refusals: RefusalMeter::default(),
        };
        let shared = Arc::new(Shared {
            state_dir: state_dir.clone(),
            folder,
            keep,
            create,
            state: Mutex::new(state),
            changed: Condvar::new(),
            is_folder_synced: AtomicBool::new(false),
            anchors: Mutex::new(None),
            copier: Mutex::new(None),
        });
        let copier = shared_journal.map(|journal| shared.copy_to(journal)).transpose()?;
        shared.remove_copied_files();
        let syncing = Arc::clone(&shared);
        let syncer = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || syncing.keep_synced())?;
        Ok(Self { shared, syncer: Some(syncer), copier })
    }

    /// Checks that the next lines can be written: the file is where it was, and it has room. After
    /// a failure this function tries again with a new file.
    pub fn check_writable(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        self.shared.prepare(&mut state)?.reserve(STEP).inspect_err(|_| state.current = None)
    }

    /// Writes a line with the present time. Of a caller who is refused very often, only some calls
    /// get a line of their own, and later lines stand for the others ([`RefusalMeter`]).
    ///
    /// # Errors
    /// The error of the file system. A part of the line may then be in the file; readers ignore it.
    pub fn append(&self, line: JournalLine) -> io::Result<()> {
        let mut state = self.shared.lock();
        let now = now();
        for summary in state.refusals.take_due(now) {
            self.shared.write(&mut state, summary)?;
        }
        match state.refusals.admit(&line, now) {
            LineAdmission::Write => self.shared.write(&mut state, line.bounded()),
            LineAdmission::Count => {
                // The thread that syncs writes the line that stands for the call.
                self.shared.changed.notify_one();
                Ok(())
            }
        }
    }

    /// Syncs all lines now. Only a process that is about to end needs to call this function.
    pub fn sync(&self) {
        self.shared.sync();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_one();
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.join();
        }
        self.shared.finish_current();
        self.shared.discard_next();
        // The copier ends after a last look when nobody can wake it any more.
        self.shared.waker().take();
        if let Some(copier) = self.copier.take() {
            let _ = copier.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waker(&self) -> MutexGuard<'_, Option<SyncSender<()>>> {
        self.copier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that copies the lines to the database of all servers.
    fn copy_to(self: &Arc<Self>, journal: SharedJournal) -> io::Result<JoinHandle<()>> {
        let (waker, wake) = copying::wake_up();
        *self.waker() = Some(waker);
        let copier = Copier::new(journal, self.state_dir.clone(), self.keep);
        let shared = Arc::clone(self);
        let run = move || copier.run(&wake, &|| shared.remove_old_files());
        std::thread::Builder::new().name("journal-copy".to_owned()).spawn(run)
    }

    /// Writes a line with the present time.
    fn write(&self, state: &mut State, mut line: JournalLine) -> io::Result<()> {
        // The clock may step back; the lines of a file do not.
        state.last = now().max(state.last);
        line.at = timestamp(state.last);
        let object = serde_json::to_vec(&line)?;
        let current = self.prepare(state)?;
        let (chain, mut bytes) = current.chain.append(&object);
        bytes.push(b'\n');
        if bytes.len() > MAX_LINE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the line is too long"));
        }
        let (file, anchor) = (Arc::clone(&current.file), Anchor::new(&current.name, &chain));
        current.chain = chain;
        current.write(&bytes).inspect_err(|_| state.current = None)?;
        match state.unsynced.iter_mut().find(|(unsynced, _)| Arc::ptr_eq(unsynced, &file)) {
            Some((_, last)) => *last = anchor,
            None => {
                state.unsynced.push((file, anchor));
                self.changed.notify_one();
            }
        }
        Ok(())
    }

    /// Returns the file to write to, after creating it if there is none or if someone deleted it or
    /// moved it away.
    fn prepare<'a>(&self, state: &'a mut State) -> io::Result<&'a mut Current> {
        if state.current.take_if(|current| !leads_to(&current.path, &current.file)).is_some() {
            tracing::warn!(
                target: "stile::journal",
                "the file of the journal is not where it was; the next line begins a new one"
            );
        }
        if let Some(full) = state.current.take_if(|current| current.is_full()) {
            state.finished.push(full.finished());
        }
        let is_there = |next: &Current| leads_to(&next.path, &next.file);
        let current = match state.current.take().or_else(|| state.next.take().filter(is_there)) {
            Some(current) => current,
            None => self.begin()?,
        };
        Ok(state.current.insert(current))
    }

    /// Creates a file and reserves space in it.
    fn begin(&self) -> io::Result<Current> {
        self.make_folder()?;
        let begun = now();
        let (started, process) = (time_in_name(begun), std::process::id());
        let name = format!("{started}-{process}-{}.{EXTENSION}", Uuid::new_v4().simple());
        let path = self.folder.join(&name);
        let chain = JournalChain::of_file(&name);
        // Before the file, so that no kill in between makes the file look as if it had been put
        // there by somebody else.
        self.with_anchors(|anchors| anchors.record(&[Anchor::new(&name, &chain)]));
        let file = Arc::new((self.create)(&path)?);
        // The lock says that the process lives. Where no file can be locked, none is finished.
        let _ = platform::try_lock(&file);
        let mut current = Current { file, path, name, begun, chain, written: 0, reserved: Some(0) };
        // An empty file for each failed attempt would fill the folder.
        match current.reserve(STEP).and_then(|()| sync_folder(&self.folder)) {
            Ok(()) => {
                self.remove_copied_files();
                Ok(current)
            }
            Err(error) => {
                let _ = std::fs::remove_file(&current.path);
                Err(error)
            }
        }
    }

    /// Makes the folder of the files durably, if this process did not before or someone deleted it.
    /// A deleted state folder is not made again.
    fn make_folder(&self) -> io::Result<()> {
        let is_new = match make_private_folder(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            made => made.map(|()| true)?,
        };
        // Another process may have made the folder just now.
        if is_new || !self.is_folder_synced.load(Ordering::Relaxed) {
            sync_folder(self.state_dir.path())?;
            self.is_folder_synced.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes the next file if the current one is nearly full. Its making is synced, and so must not
    /// happen while a line waits.
    fn prepare_next(&self) {
        let is_due = {
            let state = self.lock();
            let is_nearly_full = state.current.as_ref().is_some_and(Current::is_nearly_full);
            is_nearly_full && state.next.is_none() && !state.closing
        };
        // After a failure the line that needs the file tries again, and reports the error.
        if is_due && let Ok(next) = self.begin() {
            self.lock().next = Some(next);
        }
    }

    /// Removes the next file, which no line was written to.
    fn discard_next(&self) {
        let Some(next) = self.lock().next.take() else { return };
        // First, so that no kill in between makes the file look stolen.
        self.with_anchors(|anchors| anchors.retire(&next.name).map(drop));
        let _ = std::fs::remove_file(&next.path);
    }

    /// Ends the current file when the process ends. Its lines are synced.
    fn finish_current(&self) {
        let Some(current) = self.lock().current.take() else { return };
        let finished = current.finished();
        drop(current);
        if finished.lines > 0 {
            self.with_anchors(|anchors| anchors.record(&[finished]));
        }
    }

    fn sync(&self) {
        let (unsynced, mut finished) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.unsynced), std::mem::take(&mut state.finished))
        };
        let mut synced = Vec::new();
        for (file, anchor) in unsynced {
            match file.sync_data() {
                Ok(()) => synced.push(anchor),
                Err(error) => {
                    // The system may have dropped what it could not write, so the file is given up.
                    tracing::error!(kind = ?error.kind(), errno = error.raw_os_error(), "the journal was not synced");
                    self.lock().current.take_if(|current| Arc::ptr_eq(&current.file, &file));
                    finished.retain(|finished| finished.file != anchor.file);
                }
            }
        }
        synced.extend(finished);
        if !synced.is_empty() {
            self.with_anchors(|anchors| anchors.record(&synced));
        }
        if let Some(waker) = &*self.waker() {
            // A copier that was woken already looks at these lines, too.
            let _ = waker.try_send(());
        }
    }

    /// Works with the database of anchors. After a failure the next call opens the database anew,
    /// and no call of an agent fails: the lines themselves are written.
    fn with_anchors(&self, work: impl FnOnce(&mut Anchors) -> rusqlite::Result<()>) {
        let mut open = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        let anchors = match open.take() {
            Some(anchors) => Ok(anchors),
            None => Anchors::open(self.state_dir.path(), || chained_files(&self.state_dir)),
        };
        let worked = anchors.and_then(|mut anchors| work(&mut anchors).map(|()| anchors));
        match worked {
            Ok(anchors) => *open = Some(anchors),
            Err(error) => tracing::warn!(
                target: "stile::journal",
                code = ?error.sqlite_error_code(),
                "the journal was synced, but not anchored"
            ),
        }
    }

    /// Removes old files, unless the copier does that once it has copied them.
    fn remove_copied_files(&self) {
        if self.waker().is_none() {
            self.remove_old_files();
        }
    }

    /// Removes the files that nobody wrote to for as long as lines are kept. Their names say when
    /// they began, and no file may change its name, so nobody makes a file older than it is. A file
    /// that has no anchor stays, since somebody put it there.
    fn remove_old_files(&self) {
        let Some(keep) = self.keep else { return };
        let micros = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        let oldest = time_in_name(Instant(now().0.saturating_sub(micros)));
        let is_old = |path: &PathBuf| {
            let modified = path.metadata().and_then(|metadata| metadata.modified());
            modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > keep))
        };
        for path in journal_files(&self.state_dir).unwrap_or_default() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name >= oldest || !is_old(&path) {
                continue;
            }
            // First, so that no kill in between makes the file look stolen.
            let mut is_known = false;
            self.with_anchors(|anchors| {
                is_known = anchors.retire(&name)?;
                Ok(())
            });
            if is_known {
                let _ = std::fs::remove_file(&path);
            }
        }
    }

    /// Waits until something changed, or until a line is due that stands for counted calls.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(Instant(due)) = state.refusals.next_summary() else {
            return self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let micros = u64::try_from(due.saturating_sub(now().0)).unwrap_or(0);
        let waited = self.changed.wait_timeout(state, Duration::from_micros(micros));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Writes the lines that stand for counted calls: those that are due, and all of them when the
    /// journal closes.
    fn write_summaries(&self, state: &mut State) {
        let lines = match state.closing {
            true => state.refusals.take_all(),
            false => state.refusals.take_due(now()),
        };
        for line in lines {
            if let Err(error) = self.write(state, line) {
                let _ = crate::log_incident("journal", &error);
            }
        }
    }

    /// Syncs after lines were written, until the journal is closed. Sleeps while no line is
    /// written.
    fn keep_synced(&self) {
        let mut state = self.lock();
        let mut are_others_finished = false;
        loop {
            while state.unsynced.is_empty() && !state.closing {
                state = self.wait(state);
                self.write_summaries(&mut state);
            }
            if !state.closing {
                let more =
                    self.changed.wait_timeout_while(state, SYNC_AFTER, |state| !state.closing);
                state = more.unwrap_or_else(PoisonError::into_inner).0;
            }
            let closing = state.closing;
            self.write_summaries(&mut state);
            drop(state);
            self.sync();
            if !std::mem::replace(&mut are_others_finished, true) {
                self.finish_others();
            }
            if closing {
                return;
            }
            self.prepare_next();
            state = self.lock();
        }
    }
}

impl Current {
    /// Returns the anchor of the file once it gets no more lines.
    fn finished(&self) -> Anchor {
        Anchor { phase: FilePhase::Finished, ..Anchor::new(&self.name, &self.chain) }
    }

    /// Returns whether the next line shall begin a new file.
    fn is_full(&self) -> bool {
        self.is_beyond(MAX_FILE_BYTES, FILE_LIFE)
    }

    /// Returns whether the next file shall be made ready.
    fn is_nearly_full(&self) -> bool {
        self.is_beyond(MAX_FILE_BYTES / 4 * 3, FILE_LIFE / 4 * 3)
    }

    fn is_beyond(&self, bytes: u64, life: Duration) -> bool {
        let age = now().0.saturating_sub(self.begun.0);
        self.written >= bytes || i128::from(age) > life.as_micros().cast_signed()
    }

    /// Reserves space for `bytes` more bytes.
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let Some(reserved) = self.reserved else { return Ok(()) };
        if reserved >= self.written + bytes {
            return Ok(());
        }
        self.reserved = reserve_space(&self.file, self.written, bytes + STEP)?
            .then_some(self.written + bytes + STEP);
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let written = loop {
            match (&*self.file).write(line) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => break written?,
            }
        };
        if written < line.len() {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "only a part of the line was written",
            ));
        }
        self.written += line.len() as u64;
        Ok(())
    }
}

impl Drop for Current {
    /// Releases the reserved space, and removes what a failed line left.
    fn drop(&mut self) {
        let _ = self.file.set_len(self.written);
    }
}

/// Reserves space beyond the end of a file. Returns whether the file system can.
#[cfg(target_os = "linux")]
fn reserve_space(file: &File, offset: u64, bytes: u64) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes)) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV | Errno::INVAL | Errno::SPIPE) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve_space(_: &File, _: u64, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// Returns whether the path leads to the open file. `stile journal` would not find a line in a file
/// that was deleted or moved away.
fn leads_to(path: &Path, file: &File) -> bool {
    let found = platform::identity(path);
    found.is_ok_and(|found| platform::identity_of_open(file).is_ok_and(|open| open == found))
}
