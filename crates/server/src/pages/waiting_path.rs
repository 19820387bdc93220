//! The cookie that says which page a browser was on its way to when it had to sign in first.
//!
//! The link of the terminal does not know that page. After it, the browser that asked goes on to
//! the request that waits, and no other browser does: a stranger's request stays with the stranger.

use axum::body::Body;
use http::header::SET_COOKIE;
use http::{HeaderValue, Response};
use stile_domain::percent::{decode_form, encode_component};

use crate::sign_in::pending::WAIT_SECONDS;
use crate::sign_in::web_request::WebRequest;

/// Returns the path that a browser was on its way to, as its cookie says; `None` if there is none.
/// The caller checks that it is a path of this server.
pub fn of(request: &WebRequest) -> Option<String> {
    decode_form(request.cookie(cookie_name(request))?)
}

/// Gives a browser the cookie of a path.
pub fn remember(request: &WebRequest, path: &str, response: Response<Body>) -> Response<Body> {
    with_cookie(request, &encode_component(path), WAIT_SECONDS, response)
}

/// Takes the cookie from a browser that has it.
pub fn forget(request: &WebRequest, response: Response<Body>) -> Response<Body> {
    match request.cookie(cookie_name(request)) {
        Some(_) => with_cookie(request, "", 0, response),
        None => response,
    }
}

fn with_cookie(
    request: &WebRequest,
    value: &str,
    seconds: u64,
    mut response: Response<Body>,
) -> Response<Body> {
    let secure = if request.is_secure() { "; Secure" } else { "" };
    let name = cookie_name(request);
    let cookie =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

fn cookie_name(request: &WebRequest) -> &'static str {
    if request.is_secure() { "__Host-stile-waiting" } else { "stile-waiting" }
}
