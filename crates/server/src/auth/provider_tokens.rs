//! Verifies the tokens of an identity provider.
//!
//! Such a token is signed with RS256 or ES256 by a key of the provider's set, issued by exactly the
//! configured issuer, and addressed to this server. `jws` and `claims` state the rules that every
//! token must keep. A token that was verified is remembered by `verified_cache`.

use std::sync::Arc;
use std::time::SystemTime;

use futures::future::BoxFuture;

use super::claims::{Claims, Validity, VerifiedCaller, is_name, truncated_seconds};
use super::jws::CompactJws;
use super::provider_keys::ProviderKeys;
use super::rejection::{TokenRejected, check};
use super::verified_cache::VerifiedCache;
use super::verifier::TokenVerifier;
use crate::clock::unix_seconds;

/// Accepts tokens that one identity provider signed for this server.
pub struct ProviderVerifier {
    keys: ProviderKeys,
    issuer: Arc<str>,
    audience: String,
    clock: fn() -> SystemTime,
    cache: VerifiedCache,
}

impl ProviderVerifier {
    /// A verifier for the tokens that `issuer` signed with one of `keys` and addressed to
    /// `audience`, which reads the time from `clock`.
    pub fn new(
        keys: ProviderKeys,
        issuer: &str,
        audience: &str,
        clock: fn() -> SystemTime,
    ) -> Self {
        let (issuer, audience) = (issuer.into(), audience.to_owned());
        Self { keys, issuer, audience, clock, cache: VerifiedCache::default() }
    }

    /// Verifies a token, and waits for the provider's keys if none of those known fits.
    async fn verify_waiting(&self, token: &str) -> Result<VerifiedCaller, TokenRejected> {
        let now = unix_seconds((self.clock)());
        let set = self.keys.current();
        if let Some(caller) = set.and_then(|set| self.cache.get(token, &set, now)) {
            return Ok(caller);
        }
        let jws = CompactJws::parse(token)?;
        let header = jws.provider_header()?;
        let set = self
            .keys
            .verify(header.kid.as_deref(), header.algorithm, jws.signing_input, &jws.signature)
            .await?;
        let (caller, validity) = self.judge(jws.claims()?)?;
        self.cache.insert(token, set, validity, &caller, now);
        Ok(caller)
    }

    /// Verifies an identity token of OpenID Connect. The audience of this verifier is the client
    /// that signs people in, and `nonce` is what that client sent for this sign-in.
    ///
    /// # Errors
    /// [`TokenRejected`]; nobody is signed in.
    pub async fn verify_identity(
        &self,
        token: &str,
        nonce: &str,
    ) -> Result<VerifiedCaller, TokenRejected> {
        let jws = CompactJws::parse(token)?;
        let header = jws.provider_header()?;
        let kid = header.kid.as_deref();
        self.keys.verify(kid, header.algorithm, jws.signing_input, &jws.signature).await?;
        let claims = jws.claims()?;
        claims.check_identity(&self.audience, nonce)?;
        Ok(self.judge(claims)?.0)
    }

    /// Judges the claims of a token whose signature is right.
    fn judge(&self, mut claims: Claims) -> Result<(VerifiedCaller, Validity), TokenRejected> {
        let is_issuer = claims.iss.as_ref().is_some_and(|issuer| issuer == &*self.issuer);
        check(is_issuer, "the token is of another issuer")?;
        claims.check_audience(&self.audience)?;
        check(is_name(&claims.sub), "the subject is not a name")?;
        check(claims.jti.as_deref() != Some(""), "the identifier is empty")?;
        let validity = claims.validity(truncated_seconds)?;
        // The clock is read again, because the provider's keys may have been waited for.
        validity.check(unix_seconds((self.clock)()))?;
        // Only a token of this server can make its bearer the owner of the records.
        claims.records = None;
        let caller = claims.into_caller(Some(Arc::clone(&self.issuer)), validity)?;
        Ok((caller, validity))
    }
}

impl TokenVerifier for ProviderVerifier {
    fn verify<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>> {
        Box::pin(self.verify_waiting(token))
    }
}

#[cfg(test)]
mod tests;
