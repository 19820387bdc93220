//! What `serve` and `gateway` share when they stand behind an identity provider, or behind each
//! other.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stile_store::state::read_settings;

use super::Failure;
use crate::auth::{ProviderKeys, ProviderVerifier};
use crate::config::Config;
use crate::outbound::{KeySetUrl, OutboundClient};

/// The identity provider that is configured.
pub(super) struct Provider {
    keys: String,
    /// Its `iss`.
    pub(super) issuer: String,
    /// What tokens for this server are addressed to.
    pub(super) audience: String,
}

/// The identity provider, if there is one.
pub(super) fn provider(config: &Config) -> Result<Option<Provider>, Failure> {
    let Some(keys) = &config.jwks else {
        return match (&config.issuer, &config.audience) {
            (None, None) => Ok(None),
            _ => Err(Failure::Usage(
                "--issuer and --audience are about tokens of --jwks, which is missing".to_owned(),
            )),
        };
    };
    let issuer = config.issuer.clone().ok_or_else(|| {
        Failure::Usage(
            "--jwks needs --issuer, the `iss` of the tokens that its keys sign".to_owned(),
        )
    })?;
    let of_url = || config.public_url.as_ref().map(|url| format!("{url}/mcp"));
    let audience = config.audience.clone().or_else(of_url).ok_or_else(|| {
        Failure::Usage(
            "--jwks needs --audience, the `aud` of tokens for this server, or --public-url"
                .to_owned(),
        )
    })?;
    Ok(Some(Provider { keys: keys.clone(), issuer, audience }))
}

impl Provider {
    /// The verifier of its tokens. Its keys are fetched once before anybody is let in; where that
    /// fails the server starts all the same, refuses everybody, and tries again as requests come.
    pub(super) async fn verifier(
        &self,
        outbound: OutboundClient,
    ) -> Result<Arc<ProviderVerifier>, Failure> {
        let keys = KeySetUrl::new(outbound, &self.keys)
            .ok_or_else(|| Failure::Usage("--jwks is no address".to_owned()))?;
        let jwks = ProviderKeys::new(keys);
        // The verifier has said in the log what went wrong.
        let _ = jwks.refresh().await;
        Ok(Arc::new(ProviderVerifier::new(jwks, &self.issuer, &self.audience, SystemTime::now)))
    }
}

/// What makes requests, trusting the authorities that are configured.
pub(super) fn outbound(config: &Config) -> Result<OutboundClient, Failure> {
    let authorities = config.ca_file.as_deref().map(|file| read("--ca-file", file)).transpose()?;
    OutboundClient::new(
        authorities.as_deref(),
        Duration::from_secs(config.upstream_connect_seconds),
    )
    .map_err(|error| Failure::Usage(format!("--ca-file {error}")))
}

/// The one line of a file that holds a secret or a token.
pub(super) fn secret(flag: &str, file: &Path) -> Result<String, Failure> {
    let text = read(flag, file)?;
    let secret = text.trim();
    let fits = !secret.is_empty()
        && secret.len() <= 8 * 1024
        && secret.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        Ok(secret.to_owned())
    } else {
        Err(Failure::Usage(format!(
            "the file of {flag} must hold one line of printable ASCII without spaces"
        )))
    }
}

fn read(flag: &str, file: &Path) -> Result<String, Failure> {
    read_settings(file)
        .map_err(|error| Failure::Usage(format!("cannot read the file of {flag}: {error}")))
}
