//! Records a change in the history before it is made, and takes the record back if it is not.

use stile_domain::error::Refusal;
use stile_domain::journal::JournalLine;

use crate::history::{
    Call, History, HistoryError, Kept, MadeRow, NewChange, UnkeptChange, VersionSource,
};

use super::Inner;

/// Changes that the history has, unless there is no history or the owner does not insist on it.
#[must_use]
pub(super) struct Recorded<'a> {
    kept: Option<(&'a History, Vec<MadeRow>)>,
    has_version: bool,
}

/// A change that the history does not have.
const NOT_RECORDED: Recorded<'static> = Recorded { kept: None, has_version: false };

impl Recorded<'_> {
    /// Whether the history has the versions before the changes.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some() && self.has_version
    }

    /// Leaves the records in the history, since the changes were made.
    pub(super) fn was_made(&mut self) {
        self.kept = None;
    }
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        if let Some((history, rows)) = self.kept.take().filter(|(_, it)| !it.is_empty()) {
            history.forget(&rows);
        }
    }
}

impl Inner {
    /// Records a change, durably, with the version before it.
    ///
    /// # Errors
    /// [`Refusal::NotKept`] if that fails and the owner wants such changes refused.
    pub(super) fn record(
        &self,
        change: &NewChange<'_>,
        source: VersionSource<'_>,
    ) -> Result<Recorded<'_>, Refusal> {
        let Some(history) = &self.history else { return Ok(NOT_RECORDED) };
        let mut recorded = Recorded { kept: Some((history, Vec::new())), has_version: true };
        self.add_record(&mut recorded, change, history.keep(change, source))?;
        Ok(recorded)
    }

    /// Records changes of one call, as [`Inner::record`] records one.
    ///
    /// # Errors
    /// As [`Inner::record`]; none of the changes is then recorded.
    pub(super) fn record_all(
        &self,
        call: &Call,
        changes: &[(NewChange<'_>, VersionSource<'_>)],
    ) -> Result<Recorded<'_>, Refusal> {
        let Some(history) = &self.history else { return Ok(NOT_RECORDED) };
        let mut recorded = Recorded { kept: Some((history, Vec::new())), has_version: true };
        let mut refused = Ok(());
        for ((change, _), kept) in changes.iter().zip(history.keep_all(call, changes)) {
            let added = self.add_record(&mut recorded, change, kept);
            refused = refused.and(added);
        }
        refused.map(|()| recorded)
    }

    /// Adds what became of one change.
    fn add_record(
        &self,
        recorded: &mut Recorded<'_>,
        change: &NewChange<'_>,
        kept: Result<Kept, HistoryError>,
    ) -> Result<(), Refusal> {
        let Some((history, rows)) = &mut recorded.kept else { return Ok(()) };
        match kept {
            Ok(Kept { made, lacks }) => {
                if let Some(why) = &lacks {
                    self.report_unkept(change, why);
                }
                rows.push(made);
                recorded.has_version &= lacks.is_none();
                Ok(())
            }
            Err(error) => {
                recorded.has_version = false;
                self.report_unkept(change, &error);
                match history.unkept(change.call) {
                    UnkeptChange::GoesOn => Ok(()),
                    UnkeptChange::IsRefused => Err(Refusal::NotKept { path: change.path.clone() }),
                }
            }
        }
    }

    /// Writes a line of the journal for a version that the history does not have.
    fn report_unkept(&self, change: &NewChange<'_>, why: &HistoryError) {
        // A command of the owner says itself what it could not keep.
        if !change.call.is_of_owner() {
            tracing::error!(error = %why, "the version before a change was not kept");
        }
        let author = change.call.author();
        (self.options.events)(JournalLine {
            tool: "history_not_kept".to_owned(),
            // Whoever causes such lines is named, so that their number is bounded.
            client: Some(author.client.clone().unwrap_or_else(|| author.subject.clone())),
            path: Some(change.path.clone()),
            before: change.before,
            outcome: why.outcome().to_owned(),
            ..JournalLine::default()
        });
    }

    /// Records a change while `work` prepares it, so that both wait for the disk at the same time.
    pub(super) fn record_during<T>(
        &self,
        change: &NewChange<'_>,
        source: VersionSource<'_>,
        work: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<(Recorded<'_>, T), Refusal> {
        if self.history.is_none() {
            return Ok((NOT_RECORDED, work()?));
        }
        let (recorded, done) = std::thread::scope(|scope| {
            let recording = scope.spawn(|| self.record(change, source));
            let done = work();
            let stopped = |_| Err(crate::incident("history", &std::io::Error::other("a panic")));
            (recording.join().unwrap_or_else(stopped), done)
        });
        Ok((recorded?, done?))
    }
}
