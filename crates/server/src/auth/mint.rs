//! New tokens, as `stile token` makes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;
use stile_domain::records::authority::{RecordsClaim, is_grant_id};
use stile_domain::scope::Scopes;
use stile_store::state::{StateError, TokenKey, TokenRecord, TokenStore};

use super::crypto;

/// The longest life of a token: any year. A token that outlives that was forgotten.
pub const MAX_LIFE: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What a token is to say.
#[derive(Clone, Debug)]
pub struct MintRequest {
    /// The user.
    pub subject: String,
    /// What they may do.
    pub scopes: Scopes,
    /// The client that it is for, whose spelling of tool names is then known.
    pub client: Option<String>,
    /// What it has to do with records.
    pub records: RecordsClaim,
    /// How long it lives.
    pub life: Duration,
}

/// A new token.
pub struct MintedToken {
    /// The bearer token itself, a secret.
    pub token: String,
    /// Its identifier.
    pub jti: String,
}

/// Why no token was made.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// It would say nothing about who bears it, or hide something from who reads a list of tokens.
    #[error("a {0} is a name without control characters, of 1 to 200 bytes")]
    Name(&'static str),
    /// It would name no grant.
    #[error("the identifier of a grant has 1 to 64 of the characters A-Z a-z 0-9 _ -")]
    Grant,
    /// It would live too long, or not at all.
    #[error("a token lives from 1 second to 366 days")]
    Life,
    /// It would be refused for its size.
    #[error("so many scopes do not fit into a token; use fewer")]
    TooLong,
    /// It could not be recorded, so it would be refused.
    #[error(transparent)]
    State(#[from] StateError),
    /// It could not be signed.
    #[error("cannot sign the token: {0}")]
    Sign(#[from] jsonwebtoken::errors::Error),
}

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    aud: &'a str,
    jti: &'a str,
    iat: i64,
    exp: i64,
    scope: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<&'a str>,
}

/// Makes a token and records it, durably, before it is returned.
///
/// # Errors
/// [`MintError`].
pub fn mint(
    key: &TokenKey,
    tokens: &TokenStore,
    order: &MintRequest,
    now: SystemTime,
) -> Result<MintedToken, MintError> {
    check_name("user", &order.subject)?;
    order.client.as_deref().map_or(Ok(()), |client| check_name("client", client))?;
    if order.life < Duration::from_secs(1) || order.life > MAX_LIFE {
        return Err(MintError::Life);
    }
    let grant = match &order.records {
        RecordsClaim::Grant(grant) if !is_grant_id(grant) => return Err(MintError::Grant),
        RecordsClaim::Grant(grant) => Some(grant.to_string()),
        RecordsClaim::None | RecordsClaim::Owner => None,
    };
    let issued = seconds(now);
    let record = TokenRecord {
        jti: uuid::Uuid::new_v4().to_string(),
        subject: order.subject.clone(),
        client: order.client.clone(),
        grant,
        owner: order.records == RecordsClaim::Owner,
        scopes: order.scopes.to_string(),
        issued,
        expires: issued.saturating_add(i64::try_from(order.life.as_secs()).unwrap_or(i64::MAX)),
        revoked: None,
    };
    let claims = Claims {
        sub: &record.subject,
        aud: &key.audience,
        jti: &record.jti,
        iat: record.issued,
        exp: record.expires,
        scope: &record.scopes,
        client: record.client.as_deref(),
        grant: record.grant.as_deref(),
        records: record.owner.then_some("owner"),
    };
    crypto::install();
    let secret = EncodingKey::from_secret(&key.secret);
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &secret)?;
    if token.len() > super::compact::MAX_TOKEN_BYTES {
        return Err(MintError::TooLong);
    }
    tokens.record(&record)?;
    Ok(MintedToken { token, jti: record.jti })
}

fn check_name(what: &'static str, name: &str) -> Result<(), MintError> {
    let fits = !name.is_empty() && name.len() <= 200 && !name.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(MintError::Name(what)) }
}

/// UTC seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
