//! The file space beneath one directory handle.
//!
//! A [`Space`] is asked with permits and answers or refuses; each of its functions is asynchronous
//! outside and plain blocking code inside. `os` is the only room that makes system calls, `lock`
//! says who may change a folder now, `write` is compare-and-swap, `keeper` holds what was
//! displaced, `clean` is the start after a kill, `read` the bounded windows, `names` what our own
//! files are called.

mod clean;
mod fault;
mod keeper;
mod list;
mod lock;
mod names;
mod os;
mod read;
mod write;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::edit::EditError;
use stile_domain::error::Refusal;
use stile_domain::facts::{FactsCache, FileStamp};
use stile_domain::file_cursor::FileCursor;
use stile_domain::hash::ContentHash;
use stile_domain::limits::FileLimits;
use stile_domain::line_search::LineQuery;
use stile_domain::lines::{LineRange, ResolvedLines};
use stile_domain::listing::{ListPage, ListPosition};
use stile_domain::path::SpacePath;
use stile_domain::permit::{Edit, List, Permit, Read};

pub use keeper::SpaceEvents;
use os::Identity;

/// Bytes of facts about files that are kept in memory.
const MEMORY_BYTES: usize = 16 * 1024 * 1024;
/// Large files that are hashed for the first time, or edited, at once.
const LARGE_AT_ONCE: usize = 2;
/// Own writes that are remembered, so that they need not settle before they are read.
const OWN_WRITES: usize = 1024;

/// A folder that agents are let into. Cheap to clone.
#[derive(Clone)]
pub struct Space(Arc<Inner>);

/// How a space is to be kept.
#[derive(Clone)]
pub struct SpaceOptions {
    /// Ceilings.
    pub limits: FileLimits,
    /// How long a change waits for others before it is refused as busy.
    pub lock_wait: Duration,
    /// Where to say what no call asked for, such as a conflict copy.
    pub events: SpaceEvents,
}

