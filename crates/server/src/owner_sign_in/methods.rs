//! The ways in which the owner of a space signs in, together.

use std::sync::Arc;
use std::time::Instant;

use ring::hmac;
use stile_store::state::{TokenKey, TokenStore};

use super::attempts::Attempts;
use super::openid::OpenIdSignIn;
use super::password::PasswordChecker;
use crate::fleet::Fleet;
use crate::passkeys::{PasskeyRefused, Passkeys};

/// What checks passwords and passkeys.
#[derive(Debug)]
pub struct SignInMethods {
    /// Checks passwords, one at a time.
    pub passwords: PasswordChecker,
    /// Delays passwords after failures.
    pub attempts: Attempts,
    /// Registers and verifies passkeys.
    pub passkeys: Passkeys,
    /// Signs people in at an identity provider, in place of passwords and passkeys.
    pub provider: Option<OpenIdSignIn>,
}

impl SignInMethods {
    /// The ways in which the owner of `tokens` signs in.
    ///
    /// # Errors
    /// [`PasskeyRefused::Malformed`] if the system has no random numbers.
    pub fn new(
        tokens: &Arc<TokenStore>,
        key: &TokenKey,
        provider: Option<OpenIdSignIn>,
    ) -> Result<Self, PasskeyRefused> {
        // Authenticators show the handle to nobody. It says nothing and is the same at each start.
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &key.secret);
        let handle = hmac::sign(&secret, b"the handle of the owner in authenticators");
        Ok(Self {
            passwords: PasswordChecker::new(Arc::clone(tokens)),
            attempts: Attempts::default(),
            passkeys: Passkeys::new(Arc::clone(tokens), key, handle.as_ref(), Instant::now())?,
            provider,
        })
    }

    /// Delays passwords so that all servers that share a database together take no more attempts
    /// than one would.
    #[must_use]
    pub fn shared_by(self, fleet: Option<Arc<Fleet>>) -> Self {
        Self { attempts: Attempts::shared_by(fleet), ..self }
    }
}
