//! Signs people of an organisation in at its identity provider, by OpenID Connect.
//!
//! The authorization code flow with PKCE, `state` and `nonce`. The three values are made from one
//! challenge, which is for one browser and is answered once, so nothing is kept for a browser that
//! never comes back. The identity token passes the rules of every token of the provider, with this
//! client as its audience. It proves who a person is. It is not kept and opens nothing else.
//!
//! *Source*: OpenID Connect Core 1.0, section 3.1; OpenID Connect Discovery 1.0, section 4; RFC
//! 7636; RFC 9207; RFC 9700, section 2.1.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::SystemRandom;
use serde_json::Value;
use stile_domain::base64;
use stile_domain::percent::encode_component;
use stile_domain::role::Role;
use tokio::sync::Mutex;

use stile_store::state::{TokenKey, TokenStore};

use crate::auth::ProviderVerifier;
use crate::challenges::{Challenges, Purpose, derived};
use crate::config::is_exposed;
use crate::outbound::{OutboundClient, OutboundLimits};
use stile_domain::json::strict::parse_object;

/// How long the addresses of the provider are used before they are fetched again.
const DISCOVERY_AGE: Duration = Duration::from_secs(10 * 60);
/// The limits of a request to the provider.
const LIMITS: OutboundLimits =
    OutboundLimits { total: Duration::from_secs(10), body_bytes: 256 * 1024 };
/// The longest path to return to, in bytes.
pub(crate) const MAX_RETURN_BYTES: usize = 512;

/// How this server is registered at the provider.
#[derive(Clone)]
pub struct OpenIdClient {
    /// The issuer, whose discovery document names the endpoints.
    pub issuer: String,
    /// The identifier of this server as a client.
    pub id: String,
    /// The secret of the client; `None` for a public client.
    pub secret: Option<String>,
}

/// Signs people in at one provider.
pub struct OpenIdSignIn {
    client: OpenIdClient,
    outbound: OutboundClient,
    verifier: Arc<ProviderVerifier>,
    challenges: Challenges,
    key: hmac::Key,
    provider: Mutex<Option<(Instant, Arc<ProviderMetadata>)>>,
}

/// What the discovery document says.
#[derive(Debug, PartialEq, Eq)]
struct ProviderMetadata {
    authorization_endpoint: String,
    token_endpoint: Uri,
    /// The provider promises to name itself in its answer.
    has_issuer_in_answers: bool,
    secret_goes_into_form: bool,
}

/// What the browser brings back from the provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenIdAnswer<'a> {
    /// The `state` that this server sent.
    pub state: &'a str,
    /// The authorization code, if the provider signed the person in.
    pub code: Option<&'a str>,
    /// The issuer that answers.
    pub iss: Option<&'a str>,
}

/// A person who just signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedInPerson {
    /// The person, as the provider's tokens name their subject.
    pub subject: String,
    /// The role of the person, which is a viewer's if the provider says nothing.
    pub role: Role,
    /// The path on this server that the person wanted.
    pub return_to: String,
}

/// Why nobody was signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenIdError {
    /// The provider does not answer, or answers what it should not.
    #[error("the identity provider cannot be used at this moment; try again in a minute")]
    Provider,
    /// The answer is too old, was used before, or belongs to another browser.
    #[error("this sign-in is too old or was finished before; begin again")]
    State,
    /// Another provider answered, or one that does not say who it is although it should.
    #[error("another identity provider answered than the one that was asked")]
    OtherIssuer,
    /// The provider did not sign the person in.
    #[error("the identity provider did not sign you in")]
    Refused,
    /// The identity token is not one for this sign-in.
    #[error("the identity provider's answer is not valid; you are not signed in")]
    Token,
}

