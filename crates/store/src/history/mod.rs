//! The history: old versions of the files that calls changed, in the state folder.
//!
//! Before a change is made, `History::keep` stores the version that the change replaces or removes,
//! and a row that says who changes what. Both are durable when the function returns. A version is
//! stored once, compressed, under its hash. `database` has the rows and the small versions,
//! `objects` the large versions as files, `room` makes room before anything is stored, `retention`
//! removes what is too old, and `reading` finds changes and their versions. `beginnings` keeps a
//! first version to which a client only added, before the file that holds it goes. `foresight`
//! decides before the first step of an undo what the undo keeps, its `undo_room`. `file_metadata`
//! is what a removed file had beside its content, `merging` lets one row stand for two changes,
//! `folders` and `folder_before` what a folder had, `change_row` the row of a change, and
//! `stored_version` a compressed version. Several processes use one history at once, by the
//! `settings` that are kept with it. Only those that serve remove what is old.
//!
//! A row is written before its change. If the process dies in between, the row names a change that
//! was never made. Readers tolerate that: the version before the change existed in any case.

mod beginnings;
mod change_query;
mod change_row;
mod database;
mod error;
mod file_metadata;
mod folder_before;
mod folders;
mod foresight;
mod merging;
mod objects;
mod reading;
mod retention;
mod room;
mod settings;
mod stored_version;
#[cfg(test)]
mod tests;
mod undo_room;
mod unfinished_undos;
mod unrecorded;

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};

use rusqlite::Connection;
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{Author, ChangeNumber, PastChangeKind};
use stile_domain::path::SpacePath;

use crate::platform;
use crate::state::{OldSpace, StateDir, folder_identity, make_folder};

pub use change_query::{
    ChangeAuthor, ChangeQuery, ClientChanges, NewestFirst, UnrecordedChanges, UnrecordedName,
};
pub use error::{HistoryError, NoRoom, VersionError};
pub(crate) use file_metadata::{FileMetadata, MetadataOf};
pub(crate) use folder_before::FolderBefore;
pub use settings::{HistoryLimits, HistorySettings, ServerSetting, ServerSettings, UnkeptChange};
pub use undo_room::{ForeseenCopy, ForeseenStep, UndoRoom};

/// The folder of the history in the state folder.
const FOLDER: &str = "history";
/// The name of the folder with displaced files that other programs may still write to.
const HELD: &str = "held";
/// The extension of the locked files that show that a process lives.
const MARKER: &str = "alive";
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

/// Returns whether a living process holds files in a folder of held files.
fn is_served(held: &Path) -> std::io::Result<bool> {
    let entries = match std::fs::read_dir(held) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let is_marker = path.extension().is_some_and(|extension| extension == MARKER);
        if is_marker
            && matches!(platform::try_lock(&File::open(path)?), Err(TryLockError::WouldBlock))
        {
            return Ok(true);
        }
    }
    Ok(false)
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
    /// What a file had beside its content that is removed, or replaced with what another file had.
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
    /// They are the first ones of an open file, so many.
    File(&'a File, u64),
    /// Nothing is stored: the version after the change begins with them.
    WithinAfter,
}

/// Who makes a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CallBy {
    /// A client, which has a share of the history.
    #[default]
    Client,
    /// A command of the owner, which is never refused.
    Owner,
}

/// The call that makes changes. Its number is that of its first change.
#[derive(Debug, Default)]
pub struct Call {
    author: Author,
    by: CallBy,
    number: OnceLock<ChangeNumber>,
    /// The first change that an undo takes back with the next change; 0 for none.
    takes_back: AtomicI64,
    /// The modes of folders that an undo makes.
    folder_modes: Mutex<BTreeMap<SpacePath, u32>>,
    /// What an undo keeps.
    room: Mutex<Option<Arc<UndoRoom>>>,
}

impl Call {
    /// Creates a call that has not changed anything yet.
    pub fn new(author: Author) -> Self {
        Self { author, ..Self::default() }
    }

