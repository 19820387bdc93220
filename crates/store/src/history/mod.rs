//! The history: old versions of the files that calls changed, in the state folder.
//!
//! Before a change is made, `History::keep` stores the version that the change replaces or removes,
//! and a row that says who changes what. Both are durable when the function returns. A version is
//! stored once, compressed, under its hash. `database` has the rows and the small versions,
//! `objects` the large versions as files, `retention` removes the oldest, and `reading` finds
//! changes and their versions. `file_metadata` is what a removed file had beside its content.
//! Several processes use one history at once, by the `settings` that are kept with it. Only those
//! that serve remove what is old.
//!
//! A row is written before its change. If the process dies in between, the row names a change that
//! was never made. Readers tolerate that: the version before the change existed in any case.

mod change_query;
mod database;
mod error;
mod file_metadata;
mod objects;
mod reading;
mod retention;
mod settings;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};

use rusqlite::Connection;
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{Author, ChangeNumber, PastChangeKind};
use stile_domain::path::SpacePath;

use crate::state::{StateDir, folder_identity, make_folder};

pub use change_query::{ChangeQuery, NewestFirst};
pub use error::{HistoryError, VersionError};
pub(crate) use file_metadata::FileMetadata;
pub use settings::{HistoryLimits, HistorySettings, ServerSetting, ServerSettings, UnkeptChange};

/// The folder of the history in the state folder.
const FOLDER: &str = "history";
/// The name of the folder with displaced files that other programs may still write to.
const HELD: &str = "held";
/// After this many changes the oldest are removed again, if there are too many.
const CHANGES_BETWEEN_PRUNES: u64 = 256;

/// What a process does with the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It serves, and removes what is old.
    Serves,
    /// It runs a command of the owner, and removes nothing.
    RunsCommand,
}

/// The history of one space. All clones of its `Arc` are the same.
pub struct History {
    folder: PathBuf,
    space: i64,
    settings: HistorySettings,
    role: Role,
    /// Writes durably.
    connection: Mutex<Connection>,
    /// Writes what may be lost in a power cut, and reads.
    relaxed: Mutex<Connection>,
    /// Changes that the next transaction records.
    waiting: Mutex<Vec<Waiting>>,
    since_prune: AtomicU64,
}

/// A change that is about to be made.
pub(crate) struct NewChange<'a> {
    pub(crate) kind: PastChangeKind,
    pub(crate) path: &'a SpacePath,
    pub(crate) to: Option<&'a SpacePath>,
    pub(crate) before: Option<ContentHash>,
    pub(crate) size_before: u64,
    pub(crate) after: Option<ContentHash>,
    /// What a removed file had beside its content.
    pub(crate) metadata: Option<&'a FileMetadata>,
    /// The name that the displaced file gets, under which a start finds its path again.
    pub(crate) held: Option<&'a str>,
    pub(crate) call: &'a Call,
}

