//! The metadata of the authorization server.
//!
//! *Source*: RFC 8414, section 2; RFC 9207, section 3; RFC 9126, section 5;
//! draft-ietf-oauth-client-id-metadata-document-02, section 5.

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::json;

use crate::http::responses;

/// The path of the endpoint to which a client sends the owner's browser.
pub const AUTHORIZE_PATH: &str = "/oauth/authorize";
/// The path of the endpoint that issues tokens.
pub const TOKEN_PATH: &str = "/oauth/token";
/// The path of the endpoint where clients register.
pub const REGISTER_PATH: &str = "/oauth/register";
/// The path of the endpoint that revokes tokens.
pub const REVOKE_PATH: &str = "/oauth/revoke";
/// The path of the endpoint that says whether a token is valid.
pub const INTROSPECT_PATH: &str = "/oauth/introspect";
/// The path of the endpoint for pushed requests.
pub const PUSH_PATH: &str = "/oauth/par";
/// The path of the metadata (RFC 8414, section 3).
pub const METADATA_PATH: &str = "/.well-known/oauth-authorization-server";

/// Whether the server fetches the documents of clients whose identifier is an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentSupport {
    /// The server fetches them.
    Fetched,
    /// The server fetches none, so a client has to register.
    None,
}

/// Returns the metadata of the issuer `origin`, with the types of `authorization_details`.
pub fn answer(origin: &str, details: &[&str], documents: DocumentSupport) -> Response<Body> {
    let at = |path: &str| format!("{origin}{path}");
    let body = json!({
        "issuer": origin,
        "authorization_endpoint": at(AUTHORIZE_PATH),
        "token_endpoint": at(TOKEN_PATH),
        "registration_endpoint": at(REGISTER_PATH),
        "revocation_endpoint": at(REVOKE_PATH),
        "introspection_endpoint": at(INTROSPECT_PATH),
        "pushed_authorization_request_endpoint": at(PUSH_PATH),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "introspection_endpoint_auth_methods_supported": ["bearer"],
        "scopes_supported": ["read:/", "write:/", "append:/", "offline_access"],
        "authorization_details_types_supported": details,
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": documents == DocumentSupport::Fetched,
    });
    responses::json(StatusCode::OK, &body)
}