    /// Creates the call of a command of the owner. The history refuses none of its changes.
    pub fn of_owner(author: Author) -> Self {
        Self { by: CallBy::Owner, ..Self::new(author) }
    }

    /// Whether a command of the owner makes the call.
    pub(crate) fn is_of_owner(&self) -> bool {
        self.by == CallBy::Owner
    }

    /// Returns who makes the call.
    pub fn author(&self) -> &Author {
        &self.author
    }

    /// Says of the changes from now on which change an undo takes back with them first; `None` for
    /// changes that take nothing back.
    pub fn set_takes_back(&self, first: Option<ChangeNumber>) {
        self.takes_back.store(first.map_or(0, |number| number.0), Ordering::Relaxed);
    }

    /// Returns the first change that an undo takes back with the next change.
    pub(crate) fn takes_back(&self) -> Option<ChangeNumber> {
        Some(ChangeNumber(self.takes_back.load(Ordering::Relaxed))).filter(|first| first.0 > 0)
    }

    /// Says which modes folders get that an undo makes.
    pub fn set_folder_modes(&self, modes: BTreeMap<SpacePath, u32>) {
        *self.folder_modes.lock().unwrap_or_else(PoisonError::into_inner) = modes;
    }

    /// Says which mode one folder gets that an undo makes.
    pub(crate) fn set_folder_mode(&self, path: &SpacePath, mode: u32) {
        let mut modes = self.folder_modes.lock().unwrap_or_else(PoisonError::into_inner);
        modes.insert(path.clone(), mode);
    }

    /// Returns the mode of a folder that an undo makes, if it knows one.
    pub(crate) fn folder_mode(&self, path: &SpacePath) -> Option<u32> {
        let modes = self.folder_modes.lock().unwrap_or_else(PoisonError::into_inner);
        modes.get(path).copied()
    }

    /// Says what an undo keeps, by its plan.
    pub fn set_room(&self, room: UndoRoom) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(room));
    }

    /// Returns what an undo keeps, if an undo makes the call.
    fn room(&self) -> Option<Arc<UndoRoom>> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of the first change that the call recorded.
    pub fn number(&self) -> Option<ChangeNumber> {
        self.number.get().copied()
    }
}

/// A change whose version is stored, and which waits for the transaction that records it.
struct Waiting {
    row: change_row::ChangeRow,
    version: Option<stored_version::StoredVersion>,
    /// The first version that the version before begins with, if so far only the file holds it.
    beginning: Option<beginnings::KeptBeginning>,
    /// Why there was no room for the version, or for the one that it begins with.
    lacks: Option<NoRoom>,
    reply: mpsc::Sender<Result<Kept, HistoryError>>,
}

impl Waiting {
    /// Returns the versions that the change stores.
    fn versions(&self) -> impl Iterator<Item = &stored_version::StoredVersion> {
        let beginning = self.beginning.as_ref().map(|beginning| &beginning.version);
        self.version.iter().chain(beginning)
    }
}

/// Returns what was stored, or why there is no room for it.
fn or_no_room<T>(
    stored: Result<T, HistoryError>,
) -> Result<(Option<T>, Option<NoRoom>), HistoryError> {
    match stored {
        Ok(stored) => Ok((Some(stored), None)),
        Err(HistoryError::NoRoom(why)) => Ok((None, Some(why))),
        Err(error) => Err(error),
    }
}

/// The row of a change that is recorded.
#[derive(Clone, Debug)]
pub(crate) enum MadeRow {
    /// The row of a new change.
    New(ChangeNumber),
    /// The row of an earlier change, to which this one was added.
    Merged(merging::RowBefore),
}

