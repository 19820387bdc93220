//! Who is asking: from a bearer token to a [`Principal`], and the only place where one is made.

mod claims;
mod compact;
mod crypto;
mod json;
mod key_set;
mod local_tokens;
mod mint;
mod provider_keys;
mod provider_tokens;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod vectors;
mod verified_cache;

use std::time::SystemTime;

use futures::future::BoxFuture;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;

pub use claims::{IdentityClaims, VaultClaim};
pub use local_tokens::LocalVerifier;
pub use mint::{MAX_LIFE, MintError, MintRequest, MintedToken, mint};
pub use provider_keys::{KeyFetchError, KeySource, MAX_KEY_SET_BYTES, ProviderKeys};
pub use provider_tokens::ProviderVerifier;

/// A caller whose token was verified just now.
#[derive(Clone, Debug)]
pub struct VerifiedCaller {
    /// Who, and with which scopes.
    pub principal: Principal,
    /// What else the token says of them.
    pub identity: IdentityClaims,
    /// When the token expires; streams that were opened with it end then.
    pub expires: SystemTime,
}

/// Why a token was not accepted. The caller learns only that it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenRejected(pub &'static str);

/// Checks bearer tokens.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Accepts a token or says why not. It may wait for the keys of an identity provider.
    ///
    /// # Errors
    /// [`TokenRejected`], with a reason for the server's log that holds nothing of the token.
    fn verify<'a>(&'a self, token: &'a str)
    -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>>;
}

/// The local user, who started this process and gave the scopes, and perhaps a grant, on its
/// command line. As the client of a grant they have a token identifier, new for each process: a
/// grant for a single token is for a single process.
pub fn local_user(name: &str, scopes: Scopes, records: RecordsClaim) -> Principal {
    let token = matches!(records, RecordsClaim::Grant(_)).then(|| uuid::Uuid::new_v4().to_string());
    Principal::assert_verified(name, token.as_deref(), None, scopes, records)
}