/// Where the bytes of a version come from.
#[derive(Clone, Copy)]
pub(crate) enum VersionSource<'a> {
    /// They are in memory.
    Bytes(&'a [u8]),
    /// They are in an open file with this many bytes.
    File(&'a File, u64),
    /// Nothing is stored: the version after the change begins with them.
    WithinAfter,
}

/// The call that makes changes. Its number is that of its first change.
#[derive(Debug, Default)]
pub struct Call {
    author: Author,
    number: OnceLock<ChangeNumber>,
}

impl Call {
    /// Creates a call that has not changed anything yet.
    pub fn new(author: Author) -> Self {
        Self { author, number: OnceLock::new() }
    }

    /// Returns who makes the call.
    pub fn author(&self) -> &Author {
        &self.author
    }

    /// Returns the number of the first change that the call recorded.
    pub fn number(&self) -> Option<ChangeNumber> {
        self.number.get().copied()
    }
}

/// A change whose version is stored, and which waits for the transaction that records it.
struct Waiting {
    row: database::ChangeRow,
    version: Option<objects::StoredVersion>,
    reply: mpsc::Sender<Result<i64, HistoryError>>,
}

impl History {
    /// Opens the history of the space in `root` for a command of the owner, and makes it on first
    /// use. `otherwise` counts for settings that no server stored. Removes nothing.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn open(
        state: &StateDir,
        root: &Path,
        otherwise: HistorySettings,
    ) -> Result<Self, HistoryError> {
        Self::open_as(Role::RunsCommand, state, root, |connection| {
            Ok(settings::load(connection, &otherwise)?)
        })
    }

    /// Opens the history of the space in `root` for a server, and makes it on first use. Stores the
    /// settings, and removes what is too old by them.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn open_to_serve(
        state: &StateDir,
        root: &Path,
        server: &ServerSettings,
    ) -> Result<Self, HistoryError> {
        let history = Self::open_as(Role::Serves, state, root, |connection| {
            settings::store(connection, server)
        })?;
        history.remove_orphans()?;
        history.prune()?;
        Ok(history)
    }

    fn open_as(
        role: Role,
        state: &StateDir,
        root: &Path,
        settings: impl FnOnce(&mut Connection) -> Result<HistorySettings, HistoryError>,
    ) -> Result<Self, HistoryError> {
        let folder = state.path().join(FOLDER);
        make_folder(&folder)?;
        let (mut connection, relaxed) = database::open(&folder)?;
        let path = root.canonicalize()?;
        let identity = folder_identity(&path.metadata()?, &path);
        let history = Self {
            space: database::space(&mut connection, &identity, &path.to_string_lossy())?,
            settings: settings(&mut connection)?,
            role,
            connection: Mutex::new(connection),
            relaxed: Mutex::new(relaxed),
            waiting: Mutex::default(),
            since_prune: AtomicU64::new(0),
            folder,
        };
        make_folder(&history.held_folder())?;
        make_folder(&history.objects())?;
        Ok(history)
    }

    /// Returns the settings that held when this process opened the history.
    pub fn settings(&self) -> HistorySettings {
        self.settings
    }

    /// Returns whether a change goes on whose old version cannot be kept.
    pub(crate) fn unkept(&self) -> UnkeptChange {
        self.settings.unkept
    }

    /// Returns the folder for displaced files of this space that other programs may still write to.
    pub(crate) fn held_folder(&self) -> PathBuf {
        self.folder.join(HELD).join(self.space.to_string())
    }

    /// Stores the version before a change, and records the change. Both are durable afterwards.
    /// `bytes` are the version; `None` if the change leaves it within the version after.
    pub(crate) fn keep(
        &self,
        change: &NewChange<'_>,
        source: VersionSource<'_>,
    ) -> Result<ChangeNumber, HistoryError> {
        let version = match change.before {
            Some(hash) => self.store_version(hash, source)?,
            None => None,
        };
        let row = database::ChangeRow::new(self.space, change);
        let (reply, replied) = mpsc::channel();
        self.waiting().push(Waiting { row, version, reply });
        // Whoever gets the connection records all that wait, with one sync.
        let mut connection = self.connection();
        let recorded = match replied.try_recv() {
            Ok(recorded) => recorded,
            Err(_) => {
                let waiting = std::mem::take(&mut *self.waiting());
                database::record(&mut connection, &waiting);
                waiting.iter().filter_map(|change| change.version.as_ref()).for_each(|version| {
                    self.drop_unused(version);
                });
                replied.try_recv().unwrap_or(Err(HistoryError::Stopped))
            }
        };
        drop(connection);
        let number = ChangeNumber(recorded?);
        let _ = change.call.number.set(number);
        self.since_prune.fetch_add(1, Ordering::Relaxed);
        Ok(number)
    }

    /// Forgets a change that was recorded and then not made.
    pub(crate) fn forget(&self, number: ChangeNumber) {
        if let Err(error) = self.remove_changes(&[number.0]) {
            tracing::warn!(%error, "a change that was not made stays in the history");
        }
    }

    /// Returns the path of the file that a held file was displaced from.
    pub(crate) fn held_path(&self, name: &str) -> Option<SpacePath> {
        let text: String = self
            .relaxed()
            .query_row("SELECT path FROM held WHERE name = ?1", [name], |row| row.get(0))
            .ok()?;
        SpacePath::parse(&text).ok()
    }

    /// Forgets a held file, which is not held any more.
    pub(crate) fn release(&self, name: &str) {
        let _ = self.relaxed().execute("DELETE FROM held WHERE name = ?1", [name]);
    }

    /// Removes the oldest changes if this process serves, and many were recorded since this was last
    /// done. Runs on a thread that no call waits for.
    pub(crate) fn prune_if_due(&self) {
        let is_due = self.since_prune.load(Ordering::Relaxed) >= CHANGES_BETWEEN_PRUNES;
        if self.role != Role::Serves || !is_due {
            return;
        }
        self.since_prune.store(0, Ordering::Relaxed);
        if let Err(error) = self.prune() {
            tracing::warn!(%error, "old changes could not be removed from the history");
        }
    }

    /// Makes every later change of the history fail.
    #[cfg(test)]
    pub(crate) fn break_for_test(&self) {
        self.connection().execute_batch("DROP TABLE changes").unwrap();
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn relaxed(&self) -> MutexGuard<'_, Connection> {
        self.relaxed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
