//! Responses that the HTTP layer makes itself, and how long a client waits before it asks again.
//!
//! Their texts are constants or come from a [`stile_domain::error::Refusal`]. None reveals what is
//! stored.

use std::time::Duration;

use axum::body::Body;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use stile_domain::records::problem::Problem;

use crate::fair_share::ShareUsedUp;
use crate::gateway::session_factory::VaultRefused;

/// When to repeat a request that found a share used up.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// The message for a request that may succeed later.
pub(super) const WAIT: &str = "wait a moment, then send it again";

/// What a challenge says for a call that the token does not cover.
const NOT_COVERED: &str = "the token does not cover this call, which needs all of these scopes";

/// Returns JSON that no cache may store.
pub fn json(status: StatusCode, body: &Value) -> Response<Body> {
    json_text(status, body.to_string())
}

/// Returns JSON that is text already and that no cache may store.
pub fn json_text(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the error object of a request that is not JSON-RPC.
pub fn plain(status: StatusCode, code: &'static str, message: &str) -> Response<Body> {
    json(status, &json!({ "error": code, "message": message }))
}

/// Returns 404 for a session that is unknown or belongs to another caller. The two look the same.
///
/// The body is not JSON, because one widely used client takes a JSON-RPC body here for the response
/// to its call, and misses that its session is gone.
pub fn no_such_session() -> Response<Body> {
    let mut response = Response::new(Body::from("Not Found: Session not found"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// Returns 403 for a token whose vault the gateway cannot serve.
pub fn vault_refused(why: VaultRefused) -> Response<Body> {
    let (code, message) = match why {
        VaultRefused::Malformed => {
            ("no_vault", "the token must name one vault, as a string in its `vault` claim")
        }
        VaultRefused::NoUpstream => (
            "no_upstream",
            "this gateway reads no notes of the token's vault, and sent no request; use a token \
             for another vault, or tell the operator of the gateway",
        ),
    };
    plain(StatusCode::FORBIDDEN, code, message)
}

/// Returns 429 with `Retry-After` for a caller whose other requests use up a share. The connection
/// closes, because the body of the request was not read.
pub fn share_used_up(used_up: ShareUsedUp) -> Box<Response<Body>> {
    let problem = Problem::from(used_up);
    let response = plain(StatusCode::TOO_MANY_REQUESTS, problem.code().0, &problem.to_string());
    Box::new(closing(with_retry_after(response, RETRY)))
}

/// The message while the service of a person cannot be opened.
pub const PERSON_UNAVAILABLE: &str = "the server cannot open your space now, because its storage \
    fails or takes no writes; nothing was done. Send the request again after the seconds in `Retry-After`";

/// Returns 503 with `Retry-After` while the service of a person cannot be opened.
pub fn person_unavailable() -> Response<Body> {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    with_retry_after(plain(status, "space_unavailable", PERSON_UNAVAILABLE), RETRY)
}

/// Returns 403 for a valid token whose scopes do not allow the call.
pub fn insufficient_scope(metadata_url: &str, scopes: &str, body: &Value) -> Response<Body> {
    let challenge = format!(
        "Bearer error=\"insufficient_scope\", error_description=\"{NOT_COVERED}\", \
         scope=\"{scopes}\", resource_metadata=\"{metadata_url}\""
    );
    with_header(json(StatusCode::FORBIDDEN, body), WWW_AUTHENTICATE, &challenge)
}

/// Returns 429 with `Retry-After`, in whole seconds.
pub(super) fn too_many(wait: Duration) -> Response<Body> {
    let response = plain(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", WAIT);
    with_retry_after(response, wait)
}

/// Returns 503 with `Retry-After`, for a file that is being changed.
pub fn busy(wait: Duration) -> Response<Body> {
    with_retry_after(plain(StatusCode::SERVICE_UNAVAILABLE, "busy", WAIT), wait)
}

/// Adds `Retry-After`, in whole seconds and at least one.
pub(super) fn with_retry_after(response: Response<Body>, wait: Duration) -> Response<Body> {
    let seconds = wait.as_millis().div_ceil(1000).max(1);
    with_header(response, RETRY_AFTER, &seconds.to_string())
}

/// Returns 500 with an incident number, after a panic. The log repeats the number.
pub fn internal() -> Response<Body> {
    let incident = stile_store::new_incident();
    tracing::error!(target: "stile::http", incident, "a handler panicked");
    json(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "error": "internal", "incident": incident }))
}

/// Adds `Connection: close`, so that the connection ends after the response.
pub fn closing(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Adds a header. Every value here is ASCII; any other would be left out.
pub(super) fn with_header(
    mut response: Response<Body>,
    name: HeaderName,
    value: &str,
) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}
