//! Verifies the tokens of a server that has an identity provider and issues tokens to clients.
//!
//! The header decides which rules a token is held to, and each kind of rules accepts its own header
//! only. So a token cannot choose the weaker of two rules.

use std::sync::Arc;

use futures::future::BoxFuture;
use stile_domain::permit::Principal;

use super::claims::VerifiedCaller;
use super::jws::has_local_header;
use super::local_tokens::LocalVerifier;
use super::provider_tokens::ProviderVerifier;
use super::rejection::TokenRejected;
use super::verifier::TokenVerifier;

/// Accepts tokens of the identity provider, and those that a person let a client have.
pub struct EitherVerifier {
    /// Verifies the tokens that this server issued.
    pub local: Arc<LocalVerifier>,
    /// Verifies the tokens of the identity provider.
    pub provider: Arc<ProviderVerifier>,
}

impl TokenVerifier for EitherVerifier {
    fn verify<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>> {
        if has_local_header(token) { self.local.verify(token) } else { self.provider.verify(token) }
    }

    fn is_revoked(&self, caller: &Principal) -> bool {
        // The provider's tokens are not listed here, and one may have any identifier.
        match caller.token().map(|jti| self.local.is_listed(jti)) {
            Some(true) => self.local.is_revoked(caller),
            _ => false,
        }
    }

    fn calls_itself(&self, caller: &Principal, name: &str) {
        if caller.token().is_some_and(|jti| self.local.is_listed(jti)) {
            self.local.calls_itself(caller, name);
        }
    }

    fn current(&self, caller: &Principal) -> Option<Principal> {
        match caller.token().map(|jti| self.local.is_listed(jti)) {
            Some(true) => self.local.current(caller),
            _ => Some(caller.clone()),
        }
    }
}
