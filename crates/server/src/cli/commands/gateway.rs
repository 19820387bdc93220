//! `stile gateway`: serves the note tools over HTTP, for notes that another server has.
//!
//! The gateway makes no file, no folder and no key. With an identity provider it reads nothing in
//! the state folder but the settings file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use stile_store::state::StateError;
use stile_tools::note_session::{Credential, PathJudge};
use stile_tools::remote_notes::RemoteNotes;

use crate::auth::{LocalVerifier, TokenVerifier};
use crate::by_vault::ByVault;
use crate::cli::compose::settings_files::{http_client, read_secret};
use crate::cli::compose::{Home, IdentityProvider, http_server, process};
use crate::cli::failure::Failure;
use crate::cli::invocation::{Invocation, settings, warn_if_exposed};
use crate::cli::terminal;
use crate::clock::wall_clock;
use crate::config::{Config, CredentialMode, YesNo};
use crate::fair_share::{FairShare, Resource};
use crate::gateway::http_note_store::HttpNoteStore;
use crate::gateway::session_factory::{SessionFactory, UpstreamCredential};
use crate::http::HttpOptions;
use crate::outbound::{OutboundClient, OutboundLimits};
use crate::service::Service;
use crate::shares::Shares;

/// Serves until the process is asked to stop.
pub(super) fn run(Invocation { matches, environment, .. }: Invocation<'_>) -> Result<(), Failure> {
    let config = &settings(matches, environment)?.config;
    let upstreams = &config.upstream;
    if upstreams.is_empty() {
        return Err(Failure::Usage(
            "--upstream is missing: the address of the server that has the notes".to_owned(),
        ));
    }
    let provider = IdentityProvider::from_config(config)?;
    let outbound = http_client(config)?;
    let stores = note_stores(config, &outbound)?;
    for (_, upstream) in upstreams.iter() {
        warn_if_exposed(upstream, "--upstream", "tokens and notes")?;
    }
    let options = http_server::options(config)?;
    let issuer = TokenIssuer::new(provider, config)?;
    process::log_without_targets(config.log);
    process::raise_file_limit();
    process::block_on(async {
        let verifier = issuer.verifier(outbound).await?;
        let sessions = SessionFactory {
            default_vault: config.vault.as_str().into(),
            credentials: upstream_credentials(config, issuer.audience())?,
        };
        let options =
            HttpOptions { authorization_servers: issuer.authorization_servers(), ..options };
        let notes = RemoteNotes::new(Arc::new(stores));
        let shares = Shares::new(config.max_connections, config.max_body_bytes);
        let shares = Shares { upstream_requests: upstream_requests(upstreams), ..shares };
        let service = Service::new(notes, Some(Resource::UpstreamRequests))
            .limited_to(config.tools)
            .with_sessions(sessions)
            .with_shares(Arc::new(shares));
        let on_listening = |address| {
            print_vaults(upstreams);
            http_server::print_address(config, address);
            // A gateway has no space that a command could be about.
            None
        };
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
            let home = Home::open_existing(config)?;
            let (key, tokens) = (home.existing_key()?, home.tokens_to_read()?);
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
        let verifier = LocalVerifier::new(&key, &audience, Arc::new(tokens), wall_clock);
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

fn note_stores(
    config: &Config,
    outbound: &OutboundClient,
) -> Result<ByVault<HttpNoteStore>, Failure> {
    let bounds = OutboundLimits {
        total: Duration::from_secs(config.upstream_timeout_seconds),
        body_bytes: config.upstream_max_bytes,
    };
    let secret = gateway_secret(config)?;
    let store =
        |upstream: &str| HttpNoteStore::new(outbound.clone(), upstream, secret.clone(), bounds);
    Ok(config.upstream.iter().map(|(vault, upstream)| (vault, store(upstream))).collect())
}

/// Returns what callers share of each server that has notes. Two vaults of one server share it.
fn upstream_requests(upstreams: &ByVault<String>) -> ByVault<Arc<FairShare>> {
    let mut by_address = BTreeMap::new();
    let share = |(vault, upstream)| {
        let requests: &mut Arc<FairShare> =
            by_address.entry(upstream).or_insert_with(Shares::requests_of_one_upstream);
        (vault, Arc::clone(requests))
    };
    upstreams.iter().map(share).collect()
}

/// Prints which server has the notes of which vault, if the vaults differ.
fn print_vaults(upstreams: &ByVault<String>) {
    if upstreams.vaults().next().is_none() {
        return;
    }
    for (vault, upstream) in upstreams.iter() {
        terminal::print_line(&match vault {
            Some(vault) => format!("notes of the vault {vault} come from {upstream}"),
            None => format!("notes of every other vault come from {upstream}"),
        });
    }
    if upstreams.other().is_none() {
        terminal::print_line("notes of every other vault are refused");
    }
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

/// Returns which token goes to the server of each vault. `audience` is that of the gateway.
fn upstream_credentials(
    config: &Config,
    audience: &str,
) -> Result<ByVault<UpstreamCredential>, Failure> {
    let path_judge = match config.upstream_path_scopes {
        YesNo::Yes => PathJudge::Gateway,
        YesNo::No => PathJudge::Upstream,
    };
    check_vaults("--upstream-audience", &config.upstream_audience, &config.upstream)?;
    check_vaults("--upstream-token-file", &config.upstream_token_file, &config.upstream)?;
    if config.upstream_credential == CredentialMode::Forward {
        if path_judge == PathJudge::Upstream {
            return Err(Failure::Usage(
                "--upstream-path-scopes no is only used with --upstream-credential own; a \
                 forwarded token has its own scopes"
                    .to_owned(),
            ));
        }
        if !config.upstream_token_file.is_empty() {
            return Err(Failure::Usage(
                "--upstream-token-file is only used with --upstream-credential own".to_owned(),
            ));
        }
    }
    let credential = |vault| -> Result<_, Failure> {
        match config.upstream_credential {
            CredentialMode::Forward => {
                let audience =
                    of_vault(&config.upstream_audience, vault).map_or(audience, String::as_str);
                Ok(UpstreamCredential::Forward { audience: audience.into() })
            }
            CredentialMode::Own => {
                let file = of_vault(&config.upstream_token_file, vault).ok_or_else(|| {
                    let vault = vault.map(|vault| format!(" for the vault `{vault}`"));
                    Failure::Usage(format!(
                        "--upstream-credential own needs --upstream-token-file{}, a file with the \
                     gateway's own token",
                        vault.unwrap_or_default()
                    ))
                })?;
                let token = Credential::new(&read_secret("--upstream-token-file", file)?);
                Ok(UpstreamCredential::Own { token, path_judge })
            }
        }
    };
    config.upstream.iter().map(|(vault, _)| Ok((vault, credential(vault)?))).collect()
}

/// Returns the value for an upstream: that of its vault, or of the vaults without one of their own.
fn of_vault<'a, T>(values: &'a ByVault<T>, vault: Option<&str>) -> Option<&'a T> {
    match vault {
        Some(vault) => values.get(vault),
        None => values.other(),
    }
}

/// Refuses a setting for a vault that has no upstream of its own.
fn check_vaults<T>(
    flag: &str,
    values: &ByVault<T>,
    upstreams: &ByVault<String>,
) -> Result<(), Failure> {
    let has_none = |vault: &&str| !upstreams.vaults().any(|named| named == *vault);
    match values.vaults().find(has_none) {
        None => Ok(()),
        Some(vault) => Err(Failure::Usage(format!(
            "{flag} names the vault `{vault}`, which has no --upstream of its own"
        ))),
    }
}
