//! The port through which a transport verifies tokens.

use std::time::Duration;

use futures::future::BoxFuture;

use stile_domain::permit::Principal;

use super::claims::VerifiedCaller;
use super::rejection::TokenRejected;

/// How often it is looked up, while a caller is served, whether the caller may still do what it
/// may.
pub const RIGHTS_CHECK: Duration = Duration::from_millis(500);
/// How long a call that is cancelled because its caller may do less now may take to answer.
pub const LAST_ANSWER: Duration = Duration::from_secs(2);

/// Turns a bearer token into a verified caller. One implementation per kind of token.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies a token. May wait for the keys of an identity provider.
    fn verify<'a>(&'a self, token: &'a str)
    -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>>;

    /// Returns whether the token of a caller was revoked after it was verified, or allows less than
    /// it did. Verifiers without a list of tokens cannot know.
    fn is_revoked(&self, _caller: &Principal) -> bool {
        false
    }

    /// Notes what the client of a caller calls itself, for the owner's lists. Verifiers without a
    /// list of tokens note nothing.
    fn calls_itself(&self, _caller: &Principal, _name: &str) {}

    /// Returns a caller with what their token allows now; `None` if it was revoked after it was
    /// verified.
    fn current(&self, caller: &Principal) -> Option<Principal> {
        (!self.is_revoked(caller)).then(|| caller.clone())
    }
}
