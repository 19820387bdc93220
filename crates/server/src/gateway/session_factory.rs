//! Makes the session of a gateway call from the caller's verified token.
//!
//! Every value in a session comes from the token or from the configuration, never from a header, an
//! argument or an earlier request.

use std::sync::Arc;

use stile_tools::note_session::{Credential, NoteSession, PathJudge};

use crate::auth::{VaultClaim, VerifiedCaller};
use crate::by_vault::ByVault;

/// Makes sessions by the gateway's configuration.
#[derive(Clone, Debug)]
pub struct SessionFactory {
    /// The vault of a caller whose token names no vault.
    pub default_vault: Arc<str>,
    /// Which token the gateway sends to the server that has the notes of a vault. A vault without
    /// one has no server.
    pub credentials: ByVault<UpstreamCredential>,
}

/// Which token the gateway sends to the server that has the notes.
#[derive(Clone, Debug)]
pub enum UpstreamCredential {
    /// The caller's own token, if one of its audiences is `audience`.
    Forward {
        /// The `aud` of the server that has the notes.
        audience: Arc<str>,
    },
    /// The gateway's own token.
    Own {
        /// The token.
        token: Credential,
        /// Whether the caller's path scopes bind the caller.
        path_judge: PathJudge,
    },
}

/// Why the gateway makes no session for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VaultRefused {
    /// The token's vault claim does not name exactly one vault.
    Malformed,
    /// No server is configured that has the notes of the token's vault.
    NoUpstream,
}

impl SessionFactory {
    /// Makes the session of one request from the token that came with the request.
    ///
    /// The session has no credential if the gateway forwards tokens and this token is not meant for
    /// the server that has the notes.
    ///
    /// # Errors
    /// [`VaultRefused`].
    pub fn session(
        &self,
        verified: &VerifiedCaller,
        token: &str,
    ) -> Result<NoteSession, VaultRefused> {
        let identity = &verified.identity;
        let vault = match &identity.vault {
            VaultClaim::One(vault) => Arc::clone(vault),
            VaultClaim::None => Arc::clone(&self.default_vault),
            VaultClaim::Malformed => return Err(VaultRefused::Malformed),
        };
        let credential = self.credentials.get(&vault).ok_or(VaultRefused::NoUpstream)?;
        let (credential, path_judge) = match credential {
            UpstreamCredential::Own { token, path_judge } => (Some(token.clone()), *path_judge),
            UpstreamCredential::Forward { audience } => {
                let is_for_upstream = identity.audiences.iter().any(|named| **named == **audience);
                (is_for_upstream.then(|| Credential::new(token)), PathJudge::Upstream)
            }
        };
        Ok(NoteSession {
            actor: Arc::clone(&identity.actor),
            user: verified.principal.subject().into(),
            vault,
            role: identity.role,
            credential,
            path_judge,
        })
    }
}
