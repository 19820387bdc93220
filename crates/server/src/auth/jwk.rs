//! Public keys as RFC 7517 writes them, and what they sign.
//!
//! A set may hold keys for purposes that are not ours, so a key that cannot be used is passed over and does not
//! spoil the others. What a key may verify follows from the key and never from a token: an RSA key verifies RS256,
//! a P-256 key ES256, and a shared secret is no key at all, whatever it is labelled.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::compact::present;
use super::json;
use super::jwks::{FetchError, MAX_SET_BYTES};

/// The most keys of a set. Providers publish two or three.
const MAX_KEYS: usize = 100;

/// The sizes of an RSA modulus, in bits.
const MODULUS_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// The public exponents of RSA: at least what FIPS 186-5 asks for, at most what `ring` computes with.
const EXPONENTS: std::ops::RangeInclusive<u64> = 65_537..=(1 << 33) - 1;

/// Members that only a private or a secret key has. Whoever publishes one has no secret left.
const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// What a token may be signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
    /// ECDSA with P-256 and SHA-256.
    Es256,
}

impl Algorithm {
    /// The algorithm of this name, letter for letter.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }
}

/// The usable keys of a set; at least one.
pub(super) struct KeySet(Vec<Key>);

struct Key {
    id: Option<String>,
    public: Public,
}

enum Public {
    /// Both numbers without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// The uncompressed point. Whether it is on the curve is decided by `ring` at each use.
    P256(Vec<u8>),
}

/// What is read of a key. A member that is there has a value of its type, or the key is passed over.
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
    /// Reads a set. Members of the set beside `keys` are for others.
    pub(super) fn parse(document: &[u8]) -> Result<Self, FetchError> {
        if document.len() > MAX_SET_BYTES {
            return Err(FetchError::TooLong);
        }
        let mut document: Map<String, Value> = json::parse_unique(document).ok_or(FetchError::Malformed)?;
        let Some(Value::Array(keys)) = document.remove("keys") else { return Err(FetchError::Malformed) };
        if keys.len() > MAX_KEYS {
            return Err(FetchError::TooLong);
        }
        let keys: Vec<Key> = keys.into_iter().filter_map(Key::read).collect();
        if keys.is_empty() { Err(FetchError::NoUsableKey) } else { Ok(Self(keys)) }
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a token may have been signed with a key of this set.
    pub(super) fn has(&self, kid: Option<&str>, algorithm: Algorithm) -> bool {
        !self.candidates(kid, algorithm).is_empty()
    }

    /// Whether the message was signed with a key of this set that the token may mean.
    pub(super) fn verifies(&self, kid: Option<&str>, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        self.candidates(kid, algorithm).into_iter().any(|key| key.public.verifies(message, signature))
    }

    /// The keys of one name that fit; or, where the token names none, the only one that fits.
    fn candidates(&self, kid: Option<&str>, algorithm: Algorithm) -> Vec<&Key> {
        let fits = |key: &&Key| key.public.algorithm() == algorithm && (kid.is_none() || key.id.as_deref() == kid);
        let found: Vec<&Key> = self.0.iter().filter(fits).collect();
        if kid.is_none() && found.len() > 1 { Vec::new() } else { found }
    }
}

impl Key {
    /// A key that may be used for our purpose, or nothing.
    fn read(value: Value) -> Option<Self> {
        // The type below would also be read from a list of its members.
        let members = value.as_object()?;
        if PRIVATE.iter().any(|name| members.contains_key(*name)) {
            return None;
        }
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let is_for_signatures = jwk.purpose.is_none_or(|purpose| purpose == "sig")
            && jwk.key_ops.is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
        let public = match jwk.kty.as_str() {
            "RSA" => Public::rsa(&jwk.n?, &jwk.e?)?,
            "EC" => Public::p256(&jwk.crv?, &jwk.x?, &jwk.y?)?,
            _ => return None,
        };
        let is_for_ours = jwk.alg.is_none_or(|name| Algorithm::named(&name) == Some(public.algorithm()));
        (is_for_signatures && is_for_ours).then_some(Self { id: jwk.kid, public })
    }
}

impl Public {
    fn rsa(modulus: &str, exponent: &str) -> Option<Self> {
        let (modulus, exponent) = (number(modulus)?, number(exponent)?);
        let bits = modulus.len() * 8 - modulus.first()?.leading_zeros() as usize;
        let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
        let fits = MODULUS_BITS.contains(&bits)
            && is_odd(&modulus)
            && !has_known_structure(&modulus)
            && is_odd(&exponent)
            && small(&exponent).is_some_and(|exponent| EXPONENTS.contains(&exponent));
        fits.then_some(Self::Rsa { modulus, exponent })
    }

    fn p256(curve: &str, x: &str, y: &str) -> Option<Self> {
        let (x, y) = (URL_SAFE_NO_PAD.decode(x).ok()?, URL_SAFE_NO_PAD.decode(y).ok()?);
        let fits = curve == "P-256" && x.len() == 32 && y.len() == 32;
        // 4 begins a point whose two coordinates are written out.
        fits.then(|| Self::P256([&[4], x.as_slice(), y.as_slice()].concat()))
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
        }
    }
}

/// A positive number in base64url, in as few bytes as it needs (RFC 7518, section 2).
fn number(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.first().is_some_and(|first| *first != 0))
}

fn small(number: &[u8]) -> Option<u64> {
    (number.len() <= 8).then(|| number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// Whether a modulus is one of those that a widespread chip made from powers of 65,537 and that can be factored
/// (CVE-2017-15361). Modulo each of the first primes it is then a power of 65,537. Of other moduli, about one in
/// 2^28 is.
fn has_known_structure(modulus: &[u8]) -> bool {
    const PRIMES: [u32; 38] = [
        3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107,
        109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
    ];
    PRIMES.into_iter().all(|prime| {
        let rest = modulus.iter().fold(0, |rest, byte| (rest << 8 | u32::from(*byte)) % prime);
        let powers = std::iter::successors(Some(1), |power| Some(power * 65_537 % prime));
        powers.take(prime as usize).any(|power| power == rest)
    })
}
