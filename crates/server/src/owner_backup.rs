//! The owner's backup: what `stile backup` and the owner's page do alike.
//!
//! A state can have gigabytes, so the page does not wait for its backup: [`PageBackup`] makes one
//! in a thread of its own, one at a time, and says how far it is and how the last one ended.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_records::RecordService;
use stile_store::state::StateDir;
use stile_store::state_backup::{self, BackupError, BackupManifest, BackupStamp};

/// The records of the state, and their owner; `None` if the state has none.
pub type OwnersRecords<'a> = Option<(&'a RecordService, &'a Principal)>;

/// Copies the state to a new archive. `on_copied` is called with the bytes since the last call.
///
/// # Errors
/// [`BackupError`]; there is no archive then.
pub fn to_file(
    state: &StateDir,
    file: &Path,
    records: OwnersRecords<'_>,
    now: Instant,
    on_copied: &mut dyn FnMut(u64),
) -> Result<BackupManifest, BackupError> {
    let mut copy = |to: &Path| copy_records(records, to);
    state_backup::create(state, file, stamp(now), &mut copy, on_copied)
}

/// Copies the state to a new archive in the state folder. The newest two are kept there.
fn to_state(
    state: &StateDir,
    records: OwnersRecords<'_>,
    now: Instant,
    on_copied: &mut dyn FnMut(u64),
) -> Result<MadeBackup, BackupError> {
    let mut copy = |to: &Path| copy_records(records, to);
    let (archive, manifest) = state_backup::create_kept(state, stamp(now), &mut copy, on_copied)?;
    let (files, bytes) = manifest.totals();
    Ok(MadeBackup { archive, files, bytes })
}

fn stamp(now: Instant) -> BackupStamp {
    BackupStamp { made_by: env!("CARGO_PKG_VERSION").to_owned(), made_at: now.to_rfc3339() }
}

fn copy_records(records: OwnersRecords<'_>, to: &Path) -> Result<(), String> {
    let Some((service, owner)) = records else {
        return Err("it has just appeared; run this again".to_owned());
    };
    match service.backup(owner, to) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(problem) => Err(problem.to_string()),
    }
}

/// The backup of the owner's page.
#[derive(Debug, Default)]
pub struct PageBackup {
    stage: Mutex<BackupStage>,
}

/// How far the backup of the page is.
#[derive(Clone, Debug, Default)]
pub enum BackupStage {
    /// None was begun since the server started.
    #[default]
    None,
    /// It is being made.
    Running(RunningBackup),
    /// It has ended.
    Ended(Arc<EndedBackup>),
}

/// A backup that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningBackup {
    /// When the backup began.
    pub began: Instant,
    /// The bytes that are copied.
    pub copied: u64,
    /// About how many bytes there are.
    pub total: u64,
}

/// A backup that has ended.
#[derive(Debug)]
pub struct EndedBackup {
    /// When the backup began.
    pub began: Instant,
    /// The archive, or why there is none, as a sentence without its end.
    pub made: Result<MadeBackup, String>,
}

/// An archive that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeBackup {
    /// Where the archive is.
    pub archive: PathBuf,
    /// How many files it has.
    pub files: usize,
    /// The bytes of the files.
    pub bytes: u64,
}

/// A backup is being made already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherBackupRuns;

impl PageBackup {
    /// Says how far the backup is.
    pub fn stage(&self) -> BackupStage {
        self.lock().clone()
    }

    /// Begins to copy the state to an archive in the state folder.
    ///
    /// # Errors
    /// [`OtherBackupRuns`].
    pub fn start(
        self: &Arc<Self>,
        state: StateDir,
        records: Option<(RecordService, Principal)>,
        now: Instant,
    ) -> Result<(), OtherBackupRuns> {
        let total = state_backup::size(&state).unwrap_or_default();
        self.start_work((now, total), move |on_copied| {
            let records = records.as_ref().map(|(service, owner)| (service, owner));
            to_state(&state, records, now, on_copied).map_err(|error| error.to_string())
        })
    }

    fn start_work(
        self: &Arc<Self>,
        (began, total): (Instant, u64),
        work: impl FnOnce(&mut dyn FnMut(u64)) -> Result<MadeBackup, String> + Send + 'static,
    ) -> Result<(), OtherBackupRuns> {
        {
            let mut stage = self.lock();
            if matches!(*stage, BackupStage::Running(_)) {
                return Err(OtherBackupRuns);
            }
            *stage = BackupStage::Running(RunningBackup { began, copied: 0, total });
        }
        let backup = Arc::clone(self);
        let run = move || {
            let mut on_copied = |bytes: u64| {
                if let BackupStage::Running(running) = &mut *backup.lock() {
                    running.copied = running.copied.saturating_add(bytes);
                }
            };
            // A bug ends this backup and is told.
            let ran = std::panic::catch_unwind(AssertUnwindSafe(|| work(&mut on_copied)));
            let made = ran.unwrap_or_else(|_| Err("the program failed".to_owned()));
            backup.end(began, made);
        };
        let spawned = std::thread::Builder::new().name("page backup".to_owned()).spawn(run);
        if let Err(error) = spawned {
            self.end(began, Err(format!("the system gave no thread: {error}")));
        }
        Ok(())
    }

    fn end(&self, began: Instant, made: Result<MadeBackup, String>) {
        if let Err(error) = &made {
            tracing::error!(target: "stile::pages", %error, "a backup failed");
        }
        *self.lock() = BackupStage::Ended(Arc::new(EndedBackup { began, made }));
    }

    fn lock(&self) -> MutexGuard<'_, BackupStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn ended(backup: &PageBackup) -> Arc<EndedBackup> {
        loop {
            match backup.stage() {
                BackupStage::Ended(ended) => return ended,
                _ => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn one_backup_is_made_at_a_time_and_tells_how_far_it_is() {
        let backup = Arc::new(PageBackup::default());
        assert!(matches!(backup.stage(), BackupStage::None));
        let ((copied, has_copied), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
        let made = MadeBackup { archive: "a.zip".into(), files: 2, bytes: 40 };
        let result = made.clone();
        let work = move |on_copied: &mut dyn FnMut(u64)| {
            on_copied(30);
            copied.send(()).unwrap();
            may_go_on.recv().unwrap();
            Ok(result)
        };
        backup.start_work((Instant(1), 40), work).unwrap();
        has_copied.recv().unwrap();
        let BackupStage::Running(running) = backup.stage() else { panic!("it runs") };
        assert_eq!(running, RunningBackup { began: Instant(1), copied: 30, total: 40 });
        let other = backup.start_work((Instant(2), 0), |_| Err("never".to_owned()));
        assert_eq!(other, Err(OtherBackupRuns));
        go_on.send(()).unwrap();
        assert_eq!(ended(&backup).made, Ok(made));
        // A failure is told, a panic too, and another backup may follow.
        backup.start_work((Instant(3), 0), |_| panic!("a bug")).unwrap();
        let failed = ended(&backup);
        assert_eq!((failed.began, failed.made.is_err()), (Instant(3), true));
        backup.start_work((Instant(4), 0), |_| Err("the disk is full".to_owned())).unwrap();
        let is_fourth = || ended(&backup).began == Instant(4);
        while !is_fourth() {
            std::thread::yield_now();
        }
        assert_eq!(ended(&backup).made, Err("the disk is full".to_owned()));
    }
}
