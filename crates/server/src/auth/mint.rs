//! New tokens, as `stile token` makes them.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use stile_domain::client_name::{DOCTOR, is_like_a_flag, is_reserved};
use stile_domain::records::authority::{RecordsClaim, is_grant_id};
use stile_domain::scope::Scopes;
use stile_store::state::{Issued, StateError, TokenKey, TokenKind, TokenRecord, TokenStore};

use super::claims::{MAX_LIFE, import_value};
use super::jws::{self, MAX_TOKEN_BYTES};
use super::signature::Hs256Key;
use crate::clock::unix_seconds;

/// A token that a terminal showed is shown again while it is valid for so long.
const SHOWN_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// What a new token shall say.
#[derive(Clone, Debug)]
pub struct MintRequest {
    /// The user, whom the token names as its subject: 1 to 200 bytes.
    pub subject: String,
    /// The scopes on files.
    pub scopes: Scopes,
    /// The client that the token is for; decides how tool names are spelled.
    pub client: Option<String>,
    /// The access to records.
    pub records: RecordsClaim,
    /// How long the token lives: 1 second to [`MAX_LIFE`].
    pub life: Duration,
}

/// A new token, already recorded.
pub struct MintedToken {
    /// The bearer token itself, a secret.
    pub token: String,
    /// The identifier by which the token is listed and revoked.
    pub jti: String,
    /// When the token expires, in UTC seconds.
    pub expires: i64,
}

/// The token that `stile serve` shows on a terminal.
pub enum ShownToken {
    /// A token that an earlier start showed, still valid.
    Again(MintedToken),
    /// A new token.
    New(MintedToken),
}

/// Why no token was made.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// The name is empty or too long, or could hide something from a reader of a list of tokens.
    #[error("the {0} name must have 1 to 200 bytes and no control characters")]
    Name(&'static str),
    /// Only this program itself bears the name.
    #[error(
        "this program keeps that name of a client for itself, so that the history can tell its own \
         calls apart; no token was made: give the client another name, such as cursor"
    )]
    Reserved,
    /// A command would take the name of the client for a flag.
    #[error(
        "a name of a client begins with no dash, since commands would take it for a flag; no token \
         was made: give the client another name, such as cursor"
    )]
    Flag,
    /// The text cannot be the identifier of a grant.
    #[error("the identifier of a grant has 1 to 64 of the characters A-Z a-z 0-9 _ -")]
    Grant,
    /// The life is too long or too short.
    #[error("a token lives from 1 second to 366 days")]
    Life,
    /// Every server would refuse the token for its size.
    #[error("so many scopes do not fit into a token; use fewer")]
    TooLong,
    /// The token could not be recorded, so every server would refuse it.
    #[error(transparent)]
    State(#[from] StateError),
}

/// What mints the tokens of one space.
#[derive(Clone, Copy)]
pub struct Minter<'a> {
    /// The key that signs the tokens.
    pub key: &'a TokenKey,
    /// The list in which each token is recorded.
    pub tokens: &'a TokenStore,
    /// The `aud` of the tokens: the space that they are for.
    pub audience: &'a str,
}

