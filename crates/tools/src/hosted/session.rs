//! In whose name a note is read.

use std::fmt;
use std::sync::Arc;

use stile_domain::role::Role;

/// What a verified token and the gateway's configuration say of a caller. No argument of a tool has
/// a part in it.
#[derive(Clone, Debug)]
pub struct Session {
    /// Who acts: `act.sub` of the token, or else its `sub`. Reads are never made in this name where
    /// the two differ.
    pub actor: Arc<str>,
    /// Who is effectively asking: `sub`. Reads are made in this name.
    pub user: Arc<str>,
    /// The one vault that paths are looked for in.
    pub vault: Arc<str>,
    /// What the role table goes by.
    pub role: Role,
    /// What is shown to the server that has the notes; none where the token of this request is not
    /// meant for it.
    pub credential: Option<Credential>,
}

/// A bearer token on its way to the one server that it is for. It is never printed.
#[derive(Clone)]
pub struct Credential(Arc<str>);

impl Credential {
    /// A token, without `Bearer`.
    pub fn new(token: &str) -> Self {
        Self(token.into())
    }

    /// For the header, and nothing else.
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
    fn security_a_credential_is_never_printed() {
        assert_eq!(format!("{:?}", Credential::new("canary")), "Credential(…)");
    }
}
