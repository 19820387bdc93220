//! The claims of a token (RFC 7519) and what they say about the caller.
//!
//! Both kinds of tokens have the same claims. The rules that differ, such as who may issue a token
//! and which claims are required, are in `local_tokens` and `provider_tokens`. Other claims are
//! ignored.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};
use stile_domain::client_name::unreserved;
use stile_domain::permit::Principal;
use stile_domain::records::authority::{ImportClaim, RecordsClaim, is_grant_id};
use stile_domain::records::identifiers::SourceName;
use stile_domain::role::Role;
use stile_domain::scope::Scopes;
use stile_store::state::ApprovedRights;

use super::rejection::{TokenRejected, check};

/// The longest life of a token: any year. A token that outlives that was forgotten.
pub const MAX_LIFE: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How far two clocks may be apart, in seconds.
const LEEWAY: i64 = 5;

/// The longest name of a vault, in bytes.
const MAX_VAULT_BYTES: usize = 256;

/// The longest name of a person, in bytes. OpenID Connect allows no longer `sub`.
const MAX_NAME_BYTES: usize = 255;

/// The claims that Stile reads. A claim with the value `null` is present, and so malformed.
#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) sub: String,
    #[serde(default, deserialize_with = "present")]
    pub(super) iss: Option<Value>,
    aud: Audience,
    exp: Number,
    #[serde(default, deserialize_with = "present")]
    pub(super) iat: Option<Number>,
    #[serde(default, deserialize_with = "present")]
    nbf: Option<Number>,
    #[serde(default, deserialize_with = "present")]
    pub(super) jti: Option<String>,
    #[serde(default, deserialize_with = "present")]
    scope: Option<String>,
    #[serde(default, deserialize_with = "present")]
    client: Option<String>,
    #[serde(default, deserialize_with = "present")]
    grant: Option<String>,
    /// The authorization under which this server issued the token. The authorization says what the
    /// token allows, and `scope` and `grant` are absent.
    #[serde(default, deserialize_with = "present")]
    pub(super) approval: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(super) records: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    act: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    vault: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    role: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(super) nonce: Option<String>,
    #[serde(default, deserialize_with = "present")]
    azp: Option<Value>,
}

/// The claim `aud`: one name or a list of names.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// When a token is valid, in UTC seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) issued: Option<i64>,
    pub(super) not_before: Option<i64>,
    pub(super) expires: i64,
}

/// A caller whose token was verified just now.
#[derive(Clone, Debug)]
pub struct VerifiedCaller {
    /// The caller and the scopes of the token.
    pub principal: Principal,
    /// What else the token says about the caller.
    pub identity: IdentityClaims,
    /// When the token expires.
    pub expires: SystemTime,
}

impl VerifiedCaller {
    /// Returns until when the token is accepted: five seconds longer than it lives, since two
    /// clocks may differ. Streams that were opened with it end then, so that no request is accepted
    /// whose answer is cut off at once.
    #[must_use]
    pub fn accepted_until(&self) -> SystemTime {
        self.expires + Duration::from_secs(LEEWAY.unsigned_abs())
    }
}

/// What a verified token says about its bearer beyond the scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityClaims {
    /// The identity provider that signed the token; `None` if this server did.
    pub issuer: Option<Arc<str>>,
    /// Who is acting: `act.sub` (RFC 8693) if somebody acts for the subject, else the subject.
    pub actor: Arc<str>,
    /// The vault that the token is for.
    pub vault: VaultClaim,
    /// The bearer's role in the vault.
    pub role: Role,
    /// Every audience of the token. One of them is this server.
    pub audiences: Vec<String>,
}

/// The claim `vault`, which names the vault that the token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VaultClaim {
    /// The claim is absent, so the token is for the default vault.
    None,
    /// The token is for this one vault. The name can be sent in an HTTP header unchanged.
    One(Arc<str>),
    /// The claim is a list, not text, or a text that a header would change. Such a token must not
    /// be treated like one without the claim.
    Malformed,
}

