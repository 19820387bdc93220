//! Finds the caller of a request by its `Authorization` header and nothing else.
//!
//! A token in the query string would end up in logs, and a session id is only a name.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::headers::{self, RepeatedHeader};
use crate::auth::{TokenVerifier, VerifiedCaller};

/// Why a request has no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unauthorized {
    /// The request has no `Authorization` header.
    Missing,
    /// The header is repeated, is not a bearer token, or holds a token that was refused.
    Invalid,
}

/// Verifies the token of a request. Returns the token too, for a gateway that sends it on.
///
/// # Errors
/// [`Unauthorized`]. The reason why a token was refused goes only to the log.
pub async fn authenticate<'a>(
    headers: &'a HeaderMap,
    verifier: &dyn TokenVerifier,
) -> Result<(VerifiedCaller, &'a str), Unauthorized> {
    let token = token(headers)?;
    let verified = verifier.verify(token).await.map_err(|rejected| {
        tracing::debug!(target: "stile::http", reason = rejected.0, "a token was rejected");
        Unauthorized::Invalid
    })?;
    Ok((verified, token))
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
