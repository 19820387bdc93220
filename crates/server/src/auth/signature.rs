//! Every signature that Stile makes or verifies, computed by `ring`.
//!
//! A key's type fixes its algorithm: a secret verifies HS256, an RSA key RS256 and a P-256 point
//! ES256. No function takes an algorithm beside a key, so a public key cannot be used as a secret
//! nor a secret as a public key. `key_set` decides which published keys are strong enough.

use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

/// The secret of this server's own tokens, for HMAC with SHA-256 (RFC 7518, section 3.2).
pub(super) struct Hs256Key(hmac::Key);

impl Hs256Key {
    pub(super) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    pub(super) fn sign(&self, message: &[u8]) -> impl AsRef<[u8]> + use<> {
        hmac::sign(&self.0, message)
    }

    /// Compares in constant time.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        hmac::verify(&self.0, message, signature).is_ok()
    }
}

/// An algorithm of an identity provider's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublicKeyAlgorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256 (RFC 7518, section 3.3).
    Rs256,
    /// ECDSA with P-256 and SHA-256 (RFC 7518, section 3.4).
    Es256,
}

impl PublicKeyAlgorithm {
    /// Parses the value of `alg`, which is case-sensitive.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }
}

/// A public key of an identity provider.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PublicKey {
    /// Both numbers are big-endian, without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// The uncompressed point. `ring` checks at each use that the point is on the curve.
    P256(Vec<u8>),
}

impl PublicKey {
    pub(super) fn algorithm(&self) -> PublicKeyAlgorithm {
        match self {
            Self::Rsa { .. } => PublicKeyAlgorithm::Rs256,
            Self::P256(_) => PublicKeyAlgorithm::Es256,
        }
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
        }
        .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    /// RFC 7515, appendix A.1.
    #[test]
    fn the_published_hs256_example_is_signed_and_verified() {
        let secret = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4\
                      hcgUuTwjAzZr1Z9CAow";
        let key = Hs256Key::new(&URL_SAFE_NO_PAD.decode(secret).unwrap());
        let message = b"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
                        eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt\
                        cGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = key.sign(message);
        assert_eq!(
            URL_SAFE_NO_PAD.encode(&signature),
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        );
        assert!(key.verifies(message, signature.as_ref()));
        assert!(!key.verifies(b"another message", signature.as_ref()));
        assert!(!key.verifies(message, &signature.as_ref()[..31]));
        assert!(!Hs256Key::new(b"another secret").verifies(message, signature.as_ref()));
    }

    #[test]
    fn algorithm_names_are_case_sensitive() {
        for name in [
            "", "none", "None", "rs256", "es256", "RS256 ", "HS256", "RS384", "RS512", "PS256",
            "ES384", "EdDSA",
        ] {
            assert_eq!(PublicKeyAlgorithm::parse(name), None, "{name}");
        }
    }
}
