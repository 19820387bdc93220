//! Admits requests: verifies the bearer token, then applies the rate limit of its subject.
//!
//! Every endpoint that needs a token calls [`Admission::admit`] first, and gets the caller from
//! nothing else. The token comes from the `Authorization` header only: in the query string it would
//! end up in logs, and a session id is only a name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::headers::{self, RepeatedHeader};
use super::metadata;
use super::rate_limit::RateLimit;
use crate::auth::{TokenVerifier, VerifiedCaller};

/// A request that was admitted.
pub struct Admitted<'a> {
    /// The caller that the token names.
    pub caller: VerifiedCaller,
    /// The token, for a gateway that sends it on. A log must never hold it.
    pub token: &'a str,
}

/// Why a request is not admitted. Each endpoint words the response in its own form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The request has no valid token.
    Unauthorized(Unauthorized),
    /// The subject sends too many requests; the wait until the next one.
    RateLimited(Duration),
}

/// Why a request has no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unauthorized {
    /// The request has no `Authorization` header.
    Missing,
    /// The header is repeated, is not a bearer token, or holds a token that was refused.
    Invalid,
}

/// Decides which requests are admitted. All endpoints of a server share one.
pub struct Admission {
    verifier: Arc<dyn TokenVerifier>,
    rate: RateLimit,
    public_url: Option<String>,
}

impl Admission {
    /// Admits the callers that `verifier` accepts, each as often as `rate` allows. A challenge
    /// points to metadata at `public_url`, or at the `Host` of the request if that is absent.
    pub fn new(
        verifier: Arc<dyn TokenVerifier>,
        rate: RateLimit,
        public_url: Option<String>,
    ) -> Self {
        Self { verifier, rate, public_url }
    }

    /// Verifies the token of a request and counts the request for the token's subject.
    ///
    /// # Errors
    /// [`NotAdmitted`]. The reason why a token was refused goes only to the log.
    pub async fn admit<'a>(&self, headers: &'a HeaderMap) -> Result<Admitted<'a>, NotAdmitted> {
        let token = token(headers).map_err(NotAdmitted::Unauthorized)?;
        let caller = self.verifier.verify(token).await.map_err(|rejected| {
            tracing::debug!(target: "stile::http", reason = rejected.0, "a token was rejected");
            NotAdmitted::Unauthorized(Unauthorized::Invalid)
        })?;
        let subject = caller.principal.subject();
        self.rate.take(subject, Instant::now()).map_err(NotAdmitted::RateLimited)?;
        Ok(Admitted { caller, token })
    }

    /// Returns the address where a refused client learns how to get a token.
    pub fn metadata_url(&self, headers: &HeaderMap) -> String {
        metadata::metadata_url(&metadata::origin(self.public_url.as_deref(), headers))
    }
}

fn token(headers: &HeaderMap) -> Result<&str, Unauthorized> {
    let value = headers::single(headers, &AUTHORIZATION)
        .map_err(|RepeatedHeader| Unauthorized::Invalid)?
        .ok_or(Unauthorized::Missing)?;
    let value = value.to_str().map_err(|_| Unauthorized::Invalid)?;
    let (scheme, token) = value.split_once(' ').ok_or(Unauthorized::Invalid)?;
    let token = token.trim_start_matches(' ');
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() {
        Ok(token)
    } else {
        Err(Unauthorized::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(read(values), Err(Unauthorized::Invalid), "{values:?}");
        }
    }
}
