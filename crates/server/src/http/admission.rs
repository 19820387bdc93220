//! Admits requests: verifies the bearer token, applies the rate limit of its subject, and takes the
//! caller's share of connections and of calls in flight.
//!
//! Every endpoint that needs a token calls [`Admission::admit`] first, and gets the caller from
//! nothing else. The token comes from the `Authorization` header only: in the query string it would
//! end up in logs, and a session id is only a name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;

use stile_domain::permit::Principal;

use super::connection::ConnectionState;
use super::headers::{self, RepeatedHeader};
use super::metadata;
use super::peer::RequestOrigin;
use super::rate_limit::RateLimit;
use crate::auth::{RIGHTS_CHECK, TokenRejected, TokenVerifier, VerifiedCaller};
use crate::fair_share::{Neighbour, Share, ShareUsedUp};
use crate::shares::Shares;

/// A request that was admitted.
pub struct Admitted<'a> {
    /// The caller that the token names.
    pub caller: VerifiedCaller,
    /// The token, for a gateway that sends it on. A log must never hold it.
    pub token: &'a str,
    /// The caller, as the shared resources know it.
    pub neighbour: Neighbour,
    /// The part of the calls in flight, held until the response has been sent.
    pub call: Share,
}

/// Why a request is not admitted. Each endpoint words the response in its own form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The request has no valid token.
    Unauthorized(Unauthorized),
    /// The list of tokens cannot be read, so the token may be valid.
    TokensUnavailable,
    /// The identity provider cannot be reached to judge the token, which may be valid.
    ProviderUnavailable,
    /// The subject sends too many requests; the wait until the next one.
    RateLimited(Duration),
    /// Other requests of the caller use up a share.
    ShareUsedUp(ShareUsedUp),
}

/// Why a request has no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unauthorized {
    /// The request has no `Authorization` header.
    Missing,
    /// The header is repeated or is not a bearer token, or the token does not have the form of one.
    Malformed,
    /// The token has expired.
    Expired,
    /// The token was revoked.
    Revoked,
    /// The token is for another server.
    OtherServer,
    /// The token is for another space of the same owner.
    OtherSpace,
    /// The token was made by a version that did not bind tokens to a space.
    Old,
    /// The token was refused for another reason, which only the log names.
    Invalid,
}

impl Unauthorized {
    /// Returns what the caller learns, as a sentence without its end.
    pub fn description(self) -> &'static str {
        match self {
            Self::Missing => "the request has no token",
            Self::Malformed => "the token is malformed",
            Self::Expired => "the token has expired",
            Self::Revoked => "the token was revoked",
            Self::OtherServer => "the token is for another server",
            Self::OtherSpace => "the token is for another space of this owner",
            Self::Old => "the token is from an older version and must be made again",
            Self::Invalid => "the token is not valid here",
        }
    }
}

impl From<TokenRejected> for NotAdmitted {
    fn from(rejected: TokenRejected) -> Self {
        Self::Unauthorized(match rejected {
            TokenRejected::NOT_LOOKED_UP => return Self::TokensUnavailable,
            TokenRejected::PROVIDER_DOWN => return Self::ProviderUnavailable,
            TokenRejected::MALFORMED => Unauthorized::Malformed,
            TokenRejected::EXPIRED => Unauthorized::Expired,
            TokenRejected::REVOKED => Unauthorized::Revoked,
            TokenRejected::OTHER_SERVER => Unauthorized::OtherServer,
            TokenRejected::OTHER_SPACE => Unauthorized::OtherSpace,
            TokenRejected::OLD => Unauthorized::Old,
            _ => Unauthorized::Invalid,
        })
    }
}

/// Decides which requests are admitted. All endpoints of a server share one.
pub struct Admission {
    verifier: Arc<dyn TokenVerifier>,
    rate: RateLimit,
    shares: Arc<Shares>,
    public_url: Option<String>,
}

impl Admission {
    /// Admits the callers that `verifier` accepts, each as often as `rate` and as many at once as
    /// `shares` allow. A challenge points to metadata at `public_url`, or at the `Host` of the
    /// request if that is absent.
    pub fn new(
        verifier: Arc<dyn TokenVerifier>,
        rate: RateLimit,
        shares: Arc<Shares>,
        public_url: Option<String>,
    ) -> Self {
        Self { verifier, rate, shares, public_url }
    }

