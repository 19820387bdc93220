//! Tells browsers that pages of an allowed origin may call and read the answers.
//!
//! [`super::origin_policy`] has refused every other origin before. A browser asks in advance, with
//! a request of its own that carries no token, whether a page may send one. *Source*: WHATWG Fetch,
//! "CORS protocol"; Private Network Access, "preflight".

use axum::body::Body;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use super::responses::with_header;

const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");
/// What a page may send. `*` would not include `Authorization`.
const SENT: &str = "authorization, content-type, accept, last-event-id, mcp-protocol-version, \
                    mcp-session-id, mcp-method, mcp-name, pdpp-version, range";
/// What a page may read of a response.
const READ: &str = "mcp-session-id, www-authenticate, retry-after, request-id, content-range";
/// For how many seconds a browser need not ask again.
const MAX_AGE: &str = "600";

/// Returns the answer to a browser that asks whether a page may call; `None` for other requests.
pub fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
    let asks = headers.contains_key(ORIGIN) && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if *method != Method::OPTIONS || !asks {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let response =
        with_header(response, ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, DELETE");
    let response = with_header(response, ACCESS_CONTROL_ALLOW_HEADERS, SENT);
    let response = with_header(response, ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    Some(if headers.contains_key(REQUEST_PRIVATE_NETWORK) {
        with_header(response, ALLOW_PRIVATE_NETWORK, "true")
    } else {
        response
    })
}

/// Lets the page of an allowed `origin` read the response.
pub fn allow(mut response: Response<Body>, origin: Option<HeaderValue>) -> Response<Body> {
    let Some(origin) = origin else { return response };
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let response = with_header(response, ACCESS_CONTROL_EXPOSE_HEADERS, READ);
    with_header(response, VARY, "Origin")
}