/// The root could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("the space cannot be opened: {0}")]
pub struct OpenError(#[from] io::Error);

struct Inner {
    root: OwnedFd,
    options: SpaceOptions,
    /// Whether the file system has advisory locks on folders; without them nothing is changed.
    can_lock: bool,
    /// Whether it can exchange two names in one step.
    can_exchange: bool,
    folders: Arc<lock::Folders>,
    keeper: Arc<keeper::Keeper>,
    memory: Mutex<FactsCache>,
    own: Mutex<VecDeque<FileStamp>>,
    first_reads: lock::Turnstile,
    large_edits: lock::Turnstile,
}

/// Where a read begins.
#[derive(Clone, Debug)]
pub enum WindowStart {
    /// At the first line of a range.
    Range(LineRange),
    /// At the first line of a range that contains a text.
    Match {
        /// The range.
        range: LineRange,
        /// The text.
        query: LineQuery,
    },
    /// Where an earlier read stopped.
    Cursor(FileCursor),
}

/// Lines of a text file, bounded.
#[derive(Clone, Debug)]
pub struct FileWindow {
    /// The lines, as stored.
    pub content: String,
    /// Of the whole file.
    pub hash: ContentHash,
    /// Of the whole file.
    pub total_lines: u64,
    /// Which lines `content` touches.
    pub lines: ResolvedLines,
    /// The line that contains the query.
    pub match_line: Option<u64>,
    /// How the range goes on.
    pub next: Option<WindowCursor>,
}

/// How a bounded read goes on.
#[derive(Clone, Copy, Debug)]
pub struct WindowCursor {
    /// Exactly where it stopped.
    pub cursor: FileCursor,
    /// Whether that is inside a line.
    pub is_inside_line: bool,
}

/// A file that was made.
#[derive(Clone, Copy, Debug)]
pub struct CreatedFile {
    /// Of its bytes.
    pub hash: ContentHash,
    /// Its size.
    pub size_bytes: u64,
    /// Absent where it is not text.
    pub total_lines: Option<u64>,
}

/// A file that was changed.
#[derive(Clone, Copy, Debug)]
pub struct EditedFile {
    /// Of its new bytes.
    pub hash: ContentHash,
    /// Of its new text.
    pub total_lines: u64,
}

impl Space {
    /// Opens a folder of the machine, by the authority of whoever started the program, and cleans
    /// up after processes that were killed. Also answers what the person who started it should
    /// know.
    ///
    /// # Errors
    /// [`OpenError`] where the folder cannot be opened.
    pub fn open_ambient(
        root: &Path,
        options: SpaceOptions,
    ) -> Result<(Self, Vec<String>), OpenError> {
        let root = os::open_root(root)?;
        let folders = Arc::new(lock::Folders::default());
        let mut notices = Vec::new();
        let abilities = probe(&root);
        if !abilities.lock {
            notices.push(
                "this file system has no advisory locks on folders: every change will be refused"
                    .to_owned(),
            );
        } else {
            clean::clean(&root, &folders, &options.events);
        }
        if abilities.exchange == Some(false) {
            notices.push(
                "this file system cannot exchange two files in one step: while a file is changed its name is absent \
                 for an instant"
                    .to_owned(),
            );
        }
        Ok((Self::of(root, folders, abilities, options), notices))
    }

    /// Opens a folder of the machine to read in it, by the authority of whoever started the
    /// program. Nothing is tried or cleaned up in it, so nothing is written, and every change is
    /// refused.
    ///
    /// # Errors
    /// [`OpenError`] where the folder cannot be opened.
    pub fn open_ambient_to_read(root: &Path, options: SpaceOptions) -> Result<Self, OpenError> {
        let abilities = Abilities { lock: false, exchange: None };
        Ok(Self::of(os::open_root(root)?, Arc::default(), abilities, options))
    }

    fn of(
        root: OwnedFd,
        folders: Arc<lock::Folders>,
        abilities: Abilities,
        options: SpaceOptions,
    ) -> Self {
        let inner = Inner {
            root,
            can_lock: abilities.lock,
            can_exchange: abilities.exchange.unwrap_or(true),
            folders,
            keeper: keeper::Keeper::new(Arc::clone(&options.events)),
            memory: Mutex::new(FactsCache::new(MEMORY_BYTES)),
            own: Mutex::default(),
            first_reads: lock::Turnstile::new(LARGE_AT_ONCE),
            large_edits: lock::Turnstile::new(LARGE_AT_ONCE),
            options,
        };
        Self(Arc::new(inner))
    }

    /// Reads lines of a text file.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn read(
        &self,
        permit: Permit<Read>,
        from: WindowStart,
    ) -> Result<FileWindow, Refusal> {
        self.run(move |inner| inner.read(permit.path(), &from)).await
    }

    /// Opens a text file of at most `most` bytes once, reads it whole, and answers what `derive`
    /// makes of its text. The text goes no further, and nothing of it is remembered.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn derive<T: Send + 'static>(
        &self,
        permit: Permit<Read>,
        most: u64,
        derive: impl FnOnce(&str) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.run(move |inner| inner.whole(permit.path(), most).map(|text| derive(&text))).await
    }

    /// Lists a page of a directory, of what the permit's caller may see.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn list(
        &self,
        permit: Permit<List>,
        after: Option<ListPosition>,
    ) -> Result<ListPage, Refusal> {
        self.run(move |inner| inner.list(&permit, after.as_ref())).await
    }

    /// Makes a file that was not there.
    ///
    /// # Errors
    /// [`Refusal`]; nothing is then made.
    pub async fn create(
        &self,
        permit: Permit<Edit>,
        bytes: Vec<u8>,
    ) -> Result<CreatedFile, Refusal> {
        self.run(move |inner| inner.create(permit.path(), &bytes)).await
    }

    /// Removes a file that still is the version `base`.
    ///
    /// # Errors
    /// [`Refusal`]; the file is then as it was.
    pub async fn remove(&self, permit: Permit<Edit>, base: ContentHash) -> Result<(), Refusal> {
        self.run(move |inner| inner.remove(permit.path(), base)).await
    }

    /// Makes of a text file that still is the version `base` what `plan` makes of its text.
    /// `arguments` are the caller's names for the range and the text that the plan may find fault
    /// with.
    ///
    /// # Errors
    /// [`Refusal`]; the file is then as it was.
    pub async fn edit(
        &self,
        permit: Permit<Edit>,
        base: ContentHash,
        arguments: [&'static str; 2],
        plan: impl FnOnce(&str) -> Result<String, EditError> + Send + 'static,
    ) -> Result<EditedFile, Refusal> {
        self.run(move |inner| inner.edit(permit.path(), base, arguments, Box::new(plan))).await
    }

    /// Lets go of everything that is still kept; takes a second at most where anything is.
    pub async fn close(&self) {
        let inner = Arc::clone(&self.0);
        let _ = tokio::task::spawn_blocking(move || inner.keeper.close()).await;
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let inner = Arc::clone(&self.0);
        match tokio::task::spawn_blocking(move || work(&inner)).await {
            Ok(done) => done,
            Err(error) => Err(crate::incident("space", &error.into())),
        }
    }
}

