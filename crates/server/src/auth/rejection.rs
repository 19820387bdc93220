//! Why a token is refused.

/// Why a token was refused, for the server's log. The caller learns only that it was. The reason
/// holds nothing of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenRejected(pub &'static str);

/// Refuses a token for which a rule does not hold.
pub(super) fn check(holds: bool, otherwise: &'static str) -> Result<(), TokenRejected> {
    if holds { Ok(()) } else { Err(TokenRejected(otherwise)) }
}
