//! Pushed requests: a client sends its request here first, and the browser carries a reference.
//!
//! *Source*: RFC 9126, sections 2 and 4.

use std::time::Instant;

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::json;

use super::authorize::{RefusedRequest, check};
use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::pending::{REQUEST_URI, SentRequest, WAIT_SECONDS};
use super::settings::AuthorizationServer;
use super::token::{client_of, read_form};
use super::web_request::WebRequest;
use crate::http::responses;

/// Answers a pushed request.
pub fn answer(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    match push(server, request) {
        Ok(handle) => {
            let body = json!({
                "request_uri": format!("{REQUEST_URI}{handle}"),
                "expires_in": WAIT_SECONDS,
            });
            responses::json(StatusCode::CREATED, &body)
        }
        Err(error) => error.into_response(),
    }
}

fn push(server: &AuthorizationServer, request: &WebRequest) -> Result<String, OAuthError> {
    server.take_turn(&request.address)?;
    let form = read_form(request)?;
    client_of(server, &form)?;
    if form.get("request_uri").is_some() {
        let why = "a pushed request cannot refer to another";
        return Err(OAuthError::new(OAuthErrorCode::InvalidRequest, why));
    }
    check(server, &form, &request.origin).map_err(|refused| match refused {
        RefusedRequest::Here(error) | RefusedRequest::AtClient(_, error) => error,
    })?;
    let parameters = request.form().unwrap_or_default().to_owned();
    let sent = SentRequest { parameters, origin: request.origin.clone() };
    let kept = server.pending.keep(sent, &request.address, Instant::now());
    kept.map_err(OAuthError::of_state)
}
