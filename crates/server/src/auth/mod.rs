//! Bearer tokens: makes a verified caller, a [`Principal`], of a token.
//!
//! Only this module calls [`Principal::assert_verified`]. A token passes three files in this order:
//! `jws` reads its form and header, `signature` verifies, and `claims` judges what the token says.
//! `local_tokens` does so for this server's own tokens. `provider_tokens` does so for those of an
//! identity provider, with the keys that `provider_keys` fetches and `key_set` reads.

mod claims;
mod jws;
mod key_set;
mod local_tokens;
mod mint;
mod provider_keys;
mod provider_tokens;
#[cfg(test)]
mod samples;
mod signature;
#[cfg(test)]
mod vectors;
mod verified_cache;

use std::time::SystemTime;

use futures::future::BoxFuture;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;

pub use claims::{IdentityClaims, MAX_LIFE, VaultClaim};
pub use key_set::{KeySetError, MAX_KEY_SET_BYTES};
pub use local_tokens::LocalVerifier;
pub use mint::{MintError, MintRequest, MintedToken, mint};
pub use provider_keys::{KeyFetchError, KeySource, ProviderKeys};
pub use provider_tokens::ProviderVerifier;

/// A caller whose token was verified just now.
#[derive(Clone, Debug)]
pub struct VerifiedCaller {
    /// The caller and the scopes of the token.
    pub principal: Principal,
    /// What else the token says about the caller.
    pub identity: IdentityClaims,
    /// When the token expires. Streams that were opened with it end then.
    pub expires: SystemTime,
}

/// Why a token was refused, for the server's log. The reason holds nothing of the token. The caller
/// learns only those reasons that have a name here, and of a token that is not signed right none of
/// them but that it is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenRejected(pub &'static str);

impl TokenRejected {
    /// The token does not have the form of one.
    pub const MALFORMED: Self = Self("the token does not have three parts in base64url");
    /// The token has expired.
    pub const EXPIRED: Self = Self("the token has expired");
    /// The token was revoked, or the list of tokens does not have it.
    pub const REVOKED: Self = Self("the token was revoked or never minted here");
    /// The token's audience is not this server.
    pub const OTHER_SERVER: Self = Self("the token is for another server");
    /// The list of tokens could not be read, so nothing is known of the token.
    pub const NOT_LOOKED_UP: Self = Self("the token could not be looked up");
}

/// Turns a bearer token into a verified caller. One implementation per kind of token.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies a token. May wait for the keys of an identity provider.
    fn verify<'a>(&'a self, token: &'a str)
    -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>>;

    /// Returns whether the token of a caller was revoked after it was verified. Verifiers without a
    /// list of tokens cannot know.
    fn is_revoked(&self, _caller: &Principal) -> bool {
        false
    }
}

/// Returns the local user, who started this process and gave the scopes, and perhaps a grant, on
/// its command line. As the client of a grant this user gets a token identifier, new for each
/// process, so that a grant for a single token is for a single process.
pub fn local_user(name: &str, scopes: Scopes, records: RecordsClaim) -> Principal {
    let token = matches!(records, RecordsClaim::Grant(_)).then(|| uuid::Uuid::new_v4().to_string());
    Principal::assert_verified(name, token.as_deref(), None, scopes, records)
}

/// Refuses a token for which a rule does not hold.
fn check(holds: bool, otherwise: &'static str) -> Result<(), TokenRejected> {
    holds.then_some(()).ok_or(TokenRejected(otherwise))
}
