//! Verifies the tokens that this server minted: those of `stile token`, and those of clients that
//! the owner approved.
//!
//! Such a token is signed with the local secret, addressed to this space, and listed in the state
//! folder. `jws` and `claims` state the rules that every token must keep. What a token of an
//! approval allows stands in the state alone, and is looked up for each request.

use std::sync::Arc;
use std::time::SystemTime;

use futures::future::BoxFuture;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_store::state::{ApprovedRights, TokenKey, TokenStanding, TokenStore};

use super::claims::{Claims, VerifiedCaller, whole_seconds};
use super::jws::CompactJws;
use super::rejection::{TokenRejected, check};
use super::signature::Hs256Key;
use super::token_uses::TokenUses;
use super::verifier::TokenVerifier;
use crate::clock::unix_seconds;

/// Accepts tokens that were signed with the local key, are addressed to one space and are not
/// revoked.
pub struct LocalVerifier {
    key: Hs256Key,
    /// The `aud` of tokens for this space.
    audience: String,
    /// The `aud` of tokens that an older version minted for every space of the state.
    unbound_audience: String,
    tokens: Arc<TokenStore>,
    clock: fn() -> SystemTime,
    /// `None` for a verifier that may not write.
    uses: Option<Arc<TokenUses>>,
}

impl LocalVerifier {
    /// A verifier for the tokens of one space, which reads the time from `clock`.
    pub fn new(
        key: &TokenKey,
        audience: &str,
        tokens: Arc<TokenStore>,
        clock: fn() -> SystemTime,
    ) -> Self {
        let (audience, unbound_audience) = (audience.to_owned(), key.audience.clone());
        let key = Hs256Key::new(&key.secret);
        Self { key, audience, unbound_audience, tokens, clock, uses: None }
    }

    /// Notes each accepted token in `uses`.
    #[must_use]
    pub fn with_uses(self, uses: Arc<TokenUses>) -> Self {
        Self { uses: Some(uses), ..self }
    }

    /// Refuses a token that this server did not mint for this space, and says for what it is.
    fn check_space(&self, claims: &Claims) -> Result<(), TokenRejected> {
        let here = claims.check_audience(&self.audience);
        if here.is_err() && claims.check_audience(&self.unbound_audience).is_ok() {
            return Err(TokenRejected::OLD);
        }
        // Only a token of this state has the signature, so the audience is another space's.
        here.map_err(|_| TokenRejected::OTHER_SPACE)
    }

    /// Verifies without waiting: the key is in memory, and the list of tokens is on this machine.
    pub(crate) fn verify_now(&self, token: &str) -> Result<VerifiedCaller, TokenRejected> {
        let jws = CompactJws::parse(token)?;
        jws.check_local_header()?;
        let is_signed = self.key.verifies(jws.signing_input, &jws.signature);
        check(is_signed, "the signature is not right")?;

        let mut claims = jws.claims()?;
        self.check_space(&claims)?;
        check(!claims.sub.is_empty(), "the subject is empty")?;
        let jti = claims.jti.clone().unwrap_or_default();
        check(!jti.is_empty(), "the identifier is missing or empty")?;
        check(claims.iat.is_some(), "the time of issue is missing")?;
        let validity = claims.validity(whole_seconds)?;
        let now = unix_seconds((self.clock)());
        validity.check(now)?;
        let approval = match (self.tokens.standing(&jti, now), claims.approval.as_deref()) {
            (Ok(TokenStanding::ByClaims), None) => None,
            // An older version wrote no approval into the tokens that it issued under one.
            (Ok(TokenStanding::ByApproval(rights)), approval)
                if approval.is_none_or(|approval| approval == rights.authorization) =>
            {
                let approval = (rights.authorization.clone(), rights.client.clone());
                claims.set_rights(rights);
                Some(approval)
            }
            (Ok(_), _) => return Err(TokenRejected::REVOKED),
            (Err(error), _) => {
                error.log("a token could not be looked up");
                return Err(TokenRejected::NOT_LOOKED_UP);
            }
        };
        let caller = claims.into_caller(None, validity)?;
        Ok(match approval {
            Some((approval, client)) => {
                let principal = caller.principal.under_approval(&approval, &client);
                VerifiedCaller { principal, ..caller }
            }
            None => caller,
        })
    }
}

/// Returns the identifier of a token that this server signed, whether the token is still valid or
/// not; `None` for any other text. For giving a token back, which needs no valid token.
pub fn local_token_id(key: &TokenKey, token: &str) -> Option<String> {
    let jws = CompactJws::parse(token).ok()?;
    jws.check_local_header().ok()?;
    let is_signed = Hs256Key::new(&key.secret).verifies(jws.signing_input, &jws.signature);
    is_signed.then(|| jws.claims().ok()?.jti).flatten()
}

impl LocalVerifier {
    /// Returns whether this server issued a token with this identifier.
    pub(super) fn is_listed(&self, jti: &str) -> bool {
        matches!(self.tokens.find(jti), Ok(Some(_)))
    }
}

impl TokenVerifier for LocalVerifier {
    fn verify<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>> {
        let verified = self.verify_now(token);
        if let (Ok(caller), Some(uses)) = (&verified, &self.uses)
            && let Some(jti) = caller.principal.token()
        {
            uses.note(jti, unix_seconds((self.clock)()));
        }
        Box::pin(std::future::ready(verified))
    }

    fn is_revoked(&self, caller: &Principal) -> bool {
        let Some(jti) = caller.token() else { return false };
        match self.tokens.standing(jti, unix_seconds((self.clock)())) {
            Ok(TokenStanding::ByApproval(rights)) => narrows(caller, &rights),
            Ok(TokenStanding::ByClaims) => false,
            Ok(TokenStanding::Refused) => true,
            // A list that cannot be read revokes nothing.
            Err(_) => false,
        }
    }

    fn calls_itself(&self, caller: &Principal, name: &str) {
        if let (Some(uses), Some(jti), None) = (&self.uses, caller.token(), caller.client()) {
            uses.note_name(jti, name);
        }
    }

    fn current(&self, caller: &Principal) -> Option<Principal> {
        let Some(jti) = caller.token() else { return Some(caller.clone()) };
        match self.tokens.standing(jti, unix_seconds((self.clock)())) {
            Ok(TokenStanding::ByApproval(rights)) => {
                let (records, scopes) = (records_of(&rights), Scopes::from_claim(&rights.scopes));
                let (subject, client) = (caller.subject(), caller.client());
                let now = Principal::assert_verified(subject, Some(jti), client, scopes, records);
                Some(now.under_approval(&rights.authorization, &rights.client))
            }
            Ok(TokenStanding::Refused) => None,
            // A list that cannot be read revokes nothing.
            Ok(TokenStanding::ByClaims) | Err(_) => Some(caller.clone()),
        }
    }
}

/// Returns the access to records that an approval allows.
fn records_of(rights: &ApprovedRights) -> RecordsClaim {
    rights.grant.as_deref().map_or(RecordsClaim::None, |grant| RecordsClaim::Grant(grant.into()))
}

/// Returns whether an approval may allow less now than when a caller was verified.
fn narrows(caller: &Principal, rights: &ApprovedRights) -> bool {
    let now = Scopes::from_claim(&rights.scopes);
    caller.scopes().is_narrowed_by(&now) || *caller.records() != records_of(rights)
}

#[cfg(test)]
mod tests;
