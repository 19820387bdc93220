//! `GET /api/v1/notes/{path}`: a whole note, for a gateway that stands before this server.
//!
//! The bearer token authorises, as it does for `text.read`. The other headers only have to agree
//! with it and with the configuration: they say what the gateway believes, and where that is not so
//! nothing is read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use ring::hmac;
use serde_json::json;
use stile_domain::error::Refusal;
use stile_domain::notes::NotePath;
use stile_tools::space::SpaceTools;

use super::bearer::{self, Unauthorized};
use super::rate::RateLimit;
use super::{answers, metadata};
use crate::auth::{VaultClaim, Verified, Verifier};
use crate::gateway::http_note_store::{GATEWAY_AUTH, USER_ID, VAULT_ID};

/// Where notes are, as the router spells it.
pub const NOTES_PATH: &str = "/api/v1/notes/{path}";

/// What gateways must agree with.
#[derive(Clone, Debug)]
pub struct NotesOptions {
    /// The name of the one vault that the space is.
    pub vault: String,
    /// What every request must carry, where there is one.
    pub secret: Option<GatewaySecret>,
    /// The `sub` of the gateway that may read in another user's name.
    pub trusted_gateway: Option<String>,
}

impl Default for NotesOptions {
    fn default() -> Self {
        Self { vault: "default".to_owned(), secret: None, trusted_gateway: None }
    }
}

/// A secret that a server shares with its gateway, compared without telling how much of it was
/// right.
#[derive(Clone)]
pub struct GatewaySecret(hmac::Tag);

/// What is signed with the secret, to compare signatures instead of secrets.
const COMPARED: &[u8] = b"the secret of a gateway";

impl GatewaySecret {
    /// Keeps a secret.
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), COMPARED))
    }

    fn is(&self, given: &[u8]) -> bool {
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, given), COMPARED, self.0.as_ref()).is_ok()
    }
}

impl std::fmt::Debug for GatewaySecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("GatewaySecret(…)")
    }
}

/// The route and what it decides with.
pub struct Notes {
    tools: SpaceTools,
    verifier: Arc<dyn Verifier>,
    rate: Arc<RateLimit>,
    options: NotesOptions,
    public_url: Option<String>,
}

impl Notes {
    /// Serves the notes of `tools`, for callers that `verifier` knows.
    pub fn new(
        tools: SpaceTools,
        verifier: Arc<dyn Verifier>,
        rate: Arc<RateLimit>,
        options: NotesOptions,
        public_url: Option<String>,
    ) -> Self {
        Self { tools, verifier, rate, options, public_url }
    }

    /// `path` is none where the target does not decode to text.
    async fn answer(
        &self,
        path: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Box<Response<Body>>> {
        let metadata_url =
            metadata::metadata_url(&metadata::origin(self.public_url.as_deref(), headers));
        let (verified, _) = bearer::authenticate(headers, self.verifier.as_ref())
            .await
            .map_err(|why| answers::unauthorized(&metadata_url, why == Unauthorized::Invalid))?;
        let principal = &verified.principal;
        self.rate.take(principal.subject(), Instant::now()).map_err(answers::too_many)?;
        let user = self.agree(headers, &verified).map_err(told)?;
        let path = path
            .and_then(|path| NotePath::parse(path).ok())
            .ok_or_else(|| told(Disagreement::Path))?;
        let json = self
            .tools
            .read_note(path, principal, &user)
            .await
            .map_err(|refusal| refused(&refusal, &metadata_url))?;
        Ok(answers::json_text(StatusCode::OK, json))
    }

    /// Whether the gateway believes what is so here; if so, in whose name it reads.
    fn agree(&self, headers: &HeaderMap, verified: &Verified) -> Result<String, Disagreement> {
        let Self { options, .. } = self;
        if let Some(secret) = &options.secret
            && !only(headers, &GATEWAY_AUTH).is_some_and(|given| secret.is(given.as_bytes()))
        {
            return Err(Disagreement::Gateway);
        }
        if only(headers, &VAULT_ID).map(HeaderValue::as_bytes) != Some(options.vault.as_bytes()) {
            return Err(Disagreement::Vault);
        }
        // Whoever comes here around the gateway can write any name into a header, and none into a
        // token.
        match &verified.identity.vault {
            VaultClaim::None => {}
            VaultClaim::One(vault) if **vault == *options.vault => {}
            VaultClaim::One(_) | VaultClaim::Malformed => return Err(Disagreement::Vault),
        }
        let subject = verified.principal.subject();
        let user =
            only(headers, &USER_ID).and_then(|user| std::str::from_utf8(user.as_bytes()).ok());
        let is_trusted = options.trusted_gateway.as_deref() == Some(subject);
        match user {
            Some(user) if !user.is_empty() && (user == subject || is_trusted) => {
                Ok(user.to_owned())
            }
            _ => Err(Disagreement::User),
        }
    }
}

/// A header that is there once. Two are none: whoever stands in front of us may have looked at the
/// other.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

enum Disagreement {
    Gateway,
    Vault,
    User,
    Path,
}

fn told(why: Disagreement) -> Response<Body> {
    match why {
        Disagreement::Gateway => answers::plain(
            StatusCode::FORBIDDEN,
            "gateway_required",
            "notes are read through the gateway only",
        ),
        Disagreement::User => answers::plain(
            StatusCode::FORBIDDEN,
            "other_user",
            "X-User-Id must be the token's subject",
        ),
        // The same as for a note that is not there: that there are other vaults is nobody's
        // business.
        Disagreement::Vault => not_found(),
        Disagreement::Path => answers::plain(
            StatusCode::BAD_REQUEST,
            "invalid_path",
            "the path is not that of a note; nothing was read",
        ),
    }
}

fn not_found() -> Response<Body> {
    answers::plain(StatusCode::NOT_FOUND, "not_found", "there is no such note")
}

fn refused(refusal: &Refusal, metadata_url: &str) -> Response<Body> {
    match refusal {
        Refusal::InsufficientScope { needed, .. } => {
            let scopes: Vec<String> = needed.iter().map(ToString::to_string).collect();
            let body = json!({ "error": refusal.code().0, "message": refusal.to_string() });
            answers::insufficient_scope(metadata_url, &scopes.join(" "), &body)
        }
        Refusal::TooLarge { .. } => answers::plain(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the note is larger than notes may be",
        ),
        Refusal::Busy { .. } => answers::busy(Duration::from_secs(1)),
        Refusal::Internal { incident } => {
            let body = json!({ "error": "internal", "incident": incident });
            answers::json(StatusCode::INTERNAL_SERVER_ERROR, &body)
        }
        // A folder, a link, bytes that are no text: no note.
        _ => not_found(),
    }
}

/// The route. Whoever asks is looked at before what is asked for, so a path that does not decode is
/// no answer yet.
pub async fn route(
    State(notes): State<Arc<Notes>>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response<Body> {
    let path = path.ok().map(|Path(path)| path);
    notes.answer(path.as_deref(), &headers).await.unwrap_or_else(|refused| *refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn security_a_secret_is_right_or_wrong_and_never_printed() {
        let secret = GatewaySecret::new(b"correct horse");
        assert!(secret.is(b"correct horse"));
        for wrong in
            [&b""[..], b"correct hors", b"correct horse ", b"Correct horse", b"correct horse\0\0x"]
        {
            assert!(!secret.is(wrong));
        }
        assert_eq!(format!("{secret:?}"), "GatewaySecret(…)");
    }
}
