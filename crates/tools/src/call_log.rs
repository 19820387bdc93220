//! The journal as calls write it: one line for each, and the same line wherever a call comes from.

use std::io;
use std::sync::Arc;

use stile_domain::journal::{CallTrace, FileTrace, JournalLine};
use stile_domain::permit::Principal;
use stile_store::history::Call;
use stile_store::journal::Journal;

use crate::answer::Answer;

/// Where calls are journaled, if anywhere. Clones share one journal.
#[derive(Clone, Default)]
pub struct CallLog {
    journal: Option<Arc<Journal>>,
    /// The call that the lines are about, where the history has its changes.
    call: Option<Arc<Call>>,
}

/// Why no line can be written, with the number of the incident in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unwritable {
    /// The disk is full, or a quota is used up.
    DiskFull(u64),
    /// Something else is wrong.
    Other(u64),
}

impl CallLog {
    /// Journals calls in `journal`.
    pub fn new(journal: Arc<Journal>) -> Self {
        Self { journal: Some(journal), call: None }
    }

    /// Journals nothing, for a program that keeps nothing.
    pub fn disabled() -> Self {
        Self::default()
    }

    /// Gives the lines of changes the number that the history has for `call`.
    pub(crate) fn for_call(&self, call: Arc<Call>) -> Self {
        Self { call: Some(call), ..self.clone() }
    }

    /// Checks whether a line could be written now.
    ///
    /// # Errors
    /// [`Unwritable`].
    pub(crate) fn check_writable(&self) -> Result<(), Unwritable> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.check_writable().map_err(|error| {
            let incident = stile_store::log_incident("journal", &error);
            match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Unwritable::DiskFull(incident)
                }
                _ => Unwritable::Other(incident),
            }
        })
    }

    /// Writes the line of a finished call. `outcome` is `ok` or a stable code.
    pub fn record(
        &self,
        operation: &str,
        principal: &Principal,
        trace: CallTrace,
        outcome: &str,
        incident: Option<u64>,
    ) {
        let line = JournalLine::for_call(principal, operation, trace, outcome, incident);
        // A failure is in the server's log; the call changed nothing, so its answer stays true.
        let _ = self.write(line);
    }

    /// Writes the line of a call that was answered before it could begin.
    pub fn record_failure(&self, tool: &str, principal: &Principal, answer: &Answer) {
        let _ = self.record_answer(tool, principal, CallTrace::default(), answer);
    }

    /// Writes the line of an answered call, or a line for each file of a call that read several.
    pub(crate) fn record_answer(
        &self,
        tool: &str,
        principal: &Principal,
        mut trace: CallTrace,
        answer: &Answer,
    ) -> Result<(), u64> {
        let failure = answer.failure.as_ref();
        let files = std::mem::take(&mut trace.files);
        if failure.is_none() && !files.is_empty() {
            return files.into_iter().try_for_each(|FileTrace { path, version, outcome }| {
                let trace = CallTrace::of_file(&path, version);
                self.write(JournalLine::for_call(principal, tool, trace, outcome, None))
            });
        }
        let outcome = failure.map_or("ok", |failure| failure.code.as_ref());
        let incident = failure.and_then(|failure| failure.incident);
        let line = JournalLine::for_call(principal, tool, trace, outcome, incident);
        // The history forgets the change of a call that failed.
        let call =
            if failure.is_none() { self.call.as_deref().and_then(Call::number) } else { None };
        self.write(JournalLine { call, ..line })
    }

    /// Writes a line.
    pub(crate) fn write(&self, line: JournalLine) -> Result<(), u64> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.append(line).map_err(|error| stile_store::log_incident("journal", &error))
    }
}
