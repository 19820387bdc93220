//! `stile gateway`: the note tools over HTTP, for notes that another server has.
//!
//! It makes no file, no folder and no key. With an identity provider it does not even look at the
//! state folder, but for settings.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use stile_store::state::{StateDir, TokenKey, TokenStore};
use stile_tools::hosted::Gateway;
use stile_tools::hosted::session::Credential;

use super::{Failure, hosted, serve, start};
use crate::auth::{LocalVerifier, Verifier};
use crate::config::{Config, CredentialMode, Resolved, is_exposed};
use crate::gateway::http_note_store::HttpNoteStore;
use crate::gateway::session_factory::{SessionFactory, UpstreamCredential};
use crate::offer::Offer;
use crate::outbound::{Bounds, Outbound};

/// Serves until it is told to stop.
pub(super) fn run(resolved: &Resolved) -> Result<(), Failure> {
    let config = &resolved.config;
    let upstream = config.upstream.as_deref().ok_or_else(|| {
        Failure::Usage(
            "--upstream is missing: the address of the server that has the notes".to_owned(),
        )
    })?;
    let provider = hosted::provider(config)?;
    let outbound = hosted::outbound(config)?;
    let secret = config
        .gateway_secret_file
        .as_deref()
        .map(|file| hosted::secret("--gateway-secret-file", file));
    let store = store(config, outbound.clone(), upstream, secret.transpose()?)?;
    if is_exposed(upstream) {
        writeln!(
            io::stderr(),
            "warning: tokens and notes pass to and from --upstream as plain text; use https"
        )?;
    }
    let local = match provider {
        Some(_) => None,
        None => Some(local(config)?),
    };
    start::log_without_targets(config.log);
    start::raise_file_limit();
    let runtime = start::runtime()?;
    let served = runtime.block_on(async {
        let (verifier, audience): (Arc<dyn Verifier>, String) = match (&provider, local) {
            (Some(provider), _) => (provider.verifier(outbound).await?, provider.audience.clone()),
            (None, Some(local)) => local,
            (None, None) => {
                return Err(Failure::Failed("there is nobody to verify tokens".to_owned()));
            }
        };
        let sessions = SessionFactory {
            default_vault: config.vault.as_str().into(),
            credential: credential(config, &audience)?,
        };
        let offer = Offer::of_notes(Gateway::new(Arc::new(store)), sessions);
        let mut options = serve::options(config)?;
        options.authorization_servers =
            provider.iter().map(|provider| provider.issuer.clone()).collect();
        let announce = |address: SocketAddr| serve::say(&format!("listening on http://{address}"));
        serve::until_stopped(config, options, offer, verifier, announce).await
    });
    // What is in flight was given its time by then.
    runtime.shutdown_background();
    served
}

fn store(
    config: &Config,
    outbound: Outbound,
    upstream: &str,
    secret: Option<String>,
) -> Result<HttpNoteStore, Failure> {
    let secret = secret.map(HeaderValue::try_from).transpose();
    let mut secret = secret.map_err(|_| {
        Failure::Usage("the file of --gateway-secret-file holds no secret".to_owned())
    })?;
    if let Some(secret) = &mut secret {
        secret.set_sensitive(true);
    }
    let bounds = Bounds {
        total: Duration::from_secs(config.upstream_timeout_seconds),
        body_bytes: config.upstream_max_bytes,
    };
    Ok(HttpNoteStore::new(outbound, upstream, secret, bounds))
}

/// The verifier of tokens that a `stile serve` minted, from its state folder as it is.
fn local(config: &Config) -> Result<(Arc<dyn Verifier>, String), Failure> {
    let existing = || -> Result<_, stile_store::state::StateError> {
        let state = StateDir::open_existing(&config.state)?;
        Ok((TokenKey::open_existing(&state)?, TokenStore::open_to_read(&state)?))
    };
    let (key, tokens) = existing().map_err(|error| {
        Failure::Usage(format!(
            "the gateway needs --jwks, or --state with the key and the tokens of a `stile serve`; it makes none ({error})"
        ))
    })?;
    let audience = key.audience.clone();
    Ok((Arc::new(LocalVerifier::new(&key, Arc::new(tokens), SystemTime::now)), audience))
}

fn credential(config: &Config, audience: &str) -> Result<UpstreamCredential, Failure> {
    match (config.upstream_credential, &config.upstream_token_file) {
        (CredentialMode::Forward, None) => {
            let audience = config.upstream_audience.as_deref().unwrap_or(audience).into();
            Ok(UpstreamCredential::Forward { audience })
        }
        (CredentialMode::Own, Some(file)) => {
            Ok(UpstreamCredential::Own(Credential::new(&hosted::secret("--upstream-token-file", file)?)))
        }
        (CredentialMode::Own, None) => Err(Failure::Usage(
            "--upstream-credential own needs --upstream-token-file, a file with the gateway's own token".to_owned(),
        )),
        (CredentialMode::Forward, Some(_)) => {
            Err(Failure::Usage("--upstream-token-file is only used with --upstream-credential own".to_owned()))
        }
    }
}
