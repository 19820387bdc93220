//! A whole note, for a gateway that reads in a user's name: what `GET /api/v1/notes/{path}`
//! answers.
//!
//! Reading a whole note needs the permit that `text.read` of the same file needs, and returns no
//! more. The read is not a tool: an agent reads with `text.read`, piece by piece.

use stile_domain::error::Refusal;
use stile_domain::journal::{CallTrace, JournalLine};
use stile_domain::notes::portable::to_json;
use stile_domain::notes::{MAX_NOTE_BYTES, NotePath};
use stile_domain::permit::{Permit, Principal, Read};

use super::SpaceTools;
use crate::refusal::failure;

/// The name of the read in the journal.
const NAME: &str = "note";

impl SpaceTools {
    /// Reads a note as JSON. The journal line names `user`, in whose name a trusted gateway may
    /// read, and the token of `principal`.
    ///
    /// # Errors
    /// As `text.read`; [`Refusal::TooLarge`] if the note is larger than any note that has a
    /// structure.
    pub async fn read_note(
        &self,
        path: NotePath,
        principal: &Principal,
        user: &str,
    ) -> Result<String, Refusal> {
        let trace = CallTrace::of_file(path.space_path(), None);
        let read = self.whole_note(path, principal).await;
        let failure = read.as_ref().err().map(failure);
        let outcome = failure.as_ref().map_or("ok", |failure| failure.code.as_ref());
        let incident = failure.as_ref().and_then(|failure| failure.incident);
        let line = JournalLine::for_call(principal, NAME, trace, outcome, incident);
        let _ = self.log.write(JournalLine { subject: Some(user.to_owned()), ..line });
        read
    }

    async fn whole_note(&self, path: NotePath, principal: &Principal) -> Result<String, Refusal> {
        let permit: Permit<Read> = principal.gate().permit(path.space_path())?;
        self.space.derive(permit, MAX_NOTE_BYTES, move |text| to_json(&path, text)).await
    }
}
