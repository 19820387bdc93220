//! Who is asking, from the `Authorization` header and nothing else.
//!
//! Not from the query string, where a token ends up in logs, and not from the session id, which is
//! only a name.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::auth::{TokenVerifier, VerifiedCaller};

/// Why a request has no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unauthorized {
    /// No token was sent.
    Missing,
    /// Something was sent that is no valid token.
    Invalid,
}

/// Verifies the token of a request, and hands it on to whoever shows it to another server.
///
/// # Errors
/// [`Unauthorized`]. Why a token was not valid goes to the log only.
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

/// The one bearer token of a request. Two `Authorization` headers are none: whoever stands in front
/// of us may have looked at the other.
fn token(headers: &HeaderMap) -> Result<&str, Unauthorized> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Err(Unauthorized::Missing),
        (Some(value), None) => value.to_str().map_err(|_| Unauthorized::Invalid)?,
        (Some(_), Some(_)) => return Err(Unauthorized::Invalid),
    };
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
    fn exactly_one_bearer_header_is_a_token() {
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
