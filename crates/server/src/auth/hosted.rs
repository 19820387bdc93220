//! Tokens of an identity provider.
//!
//! Signed with RS256 or ES256 by a key of the provider's set, issued by exactly the configured issuer, and
//! addressed to this server. Every check is written out; none is left to a library. Follows RFC 8725.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};
use stile_domain::permit::Principal;
use stile_domain::scope::Scopes;

use super::compact::{Audience, LEEWAY, MAX_TOKEN_BYTES, Parts, check, present};
use super::identity::{Identity, Naming, is_name};
use super::jwk::Algorithm;
use super::jwks::Jwks;
use super::mint::seconds;
use super::{MAX_LIFE, Rejected, Verified, Verifier, json};

/// Members of a header that would change what is verified, or with what. Keys come from the configured provider
/// alone, and an extension that must be understood is not. Other members say nothing that we act on.
const REFUSED: [&str; 6] = ["crit", "jwk", "jku", "x5u", "zip", "enc"];

/// What a token may call itself. That an identity token is not taken for an access token is up to `aud`.
const TYPES: [&str; 3] = ["JWT", "at+jwt", "application/at+jwt"];

/// Accepts tokens that one identity provider signed for this server.
pub struct HostedVerifier {
    jwks: Jwks,
    issuer: Arc<str>,
    audience: String,
    clock: fn() -> SystemTime,
}

/// What the header of a token says that can be accepted.
pub(super) struct Header {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
}

/// What is read of the claims; others are left to those who know them. None makes anybody an owner.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    iss: String,
    aud: Audience,
    exp: NumericDate,
    #[serde(default, deserialize_with = "present")]
    iat: Option<NumericDate>,
    #[serde(default, deserialize_with = "present")]
    nbf: Option<NumericDate>,
    #[serde(default, deserialize_with = "present")]
    jti: Option<String>,
    #[serde(default, deserialize_with = "present")]
    scope: Option<String>,
    #[serde(default, deserialize_with = "present")]
    client: Option<String>,
    #[serde(default, deserialize_with = "present")]
    act: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    vault: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    role: Option<Value>,
}

/// Seconds since 1970. RFC 7519 allows a fraction and some providers write one; it is cut off, which ends a token
/// early and begins it early, both by less than the leeway.
#[derive(Clone, Copy)]
struct NumericDate(i64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Above this, a number with a fraction is not exact to the second.
        const EXACT: f64 = (1_u64 << 53) as f64;
        let number = Number::deserialize(deserializer)?;
        let cut = || number.as_f64().filter(|seconds| (0.0..EXACT).contains(seconds)).map(|seconds| seconds as i64);
        let seconds = number.as_i64().or_else(cut).filter(|seconds| *seconds >= 0);
        seconds.map(Self).ok_or_else(|| serde::de::Error::custom("not a time"))
    }
}

impl HostedVerifier {
    /// A verifier for the tokens that `issuer` signed with a key of `jwks` and addressed to `audience`, which reads
    /// the time from `clock`.
    pub fn new(jwks: Jwks, issuer: &str, audience: &str, clock: fn() -> SystemTime) -> Self {
        Self { jwks, issuer: issuer.into(), audience: audience.to_owned(), clock }
    }

    async fn verify_soon(&self, token: &str) -> Result<Verified, Rejected> {
        check(token.len() <= MAX_TOKEN_BYTES, "the token is too long")?;
        let parts = Parts::of(token).ok_or(Rejected("the token does not have three parts in base64url"))?;
        let header = Header::read(&parts.header)?;
        self.jwks.verify(header.kid.as_deref(), header.algorithm, parts.message.as_bytes(), &parts.signature).await?;
        self.judge(&parts.payload)
    }

    /// What follows from the claims of a token whose signature is right.
    fn judge(&self, payload: &[u8]) -> Result<Verified, Rejected> {
        // By way of an object, since the type below would also be read from a list of its members.
        let claims = json::parse_unique::<Map<String, Value>>(payload)
            .and_then(|claims| serde_json::from_value::<Claims>(Value::Object(claims)).ok())
            .ok_or(Rejected("a claim is missing, malformed or repeated"))?;
        check(claims.iss == *self.issuer, "the token is of another issuer")?;
        check(claims.aud.names(&self.audience), "the token is for another server")?;
        check(is_name(&claims.sub), "the subject is not a name")?;
        check(claims.jti.as_deref() != Some(""), "the identifier is empty")?;
        check_times(&claims, seconds((self.clock)()))?;
        let naming = Naming { act: claims.act.as_ref(), vault: claims.vault.as_ref(), role: claims.role.as_ref() };
        let identity = Identity::read(Some(Arc::clone(&self.issuer)), &claims.sub, naming, claims.aud)?;
        let scopes = Scopes::from_claim(claims.scope.as_deref().unwrap_or_default());
        Ok(Verified {
            principal: Principal::assert_verified(&claims.sub, claims.jti.as_deref(), claims.client.as_deref(), scopes),
            identity,
            expires: UNIX_EPOCH + Duration::from_secs(claims.exp.0.unsigned_abs()),
        })
    }
}

impl Verifier for HostedVerifier {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Verified, Rejected>> {
        Box::pin(self.verify_soon(token))
    }
}

impl Header {
    /// Reads a header, of which nothing was verified yet.
    pub(super) fn read(header: &[u8]) -> Result<Self, Rejected> {
        let members: Map<String, Value> =
            json::parse_unique(header).ok_or(Rejected("the header is not an object, or repeats a name"))?;
        check(!REFUSED.iter().any(|name| members.contains_key(*name)), "the header asks for what is not supported")?;
        let text = |name: &str| match members.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(Rejected("a member of the header is not text")),
        };
        let is_type = |typ: &str| TYPES.iter().any(|name| name.eq_ignore_ascii_case(typ));
        check(text("typ")?.is_none_or(is_type), "the type is not that of an access token")?;
        let algorithm = text("alg")?.and_then(Algorithm::named).ok_or(Rejected("the algorithm is not accepted"))?;
        Ok(Self { algorithm, kid: text("kid")?.map(str::to_owned) })
    }
}

fn check_times(claims: &Claims, now: i64) -> Result<(), Rejected> {
    let exp = claims.exp.0;
    let soon = now.saturating_add(LEEWAY);
    let longest = i64::try_from(MAX_LIFE.as_secs()).unwrap_or(i64::MAX);
    check(now < exp.saturating_add(LEEWAY), "the token has expired")?;
    check(claims.nbf.is_none_or(|nbf| nbf.0 <= soon), "the token is not valid yet")?;
    check(claims.iat.is_none_or(|iat| iat.0 <= soon), "the token was issued in the future")?;
    let fits = |from: i64| from < exp && exp.saturating_sub(from) <= longest;
    check(claims.iat.is_none_or(|iat| fits(iat.0)), "the token lives longer than is allowed")?;
    // Whether or not it says when it was issued.
    check(exp.saturating_sub(soon) <= longest, "the token lives longer than is allowed")
}
