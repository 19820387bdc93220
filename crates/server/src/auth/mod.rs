//! Bearer tokens: makes a verified caller, a [`Principal`], of a token.
//!
//! Only this module calls [`Principal::assert_verified`]. A token passes three files in this order:
//! `jws` reads its form and header, `signature` verifies, and `claims` judges what the token says.
//! `local_tokens` does so for this server's own tokens. `provider_tokens` does so for those of an
//! identity provider, with the keys that `provider_keys` fetches and `key_set` reads.

mod claims;
mod either_tokens;
mod grant_tokens;
mod jws;
mod key_set;
mod local_tokens;
mod mint;
mod provider_keys;
mod provider_tokens;
mod rejection;
#[cfg(test)]
mod samples;
pub mod scope_doubts;
mod signature;
mod stdio_client;
mod token_uses;
#[cfg(test)]
mod vectors;
mod verified_cache;
mod verifier;

use stile_domain::client_name::{COMMAND_LINE, OWNER_PAGE};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};

pub use claims::{IdentityClaims, MAX_LIFE, VaultClaim, VerifiedCaller};
pub use either_tokens::EitherVerifier;
pub use grant_tokens::LocalTokenIssuer;
pub use key_set::{KeySetError, MAX_KEY_SET_BYTES};
pub use local_tokens::{LocalVerifier, local_token_id};
pub use mint::{MintError, MintRequest, MintedToken, Minter, ShownToken};
pub use provider_keys::{KeyFetchError, KeySource, ProviderKeys};
pub use provider_tokens::ProviderVerifier;
pub use rejection::TokenRejected;
pub use stdio_client::{ServedSpace, StdioClient, StdioRefusal, StdioRights, stdio_record};
pub(crate) use token_uses::MAX_NAME_CHARS;
pub use token_uses::{TokenUses, last_uses};
pub use verifier::{LAST_ANSWER, RIGHTS_CHECK, TokenVerifier};

/// Returns the local user, who started this process and gave the scopes, and perhaps a grant, on
/// its command line. As the client of a grant this user gets a token identifier, new for each
/// process, so that a grant for a single token is for a single process.
pub fn local_user(name: &str, scopes: Scopes, records: RecordsClaim) -> Principal {
    let token = matches!(records, RecordsClaim::Grant(_)).then(|| uuid::Uuid::new_v4().to_string());
    Principal::assert_verified(name, token.as_deref(), None, scopes, records)
}

/// Returns the owner at the command line of this program.
pub fn command_line(name: &str, scopes: Scopes, records: RecordsClaim) -> Principal {
    Principal::assert_verified(name, None, Some(COMMAND_LINE), scopes, records)
}

/// Returns the owner of the files, who has just shown a session of this server's pages.
pub fn owner_at_the_page(name: &str) -> Principal {
    let everything = Scopes::from_iter([Verb::Write, Verb::Unguard].map(Scope::everything));
    Principal::assert_verified(name, None, Some(OWNER_PAGE), everything, RecordsClaim::None)
}

/// Returns the owner of the records, who has just shown a session of this server's pages.
pub fn signed_in_owner(name: &str) -> Principal {
    Principal::assert_verified(name, None, None, Scopes::none(), RecordsClaim::Owner)
}