impl OpenIdSignIn {
    /// Signs people in at the provider of `client`. The audience of `verifier` is the client.
    ///
    /// # Errors
    /// [`OpenIdError::Provider`] if the system has no random bytes.
    pub fn new(
        client: OpenIdClient,
        outbound: OutboundClient,
        verifier: Arc<ProviderVerifier>,
        now: Instant,
    ) -> Result<Self, OpenIdError> {
        let challenges = Challenges::new(now).map_err(|_| OpenIdError::Provider)?;
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| OpenIdError::Provider)?;
        let provider = Mutex::new(None);
        Ok(Self { client, outbound, verifier, challenges, key, provider })
    }

    /// Lets every server with this key and these tables finish what another one began.
    #[must_use]
    pub fn shared_by(self, key: &TokenKey, tokens: &Arc<TokenStore>, now: Instant) -> Self {
        if !tokens.is_shared() {
            return self;
        }
        let challenges = Challenges::shared(key, Arc::clone(tokens), now);
        Self { challenges, key: derived(key, b"the secrets of sign-ins at a provider"), ..self }
    }

    /// Returns the address at the provider to which the browser goes. `browser` identifies the
    /// browser, `callback` is the address to which it comes back, and `return_to` the path that the
    /// person wanted.
    ///
    /// # Errors
    /// [`OpenIdError::Provider`].
    pub async fn begin(
        &self,
        callback: &str,
        browser: &[u8],
        return_to: &str,
        now: Instant,
    ) -> Result<String, OpenIdError> {
        let return_to = if return_to.len() <= MAX_RETURN_BYTES { return_to } else { "/" };
        let provider = self.provider(now).await?;
        let bound = bound_to(browser, return_to);
        let challenge = self
            .challenges
            .issue(Purpose::OpenIdSignIn, callback, &bound, now)
            .map_err(|_| OpenIdError::Provider)?;
        let state = format!("{challenge}.{}", base64::url_safe(return_to));
        let proof = digest(&SHA256, self.derived("pkce", &state).as_bytes());
        let query = form(&[
            ("response_type", "code"),
            ("client_id", &self.client.id),
            ("redirect_uri", callback),
            ("scope", "openid"),
            ("state", &state),
            ("nonce", &self.derived("nonce", &state)),
            ("code_challenge", &base64::url_safe(proof)),
            ("code_challenge_method", "S256"),
        ]);
        let endpoint = &provider.authorization_endpoint;
        let joint = if endpoint.contains('?') { '&' } else { '?' };
        Ok(format!("{endpoint}{joint}{query}"))
    }

    /// Exchanges the code for an identity token and verifies the token.
    ///
    /// # Errors
    /// [`OpenIdError`]; nobody is signed in.
    pub async fn finish(
        &self,
        callback: &str,
        browser: &[u8],
        answer: OpenIdAnswer<'_>,
        now: Instant,
    ) -> Result<SignedInPerson, OpenIdError> {
        let (challenge, return_to) = answer.state.split_once('.').ok_or(OpenIdError::State)?;
        let return_to =
            base64::from_url_safe(return_to).and_then(|bytes| String::from_utf8(bytes).ok());
        let return_to = return_to.ok_or(OpenIdError::State)?;
        let bound = bound_to(browser, &return_to);
        let genuine = self
            .challenges
            .read(challenge, Purpose::OpenIdSignIn, callback, &bound, now)
            .ok_or(OpenIdError::State)?;
        let provider = self.provider(now).await?;
        match answer.iss {
            Some(iss) if iss == self.client.issuer => {}
            None if !provider.has_issuer_in_answers => {}
            _ => return Err(OpenIdError::OtherIssuer),
        }
        let code = answer.code.ok_or(OpenIdError::Refused)?;
        // Before the exchange, so that two answers at once do not both count.
        if !self.challenges.spend(genuine, now) {
            return Err(OpenIdError::State);
        }
        let token = self.exchange(&provider, callback, code, answer.state).await?;
        let nonce = self.derived("nonce", answer.state);
        let caller = self.verifier.verify_identity(&token, &nonce).await;
        let caller = caller.map_err(|rejected| {
            tracing::debug!(
                target: "stile::sign_in",
                reason = rejected.0,
                "an identity token was rejected"
            );
            OpenIdError::Token
        })?;
        Ok(SignedInPerson {
            subject: caller.principal.subject().to_owned(),
            role: caller.identity.role,
            return_to,
        })
    }

    /// Sends the code to the provider and returns the identity token.
    async fn exchange(
        &self,
        provider: &ProviderMetadata,
        callback: &str,
        code: &str,
        state: &str,
    ) -> Result<String, OpenIdError> {
        let pkce = self.derived("pkce", state);
        let mut members = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", callback),
            ("client_id", &self.client.id),
            ("code_verifier", &pkce),
        ];
        let mut headers =
            HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        match &self.client.secret {
            Some(secret) if provider.secret_goes_into_form => {
                members.push(("client_secret", secret));
            }
            Some(secret) => {
                // RFC 6749, section 2.3.1: both parts are encoded like a form.
                let pair =
                    format!("{}:{}", encode_component(&self.client.id), encode_component(secret));
                let mut value = HeaderValue::try_from(format!("Basic {}", base64::standard(pair)))
                    .map_err(|_| OpenIdError::Provider)?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
            None => {}
        }
        let uri = provider.token_endpoint.clone();
        let response = self.outbound.post_form(uri, headers, form(&members), LIMITS).await;
        let response = response.map_err(|_| OpenIdError::Provider)?;
        match response.status {
            StatusCode::OK => {}
            status if status.is_client_error() => return Err(OpenIdError::Refused),
            _ => return Err(OpenIdError::Provider),
        }
        let members = parse_object(&response.body).ok_or(OpenIdError::Provider)?;
        let token = members.get("id_token").and_then(Value::as_str);
        token.map(str::to_owned).ok_or(OpenIdError::Provider)
    }

    /// Returns the endpoints of the provider, fetched when they are needed and not recent.
    async fn provider(&self, now: Instant) -> Result<Arc<ProviderMetadata>, OpenIdError> {
        // The lock is held over the fetch, so that many visitors cause one request.
        let mut known = self.provider.lock().await;
        if let Some((fetched, metadata)) = &*known
            && now.saturating_duration_since(*fetched) < DISCOVERY_AGE
        {
            return Ok(Arc::clone(metadata));
        }
        match self.discover().await {
            Some(metadata) => {
                let metadata = Arc::new(metadata);
                *known = Some((now, Arc::clone(&metadata)));
                Ok(metadata)
            }
            // Endpoints seldom change, so old ones are better than none.
            None => known.as_ref().map(|(_, old)| Arc::clone(old)).ok_or(OpenIdError::Provider),
        }
    }

    async fn discover(&self) -> Option<ProviderMetadata> {
        let issuer = self.client.issuer.trim_end_matches('/');
        let uri = format!("{issuer}/.well-known/openid-configuration").parse().ok()?;
        let headers =
            HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let document = self.outbound.get(uri, headers, LIMITS).await.ok()?;
        ProviderMetadata::parse(&document, &self.client.issuer)
    }

    /// Returns a value that only this process can make from a state.
    fn derived(&self, label: &str, state: &str) -> String {
        let message = format!("{label} {state}");
        base64::url_safe(hmac::sign(&self.key, message.as_bytes()))
    }
}