/// A change that is recorded.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) made: MadeRow,
    /// Why the history does not have the version before the change; `None` if it has.
    pub(crate) lacks: Option<HistoryError>,
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

    /// Makes the history of an old space the history of the folder `root`, with what was recorded
    /// of that folder already. Does nothing if the old space has no history.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn adopt(state: &StateDir, root: &Path, old: &OldSpace) -> Result<(), HistoryError> {
        Self::adopt_spaces(state, root, &|folder| folder == old.identity)
    }

    /// Makes the history of all spaces of a state folder, which is one person's, the history of the
    /// folder `root`. Does nothing if there is none.
    pub(crate) fn adopt_all(state: &StateDir, root: &Path) -> Result<(), HistoryError> {
        Self::adopt_spaces(state, root, &|_| true)
    }

    fn adopt_spaces(
        state: &StateDir,
        root: &Path,
        is_old: &dyn Fn(&str) -> bool,
    ) -> Result<(), HistoryError> {
        let folder = state.path().join(FOLDER);
        if !folder.join(database::NAME).exists() {
            return Ok(());
        }
        let (mut connection, _) = database::open(&folder)?;
        let path = root.canonicalize()?;
        let identity = folder_identity(&path.metadata()?, &path);
        let held = |space: i64| folder.join(HELD).join(space.to_string());
        let spaces = database::spaces(&connection)?;
        let (own, mut olds): (Vec<_>, Vec<_>) =
            spaces.into_iter().partition(|(_, folder)| *folder == identity);
        olds.retain(|(_, folder)| is_old(folder));
        let Some(((to, _), others)) = olds.split_first() else { return Ok(()) };
        // The row of the folder goes before another one gets its folder.
        let joined: Vec<i64> = own.iter().chain(others).map(|(space, _)| *space).collect();
        for space in joined.iter().chain([to]) {
            if is_served(&held(*space))? {
                return Err(HistoryError::InUse);
            }
        }
        database::adopt(&mut connection, (*to, &joined), (&identity, &path.to_string_lossy()))?;
        // What a killed server of the folder held is found under the number that counts now.
        for from in joined.into_iter().filter(|from| held(*from).exists()) {
            make_folder(&held(*to))?;
            for entry in std::fs::read_dir(held(from))? {
                let entry = entry?;
                std::fs::rename(entry.path(), held(*to).join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    /// Returns what the folders of the spaces of a state folder are recognised by. Makes no
    /// history.
    pub(crate) fn folders(state: &Path) -> Result<Vec<String>, HistoryError> {
        let folder = state.join(FOLDER);
        if !folder.join(database::NAME).exists() {
            return Ok(Vec::new());
        }
        let (connection, _) = database::open(&folder)?;
        Ok(database::spaces(&connection)?.into_iter().map(|(_, folder)| folder).collect())
    }

    /// Returns the settings that held when this process opened the history.
    pub fn settings(&self) -> HistorySettings {
        self.settings
    }

    /// Returns what happens to a change of a call whose old version cannot be kept.
    pub(crate) fn unkept(&self, call: &Call) -> UnkeptChange {
        match call.by {
            CallBy::Client => self.settings.unkept,
            CallBy::Owner => UnkeptChange::GoesOn,
        }
    }

    /// Returns the folder for displaced files of this space that other programs may still write to.
    pub(crate) fn held_folder(&self) -> PathBuf {
        self.folder.join(HELD).join(self.space.to_string())
    }

    /// Stores the version before a change, and records the change. Both are durable afterwards. A
    /// change is recorded without its version if there is no room for that and it may go on.
    pub(crate) fn keep(
        &self,
        change: &NewChange<'_>,
        source: VersionSource<'_>,
    ) -> Result<Kept, HistoryError> {
        let waits = self.store_and_wait(change, source)?;
        self.record_waiting(change.call, &waits)
    }

    /// Keeps changes of one call as [`History::keep`] keeps one, with one transaction for all that
    /// follow the first, which gives the call its number. Returns what became of each.
    pub(crate) fn keep_all(
        &self,
        call: &Call,
        changes: &[(NewChange<'_>, VersionSource<'_>)],
    ) -> Vec<Result<Kept, HistoryError>> {
        let mut changes = changes.iter();
        let mut kept = Vec::new();
        while call.number().is_none()
            && let Some((change, source)) = changes.next()
        {
            kept.push(self.keep(change, *source));
        }
        let waits: Vec<_> =
            changes.map(|(change, source)| self.store_and_wait(change, *source)).collect();
        kept.extend(waits.into_iter().map(|waits| self.record_waiting(call, &waits?)));
        kept
    }

    /// Stores the version before a change, and lets the change wait for the next transaction.
    fn store_and_wait(
        &self,
        change: &NewChange<'_>,
        source: VersionSource<'_>,
    ) -> Result<mpsc::Receiver<Result<Kept, HistoryError>>, HistoryError> {
        let row = change_row::ChangeRow::new(self.space, change);
        let (beginning, lacks) = or_no_room(self.store_beginning(&row, source))?;
        let stored = change.before.map(|hash| self.store_version(&row, hash, source));
        let (version, lacks) = match or_no_room(stored.transpose())? {
            (version, None) => (version.flatten().flatten(), lacks),
            (_, why) => (None, why),
        };
        let (reply, replied) = mpsc::channel();
        self.waiting().push(Waiting { row, version, beginning: beginning.flatten(), lacks, reply });
        Ok(replied)
    }

    /// Records all changes that wait, unless somebody else recorded this one already.
    fn record_waiting(
        &self,
        call: &Call,
        replied: &mpsc::Receiver<Result<Kept, HistoryError>>,
    ) -> Result<Kept, HistoryError> {
        let limits = (self.most_bytes(), self.settings.unkept);
        // Whoever gets the connection records all that wait, with one sync.
        let mut connection = self.connection();
        let recorded = match replied.try_recv() {
            Ok(recorded) => recorded,
            Err(_) => {
                let waiting = std::mem::take(&mut *self.waiting());
                let gone = database::record(&mut connection, &waiting, limits);
                self.remove_objects(gone);
                waiting.iter().flat_map(Waiting::versions).for_each(|version| {
                    self.drop_unused(version);
                });
                replied.try_recv().unwrap_or(Err(HistoryError::Stopped))
            }
        };
        drop(connection);
        let kept = recorded?;
        if let Some(number) = kept.made.number() {
            let _ = call.number.set(number);
        }
        self.since_prune.fetch_add(1, Ordering::Relaxed);
        Ok(kept)
    }

    /// Forgets changes that were recorded and then not made.
    pub(crate) fn forget(&self, rows: &[MadeRow]) {
        let numbers: Vec<i64> = rows.iter().filter_map(|row| row.number()).map(|it| it.0).collect();
        let forgotten = self.take_apart(rows).and_then(|()| self.remove_changes(&numbers));
        if let Err(error) = forgotten {
            tracing::warn!(%error, "a change that was not made stays in the history");
        }
    }

    /// Forgets that a call made folders, which are gone again or were made by somebody else.
    pub(crate) fn forget_made_folders(&self, call: &Call, made: &[SpacePath]) {
        let Some(ChangeNumber(call)) = call.number() else { return };
        if let Err(error) = self.made_folders(call, made).and_then(|it| self.remove_changes(&it)) {
            tracing::warn!(%error, "a folder that was not made stays in the history");
        }
    }

    fn made_folders(&self, call: i64, made: &[SpacePath]) -> Result<Vec<i64>, HistoryError> {
        let connection = self.relaxed();
        let mut query = connection.prepare_cached(
            "SELECT max(number) FROM changes WHERE space = ?1 AND path = ?2 AND call = ?3 \
             AND kind = 'folder_created'",
        )?;
        let mut numbers = Vec::new();
        for path in made {
            let values = rusqlite::params![self.space, path.as_str(), call];
            numbers.extend(query.query_row(values, |row| row.get::<_, Option<i64>>(0))?);
        }
        Ok(numbers)
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

    /// Removes the oldest changes if this process serves, and many were recorded since this was
    /// last done. Runs on a thread that no call waits for.
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
