//! From a verified token to the session that calls are made in.
//!
//! Every value comes from the token or the configuration. No header, no argument and no earlier
//! request has a part in it.

use std::sync::Arc;

use stile_tools::remote_notes::{Credential, NoteSession};

use crate::auth::{VaultClaim, Verified};

/// What the configuration says of sessions.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The vault of tokens that name none.
    pub vault: Arc<str>,
    /// What is shown to the server that has the notes.
    pub credential: UpstreamCredential,
}

/// What is shown to the server that has the notes.
#[derive(Clone, Debug)]
pub enum UpstreamCredential {
    /// The caller's own token, where it says that it is for a server of this audience too.
    Forward {
        /// One of the token's `aud`.
        audience: Arc<str>,
    },
    /// The gateway's.
    Own(Credential),
}

/// The token names no single vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoVault;

impl Terms {
    /// The session of a request, made anew for each from the token that came with it.
    ///
    /// # Errors
    /// [`NoVault`].
    pub fn session(&self, verified: &Verified, token: &str) -> Result<NoteSession, NoVault> {
        let identity = &verified.identity;
        let vault = match &identity.vault {
            VaultClaim::One(vault) => Arc::clone(vault),
            VaultClaim::None => Arc::clone(&self.vault),
            VaultClaim::Malformed => return Err(NoVault),
        };
        let credential = match &self.credential {
            UpstreamCredential::Own(own) => Some(own.clone()),
            UpstreamCredential::Forward { audience } => {
                let is_meant = identity.audiences.iter().any(|named| **named == **audience);
                is_meant.then(|| Credential::new(token))
            }
        };
        Ok(NoteSession {
            actor: Arc::clone(&identity.actor),
            user: verified.principal.subject().into(),
            vault,
            role: identity.role,
            credential,
        })
    }
}