/// Reads a NumericDate that is an integer, as this server writes it.
pub(super) fn whole_seconds(date: &Number) -> Option<i64> {
    date.as_i64()
}

/// Reads a NumericDate from 1970 on. RFC 7519 allows a fraction, and some providers write one. The
/// fraction is cut off, so the token begins and ends early by less than the leeway. A number too
/// large for an `i64` becomes the last second, which is too late for any claim.
pub(super) fn truncated_seconds(date: &Number) -> Option<i64> {
    let cut = || date.as_f64().filter(|seconds| *seconds >= 0.0).map(|seconds| seconds as i64);
    date.as_i64().or_else(cut).filter(|seconds| *seconds >= 0)
}

impl Claims {
    /// Returns the times of the token, each read with `seconds`.
    pub(super) fn validity(
        &self,
        seconds: fn(&Number) -> Option<i64>,
    ) -> Result<Validity, TokenRejected> {
        let read = |date: &Number| {
            seconds(date).ok_or(TokenRejected("a claim is missing, malformed or repeated"))
        };
        Ok(Validity {
            issued: self.iat.as_ref().map(read).transpose()?,
            not_before: self.nbf.as_ref().map(read).transpose()?,
            expires: read(&self.exp)?,
        })
    }

    /// Refuses a token that is not addressed to `audience`, compared byte for byte.
    pub(super) fn check_audience(&self, audience: &str) -> Result<(), TokenRejected> {
        let is_addressed = match &self.aud {
            Audience::One(name) => name == audience,
            Audience::Many(names) => names.iter().any(|name| name == audience),
        };
        is_addressed.then_some(()).ok_or(TokenRejected::OTHER_SERVER)
    }

    /// Refuses an identity token that was not made for this client alone, or not for this sign-in.
    ///
    /// *Source*: OpenID Connect Core 1.0, section 3.1.3.7, rules 3 to 5, 10 and 11.
    pub(super) fn check_identity(&self, client: &str, nonce: &str) -> Result<(), TokenRejected> {
        let authorized = self.azp.as_ref();
        let is_for_client = authorized.is_none_or(|party| party.as_str() == Some(client));
        let is_for_one = matches!(&self.aud, Audience::One(_)) || authorized.is_some();
        check(is_for_client && is_for_one, "the identity token is for another client")?;
        check(self.iat.is_some(), "the identity token does not say when it was issued")?;
        check(self.nonce.as_deref() == Some(nonce), "the identity token is for another sign-in")
    }

    /// Puts the rights of an approval in the place of those that the token says.
    pub(super) fn set_rights(&mut self, rights: ApprovedRights) {
        (self.scope, self.grant, self.records) = (Some(rights.scopes), rights.grant, None);
    }

    /// Returns the caller whom these claims describe. Everything else about them was checked.
    pub(super) fn into_caller(
        self,
        issuer: Option<Arc<str>>,
        validity: Validity,
    ) -> Result<VerifiedCaller, TokenRejected> {
        let records = records_claim(self.grant.as_deref(), self.records.as_ref())?;
        // A malformed scope grants nothing and leaves the token valid.
        let scopes = Scopes::from_claim(self.scope.as_deref().unwrap_or_default());
        // This server gives no token a reserved name. An identity provider knows none of them.
        let client = self.client.as_deref();
        let client = client.map(|name| issuer.as_ref().map_or(name.into(), |_| unreserved(name)));
        let (token, client) = (self.jti.as_deref(), client.as_deref());
        let seconds = u64::try_from(validity.expires).unwrap_or_default();
        Ok(VerifiedCaller {
            principal: Principal::assert_verified(&self.sub, token, client, scopes, records),
            identity: self.identity(issuer)?,
            expires: UNIX_EPOCH + Duration::from_secs(seconds),
        })
    }

