//! What a token allows at this moment: the one lookup of every request.
//!
//! A token of `stile token` says itself what it allows. One that was issued under an approval of
//! the owner allows what the approval allows now, so that narrowing, widening and ending an
//! approval count from the next request on, whichever process does it.

use super::state_dir::StateError;
use super::tables::values;
use super::tokens::TokenStore;

/// What the state says about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenStanding {
    /// The token was never minted here or was revoked, or its approval has ended.
    Refused,
    /// The token was minted by command, and its claims say what it allows.
    ByClaims,
    /// The token was issued under an approval, which says what the token allows.
    ByApproval(ApprovedRights),
}

/// What an approval of the owner allows now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovedRights {
    /// The identifier of the authorization.
    pub authorization: String,
    /// The path scopes, as a `scope` claim.
    pub scopes: String,
    /// The grant on records.
    pub grant: Option<String>,
}

impl TokenStore {
    /// Returns what a token allows, at this moment and by any process. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`]; the token must then be refused.
    pub fn standing(&self, jti: &str, now: i64) -> Result<TokenStanding, StateError> {
        let one = "SELECT tokens.revoked IS NULL, issued.\"authorization\", approval.id, \
                   approval.scopes, approval.grant_id, approval.ended, approval.expires \
                   FROM tokens \
                   LEFT JOIN authorization_tokens AS issued ON issued.jti = tokens.jti \
                   LEFT JOIN authorizations AS approval ON approval.id = issued.\"authorization\" \
                   WHERE tokens.jti = ?1";
        let found = self.read("look up", |tables| {
            tables.first(one, values![jti], |row| {
                if !row.get::<bool>(0)? {
                    return Ok(TokenStanding::Refused);
                }
                if row.get::<Option<String>>(1)?.is_none() {
                    return Ok(TokenStanding::ByClaims);
                }
                let (id, scopes): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
                let ended: Option<i64> = row.get(5)?;
                let is_live =
                    ended.is_none() && row.get::<Option<i64>>(6)?.is_some_and(|end| now < end);
                Ok(match (id, scopes) {
                    (Some(authorization), Some(scopes)) if is_live => {
                        let grant = row.get(4)?;
                        TokenStanding::ByApproval(ApprovedRights { authorization, scopes, grant })
                    }
                    _ => TokenStanding::Refused,
                })
            })
        });
        Ok(found?.unwrap_or(TokenStanding::Refused))
    }
}