impl Minter<'_> {
    /// Makes a token and records it durably before returning it.
    ///
    /// # Errors
    /// [`MintError`] if the request is not valid or the token cannot be recorded.
    pub fn mint(&self, request: &MintRequest, now: SystemTime) -> Result<MintedToken, MintError> {
        if request.client.as_deref().is_some_and(is_like_a_flag) {
            return Err(MintError::Flag);
        }
        let record = self.new_record(request, now)?;
        let RecordsClaim::Import(import) = &request.records else { return self.record(&record) };
        let record = TokenRecord { kind: TokenKind::Import, ..record };
        // The list of tokens says by the client's name what the token is for.
        let mut claims = claims(&record, None);
        if let Some(claims) = claims.as_object_mut() {
            claims.insert("records".to_owned(), import_value(import));
        }
        let minted = self.signed(&record, &claims)?;
        self.tokens.record(&record)?;
        Ok(minted)
    }

    /// Makes a token with which `stile doctor` calls, recorded durably.
    ///
    /// # Errors
    /// The errors of [`Minter::mint`].
    pub fn mint_for_doctor(
        &self,
        request: &MintRequest,
        now: SystemTime,
    ) -> Result<MintedToken, MintError> {
        let nameless = MintRequest { client: None, ..request.clone() };
        let client = Some(DOCTOR.to_owned());
        self.record(&TokenRecord { client, ..self.new_record(&nameless, now)? })
    }

    /// Makes a token of an authorization, recorded durably; `None` if the authorization has ended.
    ///
    /// # Errors
    /// The errors of [`Minter::mint`].
    pub fn mint_for(
        &self,
        request: &MintRequest,
        authorization: &str,
        now: SystemTime,
    ) -> Result<Option<MintedToken>, MintError> {
        let record = self.new_record(request, now)?;
        let minted = self.sign(&record, Some(authorization))?;
        Ok(match self.tokens.record_of_authorization(&record, authorization)? {
            Issued::Valid => Some(minted),
            Issued::AuthorizationEnded => None,
        })
    }

    /// Returns the token that a terminal showed last for such a request, if it is valid for another
    /// day, or else a new one.
    ///
    /// No token is stored: the recorded claims and the key make the same token again.
    ///
    /// # Errors
    /// The errors of [`Minter::mint`].
    pub fn mint_shown(
        &self,
        request: &MintRequest,
        now: SystemTime,
    ) -> Result<ShownToken, MintError> {
        let wanted = TokenRecord { kind: TokenKind::Shown, ..self.new_record(request, now)? };
        let long_enough = unix_seconds(now + SHOWN_AGAIN);
        let live = self.tokens.list_live(unix_seconds(now))?;
        let earlier = live.into_iter().rev().find(|token| {
            token.revoked.is_none()
                && (long_enough..=wanted.expires).contains(&token.expires)
                && without_times(token) == without_times(&wanted)
        });
        Ok(match earlier {
            Some(token) => ShownToken::Again(self.sign(&token, None)?),
            None => ShownToken::New(self.record(&wanted)?),
        })
    }

    fn record(&self, record: &TokenRecord) -> Result<MintedToken, MintError> {
        let minted = self.sign(record, None)?;
        self.tokens.record(record)?;
        Ok(minted)
    }

    /// Signs a token, for the authorization under which it is issued if there is one.
    fn sign(
        &self,
        record: &TokenRecord,
        authorization: Option<&str>,
    ) -> Result<MintedToken, MintError> {
        self.signed(record, &claims(record, authorization))
    }

    fn signed(&self, record: &TokenRecord, claims: &Value) -> Result<MintedToken, MintError> {
        let token = jws::sign(&Hs256Key::new(&self.key.secret), claims);
        if token.len() > MAX_TOKEN_BYTES {
            return Err(MintError::TooLong);
        }
        Ok(MintedToken { token, jti: record.jti.clone(), expires: record.expires })
    }

    /// Returns the record of a new token.
    fn new_record(&self, request: &MintRequest, now: SystemTime) -> Result<TokenRecord, MintError> {
        check_name("user", &request.subject)?;
        request.client.as_deref().map_or(Ok(()), |client| check_name("client", client))?;
        if request.client.as_deref().is_some_and(is_reserved) {
            return Err(MintError::Reserved);
        }
        if request.life < Duration::from_secs(1) || request.life > MAX_LIFE {
            return Err(MintError::Life);
        }
        let grant = match &request.records {
            RecordsClaim::Grant(grant) if !is_grant_id(grant) => return Err(MintError::Grant),
            RecordsClaim::Grant(grant) => Some(grant.to_string()),
            RecordsClaim::None | RecordsClaim::Owner | RecordsClaim::Import(_) => None,
        };
        let issued = unix_seconds(now);
        Ok(TokenRecord {
            jti: uuid::Uuid::new_v4().to_string(),
            audience: Some(self.audience.to_owned()),
            kind: TokenKind::Bearer,
            subject: request.subject.clone(),
            client: request.client.clone(),
            grant,
            owner: request.records == RecordsClaim::Owner,
            scopes: request.scopes.to_string(),
            issued,
            expires: issued
                .saturating_add(i64::try_from(request.life.as_secs()).unwrap_or(i64::MAX)),
            revoked: None,
        })
    }
}

/// Returns a record without what differs between two tokens for the same request.
fn without_times(token: &TokenRecord) -> TokenRecord {
    TokenRecord { jti: String::new(), issued: 0, expires: 0, ..token.clone() }
}

/// Returns the claims of a token. One of an authorization does not say what it allows: the
/// authorization may change.
fn claims(record: &TokenRecord, authorization: Option<&str>) -> Value {
    let optional = |text: &Option<String>| text.as_deref().map(Value::from);
    let of_command = authorization.is_none();
    let grant = record.grant.as_deref().filter(|_| of_command);
    let claims = [
        ("sub", Some(record.subject.as_str().into())),
        ("aud", optional(&record.audience)),
        ("jti", Some(record.jti.as_str().into())),
        ("iat", Some(record.issued.into())),
        ("exp", Some(record.expires.into())),
        ("approval", authorization.map(Value::from)),
        ("scope", of_command.then(|| record.scopes.as_str().into())),
        ("client", optional(&record.client)),
        ("grant", grant.map(Value::from)),
        ("records", record.owner.then(|| "owner".into())),
    ];
    let present = claims.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}

fn check_name(what: &'static str, name: &str) -> Result<(), MintError> {
    let fits = !name.is_empty() && name.len() <= 200 && !name.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(MintError::Name(what)) }
}
