//! A set of public keys as RFC 7517 writes it (JWK Set), read into the keys that are safe to use.
//!
//! A set may hold keys for other purposes, so a key that cannot be used is skipped and does not
//! spoil the others. What a key may verify follows from the key and never from a token: an RSA key
//! verifies RS256, a P-256 key ES256, and a shared secret is never a key, whatever its label.

use serde::Deserialize;
use serde_json::Value;

use stile_domain::base64;

use super::claims::present;
use super::signature::{PublicKey, PublicKeyAlgorithm};
use stile_domain::json::strict::parse_object;

/// The longest document that is read, in bytes.
pub const MAX_KEY_SET_BYTES: usize = 256 * 1024;

/// The most keys of a set. Providers publish two or three.
const MAX_KEYS: usize = 100;

/// The sizes of an RSA modulus, in bits.
const MODULUS_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// The public exponents of RSA: at least what FIPS 186-5 asks for, at most what `ring` computes
/// with.
const EXPONENTS: std::ops::RangeInclusive<u64> = 65_537..=(1 << 33) - 1;

/// Members that only a private or a secret key has. A provider that publishes one has no secret
/// left.
const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// Why a document is not a set of keys. The error repeats nothing of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// The document is longer than [`MAX_KEY_SET_BYTES`], or has more than 100 keys.
    #[error("the set of keys is too long")]
    TooLong,
    /// The document is not a set of keys, or an object in it repeats a name.
    #[error("what was fetched is not a set of keys")]
    Malformed,
    /// The set has no key for RS256 or ES256 that is strong enough.
    #[error("no key of the set can be used")]
    NoUsableKey,
}

/// The usable keys of a set; at least one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Debug, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    public: PublicKey,
}

/// The members of a key that are read. A key with a member of another type, or with a `null`, is
/// skipped.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(default, rename = "use", deserialize_with = "present")]
    purpose: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_ops: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    alg: Option<String>,
    #[serde(default, deserialize_with = "present")]
    kid: Option<String>,
    #[serde(default, deserialize_with = "present")]
    n: Option<String>,
    #[serde(default, deserialize_with = "present")]
    e: Option<String>,
    #[serde(default, deserialize_with = "present")]
    crv: Option<String>,
    #[serde(default, deserialize_with = "present")]
    x: Option<String>,
    #[serde(default, deserialize_with = "present")]
    y: Option<String>,
}

impl KeySet {
    /// A set without keys. No document is parsed as one.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// Parses a set. Members of the set beside `keys` are ignored.
    pub(super) fn parse(document: &[u8]) -> Result<Self, KeySetError> {
        if document.len() > MAX_KEY_SET_BYTES {
            return Err(KeySetError::TooLong);
        }
        let mut document = parse_object(document).ok_or(KeySetError::Malformed)?;
        let Some(Value::Array(keys)) = document.remove("keys") else {
            return Err(KeySetError::Malformed);
        };
        if keys.len() > MAX_KEYS {
            return Err(KeySetError::TooLong);
        }
        let keys: Vec<Key> = keys.into_iter().filter_map(Key::read).collect();
        if keys.is_empty() { Err(KeySetError::NoUsableKey) } else { Ok(Self(keys)) }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has a key that a token with this header may be signed with.
    pub(super) fn has(&self, kid: Option<&str>, algorithm: PublicKeyAlgorithm) -> bool {
        !self.candidates(kid, algorithm).is_empty()
    }

    /// Whether a key that the token's header names, or leaves open, signed the message.
    pub(super) fn verifies(
        &self,
        kid: Option<&str>,
        algorithm: PublicKeyAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        self.candidates(kid, algorithm)
            .into_iter()
            .any(|key| key.public.verifies(message, signature))
    }

    /// Returns the keys named `kid` that fit the algorithm. Without a `kid`, returns the only key
    /// that fits, and nothing if several fit.
    fn candidates(&self, kid: Option<&str>, algorithm: PublicKeyAlgorithm) -> Vec<&Key> {
        let fits = |key: &&Key| {
            key.public.algorithm() == algorithm && (kid.is_none() || key.id.as_deref() == kid)
        };
        let found: Vec<&Key> = self.0.iter().filter(fits).collect();
        if kid.is_none() && found.len() > 1 { Vec::new() } else { found }
    }
}

impl Key {
    /// Reads a key that is for RS256 or ES256 signatures and strong enough.
    fn read(value: Value) -> Option<Self> {
        // Serde would also read the type below from a list of its members.
        let members = value.as_object()?;
        if PRIVATE_MEMBERS.iter().any(|name| members.contains_key(*name)) {
            return None;
        }
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let is_for_signatures = jwk.purpose.is_none_or(|purpose| purpose == "sig")
            && jwk
                .key_ops
                .is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
        let public = match jwk.kty.as_str() {
            "RSA" => rsa(&jwk.n?, &jwk.e?)?,
            "EC" => p256(&jwk.crv?, &jwk.x?, &jwk.y?)?,
            _ => return None,
        };
        let algorithm = public.algorithm();
        let is_for_algorithm =
            jwk.alg.is_none_or(|name| PublicKeyAlgorithm::parse(&name) == Some(algorithm));
        (is_for_signatures && is_for_algorithm).then_some(Self { id: jwk.kid, public })
    }
}

fn rsa(modulus: &str, exponent: &str) -> Option<PublicKey> {
    let (modulus, exponent) = (positive(modulus)?, positive(exponent)?);
    let bits = modulus.len() * 8 - modulus.first()?.leading_zeros() as usize;
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    let fits = MODULUS_BITS.contains(&bits)
        && is_odd(&modulus)
        && !has_known_structure(&modulus)
        && is_odd(&exponent)
        && small(&exponent).is_some_and(|exponent| EXPONENTS.contains(&exponent));
    fits.then_some(PublicKey::Rsa { modulus, exponent })
}

fn p256(curve: &str, x: &str, y: &str) -> Option<PublicKey> {
    let (x, y) = (base64::from_url_safe(x)?, base64::from_url_safe(y)?);
    let fits = curve == "P-256" && x.len() == 32 && y.len() == 32;
    // The byte 4 begins a point whose two coordinates are written out.
    fits.then(|| PublicKey::P256([&[4], x.as_slice(), y.as_slice()].concat()))
}

/// Decodes a positive number in base64url, in as few bytes as it needs (RFC 7518, section 2).
fn positive(text: &str) -> Option<Vec<u8>> {
    base64::from_url_safe(text).filter(|bytes| bytes.first().is_some_and(|first| *first != 0))
}

/// Reads a number of at most eight bytes.
fn small(number: &[u8]) -> Option<u64> {
    (number.len() <= 8).then(|| number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// Whether a modulus has the structure of CVE-2017-15361: a widespread chip made primes from powers
/// of 65,537, and their product can be factored. Such a modulus is a power of 65,537 modulo each of
/// the first primes. Of other moduli, about one in 2^28 is.
fn has_known_structure(modulus: &[u8]) -> bool {
    const PRIMES: [u32; 38] = [
        3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89,
        97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
    ];
    PRIMES.into_iter().all(|prime| {
        let rest = modulus.iter().fold(0, |rest, byte| (rest << 8 | u32::from(*byte)) % prime);
        let powers = std::iter::successors(Some(1), |power| Some(power * 65_537 % prime));
        powers.take(prime as usize).any(|power| power == rest)
    })
}

#[cfg(test)]
mod tests;
