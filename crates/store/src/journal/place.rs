//! [`JournalPlace`]: reads and verifies the lines of one server, or of all servers that share a
//! database.

use std::io;
use std::sync::Arc;

use stile_domain::journal::JournalLine;
use stile_domain::records::instant::Instant;

use super::copying;
use super::reading::{MergedLines, NewLines};
use super::removal::{self, RemovedLines};
use super::shared::SharedJournal;
use super::verify::{self, Verification};
use crate::state::StateDir;

/// Where a journal is read.
#[derive(Clone)]
pub struct JournalPlace {
    state: StateDir,
    shared: Option<SharedJournal>,
    /// Whose lines are read; `None` for those of everybody.
    subject: Option<Arc<str>>,
}

impl JournalPlace {
    /// Names the journal of a state folder, or that of all servers if there is one.
    pub fn new(state: StateDir, shared: Option<SharedJournal>) -> Self {
        Self { state, shared, subject: None }
    }

    /// Reads only the lines about the calls of one subject.
    #[must_use]
    pub fn of_subject(self, subject: &str) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// Opens the lines from `since` on; all lines without it.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn lines(&self, since: Option<Instant>) -> io::Result<MergedLines> {
        let lines = match &self.shared {
            Some(journal) => MergedLines::of_servers(journal, since),
            None => MergedLines::of_files(&self.state, since)?,
        };
        Ok(lines.of_subject(self.subject.clone()))
    }

    /// Follows the journal from the lines on that come after now.
    ///
    /// # Errors
    /// The error of the file system or of the database.
    pub fn new_lines(&self) -> io::Result<NewLines> {
        let lines = match &self.shared {
            Some(journal) => NewLines::of_servers(journal)?,
            None => NewLines::of_files(self.state.clone())?,
        };
        Ok(lines.of_subject(self.subject.clone()))
    }

    /// Counts the lines that are meant, and changes nothing.
    ///
    /// # Errors
    /// As for [`JournalPlace::remove`].
    pub fn plan_removal(
        &self,
        is_meant: &dyn Fn(&JournalLine) -> bool,
    ) -> io::Result<RemovedLines> {
        match &self.shared {
            Some(journal) => removal::plan_shared(journal, is_meant),
            None => removal::plan(&self.state, is_meant),
        }
    }

    /// Removes the lines that are meant, for good. Each leaves its number and its chain value. A
    /// removal that was interrupted can be run again.
    ///
    /// Of servers that share a journal, the lines in the database go at once, and each server
    /// removes them from its own files when it starts, and about once an hour. A line that its
    /// server has not copied yet stays.
    ///
    /// # Errors
    /// The error of the file system, of the database of anchors or of the database of the servers.
    pub fn remove(&self, is_meant: &dyn Fn(&JournalLine) -> bool) -> io::Result<RemovedLines> {
        let Some(journal) = &self.shared else { return removal::remove(&self.state, is_meant) };
        let removed = removal::remove_shared(journal, is_meant)?;
        copying::remove_what_was_removed(journal, &self.state)?;
        Ok(removed)
    }

    /// Returns how many bytes [`JournalPlace::verify`] reads.
    ///
    /// # Errors
    /// The error of the file system or of the database.
    pub fn bytes(&self) -> io::Result<u64> {
        match &self.shared {
            Some(journal) => verify::shared_bytes(journal),
            None => verify::journal_bytes(&self.state),
        }
    }

    /// Verifies all lines. Calls `on_read` with the number of bytes that were read since the last
    /// call. Of all servers, the lines in the database are verified, and those of this server also
    /// against what this server's state folder knows of them.
    ///
    /// A process that is killed while it writes a line leaves a part of that line at the end of its
    /// file. This is no fault, since the call was not answered. Who removes lines that were written
    /// in the last second before a kill is not found, since those lines were not synced yet.
    ///
    /// # Errors
    /// The error of the file system or of a database.
    pub fn verify(&self, on_read: &mut dyn FnMut(u64)) -> io::Result<Verification> {
        match &self.shared {
            Some(journal) => verify::verify_shared(journal, &self.state, on_read),
            None => verify::verify(&self.state, on_read),
        }
    }
}
