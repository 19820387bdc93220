//! Makes, revokes and judges this server's own tokens for the owner's requests at `/v1`.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use stile_domain::records::authority::{OwnerPermit, RecordsClaim};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::scope::Scopes;
use stile_records::token_issuer::{GrantToken, GrantTokenOrder, TokenIssuer, VerifiedToken};
use stile_store::state::{StateError, TableError, TokenKey, TokenRecord, TokenStore};

use super::local_tokens::LocalVerifier;
use super::mint::{MintError, MintRequest, Minter};
use super::rejection::TokenRejected;
use crate::clock::unix_seconds;

/// The tokens of one space, as its owner's programs manage them.
pub struct LocalTokenIssuer {
    /// The key that signs the tokens.
    pub key: TokenKey,
    /// The list of tokens.
    pub tokens: Arc<TokenStore>,
    /// The `aud` of the tokens: the space that they are for.
    pub audience: String,
    /// What verifies the tokens of requests.
    pub verifier: Arc<LocalVerifier>,
    /// Where the time comes from.
    pub clock: fn() -> SystemTime,
    /// The one subject whose tokens these are; `None` where all tokens are one owner's.
    pub person: Option<Arc<str>>,
}

impl LocalTokenIssuer {
    /// Returns the tokens of one person among several, who sees and changes no others.
    pub fn for_person(&self, subject: &str) -> Self {
        Self {
            key: self.key.clone(),
            tokens: Arc::clone(&self.tokens),
            audience: self.audience.clone(),
            verifier: Arc::clone(&self.verifier),
            clock: self.clock,
            person: Some(subject.into()),
        }
    }

    /// Returns whether this issuer manages tokens of `subject`: all, unless it is bound to a
    /// person.
    fn is_own(&self, subject: &str) -> bool {
        self.person.as_deref().is_none_or(|person| person == subject)
    }
}

impl TokenIssuer for LocalTokenIssuer {
    fn mint(&self, _: &OwnerPermit, order: &GrantTokenOrder<'_>) -> Result<GrantToken, Problem> {
        let minter = Minter { key: &self.key, tokens: &self.tokens, audience: &self.audience };
        let request = MintRequest {
            subject: order.subject.to_owned(),
            // Path scopes and the rights of the owner come from the command line only.
            scopes: Scopes::none(),
            client: order.client.map(str::to_owned),
            records: RecordsClaim::Grant(order.grant.into()),
            life: order.life,
        };
        let minted = minter.mint(&request, (self.clock)()).map_err(mint_problem)?;
        let expires = Instant::from_seconds(minted.expires);
        Ok(GrantToken { token: minted.token, jti: minted.jti, expires })
    }

    fn revoke(&self, _: &OwnerPermit, grant: &str, jti: &str) -> Result<(), Problem> {
        let found = self.tokens.find(jti).map_err(list_problem)?;
        let is_meant = |token: &TokenRecord| {
            token.grant.as_deref() == Some(grant) && self.is_own(&token.subject)
        };
        if !found.as_ref().is_some_and(is_meant) {
            return Err(Problem::TokenNotFound);
        }
        self.tokens.revoke(jti, unix_seconds((self.clock)())).map(drop).map_err(list_problem)
    }

    fn verify(&self, _: &OwnerPermit, token: &str) -> Result<Option<VerifiedToken>, Problem> {
        match self.verifier.verify_now(token) {
            Ok(caller) if !self.is_own(caller.principal.subject()) => Ok(None),
            Ok(caller) => {
                let seconds = caller.expires.duration_since(UNIX_EPOCH).unwrap_or_default();
                let micros = i64::try_from(seconds.as_micros()).unwrap_or(i64::MAX);
                Ok(Some(VerifiedToken { caller: caller.principal, expires: Instant(micros) }))
            }
            Err(TokenRejected::NOT_LOOKED_UP) => Err(Problem::Busy),
            Err(_) => Ok(None),
        }
    }
}

fn mint_problem(error: MintError) -> Problem {
    let param = match &error {
        MintError::Life => "expires_in",
        MintError::Name("client") | MintError::Reserved | MintError::Flag => "client",
        MintError::Name(_) | MintError::Grant | MintError::TooLong => "grant_id",
        MintError::State(_) => "",
    };
    match error {
        MintError::State(error) => list_problem(error),
        refused => Problem::invalid(param, format!("{refused}; no token was made")),
    }
}

/// Returns the problem of a list of tokens that failed. One that does not pass is logged, and the
/// problem names the incident.
fn list_problem(error: StateError) -> Problem {
    match &error {
        StateError::Database { error: TableError::Busy, .. } => return Problem::NotStored,
        StateError::Database { error: TableError::TakesNoWrites, .. } => {
            return Problem::TakesNoWrites;
        }
        StateError::Database { error: TableError::Unknown, .. } => return Problem::MayBeStored,
        _ => {}
    }
    let incident = stile_store::log_incident("tokens", &std::io::Error::other(error));
    Problem::Internal { incident }
}