    fn identity(self, issuer: Option<Arc<str>>) -> Result<IdentityClaims, TokenRejected> {
        let actor = match &self.act {
            None => &self.sub,
            Some(act) => act
                .get("sub")
                .and_then(Value::as_str)
                .filter(|actor| is_name(actor))
                .ok_or(TokenRejected("the actor is not a name"))?,
        };
        Ok(IdentityClaims {
            issuer,
            actor: actor.into(),
            vault: VaultClaim::read(self.vault.as_ref()),
            role: Role::from_claim(self.role.as_ref().and_then(Value::as_str)),
            audiences: match self.aud {
                Audience::One(name) => vec![name],
                Audience::Many(names) => names,
            },
        })
    }
}

impl Validity {
    /// Refuses a token that is not valid at `now` or lives longer than [`MAX_LIFE`]. Allows two
    /// clocks to differ by [`LEEWAY`].
    pub(super) fn check(self, now: i64) -> Result<(), TokenRejected> {
        let Self { issued, not_before, expires } = self;
        let soon = now.saturating_add(LEEWAY);
        (now < expires.saturating_add(LEEWAY)).then_some(()).ok_or(TokenRejected::EXPIRED)?;
        check(not_before.is_none_or(|begin| begin <= soon), "the token is not valid yet")?;
        check(issued.is_none_or(|issued| issued <= soon), "the token was issued in the future")?;
        let longest = i64::try_from(MAX_LIFE.as_secs()).unwrap_or(i64::MAX);
        let fits = |issued: i64| {
            issued >= 0 && issued < expires && expires.saturating_sub(issued) <= longest
        };
        check(
            issued.is_none_or(fits) && expires.saturating_sub(soon) <= longest,
            "the token lives longer than is allowed",
        )
    }
}

impl VaultClaim {
    fn read(claim: Option<&Value>) -> Self {
        match claim {
            None => Self::None,
            Some(Value::String(name)) if is_vault(name) => Self::One(name.as_str().into()),
            Some(_) => Self::Malformed,
        }
    }
}

/// Deserializes a member that is present, so that `null` is a value and not an absent member.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Accepts visible ASCII with spaces inside: RFC 9110 lets a sender write these into a header, and
/// every receiver reads them alike. Other letters are bytes without a meaning there.
fn is_vault(name: &str) -> bool {
    (1..=MAX_VAULT_BYTES).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && !name.starts_with(' ')
        && !name.ends_with(' ')
}

/// Combines the claims `grant` and `records`, of which a token has at most one.
fn records_claim(
    grant: Option<&str>,
    records: Option<&Value>,
) -> Result<RecordsClaim, TokenRejected> {
    match (grant, records) {
        (None, None) => Ok(RecordsClaim::None),
        (None, Some(records)) if records == "owner" => Ok(RecordsClaim::Owner),
        (None, Some(records)) => import_claim(records).ok_or(MALFORMED_RECORDS),
        (Some(grant), None) if is_grant_id(grant) => Ok(RecordsClaim::Grant(grant.into())),
        _ => Err(MALFORMED_RECORDS),
    }
}

const MALFORMED_RECORDS: TokenRejected =
    TokenRejected("what the token says about records is malformed");

/// Reads the claim of a token for an import: `{"import": {"connection": …, "stream": …}}`.
fn import_claim(records: &Value) -> Option<RecordsClaim> {
    let import = records.as_object().filter(|records| records.len() == 1)?.get("import")?;
    let name = |member: &str| SourceName::parse(import.get(member)?.as_str()?).ok();
    let import = ImportClaim { connection: name("connection")?, stream: name("stream")? };
    Some(RecordsClaim::Import(Arc::new(import)))
}

/// Writes what [`import_claim`] reads.
pub(super) fn import_value(import: &ImportClaim) -> Value {
    serde_json::json!({ "import": {
        "connection": import.connection.as_str(), "stream": import.stream.as_str(),
    } })
}

