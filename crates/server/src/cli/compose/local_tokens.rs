//! The tokens that this program makes itself, and the note that lets commands find the server.

use std::net::SocketAddr;
use std::sync::Arc;

use stile_store::state::{
    RunningNote, RunningServer, SpaceOfFolder, StateDir, TokenKey, TokenStore,
};

use super::home::Home;
use super::http_server;
use crate::auth::{LocalTokenIssuer, LocalVerifier, TokenUses};
use crate::cli::client_entry::absolute;
use crate::cli::failure::Failure;
use crate::clock::{unix_seconds, wall_clock};
use crate::config::Config;

/// The tokens that were minted with the key in the state folder, for the space that is served.
pub(crate) struct LocalTokens {
    state: StateDir,
    pub(crate) key: TokenKey,
    pub(crate) tokens: Arc<TokenStore>,
    pub(crate) space: SpaceOfFolder,
    pub(crate) verifier: Arc<LocalVerifier>,
    pub(crate) uses: Arc<TokenUses>,
}

impl LocalTokens {
    pub(crate) fn open(home: &Home, config: &Config) -> Result<Self, Failure> {
        let (key, tokens) = (home.key()?, Arc::new(home.tokens()?));
        // All spaces of `--spaces` have one audience; the subject says which of them a token is
        // for.
        let space = tokens.space_of(config.spaces.as_ref().unwrap_or(&config.root))?;
        let uses = TokenUses::new(Arc::clone(&tokens));
        let verifier = LocalVerifier::new(&key, &space.audience, Arc::clone(&tokens), wall_clock)
            .with_uses(Arc::clone(&uses));
        let state = home.state().clone();
        Ok(Self { state, key, tokens, space, verifier: Arc::new(verifier), uses })
    }

    /// The state folder.
    pub(super) fn state(&self) -> &StateDir {
        &self.state
    }

    /// Notes in the state folder where this server listens, so that commands find it.
    pub(crate) fn note(&self, config: &Config, address: SocketAddr) -> Option<RunningNote> {
        let folder = config.spaces.as_ref().unwrap_or(&config.root);
        let server = RunningServer {
            origin: format!("{}://{address}", http_server::scheme(config)),
            public_url: config.public_url.clone(),
            audience: self.space.audience.clone(),
            root: absolute(folder),
            pid: std::process::id(),
            started: unix_seconds(wall_clock()),
        };
        RunningNote::publish(&self.state, &server)
            .map_err(|error| {
                tracing::warn!(target: "stile", %error, "commands will not find this server");
            })
            .ok()
    }

    /// Returns what makes tokens for the owner's requests.
    pub(crate) fn issuer(&self) -> Arc<LocalTokenIssuer> {
        Arc::new(LocalTokenIssuer {
            key: self.key.clone(),
            tokens: Arc::clone(&self.tokens),
            audience: self.space.audience.clone(),
            verifier: Arc::clone(&self.verifier),
            clock: wall_clock,
            person: None,
        })
    }
}
