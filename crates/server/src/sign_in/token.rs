//! The endpoint where a client exchanges a code or a refresh token for an access token.
//!
//! No document is fetched here, and no page is shown: what the client gets was decided by the
//! owner.
//!
//! *Source*: RFC 6749, sections 4.1.3, 5.1 and 6; RFC 7636, section 4.6; RFC 9700, section 4.14.

use std::time::Duration;

use axum::body::Body;
use http::header::PRAGMA;
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use stile_domain::byte_size::beginning;
use stile_domain::client_name::unreserved;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_domain::sign_in::pkce::CodeChallenge;
use stile_store::state::{AuthorizationRecord, ClientRecord, CodeSpent, RefreshSpent};

use super::authorize::check_resources;
use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::parameters::FormParameters;
use super::secret::{RandomSecret, digest_of};
use super::settings::AuthorizationServer;
use super::web_request::WebRequest;
use crate::auth::MintRequest;
use crate::http::responses;

/// The longest name of a client in a token, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// What a client gets.
struct IssuedTokens {
    access: String,
    detail: Option<Value>,
    expires_in: i64,
    /// What the owner approved, which may be less than what was asked for.
    scopes: String,
    refresh: Option<RandomSecret>,
}

/// Answers a request for tokens.
pub fn answer(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    match issue(server, request) {
        Ok(tokens) => {
            let mut body = json!({
                "access_token": tokens.access,
                "token_type": "Bearer",
                "expires_in": tokens.expires_in,
                "scope": tokens.scopes,
            });
            if let (Some(members), Some(refresh)) = (body.as_object_mut(), &tokens.refresh) {
                members.insert("refresh_token".to_owned(), refresh.reveal().into());
            }
            if let (Some(members), Some(detail)) = (body.as_object_mut(), tokens.detail) {
                members.insert("authorization_details".to_owned(), json!([detail]));
            }
            let mut response = responses::json(StatusCode::OK, &body);
            response.headers_mut().insert(PRAGMA, HeaderValue::from_static("no-cache"));
            response
        }
        Err(error) => error.into_response(),
    }
}

fn issue(server: &AuthorizationServer, request: &WebRequest) -> Result<IssuedTokens, OAuthError> {
    server.take_turn(&request.address)?;
    let form = read_form(request)?;
    let client = client_of(server, &form)?;
    check_resources(&form, &request.origin)?;
    match form.get("grant_type") {
        Some("authorization_code") => redeem_code(server, &form, &client),
        Some("refresh_token") => refresh(server, &form, &client),
        Some(_) => Err(OAuthError::new(
            OAuthErrorCode::UnsupportedGrantType,
            "grant_type must be authorization_code or refresh_token",
        )),
        None => Err(OAuthError::new(OAuthErrorCode::InvalidRequest, "grant_type is missing")),
    }
}

/// Reads the form of a client's program.
///
/// # Errors
/// `invalid_request`.
pub fn read_form(request: &WebRequest) -> Result<FormParameters, OAuthError> {
    let invalid = |why: String| OAuthError::new(OAuthErrorCode::InvalidRequest, why);
    let form = request.form();
    let form = form.ok_or_else(|| {
        invalid("the body must be application/x-www-form-urlencoded in UTF-8".to_owned())
    })?;
    FormParameters::parse(form).map_err(|bad| invalid(bad.to_string()))
}

/// Returns the client that a form names.
///
/// # Errors
/// `invalid_client` for one that is unknown or was dropped.
pub fn client_of(
    server: &AuthorizationServer,
    form: &FormParameters,
) -> Result<ClientRecord, OAuthError> {
    let unknown = || {
        OAuthError::new(
            OAuthErrorCode::InvalidClient,
            "the client is not known here; register again, or connect anew",
        )
    };
    let id = form.get("client_id").ok_or_else(unknown)?;
    server.client(id).map_err(OAuthError::of_state)?.ok_or_else(unknown)
}

fn redeem_code(
    server: &AuthorizationServer,
    form: &FormParameters,
    client: &ClientRecord,
) -> Result<IssuedTokens, OAuthError> {
    let invalid = || {
        OAuthError::new(
            OAuthErrorCode::InvalidGrant,
            "the code is unknown, used, older than 60 s or not for this request; ask again",
        )
    };
    let missing =
        |name: &str| OAuthError::new(OAuthErrorCode::InvalidRequest, format!("{name} is missing"));
    let code = form.get("code").ok_or_else(|| missing("code"))?;
    let verifier = form.get("code_verifier").ok_or_else(|| missing("code_verifier"))?;
    let spent = server.tokens().spend_code(&digest_of(code), server.now());
    let spent = match spent.map_err(OAuthError::of_state)? {
        CodeSpent::Now(spent) => spent,
        CodeSpent::Before => {
            tracing::warn!(
                target: "stile::sign_in",
                client = client.id,
                "a code was used twice; what was issued from it has ended"
            );
            return Err(invalid());
        }
        CodeSpent::Never => return Err(invalid()),
    };
    let is_met = CodeChallenge::from_stored(&spent.challenge)
        .is_some_and(|challenge| challenge.is_met_by(verifier));
    if spent.authorization.client != client.id || !is_met {
        return Err(invalid());
    }
    check_redirect(spent.redirect.as_deref(), form.get("redirect_uri"))?;
    let refresh = match spent.authorization.single_use {
        true => None,
        false => {
            let refresh = RandomSecret::draw().map_err(OAuthError::of_state)?;
            let id = &spent.authorization.id;
            let recorded = server.tokens().record_refresh(&refresh.digest(), id, server.now());
            recorded.map_err(OAuthError::of_state)?;
            Some(refresh)
        }
    };
    access_token(server, &spent.authorization, refresh, invalid)
}

