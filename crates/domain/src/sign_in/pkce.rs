//! Proof Key for Code Exchange: only the client that asked can redeem the code.
//!
//! The client sends the hash of a secret with its request and the secret with the code. Only the
//! method `S256` exists here, since `plain` protects nothing against who reads the request.
//!
//! *Source*: RFC 7636, sections 4.1 to 4.6.

use crate::base64;
use sha2::{Digest as _, Sha256};

/// The hash of a client's secret: base64url of a SHA-256, 43 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeChallenge(String);

/// Why a request has no usable code challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCodeChallenge {
    /// The request has none.
    #[error("`code_challenge` is missing; this server requires PKCE with `S256`")]
    Missing,
    /// The method is not `S256`. A missing method means `plain`.
    #[error("`code_challenge_method` must be `S256`")]
    Method,
    /// The challenge is not base64url of 32 bytes.
    #[error("`code_challenge` must be base64url of a SHA-256, 43 characters")]
    Malformed,
}

impl CodeChallenge {
    /// Reads the two parameters of a request.
    ///
    /// # Errors
    /// Every [`BadCodeChallenge`].
    pub fn parse(challenge: Option<&str>, method: Option<&str>) -> Result<Self, BadCodeChallenge> {
        let challenge = challenge.ok_or(BadCodeChallenge::Missing)?;
        if method != Some("S256") {
            return Err(BadCodeChallenge::Method);
        }
        Self::from_stored(challenge).ok_or(BadCodeChallenge::Malformed)
    }

    /// Reads a challenge that [`CodeChallenge::as_str`] gave; `None` for another text.
    pub fn from_stored(text: &str) -> Option<Self> {
        let bytes = base64::from_url_safe(text)?;
        (bytes.len() == 32).then(|| Self(text.to_owned()))
    }

    /// Returns the challenge as the client sent it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether `verifier` is the secret of this challenge. Its form is that of RFC 7636:
    /// 43 to 128 unreserved characters.
    pub fn is_met_by(&self, verifier: &str) -> bool {
        let is_character = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let has_form = (43..=128).contains(&verifier.len()) && verifier.bytes().all(is_character);
        // Both sides are hashes, so the time of the comparison tells nothing about the secret.
        has_form && base64::url_safe(Sha256::digest(verifier)) == self.0
    }
}

#[cfg(test)]
mod tests {
    use ::base64::Engine as _;
    use ::base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use proptest::prelude::*;

    use super::*;

    /// The example of RFC 7636, appendix B.
    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    #[test]
    fn the_example_of_the_standard_is_met_by_its_verifier_alone() {
        let challenge = CodeChallenge::parse(Some(CHALLENGE), Some("S256")).unwrap();
        assert_eq!(challenge.as_str(), CHALLENGE);
        assert!(challenge.is_met_by(VERIFIER));
        for other in [CHALLENGE, "", &VERIFIER[..42], &format!("{VERIFIER}A")] {
            assert!(!challenge.is_met_by(other), "{other}");
        }
    }

    #[test]
    fn a_challenge_without_s256_is_refused() {
        use BadCodeChallenge::{Malformed, Method, Missing};
        let error = |challenge, method| CodeChallenge::parse(challenge, method).unwrap_err();
        assert_eq!(error(None, Some("S256")), Missing);
        assert_eq!(error(Some(CHALLENGE), None), Method);
        assert_eq!(error(Some(VERIFIER), Some("plain")), Method);
        assert_eq!(error(Some(CHALLENGE), Some("s256")), Method);
        for text in ["", &CHALLENGE[1..], &format!("{CHALLENGE}="), &CHALLENGE.replace('-', "+")] {
            assert_eq!(error(Some(text), Some("S256")), Malformed, "{text}");
        }
    }

    #[test]
    fn a_verifier_of_the_wrong_form_is_refused_although_its_hash_fits() {
        for verifier in ["a".repeat(42), "a".repeat(129), " ".repeat(43), "ä".repeat(43)] {
            let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
            let challenge = CodeChallenge::from_stored(&hash).unwrap();
            assert!(!challenge.is_met_by(&verifier), "{verifier}");
        }
    }

    proptest! {
        #[test]
        fn a_challenge_is_met_by_the_verifier_that_it_was_made_of(
            verifier in "[A-Za-z0-9._~-]{43,128}", other in "[A-Za-z0-9._~-]{43,128}"
        ) {
            let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
            let challenge = CodeChallenge::parse(Some(&hash), Some("S256")).unwrap();
            prop_assert!(challenge.is_met_by(&verifier));
            prop_assert_eq!(challenge.is_met_by(&other), verifier == other);
        }
    }
}
