//! The response to a request that is not admitted, and the challenge of a 401.
//!
//! A 401 says of a token only what its holder may know. *Source*: RFC 6750, section 3.

use axum::body::Body;
use http::header::WWW_AUTHENTICATE;
use http::{Response, StatusCode};

use super::admission::{NotAdmitted, Unauthorized};
use super::responses::{RETRY, plain, share_used_up, too_many, with_header, with_retry_after};

/// The message for a request without a valid token.
pub(super) const SEND_TOKEN: &str =
    "send a valid token as `Authorization: Bearer …`; the owner makes one with `stile token`";
/// The message while the list of tokens cannot be read.
pub(super) const TOKENS_UNAVAILABLE: &str = "the server cannot check tokens now, because its \
    storage fails; your token may be valid. Send the request again later, and tell the owner";
/// The message while the keys of the identity provider cannot be fetched.
pub(super) const PROVIDER_UNAVAILABLE: &str = "the server cannot check this token now, because \
    the identity provider does not answer; your token may be valid, and nothing was done. Send the \
    request again after the seconds in `Retry-After`";

/// The least useful scope, which a client without a token asks for first.
pub(super) const LEAST_SCOPE: &str = "read:/";

/// Returns 401, 429 or 503 for a request that was not admitted. A challenge names `scope`, if it
/// is given, for the client to ask for.
pub fn not_admitted(metadata_url: &str, scope: Option<&str>, why: NotAdmitted) -> Response<Body> {
    match why {
        NotAdmitted::Unauthorized(why) => unauthorized(metadata_url, scope, why),
        NotAdmitted::TokensUnavailable => unavailable("tokens_unavailable", TOKENS_UNAVAILABLE),
        NotAdmitted::ProviderUnavailable => {
            unavailable("provider_unavailable", PROVIDER_UNAVAILABLE)
        }
        NotAdmitted::RateLimited(wait) => too_many(wait),
        NotAdmitted::ShareUsedUp(used_up) => *share_used_up(used_up),
    }
}

/// Returns 401 with a challenge.
fn unauthorized(metadata_url: &str, scope: Option<&str>, why: Unauthorized) -> Response<Body> {
    let message = unauthorized_message(why);
    let response = plain(StatusCode::UNAUTHORIZED, "unauthorized", &message);
    with_challenge(response, metadata_url, scope, why)
}

/// Returns what a 401 says.
pub(super) fn unauthorized_message(why: Unauthorized) -> String {
    format!("{}; {SEND_TOKEN}", why.description())
}

/// Returns 503 with `Retry-After` while a token cannot be judged.
fn unavailable(code: &'static str, message: &str) -> Response<Body> {
    with_retry_after(plain(StatusCode::SERVICE_UNAVAILABLE, code, message), RETRY)
}

/// Adds the challenge of a 401.
pub(super) fn with_challenge(
    response: Response<Body>,
    metadata_url: &str,
    scope: Option<&str>,
    why: Unauthorized,
) -> Response<Body> {
    // RFC 6750, section 3.1: a request without a token learns no error.
    let error = match why {
        Unauthorized::Missing => String::new(),
        _ => format!("error=\"invalid_token\", error_description=\"{}\", ", why.description()),
    };
    let scope = scope.map(|scope| format!("scope=\"{scope}\", ")).unwrap_or_default();
    let challenge = format!("Bearer {error}{scope}resource_metadata=\"{metadata_url}\"");
    with_header(response, WWW_AUTHENTICATE, &challenge)
}
