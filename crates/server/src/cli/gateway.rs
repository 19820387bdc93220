//! `stile gateway`: serves the note tools over HTTP, for notes that another server has.
//!
//! The gateway makes no file, no folder and no key. With an identity provider it reads nothing in
//! the state folder but the settings file.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use stile_store::state::{StateDir, StateError, TokenKey, TokenStore};
use stile_tools::note_session::{Credential, PathJudge};
use stile_tools::remote_notes::RemoteNotes;

use super::identity_provider::IdentityProvider;
use super::settings_files::{http_client, read_secret};
use super::{Failure, http_server, process, required, warn_if_exposed};
use crate::auth::{LocalVerifier, TokenVerifier};
use crate::config::{Config, CredentialMode, Resolved, YesNo};
use crate::fair_share::{Resource, Shares};
use crate::gateway::http_note_store::HttpNoteStore;
use crate::gateway::session_factory::{SessionFactory, UpstreamCredential};
use crate::http::HttpOptions;
use crate::outbound::{OutboundClient, OutboundLimits};
use crate::service::Service;

/// Serves until the process is asked to stop.
pub(super) fn run(resolved: &Resolved) -> Result<(), Failure> {
    let config = &resolved.config;
    let upstream =
        required(&config.upstream, "--upstream", "the address of the server that has the notes")?;
    let provider = IdentityProvider::from_config(config)?;
    let outbound = http_client(config)?;
    let store = note_store(config, outbound.clone(), upstream)?;
    warn_if_exposed(upstream, "--upstream", "tokens and notes")?;
    let options = http_server::options(config)?;
    let issuer = TokenIssuer::new(provider, config)?;
    process::log_without_targets(config.log);
    process::raise_file_limit();
    process::block_on(async {
        let verifier = issuer.verifier(outbound).await?;
        let sessions = SessionFactory {
            default_vault: config.vault.as_str().into(),
            credential: upstream_credential(config, issuer.audience())?,
        };
        let options =
            HttpOptions { authorization_servers: issuer.authorization_servers(), ..options };
        let notes = RemoteNotes::new(Arc::new(store));
        let service = Service::new(notes, Some(Resource::UpstreamRequests))
            .with_sessions(sessions)
            .with_shares(Arc::new(Shares::new(config.max_connections, config.max_body_bytes)));
        let on_listening = |address| http_server::print_address(config, address);
        http_server::serve(config, options, service, verifier, on_listening).await
    })
}

/// Who signed the tokens that the gateway accepts.
enum TokenIssuer {
    Provider(IdentityProvider),
    /// The `stile serve` whose state folder is configured.
    Serve {
        verifier: Arc<LocalVerifier>,
        audience: String,
    },
}

impl TokenIssuer {
    /// Returns the identity provider, or else opens the state folder of a `stile serve` to read.
    fn new(provider: Option<IdentityProvider>, config: &Config) -> Result<Self, Failure> {
        if let Some(provider) = provider {
            return Ok(Self::Provider(provider));
        }
        let open = || -> Result<_, StateError> {
            let state = StateDir::open_existing(&config.state)?;
            let (key, tokens) =
                (TokenKey::open_existing(&state)?, TokenStore::open_to_read(&state)?);
            let spaces = tokens.spaces()?;
            Ok((key, tokens, spaces))
        };
        let (key, tokens, spaces) = open().map_err(|error| {
            Failure::Usage(format!(
                "the gateway needs --jwks, or --state with the key and the tokens of a \
                 `stile serve`; it makes none ({error})"
            ))
        })?;
        let [space] = spaces.as_slice() else {
            return Err(Failure::Usage(format!(
                "the gateway accepts the tokens of one space, and the state folder {} knows {}; \
                 start the `stile serve` that has the notes with a --state of its own",
                config.state.display(),
                spaces.len()
            )));
        };
        let audience = space.audience.clone();
        let verifier = LocalVerifier::new(&key, &audience, Arc::new(tokens), SystemTime::now);
        Ok(Self::Serve { verifier: Arc::new(verifier), audience })
    }

    async fn verifier(&self, outbound: OutboundClient) -> Result<Arc<dyn TokenVerifier>, Failure> {
        Ok(match self {
            Self::Provider(provider) => provider.verifier(outbound).await?,
            Self::Serve { verifier, .. } => Arc::<LocalVerifier>::clone(verifier),
        })
    }

    /// Returns the `aud` of tokens for this gateway.
    fn audience(&self) -> &str {
        match self {
            Self::Provider(provider) => &provider.audience,
            Self::Serve { audience, .. } => audience,
        }
    }

    /// Returns the issuers that a client can get a token from by itself.
    fn authorization_servers(&self) -> Vec<String> {
        match self {
            Self::Provider(provider) => vec![provider.issuer.clone()],
            Self::Serve { .. } => Vec::new(),
        }
    }
}

fn note_store(
    config: &Config,
    outbound: OutboundClient,
    upstream: &str,
) -> Result<HttpNoteStore, Failure> {
    let bounds = OutboundLimits {
        total: Duration::from_secs(config.upstream_timeout_seconds),
        body_bytes: config.upstream_max_bytes,
    };
    Ok(HttpNoteStore::new(outbound, upstream, gateway_secret(config)?, bounds))
}

/// Returns the header value that proves to the server with the notes who the gateway is.
fn gateway_secret(config: &Config) -> Result<Option<HeaderValue>, Failure> {
    let Some(file) = &config.gateway_secret_file else { return Ok(None) };
    let mut secret =
        HeaderValue::try_from(read_secret("--gateway-secret-file", file)?).map_err(|_| {
            Failure::Usage("the file of --gateway-secret-file holds no secret".to_owned())
        })?;
    secret.set_sensitive(true);
    Ok(Some(secret))
}

fn upstream_credential(config: &Config, audience: &str) -> Result<UpstreamCredential, Failure> {
    let path_judge = match config.upstream_path_scopes {
        YesNo::Yes => PathJudge::Gateway,
        YesNo::No => PathJudge::Upstream,
    };
    match (config.upstream_credential, &config.upstream_token_file) {
        (CredentialMode::Forward, None) if path_judge == PathJudge::Upstream => {
            Err(Failure::Usage(
                "--upstream-path-scopes no is only used with --upstream-credential own; a \
                 forwarded token has its own scopes"
                    .to_owned(),
            ))
        }
        (CredentialMode::Forward, None) => {
            let audience = config.upstream_audience.as_deref().unwrap_or(audience).into();
            Ok(UpstreamCredential::Forward { audience })
        }
        (CredentialMode::Own, Some(file)) => {
            let token = read_secret("--upstream-token-file", file)?;
            Ok(UpstreamCredential::Own { token: Credential::new(&token), path_judge })
        }
        (CredentialMode::Own, None) => Err(Failure::Usage(
            "--upstream-credential own needs --upstream-token-file, a file with the gateway's \
             own token"
                .to_owned(),
        )),
        (CredentialMode::Forward, Some(_)) => Err(Failure::Usage(
            "--upstream-token-file is only used with --upstream-credential own".to_owned(),
        )),
    }
}
