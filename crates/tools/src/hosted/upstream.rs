//! The port through which a note comes from elsewhere.

use futures::future::BoxFuture;
use stile_domain::notes::NotePath;
use stile_domain::notes::portable::PortableNote;

use super::session::Session;

/// Leave to read one note once, in one caller's name. Only the gateway makes one, after the role
/// table has allowed the call.
#[derive(Debug)]
#[must_use = "leave that is not used means a check without its act"]
pub struct Reading<'a> {
    path: &'a NotePath,
    session: &'a Session,
}

impl<'a> Reading<'a> {
    pub(super) fn new(path: &'a NotePath, session: &'a Session) -> Self {
        Self { path, session }
    }

    /// Which note, normalized.
    pub fn path(&self) -> &'a NotePath {
        self.path
    }

    /// In whose name.
    pub fn session(&self) -> &'a Session {
        self.session
    }
}

/// Where the notes are.
pub trait NoteStore: Send + Sync + 'static {
    /// Reads the note: one request, no second try.
    fn read<'a>(&'a self, reading: Reading<'a>) -> BoxFuture<'a, Result<PortableNote, Failure>>;
}

/// Why there is no note. Nothing of what the server said is in here but its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The caller's token is not meant for the server that has the notes; it was not asked.
    NotForwarded,
    /// It answered with another status than 200.
    Status(u16),
    /// It took too long.
    Timeout,
    /// It could not be reached, or hung up.
    Unavailable,
    /// What it answered is not a note.
    InvalidResponse,
    /// What it answered is larger than is read.
    TooLarge,
}
