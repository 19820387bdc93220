//! Public metadata: that the server runs, and where clients get tokens (RFC 9728).

use std::sync::Arc;

use axum::body::Body;
use http::header::HOST;
use http::request::Parts;
use http::uri::Scheme;
use http::{Response, StatusCode};
use serde_json::json;
use stile_domain::records::request::shared_parameters::{DEFAULT_LIMIT, MAX_LIMIT};
use stile_domain::records::request::{ReadOperation as _, SearchRecords};
use stile_records::grant_document::REQUEST_TYPE;

use stile_tools::space::SpaceTools;

use tokio_util::sync::CancellationToken;

use super::peer::RequestOrigin;
use super::responses;
use crate::fleet::Fleet;
use crate::mcp::presentation::Presentation;
use crate::mcp::server_info;

/// The path of the metadata of the whole origin, to which the challenges of `/` and of all but the
/// MCP endpoint point. The metadata of `/mcp` has that path behind this one. *Source*: RFC 9728
/// §3.1.
pub const METADATA_PATH_OF_ORIGIN: &str = "/.well-known/oauth-protected-resource";
/// The same path as people and clients also write it.
pub const METADATA_PATH_OF_ROOT: &str = "/.well-known/oauth-protected-resource/";
/// The path of the metadata of `/mcp`, to which its challenges point.
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource/mcp";
/// The path of the metadata of `/mcp/`.
pub const METADATA_PATH_WITH_SLASH: &str = "/.well-known/oauth-protected-resource/mcp/";
/// The path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";
/// The MCP endpoint, as some people write it. It has metadata of its own, because a client may
/// compare the address in the metadata with the one that it was given.
pub const MCP_PATH_WITH_SLASH: &str = "/mcp/";
/// The MCP endpoint for people who give the origin alone, with metadata of its own.
pub const ROOT_PATH: &str = "/";

/// Returns the origin under which a client reaches the server: the configured one, or else the
/// `Host` of the request, which [`super::origin_policy`] has checked, with the client's scheme.
pub fn origin(public_url: Option<&str>, request: &Parts) -> String {
    match public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => {
            let host = request.headers.get(HOST).and_then(|host| host.to_str().ok());
            let origin = request.extensions.get::<RequestOrigin>();
            let scheme = origin.map_or(&Scheme::HTTP, |origin| &origin.scheme);
            format!("{scheme}://{}", host.unwrap_or("localhost"))
        }
    }
}

/// Returns the address where a client that was refused at a path and a query (see
/// [`shown_query`]) learns how to get a token.
///
/// An origin with a query has a path in the libraries that clients compare addresses with, `/`. So
/// the `resource` in its metadata has it, too.
pub fn metadata_url(origin: &str, path: &str, query: &str) -> String {
    let metadata = match path {
        MCP_PATH => METADATA_PATH,
        MCP_PATH_WITH_SLASH => METADATA_PATH_WITH_SLASH,
        ROOT_PATH if !query.is_empty() => METADATA_PATH_OF_ROOT,
        _ => METADATA_PATH_OF_ORIGIN,
    };
    format!("{origin}{metadata}{query}")
}

/// Returns the query of an address with its `?`, if it says how tools and answers are shown and
/// nothing else; or else an empty text. With it the address stays one of this server, which the
/// metadata names as the client called it.
pub fn shown_query(query: Option<&str>) -> String {
    let query = query.filter(|query| Presentation::is_all_of(query));
    query.map(|query| format!("?{query}")).unwrap_or_default()
}

/// Returns whether an address, or the origin alone, leads to the MCP endpoint of this server.
pub fn is_own_resource(origin: &str, resource: &str) -> bool {
    let Some(rest) = resource.strip_prefix(origin) else { return false };
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, it)| (path, Some(it)));
    let is_own_query = query.is_none_or(Presentation::is_all_of);
    matches!(path, "" | ROOT_PATH | MCP_PATH | MCP_PATH_WITH_SLASH) && is_own_query
}

/// Returns 404 for an address at which there is nothing, such as `/sse`, and says which one to use.
pub fn nothing_here(origin: &str) -> Response<Body> {
    let message = format!(
        "there is nothing at this address; give an MCP client {origin}{MCP_PATH} (Streamable \
         HTTP; this server has no SSE transport), and open {origin}{ROOT_PATH} in a browser"
    );
    responses::plain(StatusCode::NOT_FOUND, "not_found", &message)
}

