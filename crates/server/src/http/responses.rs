//! The answers that the edge gives by itself.
//!
//! Their words are constants or come from a [`stile_domain::error::Refusal`]; none says anything
//! about what is stored, and a 401 never says why.

use std::time::Duration;

use axum::body::Body;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

/// JSON with a status, never to be stored on the way.
pub fn json(status: StatusCode, body: &Value) -> Response<Body> {
    json_text(status, body.to_string())
}

/// JSON that is text already, never to be stored on the way.
pub fn json_text(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A failed request that is not JSON-RPC, told as a short object.
pub fn plain(status: StatusCode, code: &'static str, message: &str) -> Response<Body> {
    json(status, &json!({ "error": code, "message": message }))
}

/// The session is unknown, or another caller's, which is the same to the one who asks.
///
/// Not JSON: one widely used client takes a JSON-RPC body here for the answer to its call, and
/// misses that its session is gone.
pub fn no_such_session() -> Response<Body> {
    let mut response = Response::new(Body::from("Not Found: Session not found"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// The token does not say which one vault it is for.
pub fn no_vault() -> Response<Body> {
    let message = "the token must name one vault, as a string in its `vault` claim";
    plain(StatusCode::FORBIDDEN, "no_vault", message)
}

/// No token, or none that counts.
pub fn unauthorized(metadata_url: &str, token_was_sent: bool) -> Response<Body> {
    let error = if token_was_sent { "error=\"invalid_token\", " } else { "" };
    let challenge = format!("Bearer {error}resource_metadata=\"{metadata_url}\"");
    let message =
        "send a valid token as `Authorization: Bearer …`; the owner makes one with `stile token`";
    challenged(plain(StatusCode::UNAUTHORIZED, "unauthorized", message), &challenge)
}

/// The token is good, and its scopes do not allow the call.
pub fn insufficient_scope(metadata_url: &str, scopes: &str, body: &Value) -> Response<Body> {
    let challenge = format!(
        "Bearer error=\"insufficient_scope\", scope=\"{scopes}\", resource_metadata=\"{metadata_url}\""
    );
    challenged(json(StatusCode::FORBIDDEN, body), &challenge)
}

/// Too many requests of one subject.
pub fn too_many(wait: Duration) -> Response<Body> {
    let response = plain(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_requests",
        "wait a moment, then send it again",
    );
    after(response, wait)
}

/// What was asked for is being changed.
pub fn busy(wait: Duration) -> Response<Body> {
    after(plain(StatusCode::SERVICE_UNAVAILABLE, "busy", "wait a moment, then send it again"), wait)
}

fn after(response: Response<Body>, wait: Duration) -> Response<Body> {
    let seconds = wait.as_millis().div_ceil(1000).max(1);
    with_header(response, RETRY_AFTER, &seconds.to_string())
}

/// Something of ours broke. The line in the log carries the same number.
pub fn internal() -> Response<Body> {
    let incident = stile_store::new_incident();
    tracing::error!(target: "stile::http", incident, "a handler panicked");
    json(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "error": "internal", "incident": incident }))
}

/// The same answer, after which the connection is closed.
pub fn closing(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn challenged(response: Response<Body>, challenge: &str) -> Response<Body> {
    with_header(response, WWW_AUTHENTICATE, challenge)
}

/// A value that is no header value is left out; all that is put here is ASCII.
fn with_header(mut response: Response<Body>, name: HeaderName, value: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}
