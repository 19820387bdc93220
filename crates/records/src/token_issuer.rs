//! The port through which operations make, revoke and judge tokens. The server has the key.

use std::time::Duration;

use stile_domain::permit::Principal;
use stile_domain::records::authority::OwnerPermit;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

/// Makes, revokes and judges the tokens of one server for its owner.
pub trait TokenIssuer: Send + Sync {
    /// Makes a token of a grant, and records it durably before returning it.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`] for a name or a life that no token can have; what the list of
    /// tokens reports.
    fn mint(&self, owner: &OwnerPermit, order: &GrantTokenOrder<'_>)
    -> Result<GrantToken, Problem>;

    /// Revokes a token of a grant, durably. A revoked token stays as it is.
    ///
    /// # Errors
    /// [`Problem::TokenNotFound`] for a token of another grant or of none; what the list of tokens
    /// reports.
    fn revoke(&self, owner: &OwnerPermit, grant: &str, jti: &str) -> Result<(), Problem>;

    /// Verifies a token as a request with it would; `None` if such a request would be refused.
    ///
    /// # Errors
    /// What the list of tokens reports.
    fn verify(&self, owner: &OwnerPermit, token: &str) -> Result<Option<VerifiedToken>, Problem>;
}

/// The token of a grant that the owner orders.
#[derive(Clone, Debug)]
pub struct GrantTokenOrder<'a> {
    /// The user whom the token names as its subject.
    pub subject: &'a str,
    /// The identifier of the grant.
    pub grant: &'a str,
    /// The client that the token is for; `None` if the owner names none.
    pub client: Option<&'a str>,
    /// How long the token is valid.
    pub life: Duration,
}

/// A new token of a grant. It has no `Debug`, so that no log can hold it.
pub struct GrantToken {
    /// The bearer token itself, a secret.
    pub token: String,
    /// The identifier by which the token is revoked.
    pub jti: String,
    /// When the token expires.
    pub expires: Instant,
}

/// A token that is valid here.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    /// The caller whom the token names.
    pub caller: Principal,
    /// When the token expires.
    pub expires: Instant,
}
