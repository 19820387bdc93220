//! What a token allows at this moment: the one lookup of every request.
//!
//! A token of `stile token` says itself what it allows. One that was issued under an approval of
//! the owner allows what the approval allows now, so that narrowing, widening and ending an
//! approval count from the next request on, whichever process does it.

use stile_domain::scope::Scopes;

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
    /// The `client_id` of the client.
    pub client: String,
    /// The path scopes, as a `scope` claim.
    pub scopes: String,
    /// The grant on records.
    pub grant: Option<String>,
}

impl ApprovedRights {
    /// Returns whether `now` may allow less.
    pub fn is_narrowed_by(&self, now: &Self) -> bool {
        let scopes = |rights: &Self| Scopes::from_claim(&rights.scopes);
        scopes(self).is_narrowed_by(&scopes(now)) || self.grant != now.grant
    }
}

impl TokenStore {
    /// Returns what a token allows, at this moment and by any process. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`]; the token must then be refused.
    pub fn standing(&self, jti: &str, now: i64) -> Result<TokenStanding, StateError> {
        let one = "SELECT tokens.revoked IS NULL, issued.\"authorization\", approval.id, \
                   approval.scopes, approval.grant_id, approval.ended, approval.expires, approval.client \
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
                let approved = (row.get(2)?, row.get(3)?, row.get(7)?);
                let (id, scopes, client): (Option<String>, Option<String>, Option<String>) =
                    approved;
                let ended: Option<i64> = row.get(5)?;
                let is_live =
                    ended.is_none() && row.get::<Option<i64>>(6)?.is_some_and(|end| now < end);
                Ok(match (id, scopes, client) {
                    (Some(authorization), Some(scopes), Some(client)) if is_live => {
                        let grant = row.get(4)?;
                        let rights = ApprovedRights { authorization, client, scopes, grant };
                        TokenStanding::ByApproval(rights)
                    }
                    _ => TokenStanding::Refused,
                })
            })
        });
        Ok(found?.unwrap_or(TokenStanding::Refused))
    }

    /// Returns what an authorization, or a token of `stile token`, allows at this moment, by its
    /// identifier. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`].
    pub fn standing_of_origin(&self, origin: &str, now: i64) -> Result<TokenStanding, StateError> {
        let approval = "SELECT scopes, grant_id, client FROM authorizations \
                        WHERE id = ?1 AND ended IS NULL AND expires > ?2";
        let token = "SELECT 1 FROM tokens WHERE jti = ?1 AND revoked IS NULL AND expires > ?2";
        self.read("look up", |tables| {
            let approved = tables.first(approval, values![origin, now], |row| {
                let (authorization, client) = (origin.to_owned(), row.get(2)?);
                let (scopes, grant) = (row.get(0)?, row.get(1)?);
                Ok(ApprovedRights { authorization, client, scopes, grant })
            })?;
            if let Some(rights) = approved {
                return Ok(TokenStanding::ByApproval(rights));
            }
            let token = tables.first(token, values![origin, now], |row| row.get::<i64>(0))?;
            Ok(token.map_or(TokenStanding::Refused, |_| TokenStanding::ByClaims))
        })
    }
}
