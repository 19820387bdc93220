//! Seals for a program without a database: the key is derived from a secret.
//!
//! Another process with the same secret and purpose opens the same seals, and nobody else does. The
//! key is not stored.

use crate::seal::{SealKey, Seals};

/// Seals and opens with a key that is derived from a secret.
pub struct Sealer(Seals);

/// The error if the system gives no random bytes, or no key can be derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct SealerError;

impl Sealer {
    /// Derives a key from `secret`, for one purpose in one place. The secret must be hard to guess,
    /// as a token is. A password would have to be stretched first.
    ///
    /// # Errors
    /// [`SealerError`] if no key can be derived.
    pub fn from_secret(secret: &str, place: &str, purpose: &str) -> Result<Self, SealerError> {
        let key = SealKey::derive(secret.as_bytes(), place.as_bytes(), purpose.as_bytes())
            .map_err(|_| SealerError)?;
        Seals::new([key]).map(Self).map_err(|_| SealerError)
    }

    /// Seals bytes for a client. The same bytes give another text each time.
    ///
    /// # Errors
    /// [`SealerError`] if the system gives no random bytes.
    pub fn seal(&self, plain: &[u8]) -> Result<String, SealerError> {
        self.0.seal(plain).map_err(|_| SealerError)
    }

    /// Opens what [`Sealer::seal`] made with the same secret, place and purpose. Returns `None` for
    /// every other text.
    pub fn open(&self, text: &str) -> Option<Vec<u8>> {
        self.0.open(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    fn sealer(secret: &str, place: &str, purpose: &str) -> Sealer {
        Sealer::from_secret(secret, place, purpose).unwrap()
    }

    #[test]
    fn a_seal_with_one_flipped_bit_does_not_open() {
        let sealer = sealer("secret", "https://a.example", "handles");
        let text = sealer.seal(b"handle").unwrap();
        assert_ne!(
            sealer.seal(b"handle").unwrap(),
            text,
            "sealing the same bytes again gives another text"
        );
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sealer.open(&URL_SAFE_NO_PAD.encode(changed)), None, "bit {bit}");
        }
    }

    #[test]
    fn only_the_same_secret_place_and_purpose_open_a_seal() {
        let text = sealer("secret", "https://a.example", "handles").seal(b"handle").unwrap();
        let open = |secret, place, purpose| sealer(secret, place, purpose).open(&text);
        assert_eq!(open("secret", "https://a.example", "handles").as_deref(), Some(&b"handle"[..]));
        for (secret, place, purpose) in [
            ("secret2", "https://a.example", "handles"),
            ("", "https://a.example", "handles"),
            ("secret", "https://b.example", "handles"),
            ("secret", "https://a.example", "other"),
        ] {
            assert_eq!(open(secret, place, purpose), None, "{secret} {place} {purpose}");
        }
    }

    /// The expected key was computed with Python's `hmac`, by the steps of RFC 5869.
    #[test]
    fn the_derived_key_is_the_one_of_rfc_5869() {
        let key = SealKey::derive(b"secret", b"https://a.example", b"handles").unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            (hex(&key.id).as_str(), hex(&key.secret).as_str()),
            ("a53ccadf", "084992ab07c185e61b42480ecfd412ae1da317c80544ae095f7f7fbd6b2173ba")
        );
    }
}
