//! A whole note, for a gateway that reads in somebody's name: what `GET /api/v1/notes/{path}`
//! answers.
//!
//! It needs what `text.read` of the same file needs, and tells no more. It is no tool: an agent
//! reads with `text.read`, piece by piece.

use stile_domain::error::Refusal;
use stile_domain::journal::JournalLine;
use stile_domain::notes::MAX_NOTE_BYTES;
use stile_domain::notes::NotePath;
use stile_domain::notes::portable::to_json;
use stile_domain::permit::{Permit, Principal, Read};

use crate::calls::{Services, line};
use crate::tool::Trace;

/// What the journal calls it.
pub const NAME: &str = "note";

impl Services {
    /// The note as JSON. The journal names `user`, in whose name a trusted gateway may read, and
    /// `principal`'s token.
    ///
    /// # Errors
    /// As `text.read`; [`Refusal::TooLarge`] where it is larger than any note that has a structure.
    pub async fn read_note(
        &self,
        path: NotePath,
        principal: &Principal,
        user: &str,
    ) -> Result<String, Refusal> {
        let trace = Trace { path: Some(path.space_path().clone()), ..Trace::default() };
        let read = self.whole_note(path, principal).await;
        let line = JournalLine {
            subject: Some(user.to_owned()),
            ..line(NAME, principal, trace, read.as_ref().err())
        };
        let _ = self.journal.append(line);
        read
    }

    async fn whole_note(&self, path: NotePath, principal: &Principal) -> Result<String, Refusal> {
        let permit: Permit<Read> = principal.gate().permit(path.space_path())?;
        self.space.derive(permit, MAX_NOTE_BYTES, move |text| to_json(&path, text)).await
    }
}
