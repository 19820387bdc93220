//! Seals for a program that keeps nothing: the key is made of a secret that it is given anew at
//! each start.
//!
//! What was sealed opens for whoever has the same secret and purpose, in this process or in a later
//! one, and for nobody else. Nothing is written anywhere.

use crate::records::seal::{SealKey, Seals};

/// Seals and opens with the one key that a secret gives.
pub struct Sealer(Seals);

/// There is no randomness, or no key can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct SealerError;

impl Sealer {
    /// With the key that `secret` gives for this purpose and in this place. The secret must be one
    /// that cannot be guessed, such as a token: a password would need to be stretched first.
    ///
    /// # Errors
    /// [`SealerError`].
    pub fn from_secret(secret: &str, place: &str, purpose: &str) -> Result<Self, SealerError> {
        let key = SealKey::derive(secret.as_bytes(), place.as_bytes(), purpose.as_bytes())
            .map_err(|_| SealerError)?;
        Seals::new([key]).map(Self).map_err(|_| SealerError)
    }

    /// Seals bytes into a text for a client, another one each time.
    ///
    /// # Errors
    /// [`SealerError`].
    pub fn seal(&self, plain: &[u8]) -> Result<String, SealerError> {
        self.0.seal(plain).map_err(|_| SealerError)
    }

    /// Opens what [`Sealer::seal`] made with the same secret, place and purpose. None for
    /// everything else.
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
    fn security_no_changed_bit_opens() {
        let sealer = sealer("secret", "https://a.example", "handles");
        let text = sealer.seal(b"a place").unwrap();
        assert_ne!(sealer.seal(b"a place").unwrap(), text, "equal places look different");
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sealer.open(&URL_SAFE_NO_PAD.encode(changed)), None, "bit {bit}");
        }
    }

    #[test]
    fn security_only_the_same_secret_place_and_purpose_open() {
        let text = sealer("secret", "https://a.example", "handles").seal(b"a place").unwrap();
        let open = |secret, place, purpose| sealer(secret, place, purpose).open(&text);
        assert_eq!(
            open("secret", "https://a.example", "handles").as_deref(),
            Some(&b"a place"[..])
        );
        for (secret, place, purpose) in [
            ("secret2", "https://a.example", "handles"),
            ("", "https://a.example", "handles"),
            ("secret", "https://b.example", "handles"),
            ("secret", "https://a.example", "other"),
        ] {
            assert_eq!(open(secret, place, purpose), None, "{secret} {place} {purpose}");
        }
    }

    /// The key as another implementation of RFC 5869 makes it: Python's `hmac`, by hand.
    #[test]
    fn a_later_version_of_this_program_opens_it_too() {
        let key = SealKey::derive(b"secret", b"https://a.example", b"handles").unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            (hex(&key.id).as_str(), hex(&key.secret).as_str()),
            ("a53ccadf", "084992ab07c185e61b42480ecfd412ae1da317c80544ae095f7f7fbd6b2173ba")
        );
    }
}
