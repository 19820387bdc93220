//! Random secrets, of which the state holds digests only.

use ring::rand::{SecureRandom as _, SystemRandom};
use stile_domain::base64;
use stile_domain::hash::ContentHash;
use stile_store::state::SecretDigest;

/// A secret of 32 random bytes, as base64url.
pub struct RandomSecret(String);

/// The system gives no random numbers.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandomNumbers;

impl RandomSecret {
    /// Draws a secret.
    ///
    /// # Errors
    /// [`NoRandomNumbers`].
    pub fn draw() -> Result<Self, NoRandomNumbers> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomNumbers)?;
        Ok(Self(base64::url_safe(bytes)))
    }

    /// Returns the secret itself, to be sent once and never stored.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns what the state holds of the secret.
    pub fn digest(&self) -> SecretDigest {
        digest_of(&self.0)
    }
}

/// Returns what the state holds of a secret that was presented.
pub fn digest_of(secret: &str) -> SecretDigest {
    *ContentHash::digest(secret.as_bytes()).as_bytes()
}
