//! An identity provider under control of a test: a JWKS endpoint with real keys, and tokens signed
//! with these keys, correctly or not.
//!
//! The endpoint is an [`Upstream`], so the provider can have every fault of a note store.

pub mod openid;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Map, Value, json};

use self::openid::OpenIdProvider;
use crate::upstream::{Behaviour, Received, Reply, Upstream};

/// RSA keys for tests, stored because making RSA keys takes long.
const RSA_KEYS: [&str; 3] = [
    include_str!("../keys/rsa-1.pem"),
    include_str!("../keys/rsa-2.pem"),
    include_str!("../keys/rsa-3.pem"),
];

/// The algorithm that signs a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alg {
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// RSASSA-PKCS1-v1_5 with SHA-256, with a key of 2048 bits.
    Rs256,
}

impl Alg {
    /// The name in a header.
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }
}

enum Secret {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

struct Key {
    id: String,
    secret: Secret,
    published: bool,
}

impl Key {
    fn alg(&self) -> Alg {
        match self.secret {
            Secret::Es256(_) => Alg::Es256,
            Secret::Rs256(_) => Alg::Rs256,
        }
    }

    /// As RFC 7517 writes it.
    fn jwk(&self) -> Value {
        match &self.secret {
            Secret::Es256(pair) => {
                // The point is a byte 4 and two coordinates of 32 bytes.
                let (x, y) = pair.public_key().as_ref().get(1..).unwrap_or_default().split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id,
                        "x": encode(x), "y": encode(y) })
            }
            Secret::Rs256(pair) => {
                let components = PublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({ "kty": "RSA", "alg": "RS256", "use": "sig", "kid": self.id,
                        "n": encode(&components.n), "e": encode(&components.e) })
            }
        }
    }

    #[expect(clippy::expect_used, reason = "a rig that has broken should say so at once")]
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.secret {
            Secret::Es256(pair) => {
                pair.sign(&random, message).expect("it can be signed").as_ref().to_vec()
            }
            Secret::Rs256(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .expect("it can be signed");
                signature
            }
        }
    }
}

#[derive(Default)]
struct Keys {
    all: Vec<Key>,
    generation: usize,
}

impl Keys {
    /// Makes and publishes a new key of each kind.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    fn add(&mut self) {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .expect("a key can be made");
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random);
        let pem = RSA_KEYS.iter().cycle().nth(self.generation).copied().unwrap_or_default();
        let text: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(text).expect("the key is in base64");
        let secrets = [
            Secret::Es256(pair.expect("a new key is good")),
            Secret::Rs256(RsaKeyPair::from_pkcs8(&der).expect("the key is good")),
        ];
        self.generation += 1;
        for secret in secrets {
            let mut key = Key { id: String::new(), secret, published: true };
            key.id = format!("{}-{}", key.alg().name().to_ascii_lowercase(), self.generation);
            self.all.push(key);
        }
    }

    fn named(&self, id: &str) -> &Key {
        self.all.iter().find(|key| key.id == id).unwrap_or_else(|| unknown(id))
    }

    fn newest(&self, alg: Alg) -> &Key {
        self.all.iter().rev().find(|key| key.alg() == alg).unwrap_or_else(|| unknown(alg.name()))
    }
}

