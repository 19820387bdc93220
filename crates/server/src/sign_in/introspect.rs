//! Introspection for the owner's own servers: whether an access token is valid now, and for what.
//!
//! The caller presents the owner's token. Of a token that is not valid here, the answer says
//! nothing more.
//!
//! *Source*: RFC 7662, section 2; RFC 9396, section 9.2.

use std::time::UNIX_EPOCH;

use axum::body::Body;
use http::header::AUTHORIZATION;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use stile_domain::records::authority::RecordsClaim;

use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::settings::AuthorizationServer;
use super::token::read_form;
use super::web_request::WebRequest;
use crate::auth::VerifiedCaller;
use crate::http::responses;

/// Answers whether a token is valid.
pub fn answer(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    match introspect(server, request) {
        Ok(body) => responses::json(StatusCode::OK, &body),
        Err(error) => error.into_response(),
    }
}

fn introspect(server: &AuthorizationServer, request: &WebRequest) -> Result<Value, OAuthError> {
    server.take_turn(&request.address)?;
    let bearer = request.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let caller = server.settings.verifier.verify_now(bearer).ok();
    let is_owner = |caller: &VerifiedCaller| *caller.principal.records() == RecordsClaim::Owner;
    let Some(owner) = caller.filter(is_owner) else {
        let why = "introspection needs a token of stile token --owner";
        return Err(OAuthError::new(OAuthErrorCode::InvalidToken, why));
    };
    let form = read_form(request)?;
    let token = form
        .get("token")
        .ok_or_else(|| OAuthError::new(OAuthErrorCode::InvalidRequest, "token is missing"))?;
    let inactive = json!({ "active": false });
    let Ok(verified) = server.settings.verifier.verify_now(token) else { return Ok(inactive) };
    let jti = verified.principal.token().unwrap_or_default();
    let found = server.tokens().find(jti).map_err(OAuthError::of_state)?;
    let Some(record) = found else { return Ok(inactive) };
    // Where each person owns a space, a person learns nothing of the tokens of others.
    let is_of_others = verified.principal.subject() != owner.principal.subject();
    if is_of_others && server.settings.owners.are_people() {
        return Ok(inactive);
    }
    let expires = verified.expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let from = server.tokens().authorization_of_token(jti).map_err(OAuthError::of_state)?;
    let mut body = Map::from_iter([
        ("active".to_owned(), json!(true)),
        ("token_type".to_owned(), json!("Bearer")),
        ("iss".to_owned(), json!(request.origin)),
        ("sub".to_owned(), json!(record.subject)),
        ("username".to_owned(), json!(record.subject)),
        ("aud".to_owned(), json!(record.audience)),
        ("jti".to_owned(), json!(record.jti)),
        ("iat".to_owned(), json!(record.issued)),
        ("exp".to_owned(), json!(expires)),
    ]);
    let (scopes, grant) = match &from {
        Some(from) => (&from.scopes, &from.grant),
        None => (&record.scopes, &record.grant),
    };
    body.insert("scope".to_owned(), json!(scopes));
    if let Some(from) = &from {
        body.insert("client_id".to_owned(), json!(from.client));
    }
    if let Some(grant) = grant {
        if let Some(detail) = server.granted_detail(&record.subject, grant) {
            body.insert("authorization_details".to_owned(), json!([detail]));
        }
        body.insert("grant_id".to_owned(), json!(grant));
    }
    Ok(Value::Object(body))
}
