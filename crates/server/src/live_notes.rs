//! Keeps records in step with the notes of a folder for as long as the program runs.
//!
//! Events say in which folders something changed. An event is awaited, then a moment of quiet, so
//! that a save that is under way is complete and many changes are one. Then the folders are looked
//! at on a blocking thread. Now and then, and after a failure, the whole folder is looked at: a
//! network file system has no events, and a system may watch no more folders.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stile_domain::path::SpacePath;
use stile_domain::permit::Principal;
use stile_import::importer::ImportTarget;
use stile_import::report::ImportReport;
use stile_import::sync::{NoteSync, RemovalGuard, SyncError, SyncReport};
use stile_records::RecordService;
use stile_store::space::Space;
use stile_store::space::note_folder::NoteWatch;
use stile_store::state::{StateDir, SyncLock};
use tokio::time::{Instant, sleep, timeout_at};

use crate::clock;

/// Without an event for so long, a save is taken to be complete.
const QUIET: Duration = Duration::from_millis(300);
/// Changes that never pause are read after so long.
const MOST_UNQUIET: Duration = Duration::from_secs(2);
/// How often the whole folder is looked at.
const WHOLE_LOOK: Duration = Duration::from_secs(60);
/// How long after a failure the whole folder is looked at.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// How often a server looks whether another process has stopped keeping the records in step.
const WHILE_LOCKED: Duration = Duration::from_secs(5);
/// How long after a first sync that was refused a server tries again.
const AFTER_REFUSAL: Duration = Duration::from_secs(30);

/// What a sync is for.
enum Next {
    First(RemovalGuard),
    Whole,
    Folders(BTreeSet<SpacePath>),
}

/// Syncs, and follows the notes until `stop` completes, or `told` wants to end. `told` gets the
/// result of each sync. Returns `Break` if `stop` completed, and must not be awaited again then.
pub(crate) async fn follow(
    mut sync: NoteSync,
    guard: RemovalGuard,
    stop: impl Future<Output = ()>,
    mut told: impl FnMut(Result<SyncReport, SyncError>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut stop = pin!(stop);
    let watch = sync.watch();
    let should_stop = sync.should_stop();
    let mut next = Next::First(guard);
    loop {
        let mut step = tokio::task::spawn_blocking(move || {
            let result = run(&mut sync, next);
            (sync, result)
        });
        let done = tokio::select! {
            done = &mut step => done,
            () = &mut stop => {
                should_stop.store(true, Ordering::Relaxed);
                let _ = step.await;
                return ControlFlow::Break(());
            }
        };
        // The thread panicked, which the log says.
        let Ok((returned, result)) = done else { return ControlFlow::Continue(()) };
        sync = returned;
        let failed = result.is_err();
        if told(result).is_break() {
            return ControlFlow::Continue(());
        }
        next = tokio::select! {
            next = next_look(&watch, failed) => next,
            () = &mut stop => return ControlFlow::Break(()),
        };
    }
}

fn run(sync: &mut NoteSync, next: Next) -> Result<SyncReport, SyncError> {
    let now = clock::now();
    match next {
        Next::First(guard) => sync.sync_first(guard, now, &mut |_| ()),
        Next::Whole => sync.sync_again(now),
        Next::Folders(folders) => sync.sync_folders(folders, now),
    }
}

/// Waits until something is to be looked at.
async fn next_look(watch: &Arc<NoteWatch>, failed: bool) -> Next {
    if failed {
        // What the failed sync was to look at is not known any more.
        sleep(AFTER_FAILURE).await;
        watch.take();
        return Next::Whole;
    }
    let whole_look = Instant::now() + WHOLE_LOOK;
    loop {
        if timeout_at(whole_look, watch.changed()).await.is_err() {
            watch.take();
            return Next::Whole;
        }
        let deadline = Instant::now() + MOST_UNQUIET;
        while timeout_at(deadline.min(Instant::now() + QUIET), watch.changed()).await.is_ok() {}
        let folders = watch.take();
        if !folders.is_empty() {
            return Next::Folders(folders);
        }
    }
}

/// The notes of a space that a server keeps as records.
pub(crate) struct ServedNotes {
    pub(crate) state: StateDir,
    pub(crate) services: RecordService,
    pub(crate) owner: Principal,
    pub(crate) space: Space,
    pub(crate) target: ImportTarget,
}

impl ServedNotes {
    /// Keeps the records in step until `stop` completes. If another process does so, waits until
    /// that one has ended. Never fails: the log says what is wrong, and it tries again.
    pub(crate) async fn keep_in_step(self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut log = StepLog::default();
        loop {
            let mut wait = WHILE_LOCKED;
            if let Some(lock) = self.lock(&mut log) {
                wait = AFTER_REFUSAL;
                if let Some(sync) = self.open(&mut log).await {
                    let guard = RemovalGuard::RefuseToRemoveAll;
                    let told = |result: Result<SyncReport, SyncError>| log.step(result);
                    if follow(sync, guard, &mut stop, told).await.is_break() {
                        return;
                    }
                }
                // Before the next try, the owner can sync by hand.
                drop(lock);
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = &mut stop => return,
            }
        }
    }

    fn lock(&self, log: &mut StepLog) -> Option<SyncLock> {
        let ImportTarget { connection, stream } = &self.target;
        match SyncLock::try_take(&self.state, connection, stream) {
            Ok(Some(lock)) => Some(lock),
            Ok(None) => {
                log.tell("another process keeps these records in step; this one waits".to_owned());
                None
            }
            Err(error) => {
                log.tell(format!("the lock cannot be taken: {}", error.kind()));
                None
            }
        }
    }

    async fn open(&self, log: &mut StepLog) -> Option<NoteSync> {
        let (services, owner) = (self.services.clone(), self.owner.clone());
        let (target, space) = (self.target.clone(), self.space.clone());
        let open = move || NoteSync::open(services, owner, target, &space);
        match tokio::task::spawn_blocking(open).await {
            Ok(Ok(sync)) => Some(sync),
            Ok(Err(error)) => {
                log.tell(error.to_string());
                None
            }
            Err(_) => None,
        }
    }
}

/// Logs what each sync did, without names of files. It logs an error once while the error repeats.
#[derive(Default)]
struct StepLog {
    trouble: Option<String>,
    is_followed: bool,
    /// What could not be read or stored, which is told once.
    problems: Vec<String>,
}

impl StepLog {
    /// Logs the result of a sync. Ends the following if not even the first sync is possible.
    fn step(&mut self, result: Result<SyncReport, SyncError>) -> ControlFlow<()> {
        match result {
            Ok(report) => {
                self.trouble = None;
                self.is_followed = true;
                let ImportReport { added, changed, bad_rows, .. } = report.import;
                let (removed, unread_folders) = (report.removed, report.unread_folders.len());
                let problems = report.problems();
                let are_new = !problems.is_empty() && problems != self.problems;
                if are_new {
                    self.problems = problems;
                }
                if are_new || report.has_changes() {
                    tracing::info!(
                        added, changed, removed, bad_rows, unread_folders, "records of the space"
                    );
                }
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.tell(error.to_string());
                match self.is_followed {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            }
        }
    }

    fn tell(&mut self, trouble: String) {
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::warn!(trouble, "the records of the space are not in step");
            self.trouble = Some(trouble);
        }
    }
}