#[expect(clippy::panic, reason = "a misspelt key would prove something else than was asked for")]
fn unknown(key: &str) -> ! {
    panic!("there is no key `{key}`")
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A running provider. Dropping it closes its port.
pub struct Issuer {
    keys: Arc<Mutex<Keys>>,
    openid: Arc<Mutex<OpenIdProvider>>,
    server: Upstream,
    tokens: AtomicU64,
}

impl Issuer {
    /// Starts one with a key of each kind, on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// No port can be opened, or no key can be made.
    pub fn start() -> Self {
        let mut keys = Keys::default();
        keys.add();
        let server = Upstream::start(Behaviour::Refuse);
        let (keys, openid) = (Arc::new(Mutex::new(keys)), Arc::default());
        let issuer = Self { keys, openid, server, tokens: AtomicU64::new(0) };
        issuer.go_well();
        issuer
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a test may change about the sign-in of people.
    pub fn openid(&self) -> MutexGuard<'_, OpenIdProvider> {
        self.openid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name, which is the claim `iss`: a URL without a slash at the end.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the address of the keys.
    pub fn jwks_url(&self) -> String {
        format!("{}/.well-known/jwks.json", self.url())
    }

    /// Returns the key set that a provider without a fault serves.
    pub fn jwks(&self) -> Value {
        jwks(&self.keys())
    }

    /// The requests that it has received.
    pub fn requests(&self) -> Vec<Received> {
        self.server.requests()
    }

    /// How often its keys were asked for.
    pub fn fetches(&self) -> usize {
        self.requests()
            .iter()
            .filter(|received| received.target == "/.well-known/jwks.json")
            .count()
    }

    /// How many connections it has accepted.
    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    /// Publishes a new key of each kind beside the old ones and signs with it from now on.
    pub fn rotate(&self) {
        self.keys().add();
    }

    /// Replaces the newest key of each kind by a new one of the same name, and signs with that.
    pub fn replace(&self) {
        let mut keys = self.keys();
        let names = [Alg::Es256, Alg::Rs256].map(|alg| keys.newest(alg).id.clone());
        keys.all.retain(|key| !names.contains(&key.id));
        keys.add();
        let added = keys.all.len() - names.len();
        for (key, name) in keys.all.iter_mut().skip(added).zip(names) {
            key.id = name;
        }
    }

    /// The name of the key that it signs with.
    pub fn kid(&self, alg: Alg) -> String {
        self.keys().newest(alg).id.clone()
    }

    /// Publishes a key no longer; it can still be signed with.
    ///
    /// # Panics
    /// No such key exists.
    pub fn withdraw(&self, kid: &str) {
        let mut keys = self.keys();
        match keys.all.iter_mut().find(|key| key.id == kid) {
            Some(key) => key.published = false,
            None => unknown(kid),
        }
    }

    /// Serves its keys and says where they are.
    pub fn go_well(&self) {
        self.go_slow(Duration::ZERO);
    }

    /// Serves its keys, but thinks so long about each answer.
    pub fn go_slow(&self, after: Duration) {
        let (keys, openid, url) = (Arc::clone(&self.keys), Arc::clone(&self.openid), self.url());
        self.behave(Behaviour::notes(move |received| {
            let keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
            let mut openid = openid.lock().unwrap_or_else(PoisonError::into_inner);
            let reply = openid.answer(received, &url, now(), &|claims| sign(&keys, claims));
            reply.unwrap_or_else(|| serve(received, &keys, &url)).after(after)
        }));
    }

    /// Closes the port of the provider.
    pub fn go_dead(&self) {
        self.behave(Behaviour::Refuse);
    }

    /// Serves these bytes, labelled as JSON, for everything.
    pub fn serve_raw(&self, bytes: impl Into<Vec<u8>>) {
        self.behave(Behaviour::always(Reply::bytes(200, "application/json", bytes)));
    }

    /// Behaves in any way that a note store can.
    pub fn behave(&self, behaviour: Behaviour) {
        self.server.set(behaviour);
    }

    /// Begins a token for a subject and an audience, good for five minutes.
    pub fn mint(&self, subject: &str, audience: &str) -> Mint<'_> {
        let now = now();
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        let claims = [
            ("iss", json!(self.url())),
            ("sub", json!(subject)),
            ("aud", json!(audience)),
            ("iat", json!(now)),
            ("exp", json!(now + 300)),
            ("jti", json!(format!("{}-{number}", self.server.address().port()))),
        ];
        let claims = claims.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Mint { issuer: self, claims, header: Map::new(), key: None, signature: Signature::Good }
    }

    /// A token of these claims alone, signed with the newest key.
    pub fn token(&self, claims: Value, alg: Alg) -> String {
        let claims = if let Value::Object(claims) = claims { claims } else { Map::new() };
        Mint { issuer: self, claims, header: Map::new(), key: None, signature: Signature::Good }
            .token(alg)
    }
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("server", &self.server).finish_non_exhaustive()
    }
}

fn jwks(keys: &Keys) -> Value {
    json!({ "keys": keys.all.iter().filter(|key| key.published).map(Key::jwk).collect::<Vec<_>>() })
}

/// Signs claims as they are, with the newest key of P-256.
fn sign(keys: &Keys, claims: &Value) -> String {
    let key = keys.newest(Alg::Es256);
    let header = json!({ "typ": "JWT", "alg": "ES256", "kid": key.id });
    let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
    format!("{message}.{}", encode(key.sign(message.as_bytes())))
}

