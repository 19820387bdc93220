//! What anybody may know: that the server runs, and where tokens for it come from.

use axum::body::Body;
use http::header::HOST;
use http::{HeaderMap, Response, StatusCode};
use serde_json::json;
use stile_domain::records::request::ReadOperation;
use stile_records::list_response::{DEFAULT_LIMIT, MAX_LIMIT};

use super::answers;
use crate::mcp::identity;

/// Where the metadata of `/mcp` is found; challenges point there. *Source*: RFC 9728 §3.1.
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource/mcp";
/// Where clients look for it that know only the origin.
pub const METADATA_PATH_OF_ORIGIN: &str = "/.well-known/oauth-protected-resource";
/// Where MCP is spoken.
pub const MCP_PATH: &str = "/mcp";

/// The origin under which a client reaches the server: the configured one, or the `Host` of the
/// request, which [`super::doors`] has checked.
pub fn origin(public_url: Option<&str>, headers: &HeaderMap) -> String {
    match public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
            format!("http://{host}")
        }
    }
}

/// Where a client that was refused finds out how to get a token.
pub fn metadata_url(origin: &str) -> String {
    format!("{origin}{METADATA_PATH}")
}

/// The metadata of the protected resource `/mcp`. *Source*: RFC 9728 §2; MCP wants at least one
/// authorization server, so a server whose owner makes the tokens names itself.
///
/// Where there are records, clients of those are told here that and how they can be searched.
pub fn protected_resource(
    origin: &str,
    authorization_servers: &[String],
    has_scopes: bool,
    has_records: bool,
) -> Response<Body> {
    let own = [origin.to_owned()];
    let servers = if authorization_servers.is_empty() { &own } else { authorization_servers };
    let mut body = json!({
        "resource": format!("{origin}{MCP_PATH}"),
        "resource_name": identity::TITLE,
        "authorization_servers": servers,
        "bearer_methods_supported": ["header"],
    });
    if has_scopes && let Some(members) = body.as_object_mut() {
        // The least that is of use; a challenge names what a call needs. In the gateway roles
        // decide.
        members.insert("scopes_supported".to_owned(), json!(["read:/"]));
    }
    if has_records && let Some(members) = body.as_object_mut() {
        let search = json!({
            "supported": true, "endpoint": ReadOperation::Search.path(), "cross_stream": true, "snippets": true,
            "default_limit": DEFAULT_LIMIT, "max_limit": MAX_LIMIT, "cursor_supported": true,
            "score": { "supported": false },
        });
        let bounded = json!({ "preview_chars": true, "preview_bytes": true, "cursors": "each", "byte_windows": true });
        let capabilities = json!({ "lexical_retrieval": search, "bounded_reads": bounded });
        members.insert("capabilities".to_owned(), capabilities);
    }
    answers::json(StatusCode::OK, &body)
}

/// That the server runs, and which build.
pub fn health() -> Response<Body> {
    answers::json(StatusCode::OK, &json!({ "status": "ok", "version": identity::VERSION }))
}