/// What a server supports, for its metadata.
#[derive(Clone, Copy, Debug)]
pub struct SupportedFeatures {
    /// Tokens have scopes on files. In the gateway, roles decide instead.
    pub scopes: bool,
    /// The server has records, which clients can search and read in parts.
    pub records: bool,
    /// A client that signs in can ask for records.
    pub record_requests: bool,
}

/// Returns the metadata at `path`: of the address whose path is behind
/// [`METADATA_PATH_OF_ORIGIN`].
///
/// A server whose owner makes the tokens names no authorization server, because there is none to
/// ask.
///
/// *Source*: RFC 9728 §2 and §3.3.
pub fn protected_resource(
    origin: &str,
    path: &str,
    authorization_servers: Vec<String>,
    supported: SupportedFeatures,
) -> Response<Body> {
    let resource = path.strip_prefix(METADATA_PATH_OF_ORIGIN).unwrap_or_default();
    let mut body = json!({
        "resource": format!("{origin}{resource}"),
        "resource_name": server_info::TITLE,
        "bearer_methods_supported": ["header"],
    });
    if !authorization_servers.is_empty()
        && let Some(members) = body.as_object_mut()
    {
        members.insert("authorization_servers".to_owned(), json!(authorization_servers));
    }
    if supported.record_requests
        && let Some(members) = body.as_object_mut()
    {
        // No scope opens records: a client asks for them by these documents. RFC 9728 §2.
        members.insert("authorization_details_types_supported".to_owned(), json!([REQUEST_TYPE]));
    }
    if supported.scopes
        && let Some(members) = body.as_object_mut()
    {
        // The least useful scope. A challenge names the scope that a call needs.
        members.insert("scopes_supported".to_owned(), json!(["read:/"]));
    }
    if supported.records
        && let Some(members) = body.as_object_mut()
    {
        let search = json!({
            "supported": true,
            "endpoint": SearchRecords::PATH,
            "cross_stream": true,
            "snippets": true,
            "default_limit": DEFAULT_LIMIT,
            "max_limit": MAX_LIMIT,
            "cursor_supported": true,
            "score": { "supported": false },
        });
        let bounded = json!({
            "preview_chars": true,
            "preview_bytes": true,
            "cursors": "each",
            "byte_windows": true,
        });
        let capabilities = json!({ "lexical_retrieval": search, "bounded_reads": bounded });
        members.insert("capabilities".to_owned(), capabilities);
    }
    responses::json(StatusCode::OK, &body)
}

/// Returns 200 if requests can be sent to this server now, or 503 and why not: the server stops,
/// the database does not answer, the clock of the machine is not the database's, or the space
/// cannot be changed. A database that only reads is 200, and is named.
pub async fn ready(
    space: Option<SpaceTools>,
    fleet: Option<Arc<Fleet>>,
    stopping: CancellationToken,
) -> Response<Body> {
    let refused = |status: &str| {
        let body = json!({ "status": status, "version": server_info::VERSION });
        responses::json(StatusCode::SERVICE_UNAVAILABLE, &body)
    };
    if stopping.is_cancelled() {
        return refused("stopping");
    }
    let note = match fleet {
        None => None,
        Some(fleet) => match fleet.readiness().await {
            Ok(note) => note,
            Err(why) => return refused(&why),
        },
    };
    health_with(space, note).await
}

/// Returns 200 with the version of the server, or 503 if its space cannot be changed: the folder
/// is not in place, or the journal has no room.
pub async fn health(space: Option<SpaceTools>) -> Response<Body> {
    health_with(space, None).await
}

async fn health_with(space: Option<SpaceTools>, note: Option<&'static str>) -> Response<Body> {
    let checked = match &space {
        Some(space) => space.check_ready().await,
        None => Ok(()),
    };
    let (code, status) = match checked {
        Ok(()) => (StatusCode::OK, note.unwrap_or("ok")),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    };
    responses::json(code, &json!({ "status": status, "version": server_info::VERSION }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_query_that_chooses_how_tools_are_shown_is_the_servers_own() {
        let own = |rest: &str| is_own_resource("http://a", &format!("http://a{rest}"));
        for rest in
            ["", "/", "/mcp", "/mcp/", "/mcp?names=dotted", "/?tools=files,find&answers=text"]
        {
            assert!(own(rest), "{rest}");
        }
        let others =
            ["/mcp?", "/mcp?x=1", "/mcp?names=x", "/mcp#a", ".evil/mcp", "/mcp?names=dotted#a"];
        for rest in others {
            assert!(!own(rest), "{rest}");
        }
        assert_eq!(shown_query(Some("names=dotted")), "?names=dotted");
        assert_eq!(shown_query(Some("names=dotted&a=\"")) + &shown_query(None), "");
    }
}