fn serve(received: &Received, keys: &Keys, url: &str) -> Reply {
    match received.target.as_str() {
        "/.well-known/jwks.json" => Reply::json(200, &jwks(keys)),
        "/.well-known/oauth-authorization-server" => {
            let jwks = format!("{url}/.well-known/jwks.json");
            Reply::json(200, &json!({ "issuer": url, "jwks_uri": jwks }))
        }
        _ => Reply::refusal(404, "not found"),
    }
}

/// Returns the seconds since 1970.
pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// The last part of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// A signature.
    Good,
    /// Nothing.
    Empty,
    /// A signature with one bit turned over.
    Broken,
    /// A keyed hash whose key is the public key, which a verifier accepts that lets the token
    /// choose how it is verified; the header says `HS256`.
    HashOfPublicKey,
}

/// A token that is being made.
#[derive(Clone, Debug)]
#[must_use]
pub struct Mint<'a> {
    issuer: &'a Issuer,
    claims: Map<String, Value>,
    header: Map<String, Value>,
    key: Option<String>,
    signature: Signature,
}

impl Mint<'_> {
    /// With a claim, in place of one of that name.
    pub fn claim(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.claims.insert(name.to_owned(), value.into());
        self
    }

    /// Leaves out one claim of the token.
    pub fn without(mut self, name: &str) -> Self {
        self.claims.remove(name);
        self
    }

    /// Sets the role of the user.
    pub fn role(self, role: &str) -> Self {
        self.claim("role", role)
    }

    /// Sets the only vault of the token.
    pub fn vault(self, vault: &str) -> Self {
        self.claim("vault", vault)
    }

    /// On behalf of the subject, used by this actor (RFC 8693).
    pub fn actor(self, actor: &str) -> Self {
        self.claim("act", json!({ "sub": actor }))
    }

    /// With scopes, separated by spaces.
    pub fn scope(self, scope: &str) -> Self {
        self.claim("scope", scope)
    }

    /// Good until so many seconds from now; a negative number makes it a token that has expired.
    pub fn expires_in(self, seconds: i64) -> Self {
        self.claim("exp", now().saturating_add(seconds))
    }

    /// With a field of the header, in place of one of that name. It changes what the token says,
    /// not how it is signed; null leaves the field out.
    pub fn header(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.header.insert(name.to_owned(), value.into());
        self
    }

    /// Signed with a key by its name, which need not be published any more.
    pub fn key(mut self, kid: &str) -> Self {
        self.key = Some(kid.to_owned());
        self
    }

    /// With something else for a signature.
    pub fn signature(mut self, signature: Signature) -> Self {
        self.signature = signature;
        self
    }

    /// The token.
    ///
    /// # Panics
    /// The named key does not exist.
    pub fn token(self, alg: Alg) -> String {
        let keys = self.issuer.keys();
        let key = self.key.as_deref().map_or_else(|| keys.newest(alg), |id| keys.named(id));
        let alg =
            if self.signature == Signature::HashOfPublicKey { "HS256" } else { key.alg().name() };
        let mut header = Map::from_iter([
            ("typ".to_owned(), json!("JWT")),
            ("alg".to_owned(), json!(alg)),
            ("kid".to_owned(), json!(key.id)),
        ]);
        header.extend(self.header);
        header.retain(|_, value| !value.is_null());
        let claims = Value::Object(self.claims).to_string();
        let message = format!("{}.{}", encode(Value::Object(header).to_string()), encode(claims));
        let signature = match self.signature {
            Signature::Good => key.sign(message.as_bytes()),
            Signature::Empty => Vec::new(),
            Signature::Broken => {
                let mut signature = key.sign(message.as_bytes());
                signature.last_mut().into_iter().for_each(|byte| *byte ^= 1);
                signature
            }
            Signature::HashOfPublicKey => {
                let public = match &key.secret {
                    Secret::Es256(pair) => pair.public_key().as_ref().to_vec(),
                    Secret::Rs256(pair) => pair.public_key().as_ref().to_vec(),
                };
                hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &public), message.as_bytes())
                    .as_ref()
                    .to_vec()
            }
        };
        format!("{message}.{}", encode(signature))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    use super::*;
    use crate::client::Http;

    /// Asks the endpoint, as a verifier would.
    fn fetch(issuer: &Issuer) -> Value {
        let address: SocketAddr = issuer.url().strip_prefix("http://").unwrap().parse().unwrap();
        let request = format!(
            "GET /.well-known/jwks.json HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        );
        Http::new(address, "").send(request.as_bytes()).unwrap().json()
    }

    fn part(token: &str, index: usize) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(token.split('.').nth(index).unwrap()).unwrap()
    }

    fn header(token: &str) -> Value {
        serde_json::from_slice(&part(token, 0)).unwrap()
    }

    /// Verifies a token with what the endpoint serves and nothing else.
    fn verifies(jwks: &Value, token: &str) -> bool {
        let kid = header(token)["kid"].clone();
        let Some(key) = jwks["keys"].as_array().unwrap().iter().find(|key| key["kid"] == kid)
        else {
            return false;
        };
        let field = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
        let (message, signature) = (token.rsplit_once('.').unwrap().0.as_bytes(), part(token, 2));
        match key["kty"].as_str().unwrap() {
            "EC" => {
                let point = [vec![4], field("x"), field("y")].concat();
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, &signature)
                    .is_ok()
            }
            _ => {
                let components = PublicKeyComponents { n: field("n"), e: field("e") };
                components.verify(&RSA_PKCS1_2048_8192_SHA256, message, &signature).is_ok()
            }
        }
    }

    #[test]
    fn tokens_verify_with_the_served_keys() {
        let issuer = Issuer::start();
        for alg in [Alg::Es256, Alg::Rs256] {
            let good =
                issuer.mint("alice", "store").vault("one").role("viewer").actor("robot").token(alg);
            assert!(verifies(&fetch(&issuer), &good));
            let claims: Value = serde_json::from_slice(&part(&good, 1)).unwrap();
            assert_eq!(claims["sub"], "alice");
            assert_eq!(claims["act"]["sub"], "robot");
            assert_eq!(claims["iss"], issuer.url());
            for signature in [Signature::Empty, Signature::Broken, Signature::HashOfPublicKey] {
                let bad = issuer.mint("alice", "store").signature(signature).token(alg);
                assert!(!verifies(&fetch(&issuer), &bad), "{signature:?}");
            }
            assert!(verifies(&fetch(&issuer), &issuer.token(json!({ "sub": 7 }), alg)));
        }
        assert_eq!(issuer.fetches(), 10);
    }

    #[test]
    fn keys_rotate_and_are_withdrawn() {
        let issuer = Issuer::start();
        let old = issuer.kid(Alg::Rs256);
        let before = issuer.mint("alice", "store").token(Alg::Rs256);
        issuer.rotate();
        assert_ne!(issuer.kid(Alg::Rs256), old);
        assert_eq!(issuer.jwks()["keys"].as_array().unwrap().len(), 4);
        let after = issuer.mint("alice", "store").token(Alg::Rs256);
        assert!(verifies(&fetch(&issuer), &before) && verifies(&fetch(&issuer), &after));
        issuer.withdraw(&old);
        let late = issuer.mint("alice", "store").key(&old).token(Alg::Rs256);
        assert!(!verifies(&fetch(&issuer), &before) && !verifies(&fetch(&issuer), &late));
        assert!(verifies(&fetch(&issuer), &after));
    }

    #[test]
    fn a_replaced_key_has_the_name_of_the_old_one() {
        let issuer = Issuer::start();
        for alg in [Alg::Es256, Alg::Rs256] {
            let (kid, before) = (issuer.kid(alg), issuer.mint("alice", "store").token(alg));
            issuer.replace();
            let after = issuer.mint("alice", "store").token(alg);
            assert_eq!((issuer.kid(alg), &header(&after)["kid"]), (kid.clone(), &json!(kid)));
            let jwks = fetch(&issuer);
            assert!(!verifies(&jwks, &before) && verifies(&jwks, &after));
        }
    }

    #[test]
    fn a_token_header_has_the_given_members() {
        let issuer = Issuer::start();
        let token = issuer
            .mint("alice", "store")
            .header("alg", "none")
            .header("kid", Value::Null)
            .token(Alg::Es256);
        assert_eq!(header(&token), json!({ "typ": "JWT", "alg": "none" }));
    }

    #[test]
    fn a_provider_dies_and_comes_back() {
        let issuer = Issuer::start();
        let address: SocketAddr = issuer.url().strip_prefix("http://").unwrap().parse().unwrap();
        issuer.go_dead();
        assert!(std::net::TcpStream::connect(address).is_err());
        issuer.serve_raw("[]");
        assert_eq!(fetch(&issuer), json!([]));
        issuer.go_well();
        assert_eq!(fetch(&issuer), issuer.jwks());
    }
}
