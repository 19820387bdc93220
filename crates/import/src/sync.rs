//! Keeps the records of one stream in step with a folder of notes.
//!
//! After a sync, the records are those that an import of the folder into an empty stream gives: new
//! and changed notes are stored, and the record of a note that is not there any more is removed. A
//! renamed note is one of each. A record is removed only if its note is certainly gone. A folder or
//! a note that is there but cannot be read keeps its records, and so does a folder that was
//! unmounted. A first sync that would leave none of the stored records changes nothing, unless the
//! owner allows it.

mod known_notes;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stile_domain::facts::FileStamp;
use stile_domain::path::SpacePath;
use stile_domain::permit::Principal;
use stile_domain::records::authority::OwnerPermit;
use stile_domain::records::declaration::Semantics;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_records::RecordService;
use stile_records::declarations::{describe_primary_key, parse_stored};
use stile_store::space::Space;
use stile_store::space::note_folder::{FolderNotes, NoteFolder, NoteWatch};

use crate::importer::ImportTarget;
use crate::importers::markdown::{self, ABSENT, UNREADABLE, relative};
use crate::input::{ImportInput, SelectedNotes};
use crate::reading::ReadingOptions;
use crate::report::{BadRow, BadRowPolicy, ImportError, ImportReport, OnProgress};
use crate::run::Import;
use crate::transaction;
use known_notes::{Findings, Folders, KnownNotes, Look};

/// How many names of notes a report lists. All are counted.
pub const NOTES_LISTED: usize = 20;
/// How many keys of stored records are read at once.
const PAGE_ROWS: usize = 1024;
/// The most records that one transaction removes.
const REMOVED_AT_ONCE: usize = 1024;

/// What a first sync does if none of the stored records has a note in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalGuard {
    /// It changes nothing. The folder may be the wrong one, or empty because a disk is not mounted.
    RefuseToRemoveAll,
    /// It removes them all.
    RemoveAll,
}

/// What a sync did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// What was stored. The rows are the notes that were read.
    pub import: ImportReport,
    /// How many records were removed.
    pub removed: u64,
    /// The first [`NOTES_LISTED`] notes whose records were removed.
    pub removed_notes: Vec<String>,
    /// The first [`NOTES_LISTED`] notes that were read.
    pub read_notes: Vec<String>,
    /// The folders that could not be listed, as a person reads them, and why.
    pub unread_folders: Vec<(String, String)>,
    /// How many entries of the folders have a name that no path can have.
    pub unnameable: u64,
}

impl SyncReport {
    /// Returns whether the sync changed a record.
    pub fn has_changes(&self) -> bool {
        let ImportReport { added, changed, .. } = self.import;
        added + changed + self.removed > 0
    }

    /// Describes what could not be read or stored, one sentence for each.
    pub fn problems(&self) -> Vec<String> {
        let bad = self
            .import
            .bad
            .iter()
            .map(|BadRow { file, reason, code, .. }| format!("{file}: {reason} ({code})"));
        let unread = self.unread_folders.iter().map(|(folder, reason)| {
            format!("{folder}: {reason}; the records of the notes below it stay as they are")
        });
        let unnameable = (self.unnameable > 0).then(|| {
            format!(
                "{} names are not UTF-8, or have a backslash or a control character, and are left \
                 out",
                self.unnameable
            )
        });
        bad.chain(unread).chain(unnameable).collect()
    }
}

/// Why a sync stopped.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The database failed, or the caller is not the owner.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// The records have another key than the path of a note.
    #[error(
        "the key of this stream is {declared}, but only records whose key is `path` can be kept in \
         step with a folder; import into another stream. Nothing was changed"
    )]
    OtherKey {
        /// The key of the stream, in words.
        declared: String,
    },
    /// The stream keeps the first version of each record.
    #[error(
        "this stream is declared as append-only, so its records cannot follow the notes; import \
         into another stream. Nothing was changed"
    )]
    AppendOnly,
    /// The folder cannot be read, or another one is in its place.
    #[error("the folder cannot be read: {0}. Nothing was changed")]
    Folder(io::Error),
    /// See [`RemovalGuard::RefuseToRemoveAll`].
    #[error(
        "none of the {stored} stored records has a note in this folder, so all would be removed; \
         is it the right folder, and is its disk mounted? Nothing was changed. To remove them all, \
         add --remove-all to `stile import --sync`"
    )]
    WouldRemoveAll {
        /// How many records the stream has.
        stored: usize,
    },
    /// Storing the notes failed. No record was removed.
    #[error("{0}. No record was removed")]
    Import(ImportError),
    /// The sync was asked to stop.
    #[error("the sync was stopped; the next one goes on")]
    Stopped,
}

/// The records of one stream, which follow the notes of one folder.
pub struct NoteSync {
    services: RecordService,
    caller: Principal,
    target: ImportTarget,
    folder: NoteFolder,
    watch: Option<Arc<NoteWatch>>,
    known: KnownNotes,
    /// Keys of records that no note of a folder can have.
    foreign: Vec<String>,
    should_stop: Arc<AtomicBool>,
}

