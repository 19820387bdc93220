//! The signatures of our own tokens, computed by `ring` for the JWT library.
//!
//! One provider for the whole process. It knows HS256 only; every other algorithm is an error, and
//! so is a key of another kind than its algorithm. Tokens of an identity provider never come here:
//! `jwk` verifies them with `ring` itself, so that no secret can be taken for a public key, nor the
//! other way round.

use jsonwebtoken::crypto::{CryptoProvider, JwkUtils, JwtSigner, JwtVerifier};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{self, Signer, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use ring::hmac;

static PROVIDER: CryptoProvider =
    CryptoProvider { signer_factory, verifier_factory, jwk_utils: JWK };

/// No JWK is ever made here. The library's own placeholders would panic.
const JWK: JwkUtils = JwkUtils {
    extract_rsa_public_key_components: |_| Err(ErrorKind::InvalidKeyFormat.into()),
    extract_ec_public_key_coordinates: |_, _| Err(ErrorKind::InvalidKeyFormat.into()),
    compute_digest: |_, _| Vec::new(),
};

/// Makes `ring` the provider of this process, if none is yet.
pub(super) fn install() {
    // An error means that a second call came, and so that the provider is there.
    let _ = PROVIDER.install_default();
}

fn signer_factory(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    match algorithm {
        Algorithm::HS256 => {
            Ok(Box::new(Hs256(hmac::Key::new(hmac::HMAC_SHA256, key.try_get_hmac_secret()?))))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

fn verifier_factory(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    match algorithm {
        Algorithm::HS256 => {
            Ok(Box::new(Hs256(hmac::Key::new(hmac::HMAC_SHA256, key.try_get_hmac_secret()?))))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

struct Hs256(hmac::Key);

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, signature::Error> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    fn verify(
        &self,
        message: &[u8],
        signature: &Vec<u8>,
    ) -> std::result::Result<(), signature::Error> {
        hmac::verify(&self.0, message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_algorithm_is_an_error_and_no_panic() {
        install();
        for algorithm in [
            Algorithm::HS384,
            Algorithm::HS512,
            Algorithm::RS256,
            Algorithm::PS256,
            Algorithm::ES256,
            Algorithm::EdDSA,
        ] {
            assert!(signer_factory(&algorithm, &EncodingKey::from_secret(&[1; 32])).is_err());
            assert!(verifier_factory(&algorithm, &DecodingKey::from_secret(&[1; 32])).is_err());
            assert!(
                jsonwebtoken::crypto::sign(b"m", &EncodingKey::from_secret(&[1; 32]), algorithm)
                    .is_err()
            );
        }
    }

    #[test]
    fn a_key_of_another_kind_is_refused() {
        assert!(verifier_factory(&Algorithm::HS256, &DecodingKey::from_rsa_der(&[1; 32])).is_err());
        assert!(signer_factory(&Algorithm::HS256, &EncodingKey::from_ec_der(&[1; 32])).is_err());
    }

    /// RFC 7515, appendix A.1.
    #[test]
    fn the_published_example_verifies() {
        install();
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow==";
        let key = EncodingKey::from_urlsafe_base64_secret(key).unwrap();
        let message = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
                       eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature =
            jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
        assert_eq!(signature, "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    }
}