/// Accepts a name that survives a log, a header and a comparison: 1 to 255 bytes, without control
/// characters and without white space at either end.
pub(super) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && !name.chars().any(char::is_control)
        && name.trim() == name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reads the identity from good claims with `changes`; `null` stays a value.
    fn read(changes: Value) -> Result<IdentityClaims, TokenRejected> {
        let mut claims = json!({ "sub": "ann", "aud": "us", "exp": 1 });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let claims: Claims = serde_json::from_value(claims).unwrap();
        claims.identity(Some("https://id.example".into()))
    }

    #[test]
    fn the_subject_acts_unless_somebody_acts_for_the_subject() {
        let actor = |changes| read(changes).map(|identity| identity.actor.to_string());
        assert_eq!(actor(json!({})), Ok("ann".to_owned()));
        for act in [
            json!({ "sub": "bob" }),
            // Only the outermost of a chain is acting now (RFC 8693, section 4.1).
            json!({ "sub": "bob", "act": { "sub": "eve" } }),
        ] {
            assert_eq!(actor(json!({ "act": act })), Ok("bob".to_owned()), "{act}");
        }
        for act in [
            json!(null),
            json!("bob"),
            json!(["bob"]),
            json!([{ "sub": "bob" }]),
            json!({}),
            json!({ "sub": null }),
            json!({ "sub": "" }),
            json!({ "sub": 7 }),
            json!({ "sub": ["bob"] }),
            json!({ "sub": " bob" }),
            json!({ "sub": "bob\n" }),
            json!({ "sub": "b\u{0}b" }),
            json!({ "sub": "b".repeat(256) }),
            json!({ "act": { "sub": "bob" } }),
        ] {
            assert!(actor(json!({ "act": act })).is_err(), "{act}");
        }
    }

    #[test]
    fn a_vault_is_one_name_that_a_header_carries_unchanged() {
        let vault = |claim: &Value| read(json!({ "vault": claim })).unwrap().vault;
        assert_eq!(read(json!({})).unwrap().vault, VaultClaim::None);
        for name in ["v", "Vault 7", "a/b:c@d.example,e", &"v".repeat(256)] {
            assert_eq!(vault(&json!(name)), VaultClaim::One(name.into()), "{name}");
            assert_eq!(http::HeaderValue::from_str(name).unwrap().to_str().unwrap(), name);
        }
        for claim in [
            json!(null),
            json!(""),
            json!(" "),
            json!(" v"),
            json!("v "),
            json!("v\t"),
            json!("v\tw"),
            json!("v\r\nX-User-Id: eve"),
            json!("v\u{0}"),
            json!("v\u{7f}"),
            json!("v\u{85}"),
            json!("v\u{a0}"),
            json!("välkommen"),
            json!("v\u{202e}"),
            json!("v".repeat(257)),
            json!(7),
            json!(true),
            json!([]),
            json!(["v"]),
            json!(["v", "w"]),
            json!({ "id": "v" }),
        ] {
            assert_eq!(vault(&claim), VaultClaim::Malformed, "{claim}");
        }
    }

    #[test]
    fn a_role_that_is_not_text_is_viewer() {
        let role = |changes| read(changes).unwrap().role;
        assert_eq!(role(json!({ "role": "admin" })), Role::Admin);
        assert_eq!(role(json!({})), Role::Viewer);
        for claim in [json!(null), json!(["admin"]), json!({ "admin": true }), json!(3)] {
            assert_eq!(role(json!({ "role": claim })), Role::Viewer, "{claim}");
        }
    }

    #[test]
    fn every_audience_is_listed() {
        let audiences = |changes| read(changes).unwrap().audiences;
        assert_eq!(audiences(json!({ "aud": "a" })), ["a"]);
        assert_eq!(audiences(json!({ "aud": ["a", "b"] })), ["a", "b"]);
    }
}
