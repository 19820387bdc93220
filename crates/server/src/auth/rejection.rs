//! Why a token is refused.

/// Why a token was refused, for the server's log. The reason holds nothing of the token. The caller
/// learns only those reasons that have a name here, and of a token that is not signed right none of
/// them but that it is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenRejected(pub &'static str);

impl TokenRejected {
    /// The token does not have the form of one.
    pub const MALFORMED: Self = Self("the token does not have three parts in base64url");
    /// The token has expired.
    pub const EXPIRED: Self = Self("the token has expired");
    /// The token was revoked, or the list of tokens does not have it.
    pub const REVOKED: Self = Self("the token was revoked or never minted here");
    /// The token's audience is not this server.
    pub const OTHER_SERVER: Self = Self("the token is for another server");
    /// The token was minted here, for another space.
    pub const OTHER_SPACE: Self = Self("the token is for another space");
    /// The token was minted here by a version whose tokens opened every space.
    pub const OLD: Self = Self("the token is of an older version");
    /// The list of tokens could not be read, so nothing is known of the token.
    pub const NOT_LOOKED_UP: Self = Self("the token could not be looked up");
    /// The identity provider may have the key of the token, and its keys cannot be fetched.
    pub const PROVIDER_DOWN: Self = Self("the keys of the identity provider cannot be fetched");
}

/// Refuses a token for which a rule does not hold.
pub(super) fn check(holds: bool, otherwise: &'static str) -> Result<(), TokenRejected> {
    if holds { Ok(()) } else { Err(TokenRejected(otherwise)) }
}
