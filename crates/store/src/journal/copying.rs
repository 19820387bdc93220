//! Copies the lines of this server into the database that it shares with others.
//!
//! A thread of its own does this after each sync, so that a slow database keeps neither a call nor
//! a sync waiting. While the database cannot be reached, the lines stay in their files, and the
//! thread goes on where it stopped.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::reading::journal_files;
use super::removal;
use super::shared::SharedJournal;
use crate::now;
use crate::state::StateDir;

/// How long after a failure the next try begins.
const RETRY: Duration = Duration::from_secs(2);
/// How often old lines are removed, and those that were removed from the database.
const REMOVE_EVERY: Duration = Duration::from_secs(60 * 60);

/// Removes from the files of a state folder the lines that were removed from the database.
///
/// # Errors
/// The error of the file system, of the database of anchors or of the database of the servers.
pub(super) fn remove_what_was_removed(shared: &SharedJournal, state: &StateDir) -> io::Result<()> {
    let here = journal_files(state)?;
    for (file, numbers) in shared.removed_lines()? {
        let is_it = |path: &&PathBuf| path.file_name().is_some_and(|name| name == file.as_str());
        if let Some(path) = here.iter().find(is_it) {
            removal::remove_numbered(state, path, &numbers)?;
        }
    }
    Ok(())
}

/// Copies the files of a state folder.
pub(super) struct Copier {
    shared: SharedJournal,
    state: StateDir,
    /// How long lines are kept; `None` for ever.
    keep: Option<Duration>,
    /// The length of each file when it was copied.
    copied: BTreeMap<PathBuf, u64>,
    is_failing: bool,
    /// Whether the log says that the journal is not copied.
    has_warned: bool,
    cleaned: Option<Instant>,
}

/// Returns what wakes a copier, and what the copier waits for.
pub(super) fn wake_up() -> (SyncSender<()>, Receiver<()>) {
    sync_channel(1)
}

impl Copier {
    /// Creates a copier that has copied nothing yet.
    pub(super) fn new(shared: SharedJournal, state: StateDir, keep: Option<Duration>) -> Self {
        let copied = BTreeMap::new();
        Self { shared, state, keep, copied, is_failing: false, has_warned: false, cleaned: None }
    }

    /// Copies what is there, and again whenever it is woken, until nobody can wake it any more.
    /// Calls `remove_old` about once an hour, when all lines are copied.
    pub(super) fn run(mut self, wake: &Receiver<()>, remove_old: &dyn Fn()) {
        loop {
            self.copy_all();
            if !self.is_failing {
                self.clean(remove_old);
            }
            let woken = match self.is_failing {
                false => wake.recv().map_err(|_| RecvTimeoutError::Disconnected),
                true => wake.recv_timeout(RETRY),
            };
            if woken == Err(RecvTimeoutError::Disconnected) {
                self.copy_all();
                return;
            }
        }
    }

    /// Copies all files, and logs when that begins to fail and when it passes again. An outage of
    /// the database has its own line in the log.
    fn copy_all(&mut self) {
        let done = self.copy_changed();
        match &done {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                tracing::debug!(target: "stile::journal", %error, "the journal is not copied now");
            }
            Err(error) if !self.has_warned => {
                self.has_warned = true;
                tracing::warn!(
                    target: "stile::journal",
                    %error,
                    "the journal is not copied to the database now; its lines stay in their files"
                );
            }
            Ok(()) if self.has_warned => {
                self.has_warned = false;
                tracing::info!(
                    target: "stile::journal",
                    "the journal is copied to the database again"
                );
            }
            _ => {}
        }
        self.is_failing = done.is_err();
    }

    fn copy_changed(&mut self) -> io::Result<()> {
        for path in journal_files(&self.state)? {
            let Ok(metadata) = path.metadata() else { continue };
            if self.copied.get(&path) == Some(&metadata.len()) {
                continue;
            }
            match self.shared.copy(&path) {
                // Somebody removed the file at this moment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                copied => copied?,
            }
            self.copied.insert(path, metadata.len());
        }
        Ok(())
    }

    /// Removes lines that are too old, and those that were removed from the database, about once an
    /// hour.
    fn clean(&mut self, remove_old: &dyn Fn()) {
        if self.cleaned.is_some_and(|cleaned| cleaned.elapsed() < REMOVE_EVERY) {
            return;
        }
        self.cleaned = Some(Instant::now());
        if let Err(error) = remove_what_was_removed(&self.shared, &self.state) {
            tracing::warn!(
                target: "stile::journal",
                %error,
                "lines that were removed from the database stay in the files of this server"
            );
        }
        let Some(keep) = self.keep else { return };
        remove_old();
        let micros = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        let before = stile_domain::records::instant::Instant(now().0.saturating_sub(micros));
        if let Err(error) = self.shared.remove_before(before) {
            tracing::warn!(target: "stile::journal", %error, "old lines stay in the database");
        }
    }
}
