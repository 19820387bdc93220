//! Dynamic registration: a client that the owner has never heard of says its name and where its
//! answers go. A registration gives no access and stores nothing; [`super::sealed_client`] puts it
//! into the identifier.
//!
//! *Source*: RFC 7591, sections 2 and 3.

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use stile_domain::sign_in::client_metadata::{ClientMetadata, ClientName};
use stile_store::state::ClientRecord;

use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::sealed_client::NotSealed;
use super::settings::AuthorizationServer;
use super::web_request::WebRequest;
use crate::http::responses;
use stile_domain::json::strict::parse_object;

/// The name of a client that gave none.
pub const NAMELESS: &str = "A client without a name";

/// Answers a request to register.
pub fn answer(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    match register(server, request) {
        Ok(client) => registered(&client),
        Err(error) => error.into_response(),
    }
}

fn register(
    server: &AuthorizationServer,
    request: &WebRequest,
) -> Result<ClientRecord, OAuthError> {
    server.take_registration(&request.address)?;
    let invalid = |why: &'static str| OAuthError::new(OAuthErrorCode::InvalidClientMetadata, why);
    let parsed = parse_object(&request.body);
    let object = parsed.ok_or_else(|| invalid("the body is not a JSON object"))?;
    let metadata = ClientMetadata::from_registration(&object).map_err(|bad| {
        let code = match bad.code() {
            "invalid_redirect_uri" => OAuthErrorCode::InvalidRedirectUri,
            _ => OAuthErrorCode::InvalidClientMetadata,
        };
        OAuthError::new(code, bad.to_string())
    })?;
    let name = metadata.name.as_ref().map_or(NAMELESS, ClientName::as_str);
    let redirects = metadata.redirect_uris.iter().map(|uri| uri.as_str().to_owned()).collect();
    server.seals.register(name, redirects, server.now()).map_err(|error| match error {
        NotSealed::TooLong => {
            OAuthError::new(OAuthErrorCode::InvalidClientMetadata, error.to_string())
        }
        NotSealed::Sealer(error) => OAuthError::of_state(error),
    })
}

/// Returns what was registered, which may be less than what was asked for.
fn registered(client: &ClientRecord) -> Response<Body> {
    let body: Value = json!({
        "client_id": client.id,
        "client_id_issued_at": client.created,
        "client_name": client.name,
        "redirect_uris": client.redirects,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    responses::json(StatusCode::CREATED, &body)
}