impl NoteSync {
    /// Begins with what is stored. Blocks.
    ///
    /// # Errors
    /// [`SyncError`], if the caller is not the owner or the stream cannot follow a folder.
    pub fn open(
        services: RecordService,
        caller: Principal,
        target: ImportTarget,
        space: &Space,
    ) -> Result<Self, SyncError> {
        let folder = space.note_folder(&caller.gate().owner()?);
        let folder = folder.map_err(|refusal| SyncError::Folder(io::Error::other(refusal)))?;
        let mut sync = Self {
            services,
            caller,
            target,
            folder,
            watch: None,
            known: KnownNotes::default(),
            foreign: Vec::new(),
            should_stop: Arc::default(),
        };
        sync.load_stored()?;
        Ok(sync)
    }

    /// Watches the folder from now on. The watch says which folders the next sync is to look at.
    pub fn watch(&mut self) -> Arc<NoteWatch> {
        let watch = Arc::new(self.folder.watch());
        self.watch = Some(Arc::clone(&watch));
        watch
    }

    /// Returns what makes a sync stop after the note that it reads, once it is `true`.
    pub fn should_stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.should_stop)
    }

    /// Syncs for the first time: reads every note. Blocks.
    ///
    /// # Errors
    /// [`SyncError`]; what was stored before the error stays.
    pub fn sync_first(
        &mut self,
        guard: RemovalGuard,
        now: Instant,
        on_progress: OnProgress<'_>,
    ) -> Result<SyncReport, SyncError> {
        self.sync(&Look::Whole, guard, now, on_progress)
    }

    /// Looks at the whole folder again, and reads the notes whose files changed. Blocks.
    ///
    /// # Errors
    /// As [`NoteSync::sync_first`].
    pub fn sync_again(&mut self, now: Instant) -> Result<SyncReport, SyncError> {
        self.sync(&Look::Whole, RemovalGuard::RemoveAll, now, &mut |_| ())
    }

    /// Looks at some folders, and reads the notes in them whose files changed. Blocks.
    ///
    /// # Errors
    /// As [`NoteSync::sync_first`].
    pub fn sync_folders(
        &mut self,
        folders: BTreeSet<SpacePath>,
        now: Instant,
    ) -> Result<SyncReport, SyncError> {
        self.sync(&Look::Folders(folders), RemovalGuard::RemoveAll, now, &mut |_| ())
    }

    fn sync(
        &mut self,
        look: &Look,
        guard: RemovalGuard,
        now: Instant,
        on_progress: OnProgress<'_>,
    ) -> Result<SyncReport, SyncError> {
        self.folder.check().map_err(SyncError::Folder)?;
        let folders = WatchedFolders { folder: &self.folder, watch: self.watch.as_deref() };
        let Findings { changed, mut missing, unread, unnameable } = self.known.look(look, &folders);
        let mut report = SyncReport { unnameable, ..SyncReport::default() };
        for (folder, error) in unread {
            if folder.is_root() {
                return Err(SyncError::Folder(error));
            }
            report.unread_folders.push((relative(&folder).to_owned(), error.to_string()));
        }
        let stored = self.known.len() + self.foreign.len();
        missing.append(&mut self.foreign.clone());
        if guard == RemovalGuard::RefuseToRemoveAll && stored > 0 && missing.len() == stored {
            return Err(SyncError::WouldRemoveAll { stored });
        }
        let unstored = self.store(changed, now, &mut report, on_progress)?;
        missing.extend(unstored.absent);
        // A folder that was unmounted meanwhile looks like one whose notes are gone.
        self.folder.check().map_err(SyncError::Folder)?;
        missing.retain(|key| match note_of(key) {
            Some(note) => self.folder.is_gone(&note),
            None => true,
        });
        self.remove(&missing, &mut report)?;
        missing.iter().for_each(|key| self.known.remove(key));
        self.foreign.clear();
        self.remove(&unstored.unusable, &mut report)?;
        Ok(report)
    }

    /// Reads the keys of the stored records.
    fn load_stored(&mut self) -> Result<(), SyncError> {
        let permit = self.caller.gate().records()?;
        let ImportTarget { connection, stream } = &self.target;
        let keys = self.services.records.read(&permit, Instant(0), |view| {
            let mut sources = view.sources()?;
            sources.retain(|own| own.stream() == stream && own.connection() == connection);
            let Some(source) = sources.first() else { return Ok(None) };
            let declaration = parse_stored(source.declaration())?;
            let mut keys = Vec::new();
            let mut last = None;
            loop {
                let rows = view.in_ingest_order(&sources, last.as_ref(), PAGE_ROWS)?;
                keys.extend(rows.iter().map(|row| row.key.clone()));
                match rows.into_iter().next_back() {
                    Some(row) => last = Some(row),
                    None => return Ok(Some((declaration, keys))),
                }
            }
        })?;
        let Some((declaration, keys)) = keys else { return Ok(()) };
        if declaration.primary_key() != [markdown::PATH] {
            let declared = describe_primary_key(declaration.primary_key());
            return Err(SyncError::OtherKey { declared });
        }
        if declaration.semantics() == Semantics::AppendOnly {
            return Err(SyncError::AppendOnly);
        }
        for key in keys {
            match note_of(&key) {
                Some(_) => self.known.insert(key, None),
                None => self.foreign.push(key),
            }
        }
        Ok(())
    }

    /// Reads notes and stores them. Returns those that have no record.
    fn store(
        &mut self,
        changed: Vec<(SpacePath, FileStamp)>,
        now: Instant,
        report: &mut SyncReport,
        on_progress: OnProgress<'_>,
    ) -> Result<UnstoredNotes, SyncError> {
        let mut unstored = UnstoredNotes::default();
        if changed.is_empty() {
            return Ok(unstored);
        }
        let selection = SelectedNotes {
            folder: self.folder.clone(),
            notes: changed.iter().map(|(note, _)| note.clone()).collect(),
            bytes: changed.iter().map(|(_, stamp)| stamp.size).sum(),
            should_stop: self.should_stop(),
        };
        let whole = ImportInput::whole(PathBuf::from("."), &markdown::IMPORTER);
        let input = ImportInput { selection: Some(selection), ..whole };
        let rejected = RefCell::new(HashMap::new());
        let import = Import {
            services: &self.services,
            caller: &self.caller,
            target: &self.target,
            key: &[],
            reading: &ReadingOptions::default(),
            bad_rows: BadRowPolicy::Skip,
            now,
            text_reader: None,
            on_rejected: Some(&|bad: &BadRow| {
                rejected.borrow_mut().insert(bad.file.clone(), bad.code);
            }),
        };
        let mut stored =
            import.run(&[input], on_progress).map_err(|stopped| match stopped.error {
                ImportError::Read { error, .. } if error.kind() == io::ErrorKind::Interrupted => {
                    SyncError::Stopped
                }
                error => SyncError::Import(error),
            })?;
        let rejected = rejected.into_inner();
        for (note, stamp) in changed {
            let key = relative(&note).to_owned();
            match rejected.get(&key).copied() {
                // Its removal is not a fault of the note, and shows in the folder.
                Some(ABSENT) => {
                    stored.bad_rows -= 1;
                    unstored.absent.push(key);
                    continue;
                }
                // The next look reads it again.
                Some(UNREADABLE) => continue,
                Some(_) => unstored.unusable.push(key.clone()),
                None if report.read_notes.len() < NOTES_LISTED => {
                    report.read_notes.push(key.clone());
                }
                None => {}
            }
            self.known.insert(key, Some(stamp));
        }
        stored.bad.retain(|bad| bad.code != ABSENT);
        report.import.add(stored);
        Ok(unstored)
    }

    fn remove(&self, keys: &[String], report: &mut SyncReport) -> Result<(), SyncError> {
        let owner = self.caller.gate().owner()?;
        for some in keys.chunks(REMOVED_AT_ONCE) {
            if self.should_stop.load(Ordering::Relaxed) {
                return Err(SyncError::Stopped);
            }
            let removed = self.remove_some(&owner, some)?;
            report.removed += removed.len() as u64;
            let room = NOTES_LISTED.saturating_sub(report.removed_notes.len());
            report.removed_notes.extend(removed.into_iter().take(room));
        }
        Ok(())
    }

    /// Removes records in one transaction. Returns the keys of those that existed.
    fn remove_some(&self, owner: &OwnerPermit, keys: &[String]) -> Result<Vec<String>, SyncError> {
        let ImportTarget { connection, stream } = &self.target;
        let mut removed = Vec::new();
        let done = transaction::write(&self.services.records, owner, |batch| {
            let Some(target) = batch.target(connection, stream)? else { return Ok(Ok(())) };
            for key in keys {
                if batch.delete(&target, key)? {
                    removed.push(key.clone());
                }
            }
            Ok(Ok(()))
        });
        done.map_err(SyncError::Import)?;
        Ok(removed)
    }
}

/// The keys of notes that were to be read and have no record.
#[derive(Default)]
struct UnstoredNotes {
    /// Those that were not there any more.
    absent: Vec<String>,
    /// Those that cannot be records, such as a file that is not UTF-8.
    unusable: Vec<String>,
}

/// The folder of a sync, in which each folder is watched before it is listed.
struct WatchedFolders<'a> {
    folder: &'a NoteFolder,
    watch: Option<&'a NoteWatch>,
}

impl Folders for WatchedFolders<'_> {
    fn list(&self, folder: &SpacePath) -> io::Result<Option<FolderNotes>> {
        self.folder.list(folder)
    }

    fn found(&self, folder: &SpacePath) {
        self.watch.iter().for_each(|watch| watch.add(folder));
    }

    fn lost(&self, folder: &SpacePath) {
        self.watch.iter().for_each(|watch| watch.remove(folder));
    }
}

/// Returns the path of the note that has a record with this key, if a note can have it.
fn note_of(key: &str) -> Option<SpacePath> {
    let note = SpacePath::parse(&format!("/{key}")).ok()?;
    (relative(&note) == key && !note.is_root()).then_some(note)
}

#[cfg(test)]
mod tests;
