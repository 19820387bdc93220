//! The endpoint where a client gives a token back.
//!
//! Revoking a refresh token ends its whole authorization. Whatever the token is, the answer is the
//! same, so that nobody learns whether a token exists.
//!
//! *Source*: RFC 7009, section 2.

use axum::body::Body;
use http::{Response, StatusCode};

use super::oauth_error::OAuthError;
use super::secret::digest_of;
use super::settings::AuthorizationServer;
use super::token::{client_of, read_form};
use super::web_request::WebRequest;
use crate::auth::local_token_id;

/// Answers a request to revoke a token.
pub fn answer(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    match revoke(server, request) {
        Ok(()) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::OK;
            response
        }
        Err(error) => error.into_response(),
    }
}

fn revoke(server: &AuthorizationServer, request: &WebRequest) -> Result<(), OAuthError> {
    server.take_turn(&request.address)?;
    let form = read_form(request)?;
    let client = client_of(server, &form)?;
    let Some(token) = form.get("token") else { return Ok(()) };
    let (tokens, now) = (server.tokens(), server.now());
    let family = tokens.authorization_of_refresh(&digest_of(token));
    if let Some(family) = family.map_err(OAuthError::of_state)? {
        if family.client == client.id {
            server.end_authorization(&family).map_err(OAuthError::of_state)?;
        }
        return Ok(());
    }
    let Some(jti) = local_token_id(&server.settings.key, token) else { return Ok(()) };
    let authorization = tokens.authorization_of_token(&jti).map_err(OAuthError::of_state)?;
    if authorization.is_some_and(|found| found.client == client.id) {
        tokens.revoke(&jti, now).map_err(OAuthError::of_state)?;
    }
    Ok(())
}
