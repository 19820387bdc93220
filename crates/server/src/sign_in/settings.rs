//! What every endpoint of the authorization server uses.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use stile_store::state::{TokenKey, TokenStore};

use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::pending::PendingRequests;
use crate::auth::Minter;
use crate::clock::unix_seconds;
use crate::http::rate_limit::RateLimit;

/// What the program configures.
pub struct SignInSettings {
    /// The key that signs access tokens.
    pub key: TokenKey,
    /// The state.
    pub tokens: Arc<TokenStore>,
    /// The `aud` of access tokens: the space.
    pub audience: String,
    /// The origin that clients use; if absent, that of each request.
    pub public_url: Option<String>,
    /// How long an access token lives.
    pub access_life: Duration,
    /// Where the time comes from.
    pub clock: fn() -> SystemTime,
}

/// The authorization server.
pub struct AuthorizationServer {
    /// What the program configured.
    pub settings: SignInSettings,
    /// The requests that wait for the owner.
    pub pending: PendingRequests,
    rate: RateLimit,
    registrations: RateLimit,
}

/// Requests to one endpoint that one address may send in a second, over time and at once.
const RATE: (u32, u32) = (20, 200);
/// The same for registrations, each of which stores a client.
const REGISTRATION_RATE: (u32, u32) = (1, 60);

impl AuthorizationServer {
    /// Makes a server.
    pub fn new(settings: SignInSettings) -> Self {
        Self {
            settings,
            pending: PendingRequests::default(),
            rate: RateLimit::new(RATE.0, RATE.1),
            registrations: RateLimit::new(REGISTRATION_RATE.0, REGISTRATION_RATE.1),
        }
    }

    /// Returns the state.
    pub fn tokens(&self) -> &TokenStore {
        &self.settings.tokens
    }

    /// Returns the time in UTC seconds.
    pub fn now(&self) -> i64 {
        unix_seconds((self.settings.clock)())
    }

    /// Returns what makes access tokens.
    pub fn minter(&self) -> Minter<'_> {
        let SignInSettings { key, tokens, audience, .. } = &self.settings;
        Minter { key, tokens, audience }
    }

    /// Counts a request of an address.
    ///
    /// # Errors
    /// The address sends too many.
    pub fn take_turn(&self, address: &str) -> Result<(), OAuthError> {
        self.rate.take(address, Instant::now()).map_err(too_many)
    }

    /// Counts a registration of an address.
    ///
    /// # Errors
    /// The address registers too many.
    pub fn take_registration(&self, address: &str) -> Result<(), OAuthError> {
        self.registrations.take(address, Instant::now()).map_err(too_many)
    }
}

fn too_many(wait: Duration) -> OAuthError {
    let seconds = wait.as_secs().saturating_add(1);
    OAuthError::new(
        OAuthErrorCode::TooManyRequests,
        format!("too many requests from this address; try again in {seconds} s"),
    )
}

/// Returns whether `resource` of a request is this server, as RFC 9728 metadata names it.
pub fn is_own_resource(origin: &str, resource: &str) -> bool {
    resource.strip_prefix(origin).is_some_and(|path| matches!(path, "" | "/" | "/mcp" | "/mcp/"))
}
