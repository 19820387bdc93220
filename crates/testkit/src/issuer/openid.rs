//! The endpoints at which people sign in to the identity provider: `/authorize` and `/token`.
//!
//! Everyone who is sent there is signed in at once as the person that the test chose. The token
//! endpoint is strict: it checks the client, the code, the redirect address and PKCE (RFC 6749,
//! sections 4.1.3 and 5.2; RFC 7636, section 4.6).

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::upstream::{Received, Reply};

/// The identifier of the only client.
pub const CLIENT_ID: &str = "stile-sign-in";

/// The person who signs in, and how the provider treats the sign-in.
#[derive(Debug, Default)]
pub struct OpenIdProvider {
    /// The secret of the client; `None` for a public client.
    pub secret: Option<String>,
    /// Claims of the identity token, in place of those that an honest provider writes.
    pub claims: Map<String, Value>,
    /// The `iss` in the answer of `/authorize`; an honest provider's own if this is `None`.
    pub answering_issuer: Option<String>,
    /// Members of the discovery document, in place of those that an honest provider writes.
    pub discovery: Map<String, Value>,
    codes: HashMap<String, HashMap<String, String>>,
    issued: u64,
}

impl OpenIdProvider {
    /// Signs the next people in as this subject, with a role if there is one.
    pub fn person(&mut self, subject: &str, role: Option<&str>) {
        self.claims.insert("sub".to_owned(), json!(subject));
        self.claims.remove("role");
        if let Some(role) = role {
            self.claims.insert("role".to_owned(), json!(role));
        }
    }

    /// Answers a request of a browser or of the client at the time `now`, with identity tokens that
    /// `sign` makes; `None` for another path.
    pub(super) fn answer(
        &mut self,
        received: &Received,
        url: &str,
        now: i64,
        sign: &dyn Fn(&Value) -> String,
    ) -> Option<Reply> {
        let (path, query) = received.target.split_once('?').unwrap_or((&received.target, ""));
        match path {
            "/.well-known/openid-configuration" => Some(self.discovery(url)),
            "/authorize" => Some(self.authorize(query, url)),
            "/token" => Some(self.token(received, url, now, sign)),
            _ => None,
        }
    }

    fn discovery(&self, url: &str) -> Reply {
        let mut document = json!({
            "issuer": url,
            "jwks_uri": format!("{url}/.well-known/jwks.json"),
            "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"),
            "response_types_supported": ["code"],
            "authorization_response_iss_parameter_supported": true,
        });
        if let Some(members) = document.as_object_mut() {
            members.extend(self.discovery.clone());
        }
        Reply::json(200, &document)
    }

    fn authorize(&mut self, query: &str, url: &str) -> Reply {
        let asked = members(query);
        let value = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
        let is_sound = value("response_type") == "code"
            && value("client_id") == CLIENT_ID
            && value("code_challenge_method") == "S256"
            && value("scope").split(' ').any(|scope| scope == "openid");
        if !is_sound {
            return Reply::refusal(400, "invalid_request");
        }
        self.issued += 1;
        let code = format!("code-{}", self.issued);
        let issuer = self.answering_issuer.as_deref().unwrap_or(url);
        let location = format!(
            "{}?code={code}&state={}&iss={}",
            value("redirect_uri"),
            value("state"),
            issuer.replace(':', "%3A").replace('/', "%2F"),
        );
        self.codes.insert(code, asked.clone());
        Reply::bytes(302, "text/plain", "").with_header("Location", &location)
    }

    fn token(
        &mut self,
        received: &Received,
        url: &str,
        now: i64,
        sign: &dyn Fn(&Value) -> String,
    ) -> Reply {
        let form = members(&String::from_utf8_lossy(&received.body));
        let value = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let basic = self
            .secret
            .as_ref()
            .map(|secret| format!("Basic {}", STANDARD.encode(format!("{CLIENT_ID}:{secret}"))));
        if received.header("authorization") != basic.as_deref() || value("client_id") != CLIENT_ID {
            return Reply::json(401, &json!({ "error": "invalid_client" }));
        }
        let Some(asked) = self.codes.remove(value("code")) else {
            return Reply::json(400, &json!({ "error": "invalid_grant" }));
        };
        let asked = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
        let proof = digest(&SHA256, value("code_verifier").as_bytes());
        let is_sound = received.method == "POST"
            && value("grant_type") == "authorization_code"
            && value("redirect_uri") == asked("redirect_uri")
            && URL_SAFE_NO_PAD.encode(proof) == asked("code_challenge");
        if !is_sound {
            return Reply::json(400, &json!({ "error": "invalid_grant" }));
        }
        let mut claims = json!({
            "iss": url,
            "aud": CLIENT_ID,
            "sub": "ann",
            "iat": now,
            "exp": now + 300,
            "nonce": asked("nonce"),
        });
        if let Some(members) = claims.as_object_mut() {
            members.extend(self.claims.clone());
            members.retain(|_, value| !value.is_null());
        }
        let token = sign(&claims);
        let answer = json!({ "access_token": "opaque", "token_type": "Bearer", "id_token": token });
        Reply::json(200, &answer)
    }
}

/// Decodes a form or a query, for the values that these tests send.
fn members(form: &str) -> HashMap<String, String> {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            let digit = |byte: Option<u8>| (byte.unwrap_or(b'0') as char).to_digit(16).unwrap_or(0);
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let (high, low) = (digit(rest.next()), digit(rest.next()));
                    u8::try_from(high * 16 + low).unwrap_or(b'?')
                }
                byte => byte,
            });
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    form.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}
