//! In whose name a gateway reads a note.

use std::fmt;
use std::sync::Arc;

use stile_domain::role::Role;

/// Who a gateway reads for, from a verified token and the configuration. No argument of a tool has
/// any influence on a session.
#[derive(Clone, Debug)]
pub struct NoteSession {
    /// Who acts: `act.sub` of the token, or else its `sub`. No read is made in this name if the two
    /// differ.
    pub actor: Arc<str>,
    /// The effective user: `sub`. Reads are made in this name.
    pub user: Arc<str>,
    /// The one vault that paths belong to.
    pub vault: Arc<str>,
    /// The role that decides which tools the caller may use.
    pub role: Role,
    /// The credential for the server that has the notes; `None` if the token of this request is not
    /// meant for that server.
    pub credential: Option<Credential>,
    /// Who decides which notes the caller may read.
    pub path_judge: PathJudge,
}

/// Who decides which notes a caller of a gateway may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathJudge {
    /// The gateway, by the caller's path scopes. The server that has the notes decides as well, by
    /// the credential.
    Gateway,
    /// The server that has the notes alone, by the credential.
    Upstream,
}

/// A bearer token for the server that has the notes. Its `Debug` form hides the token.
#[derive(Clone)]
pub struct Credential(Arc<str>);

impl Credential {
    /// Wraps a token, given without `Bearer`.
    pub fn new(token: &str) -> Self {
        Self(token.into())
    }

    /// Returns the token, for the `Authorization` header alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credential(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_never_printed() {
        assert_eq!(format!("{:?}", Credential::new("canary")), "Credential(…)");
    }
}
