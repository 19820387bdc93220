//! A signed token in compact form (RFC 7515, section 7.1), and every rule about its spelling and
//! its header.
//!
//! Refuses what two parsers could read differently, and follows RFC 8725. Nothing here has been
//! verified yet: `local_tokens` and `provider_tokens` choose the key, `signature` verifies, and
//! `claims` judges the payload afterwards.

use serde_json::Value;

use stile_domain::base64;

use super::claims::Claims;
use super::rejection::{TokenRejected, check};
use super::signature::{Hs256Key, PublicKeyAlgorithm};
use stile_domain::json::strict::parse_object;

/// The longest token that is accepted, in bytes.
pub(super) const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// The header of every token that this server mints.
const LOCAL_HEADER: &str = r#"{"typ":"JWT","alg":"HS256"}"#;

/// Header members that would change what is verified, or with which key. Keys come only from the
/// configured provider, and no extension that must be understood is supported. Other members have
/// no effect here.
const REFUSED_MEMBERS: [&str; 6] = ["crit", "jwk", "jku", "x5u", "zip", "enc"];

/// The values of `typ` that a provider's token may have, in any case. The claim `aud` keeps an
/// identity token from being accepted as an access token.
const PROVIDER_TYPES: [&str; 3] = ["JWT", "at+jwt", "application/at+jwt"];

/// The decoded parts of a token.
#[derive(Debug)]
pub(super) struct CompactJws<'a> {
    header: Vec<u8>,
    payload: Vec<u8>,
    /// The header and the payload as they were sent: the bytes that the signature covers.
    pub(super) signing_input: &'a [u8],
    pub(super) signature: Vec<u8>,
}

/// What the header of a provider's token says about its key.
pub(super) struct ProviderHeader {
    pub(super) algorithm: PublicKeyAlgorithm,
    /// The identifier of the key; absent if the provider has only one that fits.
    pub(super) kid: Option<String>,
}

impl<'a> CompactJws<'a> {
    /// Decodes a token of three parts in canonical base64url with a non-empty signature.
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenRejected> {
        check(token.len() <= MAX_TOKEN_BYTES, "the token is too long")?;
        Self::decode(token).ok_or(TokenRejected::MALFORMED)
    }

    fn decode(token: &'a str) -> Option<Self> {
        let (signing_input, signature) = token.rsplit_once('.')?;
        let (header, payload) = signing_input.split_once('.')?;
        // The alphabet has no dot, so a fourth part makes the payload undecodable.
        let decode = |part: &str| base64::from_url_safe(part);
        let jws = Self {
            header: decode(header)?,
            payload: decode(payload)?,
            signing_input: signing_input.as_bytes(),
            signature: decode(signature)?,
        };
        (!jws.signature.is_empty()).then_some(jws)
    }

    /// Refuses every header but the one that this server writes: `alg` is `HS256`, `typ` is `JWT`,
    /// `null` or absent, and there is no other member, so neither `crit` nor a key.
    pub(super) fn check_local_header(&self) -> Result<(), TokenRejected> {
        let members =
            parse_object(&self.header).ok_or(TokenRejected("the header is not one of ours"))?;
        check(
            members.keys().all(|name| name == "alg" || name == "typ"),
            "the header is not one of ours",
        )?;
        check(
            members.get("alg").is_some_and(|algorithm| algorithm == "HS256"),
            "the algorithm is not HS256",
        )?;
        check(
            members.get("typ").is_none_or(|typ| typ.is_null() || typ == "JWT"),
            "the type is not JWT",
        )
    }

    /// Reads the header of a provider's token. See [`REFUSED_MEMBERS`] and [`PROVIDER_TYPES`].
    pub(super) fn provider_header(&self) -> Result<ProviderHeader, TokenRejected> {
        let members = parse_object(&self.header)
            .ok_or(TokenRejected("the header is not an object, or repeats a name"))?;
        check(
            !REFUSED_MEMBERS.iter().any(|name| members.contains_key(*name)),
            "the header asks for what is not supported",
        )?;
        let text = |name: &str| match members.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(TokenRejected("a member of the header is not text")),
        };
        let is_type = |typ: &str| PROVIDER_TYPES.iter().any(|name| name.eq_ignore_ascii_case(typ));
        check(text("typ")?.is_none_or(is_type), "the type is not that of an access token")?;
        let algorithm = text("alg")?
            .and_then(PublicKeyAlgorithm::parse)
            .ok_or(TokenRejected("the algorithm is not accepted"))?;
        Ok(ProviderHeader { algorithm, kid: text("kid")?.map(str::to_owned) })
    }

    /// Parses the claims. The caller has verified the signature.
    pub(super) fn claims(&self) -> Result<Claims, TokenRejected> {
        parse_object(&self.payload)
            .and_then(|claims| serde_json::from_value(Value::Object(claims)).ok())
            .ok_or(TokenRejected("a claim is missing, malformed or repeated"))
    }
}

/// Returns whether a token begins with the very header that this server writes.
pub(super) fn has_local_header(token: &str) -> bool {
    let header = base64::url_safe(LOCAL_HEADER);
    token.strip_prefix(&header).is_some_and(|rest| rest.starts_with('.'))
}

/// Signs claims as a token of this server.
pub(super) fn sign(key: &Hs256Key, claims: &Value) -> String {
    let mut token = base64::url_safe(LOCAL_HEADER);
    token.push('.');
    token.push_str(&base64::url_safe(claims.to_string()));
    let signature = key.sign(token.as_bytes());
    token.push('.');
    token.push_str(&base64::url_safe(signature));
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_three_parts_in_canonical_base64url() {
        let jws = CompactJws::parse("e30.W10.AA").unwrap();
        assert_eq!((jws.header.as_slice(), jws.payload.as_slice()), (&b"{}"[..], &b"[]"[..]));
        assert_eq!((jws.signing_input, jws.signature.as_slice()), (&b"e30.W10"[..], &[0][..]));
        for token in [
            "", ".", "..", "...", "e30", "e30.W10", "e30.W10.", "e30.W10.AA.", ".e30.W10.AA",
            "e30.W10.AA.AA", "e30..W10.AA", "e30.W10.AB", "e30.W10.A", "e30.W10.AA==",
            "e30=.W10.AA", "e31.W10.AA", "e30.W10. AA", "e30.W10.AA\n", "e30.W10.+A", "e30.W10./A",
            "e30.W10.é",
        ] {
            assert!(CompactJws::parse(token).is_err(), "{token}");
        }
    }
}