impl ProviderMetadata {
    /// Reads a discovery document; `None` if it is of another issuer or cannot be used safely.
    fn parse(document: &[u8], issuer: &str) -> Option<Self> {
        let members = parse_object(document)?;
        let text = |name: &str| members.get(name)?.as_str();
        let endpoint = |name: &str| text(name).filter(|url| !is_exposed(url));
        if text("issuer")? != issuer {
            return None;
        }
        let methods = members.get("token_endpoint_auth_methods_supported");
        let methods = methods.and_then(Value::as_array);
        let supports =
            |name: &str| methods.is_some_and(|methods| methods.iter().any(|method| method == name));
        let promises = members.get("authorization_response_iss_parameter_supported");
        Some(Self {
            authorization_endpoint: endpoint("authorization_endpoint")?.to_owned(),
            token_endpoint: endpoint("token_endpoint")?.parse().ok()?,
            has_issuer_in_answers: promises == Some(&Value::Bool(true)),
            secret_goes_into_form: supports("client_secret_post")
                && !supports("client_secret_basic"),
        })
    }
}

impl std::fmt::Debug for OpenIdSignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenIdSignIn").field("issuer", &self.client.issuer).finish_non_exhaustive()
    }
}

/// Returns what a challenge is bound to. A path has no zero byte.
fn bound_to(browser: &[u8], return_to: &str) -> Vec<u8> {
    [browser, &[0], return_to.as_bytes()].concat()
}

fn form(members: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        members.iter().map(|(name, value)| format!("{name}={}", encode_component(value))).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests;
