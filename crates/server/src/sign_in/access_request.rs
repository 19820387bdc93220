//! A client's request for access, checked, and where its answer goes.

use stile_domain::sign_in::asked_access::AskedScopes;
use stile_domain::sign_in::pkce::CodeChallenge;
use stile_domain::sign_in::redirect_uri::RedirectUri;
use stile_store::state::ClientRecord;

use super::oauth_error::OAuthError;
use super::record_access::AskedRecords;

/// What a client asks for, checked.
#[derive(Clone, Debug)]
pub struct AccessRequest {
    /// The client that asks.
    pub client: ClientRecord,
    /// Where the answer goes.
    pub return_to: ReturnAddress,
    /// Whether the request named the redirect address; the token request must then, too.
    pub redirect_named: bool,
    /// The hash of the secret that the client will present with its code.
    pub challenge: CodeChallenge,
    /// The path scopes that the client asks for.
    pub scopes: AskedScopes,
    /// The records that the client asks for.
    pub records: Option<AskedRecords>,
}

/// Where an answer goes, with what every answer has.
#[derive(Clone, Debug)]
pub struct ReturnAddress {
    /// The address that the browser opens.
    pub redirect: RedirectUri,
    /// The `state` of the request.
    pub state: Option<String>,
    /// The issuer, which every answer names (RFC 9207).
    pub issuer: String,
}

impl ReturnAddress {
    /// Returns the address of an answer with these parameters.
    pub fn with(&self, parameters: &[(&str, &str)]) -> String {
        let state = self.state.as_deref().map(|state| ("state", state));
        let all = parameters.iter().copied().chain(state);
        let all: Vec<(&str, &str)> = all.chain([("iss", self.issuer.as_str())]).collect();
        self.redirect.with_parameters(&all)
    }

    /// Returns the address of an answer that is an error.
    pub fn with_error(&self, error: &OAuthError) -> String {
        self.with(&[("error", error.code.as_str()), ("error_description", &error.description)])
    }
}
