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

/// Why a token was refused, for the server's log. The caller learns only that it was. The reason
/// holds nothing of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenRejected(pub &'static str);

/// Turns a bearer token into a verified caller. One implementation per kind of token.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies a token. May wait for the keys of an identity provider.
    fn verify<'a>(&'a self, token: &'a str)
    -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>>;
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
    if holds { Ok(()) } else { Err(TokenRejected(otherwise)) }
}