    /// Verifies the token of a request and counts the request for the token's subject. Waits, for a
    /// bounded time, while other requests of the caller use up its share of calls.
    ///
    /// # Errors
    /// [`NotAdmitted`]. The reason why a token was refused goes only to the log.
    pub async fn admit<'a>(&self, parts: &'a Parts) -> Result<Admitted<'a>, NotAdmitted> {
        let token = token(&parts.headers).map_err(NotAdmitted::Unauthorized)?;
        let caller = self.verifier.verify(token).await.map_err(|rejected| {
            let origin = parts.extensions.get::<RequestOrigin>();
            tracing::debug!(
                target: "stile::http",
                reason = rejected.0,
                client = origin.map(|origin| tracing::field::display(origin.address)),
                "a token was rejected"
            );
            NotAdmitted::from(rejected)
        })?;
        let subject = caller.principal.subject();
        self.rate.take(subject, Instant::now()).map_err(NotAdmitted::RateLimited)?;
        let neighbour = Neighbour::of(&caller.principal);
        if let Some(connection) = parts.extensions.get::<Arc<ConnectionState>>() {
            connection.admit(&self.shares.connections, &neighbour)?;
        }
        let call = self.shares.calls.take(&neighbour, 1).await?;
        Ok(Admitted { caller, token, neighbour, call })
    }

    /// Returns whether the token of an admitted caller was revoked meanwhile, or allows less.
    pub fn is_revoked(&self, caller: &Principal) -> bool {
        self.verifier.is_revoked(caller)
    }

    /// Notes what the client of an admitted caller calls itself, for the owner's lists.
    pub fn calls_itself(&self, caller: &Principal, name: &str) {
        self.verifier.calls_itself(caller, name);
    }

    /// Waits until the token of an admitted caller is revoked, or allows less.
    pub async fn revoked(&self, caller: &Principal) {
        loop {
            tokio::time::sleep(RIGHTS_CHECK).await;
            if self.is_revoked(caller) {
                return;
            }
        }
    }

    /// Returns an admitted caller with what their token allows now; `None` if it was revoked.
    pub fn current(&self, caller: &Principal) -> Option<Principal> {
        self.verifier.current(caller)
    }

    /// Returns the shared resources, for what a request uses after it was admitted.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Returns the address where a refused client learns how to get a token.
    pub fn metadata_url(&self, request: &Parts) -> String {
        let origin = metadata::origin(self.public_url.as_deref(), request);
        let query = metadata::shown_query(request.uri.query());
        metadata::metadata_url(&origin, request.uri.path(), &query)
    }
}

impl From<ShareUsedUp> for NotAdmitted {
    fn from(used_up: ShareUsedUp) -> Self {
        Self::ShareUsedUp(used_up)
    }
}

fn token(headers: &HeaderMap) -> Result<&str, Unauthorized> {
    let value = headers::single(headers, &AUTHORIZATION)
        .map_err(|RepeatedHeader| Unauthorized::Malformed)?
        .ok_or(Unauthorized::Missing)?;
    let value = value.to_str().map_err(|_| Unauthorized::Malformed)?;
    let (scheme, token) = value.split_once(' ').ok_or(Unauthorized::Malformed)?;
    let token = token.trim_start_matches(' ');
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() {
        Ok(token)
    } else {
        Err(Unauthorized::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::VerifiedCaller;
    use futures::future::BoxFuture;

    #[test]
    fn each_rejection_of_a_token_keeps_its_reason() {
        for (rejected, reason) in [
            (TokenRejected::MALFORMED, Unauthorized::Malformed),
            (TokenRejected::EXPIRED, Unauthorized::Expired),
            (TokenRejected::REVOKED, Unauthorized::Revoked),
            (TokenRejected::OTHER_SERVER, Unauthorized::OtherServer),
            (TokenRejected::OTHER_SPACE, Unauthorized::OtherSpace),
            (TokenRejected::OLD, Unauthorized::Old),
        ] {
            assert_eq!(NotAdmitted::from(rejected), NotAdmitted::Unauthorized(reason));
        }
        // A token that nobody could judge is not called wrong.
        for (rejected, expected) in [
            (TokenRejected::NOT_LOOKED_UP, NotAdmitted::TokensUnavailable),
            (TokenRejected::PROVIDER_DOWN, NotAdmitted::ProviderUnavailable),
        ] {
            assert_eq!(NotAdmitted::from(rejected), expected);
        }
    }

    /// Rejects every token.
    struct Nobody;

    impl TokenVerifier for Nobody {
        fn verify<'a>(
            &'a self,
            _: &'a str,
        ) -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>> {
            Box::pin(std::future::ready(Err(TokenRejected::MALFORMED)))
        }
    }

    #[test]
    fn what_one_endpoint_takes_of_a_resource_the_others_lack() {
        let shares = Arc::new(Shares::default());
        let rate = RateLimit::new(1, 1);
        let admission = Admission::new(Arc::new(Nobody), rate, Arc::clone(&shares), None);
        assert!(std::ptr::eq(admission.shares(), Arc::as_ptr(&shares)));
    }

    #[test]
    fn a_token_is_read_from_exactly_one_bearer_header() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            token(&headers).map(str::to_owned)
        };
        assert_eq!(read(&["Bearer a.b.c"]), Ok("a.b.c".into()));
        assert_eq!(read(&["bearer  a.b.c"]), Ok("a.b.c".into()));
        assert_eq!(read(&[]), Err(Unauthorized::Missing));
        for values in
            [&["Bearer"][..], &["Bearer "], &["Basic abc"], &["a.b.c"], &["Bearer a", "Bearer a"]]
        {
            assert_eq!(read(values), Err(Unauthorized::Malformed), "{values:?}");
        }
    }
}