impl Inner {
    fn memory(&self) -> MutexGuard<'_, FactsCache> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the state in which a write of ours left a file.
    fn remember_own(&self, identity: Identity, file: &File) {
        let Ok(status) = os::look(file) else { return };
        if status.identity() == identity {
            let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            if own.len() == OWN_WRITES {
                own.pop_front();
            }
            own.push_back(status.stamp);
        }
    }

    /// Whether a write of ours left a file in exactly this state.
    fn is_own(&self, stamp: &FileStamp) -> bool {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().any(|own| own == stamp)
    }
}

/// What the file system of a space can do.
struct Abilities {
    lock: bool,
    /// `None` where it could not be tried, as in a folder that may not be written.
    exchange: Option<bool>,
}

/// How long a start waits for the root's lock before it tries the exchange without it.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);

/// Tries locks and the exchange, in the root, with two empty files that the cleaner would know.
///
/// Under the lock, because the cleaner of another process that starts now would rightly take them
/// for a dead one's. That they are gone nevertheless says nothing about the file system.
fn probe(root: &OwnedFd) -> Abilities {
    let locked = lock::await_lock(root, Instant::now() + PROBE_PATIENCE);
    let owner = names::Owner::new(uuid::Uuid::new_v4().as_u64_pair().0, 0);
    let empty = ContentHash::digest(b"");
    let name = |sequence| {
        names::Name::new(&owner, sequence, names::Deed::Create, None, Some(&empty), "probe")
            .to_string()
    };
    let (one, other) = (name(0), name(1));
    let made = os::make_file(root, &one, os::NEW_FILE)
        .and_then(|_| os::make_file(root, &other, os::NEW_FILE));
    let exchange = match made.and_then(|_| os::exchange(root, &one, &other)) {
        Ok(()) => Some(true),
        Err(error) if os::is_unsupported(&error) => Some(false),
        Err(_) => None,
    };
    for name in [one, other] {
        let _ = os::unlink(root, &name);
    }
    if locked.is_ok() {
        os::unlock(root);
    }
    Abilities { lock: !matches!(locked, Err(lock::LockError::Io(_))), exchange }
}

/// Tells a caller what an error of the system means for the file it named.
fn refusal(error: &io::Error, path: &SpacePath) -> Refusal {
    use rustix::io::Errno;
    let path = path.clone();
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::STALE | Errno::NAMETOOLONG) => Refusal::not_found(&path),
        Some(Errno::NOTDIR) => Refusal::NotADirectory { path },
        Some(Errno::LOOP) => Refusal::SymlinkRefused { path },
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Refusal::NotPermitted { path },
        Some(Errno::NXIO | Errno::NODEV | Errno::ISDIR) => Refusal::not_a_file(&path),
        Some(Errno::NOSPC | Errno::DQUOT) => Refusal::NoSpace { path },
        Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::TXTBSY | Errno::BUSY) => {
            Refusal::Busy { path }
        }
        _ => crate::incident("file", error),
    }
}
