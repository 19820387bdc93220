//! `GET /api/v1/notes/{path}`: a whole note, for a gateway in front of this server.
//!
//! The bearer token authorises, as for `text.read`. The other headers state the gateway's view of
//! the vault and the user. They must agree with the token and with the configuration, or nothing is
//! read.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde_json::json;
use stile_domain::error::Refusal;
use stile_domain::notes::NotePath;
use stile_domain::tool_name::Spelling;
use stile_tools::space::SpaceTools;

use super::admission::{Admission, Admitted};
use super::challenge;
use super::headers;
use super::options::GatewayNotesOptions;
use super::response_body::GuardedBody;
use super::responses;
use crate::auth::{VaultClaim, VerifiedCaller};
use crate::gateway::http_note_store::{GATEWAY_AUTH, USER_ID, VAULT_ID};

/// The route of notes, in the router's syntax.
pub const NOTES_PATH: &str = "/api/v1/notes/{path}";

/// The endpoint of notes.
pub struct GatewayNotes {
    tools: SpaceTools,
    admission: Arc<Admission>,
    options: GatewayNotesOptions,
}

impl GatewayNotes {
    /// Serves the notes of `tools` to callers that `admission` admits.
    pub fn new(tools: SpaceTools, admission: Arc<Admission>, options: GatewayNotesOptions) -> Self {
        Self { tools, admission, options }
    }

    /// Answers a request. `path` is `None` if the request target does not decode to text.
    async fn answer(
        &self,
        path: Option<&str>,
        parts: &Parts,
    ) -> Result<Response<Body>, Box<Response<Body>>> {
        let headers = &parts.headers;
        let metadata_url = self.admission.metadata_url(parts);
        let Admitted { caller, call, neighbour, .. } = self
            .admission
            .admit(parts)
            .await
            .map_err(|why| challenge::not_admitted(&metadata_url, None, why))?;
        let threads = &self.admission.shares().threads;
        let thread = threads.take(&neighbour, 1).await.map_err(responses::share_used_up)?;
        let user = self.agreed_user(headers, &caller).map_err(gateway_error_response)?;
        let path = path
            .and_then(|path| NotePath::parse(path).ok())
            .ok_or_else(|| gateway_error_response(GatewayRequestError::Path))?;
        let json = self
            .tools
            .read_note(path, &caller.principal, &user)
            .await
            .map_err(|refusal| refusal_response(&refusal, &metadata_url))?;
        drop(thread);
        let response = responses::json_text(StatusCode::OK, json);
        Ok(response.map(|body| GuardedBody::wrap(body, call)))
    }

    /// Returns the user on whose behalf the gateway reads, if all its headers agree with the token
    /// and the configuration.
    fn agreed_user(
        &self,
        headers: &HeaderMap,
        verified: &VerifiedCaller,
    ) -> Result<String, GatewayRequestError> {
        let Self { options, .. } = self;
        if let Some(secret) = &options.secret
            && !only(headers, &GATEWAY_AUTH).is_some_and(|given| secret.matches(given.as_bytes()))
        {
            return Err(GatewayRequestError::Gateway);
        }
        if only(headers, &VAULT_ID).map(HeaderValue::as_bytes) != Some(options.vault.as_bytes()) {
            return Err(GatewayRequestError::Vault);
        }
        // A client that bypasses the gateway can write any vault into a header, but not into a
        // token.
        match &verified.identity.vault {
            VaultClaim::None => {}
            VaultClaim::One(vault) if **vault == *options.vault => {}
            VaultClaim::One(_) | VaultClaim::Malformed => return Err(GatewayRequestError::Vault),
        }
        let subject = verified.principal.subject();
        let user =
            only(headers, &USER_ID).and_then(|user| std::str::from_utf8(user.as_bytes()).ok());
        let is_trusted = options.trusted_gateway.as_deref() == Some(subject);
        match user {
            Some(user) if !user.is_empty() && (user == subject || is_trusted) => {
                Ok(user.to_owned())
            }
            _ => Err(GatewayRequestError::User),
        }
    }
}

/// A repeated header counts as absent.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    headers::single(headers, name).ok().flatten()
}

/// What a gateway sent that is wrong.
enum GatewayRequestError {
    Gateway,
    Vault,
    User,
    Path,
}

fn gateway_error_response(why: GatewayRequestError) -> Response<Body> {
    match why {
        GatewayRequestError::Gateway => responses::plain(
            StatusCode::FORBIDDEN,
            "gateway_required",
            "notes are read through the gateway only",
        ),
        GatewayRequestError::User => responses::plain(
            StatusCode::FORBIDDEN,
            "other_user",
            "X-User-Id must be the token's subject",
        ),
        // The same as for a missing note, so that nobody learns of other vaults.
        GatewayRequestError::Vault => not_found(),
        GatewayRequestError::Path => responses::plain(
            StatusCode::BAD_REQUEST,
            "invalid_path",
            "the path is not that of a note; nothing was read",
        ),
    }
}

fn not_found() -> Response<Body> {
    responses::plain(StatusCode::NOT_FOUND, "not_found", "there is no such note")
}

fn refusal_response(refusal: &Refusal, metadata_url: &str) -> Response<Body> {
    match refusal {
        Refusal::InsufficientScope { needed, .. } => {
            let scopes: Vec<String> = needed.iter().map(ToString::to_string).collect();
            let message = refusal.message(Spelling::default());
            let body = json!({ "error": refusal.code().0, "message": message });
            responses::insufficient_scope(metadata_url, &scopes.join(" "), &body)
        }
        Refusal::TooLarge { .. } => responses::plain(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the note is larger than notes may be",
        ),
        Refusal::Busy { .. } => responses::busy(Duration::from_secs(1)),
        Refusal::Internal { incident } => {
            let body = json!({ "error": "internal", "incident": incident });
            responses::json(StatusCode::INTERNAL_SERVER_ERROR, &body)
        }
        // A folder, a link or bytes that are not text cannot be a note.
        _ => not_found(),
    }
}

/// Handles the route. The caller is checked before the path, so a path that does not decode is not
/// refused here.
pub async fn route(
    State(notes): State<Arc<GatewayNotes>>,
    path: Result<Path<String>, PathRejection>,
    parts: Parts,
) -> Response<Body> {
    let path = path.ok().map(|Path(path)| path);
    notes.answer(path.as_deref(), &parts).await.unwrap_or_else(|refused| *refused)
}
