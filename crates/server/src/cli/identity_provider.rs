//! The identity provider whose tokens `stile serve` and `stile gateway` accept.

use super::Failure;
use crate::auth::{ProviderKeys, ProviderVerifier};
use crate::clock::wall_clock;
use crate::config::Config;
use crate::outbound::{KeySetUrl, OutboundClient};
use std::sync::Arc;

pub(super) struct IdentityProvider {
    /// The address of the keys that sign its tokens.
    jwks: String,
    /// The `iss` of its tokens.
    pub(super) issuer: String,
    /// The `aud` of its tokens for this server.
    pub(super) audience: String,
}

impl IdentityProvider {
    /// Returns the configured identity provider; `None` if none is configured.
    pub(super) fn from_config(config: &Config) -> Result<Option<Self>, Failure> {
        let Some(jwks) = &config.jwks else {
            return match (&config.issuer, &config.audience) {
                (None, None) => Ok(None),
                _ => Err(Failure::Usage(
                    "--issuer and --audience are about tokens of --jwks, which is missing"
                        .to_owned(),
                )),
            };
        };
        let issuer = config.issuer.clone().ok_or_else(|| {
            Failure::Usage(
                "--jwks needs --issuer, the `iss` of the tokens that its keys sign".to_owned(),
            )
        })?;
        let from_public_url = || config.public_url.as_ref().map(|url| format!("{url}/mcp"));
        let audience = config.audience.clone().or_else(from_public_url).ok_or_else(|| {
            Failure::Usage(
                "--jwks needs --audience, the `aud` of tokens for this server, or --public-url"
                    .to_owned(),
            )
        })?;
        Ok(Some(Self { jwks: jwks.clone(), issuer, audience }))
    }

    /// Returns the verifier of the provider's tokens, after one attempt to fetch its keys.
    ///
    /// If the keys cannot be fetched the server starts all the same. It then answers every
    /// caller with 503, and tries again as requests come, at most once a second.
    pub(super) async fn verifier(
        &self,
        outbound: OutboundClient,
    ) -> Result<Arc<ProviderVerifier>, Failure> {
        let keys = KeySetUrl::new(outbound, &self.jwks)
            .ok_or_else(|| Failure::Usage("--jwks is not an address".to_owned()))?;
        let jwks = ProviderKeys::new(keys);
        // The verifier has logged what went wrong.
        let _ = jwks.refresh().await;
        Ok(Arc::new(ProviderVerifier::new(jwks, &self.issuer, &self.audience, wall_clock)))
    }
}