/// Refuses a token request that does not name the address that the authorization request named.
///
/// *Source*: RFC 6749, section 4.1.3.
fn check_redirect(named: Option<&str>, repeated: Option<&str>) -> Result<(), OAuthError> {
    match (named, repeated) {
        (Some(_), None) => Err(OAuthError::new(
            OAuthErrorCode::InvalidRequest,
            "redirect_uri is missing: the authorization request named one, so the token request \
             must name the same; the code is spent, so ask again",
        )),
        (Some(named), Some(repeated)) if named != repeated => Err(OAuthError::new(
            OAuthErrorCode::InvalidGrant,
            "redirect_uri is not the one of the authorization request; the code is spent, so ask \
             again",
        )),
        _ => Ok(()),
    }
}

fn refresh(
    server: &AuthorizationServer,
    form: &FormParameters,
    client: &ClientRecord,
) -> Result<IssuedTokens, OAuthError> {
    let invalid = || {
        OAuthError::new(
            OAuthErrorCode::InvalidGrant,
            "the refresh token is unknown, used or ended; ask the owner again",
        )
    };
    let token = form.get("refresh_token").ok_or_else(|| {
        OAuthError::new(OAuthErrorCode::InvalidRequest, "refresh_token is missing")
    })?;
    let next = RandomSecret::draw().map_err(OAuthError::of_state)?;
    let digest = digest_of(token);
    let spent = server.tokens().spend_refresh(&digest, &client.id, &next.digest(), server.now());
    match spent.map_err(OAuthError::of_state)? {
        RefreshSpent::Now(authorization) => {
            access_token(server, &authorization, Some(next), invalid)
        }
        RefreshSpent::Forked(authorization) => {
            tracing::warn!(
                target: "stile::sign_in",
                client = client.id,
                "a refresh token had been used twice; one of the two that it gave goes on, and the \
                 other one and the access tokens so far have ended"
            );
            access_token(server, &authorization, Some(next), invalid)
        }
        RefreshSpent::Replayed => {
            tracing::warn!(
                target: "stile::sign_in",
                client = client.id,
                "a refresh token was used again after its grace; its family has ended"
            );
            Err(invalid())
        }
        RefreshSpent::Never => Err(invalid()),
    }
}

/// Makes an access token of an authorization.
fn access_token(
    server: &AuthorizationServer,
    authorization: &AuthorizationRecord,
    refresh: Option<RandomSecret>,
    ended: impl Fn() -> OAuthError,
) -> Result<IssuedTokens, OAuthError> {
    let now = server.now();
    let left = u64::try_from(authorization.expires.saturating_sub(now)).unwrap_or_default();
    let life = server.settings.access_life.min(Duration::from_secs(left));
    let order = MintRequest {
        subject: authorization.subject.clone(),
        scopes: Scopes::from_claim(&authorization.scopes),
        client: Some(cut(&unreserved(&authorization.client_name)).to_owned()),
        records: match &authorization.grant {
            Some(grant) => RecordsClaim::Grant(grant.as_str().into()),
            None => RecordsClaim::None,
        },
        life,
    };
    let clock = server.settings.clock;
    let minted = server.minter().mint_for(&order, &authorization.id, clock());
    let minted = minted.map_err(OAuthError::of_state)?.ok_or_else(ended)?;
    Ok(IssuedTokens {
        access: minted.token,
        detail: authorization
            .grant
            .as_deref()
            .and_then(|grant| server.granted_detail(&authorization.subject, grant)),
        expires_in: minted.expires.saturating_sub(now),
        scopes: authorization.scopes.clone(),
        refresh,
    })
}

/// Returns the beginning of a client's name that fits into a token. A name of 64 characters may
/// have 256 bytes.
fn cut(name: &str) -> &str {
    beginning(name, MAX_NAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_two_characters() {
        assert_eq!(cut("Editor"), "Editor");
        let long = "\u{1f4dd}".repeat(64);
        assert_eq!(cut(&long), "\u{1f4dd}".repeat(50));
        let odd = format!("a{long}");
        assert_eq!(cut(&odd).len(), 197);
    }
}
