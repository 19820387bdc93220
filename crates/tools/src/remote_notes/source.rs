//! The port to a server that has the notes.

use futures::future::BoxFuture;
use stile_domain::notes::NotePath;
use stile_domain::notes::portable::PortableNote;
use stile_domain::permit::{Permit, Read};

use crate::note_session::{NoteSession, PathJudge};

/// A permit to read one note once, in one caller's name. Only a remote note tool makes one, after
/// the role table has allowed the call.
#[derive(Debug)]
#[must_use = "a permit that is not used means a check without its act"]
pub struct NoteRequest<'a> {
    path: &'a NotePath,
    session: &'a NoteSession,
}

impl<'a> NoteRequest<'a> {
    /// Makes the request for a note. `permit` is what the caller's path scopes allow.
    ///
    /// # Errors
    /// [`UpstreamFailure::OutOfScope`] where the gateway judges paths and the permit is not for
    /// this one.
    pub(super) fn new(
        path: &'a NotePath,
        session: &'a NoteSession,
        permit: Option<Permit<Read>>,
    ) -> Result<Self, UpstreamFailure> {
        let covers = |permit: Permit<Read>| permit.path() == path.space_path();
        match session.path_judge {
            PathJudge::Gateway if !permit.is_some_and(covers) => Err(UpstreamFailure::OutOfScope),
            PathJudge::Gateway | PathJudge::Upstream => Ok(Self { path, session }),
        }
    }

    /// Returns the normalized path of the note.
    pub fn path(&self) -> &'a NotePath {
        self.path
    }

    /// Returns the session in whose name the note is read.
    pub fn session(&self) -> &'a NoteSession {
        self.session
    }
}

/// A server that has the notes.
pub trait NoteSource: Send + Sync + 'static {
    /// Reads a note with one request and no second try.
    fn read<'a>(
        &'a self,
        request: NoteRequest<'a>,
    ) -> BoxFuture<'a, Result<PortableNote, UpstreamFailure>>;
}

/// Why the server sent no note. Holds nothing of the response but its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamFailure {
    /// The caller's token is not meant for the server, so no request was sent.
    NotForwarded,
    /// The caller's path scopes do not cover the note, so no request was sent.
    OutOfScope,
    /// The server answered with this status instead of 200.
    Status(u16),
    /// The server took too long.
    Timeout,
    /// The server could not be reached, or hung up.
    Unavailable,
    /// The response is not a note.
    InvalidResponse,
    /// The response is larger than the gateway reads.
    TooLarge,
}
