//! What every token has, whoever signed it: the compact form of RFC 7515, and what is asked of any
//! claim.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer};

use super::TokenRejected;

/// Nothing longer is looked at.
pub(super) const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// How far two clocks may be apart, in seconds.
pub(super) const LEEWAY: i64 = 5;

/// A token taken apart.
pub(super) struct Parts<'a> {
    /// The bytes of the header.
    pub(super) header: Vec<u8>,
    /// The bytes of the claims.
    pub(super) payload: Vec<u8>,
    /// What was signed: the first two parts as they were sent.
    pub(super) message: &'a str,
    /// The bytes of the signature.
    pub(super) signature: Vec<u8>,
}

impl<'a> Parts<'a> {
    /// Three parts in base64url, of which none is spelled in two ways, and a signature that is not
    /// empty.
    pub(super) fn of(token: &'a str) -> Option<Self> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        // A further dot is in none of the alphabet, so more than three parts do not decode.
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let parts = Self {
            header: decode(header)?,
            payload: decode(payload)?,
            message,
            signature: decode(signature)?,
        };
        (!parts.signature.is_empty()).then_some(parts)
    }
}

/// The claim `aud`: one name or a list of them, and nothing else.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    /// Whether `audience` is among them, letter for letter.
    pub(super) fn names(&self, audience: &str) -> bool {
        match self {
            Self::One(name) => name == audience,
            Self::Many(names) => names.iter().any(|name| name == audience),
        }
    }

    /// All of them.
    pub(super) fn into_names(self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name],
            Self::Many(names) => names,
        }
    }
}

/// A claim that is there has a value: `null` is not the same as nothing.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Refuses a token for which something does not hold.
pub(super) fn check(holds: bool, otherwise: &'static str) -> Result<(), TokenRejected> {
    if holds { Ok(()) } else { Err(TokenRejected(otherwise)) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The bytes of a part that is known to be right.
    pub(in super::super) fn decoded(part: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(part).unwrap()
    }

    #[test]
    fn a_token_has_three_parts_each_spelled_in_one_way() {
        let parts = Parts::of("e30.W10.AA").unwrap();
        assert_eq!((parts.header.as_slice(), parts.payload.as_slice()), (&b"{}"[..], &b"[]"[..]));
        assert_eq!((parts.message, parts.signature.as_slice()), ("e30.W10", &[0][..]));
        for token in [
            "",
            ".",
            "..",
            "...",
            "e30",
            "e30.W10",
            "e30.W10.",
            "e30.W10.AA.",
            ".e30.W10.AA",
            "e30.W10.AA.AA",
            "e30..W10.AA",
            "e30.W10.AB",
            "e30.W10.A",
            "e30.W10.AA==",
            "e30=.W10.AA",
            "e31.W10.AA",
            "e30.W10. AA",
            "e30.W10.AA\n",
            "e30.W10.+A",
            "e30.W10./A",
            "e30.W10.é",
        ] {
            assert!(Parts::of(token).is_none(), "{token}");
        }
    }
}
