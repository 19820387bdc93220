//! The identity provider whose tokens `stile serve` and `stile gateway` accept.

use std::sync::Arc;
use std::time::Instant;

use super::settings_files::read_secret;
use crate::auth::{ProviderKeys, ProviderVerifier};
use crate::cli::failure::Failure;
use crate::clock::wall_clock;
use crate::config::Config;
use crate::outbound::{KeySetUrl, OutboundClient};
use crate::owner_sign_in::openid::{OpenIdClient, OpenIdSignIn};

pub(crate) struct IdentityProvider {
    /// The address of the keys that sign its tokens.
    jwks: String,
    /// The `iss` of its tokens.
    pub(crate) issuer: String,
    /// The `aud` of its tokens for this server.
    pub(crate) audience: String,
}

impl IdentityProvider {
    /// Returns the configured identity provider; `None` if none is configured.
    pub(crate) fn from_config(config: &Config) -> Result<Option<Self>, Failure> {
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

    /// Returns what signs people in at the provider; `None` if no client is configured for that.
    pub(crate) fn sign_in(
        &self,
        config: &Config,
        outbound: OutboundClient,
    ) -> Result<Option<OpenIdSignIn>, Failure> {
        let Some(client) = &config.sign_in_client else { return Ok(None) };
        if *client == self.audience {
            return Err(Failure::Usage(
                "--sign-in-client must differ from --audience, or an identity token would be an \
                 access token"
                    .to_owned(),
            ));
        }
        let secret = config.sign_in_secret_file.as_deref();
        let secret = secret.map(|file| read_secret("--sign-in-secret-file", file)).transpose()?;
        let keys = KeySetUrl::new(outbound.clone(), &self.jwks)
            .ok_or_else(|| Failure::Usage("--jwks is not an address".to_owned()))?;
        let keys = ProviderKeys::new(keys);
        let verifier = Arc::new(ProviderVerifier::new(keys, &self.issuer, client, wall_clock));
        let client = OpenIdClient { issuer: self.issuer.clone(), id: client.clone(), secret };
        OpenIdSignIn::new(client, outbound, verifier, Instant::now())
            .map(Some)
            .map_err(|error| Failure::Failed(error.to_string()))
    }

    /// Returns the verifier of the provider's tokens, after one attempt to fetch its keys.
    ///
    /// If the keys cannot be fetched the server starts all the same. It then answers every
    /// caller with 503, and tries again as requests come, at most once a second.
    pub(crate) async fn verifier(
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
