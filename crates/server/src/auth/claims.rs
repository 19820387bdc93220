//! What a token says of its bearer beyond their scopes: who acts for whom, in which vault, in which
//! role.

use std::sync::Arc;

use serde_json::Value;
use stile_domain::records::authority::{RecordsClaim, is_grant_id};
use stile_domain::role::Role;

use super::TokenRejected;
use super::compact::{Audience, check};

/// The longest name of a vault, in bytes.
const MAX_VAULT_BYTES: usize = 256;

/// The longest name of a person, in bytes. OpenID Connect allows no longer `sub`.
const MAX_NAME_BYTES: usize = 255;

/// What a verified token says of its bearer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityClaims {
    /// Who signed the token; none where this server did.
    pub issuer: Option<Arc<str>>,
    /// Who is acting: `act.sub` (RFC 8693) where somebody acts for the subject, else the subject.
    pub actor: Arc<str>,
    /// The vault that the token is for.
    pub vault: VaultClaim,
    /// What the bearer is in it.
    pub role: Role,
    /// Everyone whom the token is addressed to, this server among them.
    pub audiences: Vec<String>,
}

/// The claim `vault`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VaultClaim {
    /// The token has none.
    None,
    /// The token is for this one vault. The name can be sent in an HTTP header as it is.
    One(Arc<str>),
    /// The token names something else: several vaults, no text, or a text that a header would
    /// change. It must not be taken for a token without the claim, which is for the default vault.
    Malformed,
}

/// The claims that an identity is read from.
pub(super) struct Naming<'a> {
    pub(super) act: Option<&'a Value>,
    pub(super) vault: Option<&'a Value>,
    pub(super) role: Option<&'a Value>,
}

impl IdentityClaims {
    /// Reads the claims of a token whose signature is right.
    pub(super) fn read(
        issuer: Option<Arc<str>>,
        subject: &str,
        claims: Naming<'_>,
        audience: Audience,
    ) -> Result<Self, TokenRejected> {
        let actor = match claims.act {
            None => subject,
            Some(act) => act.get("sub").and_then(Value::as_str).unwrap_or_default(),
        };
        check(claims.act.is_none() || is_name(actor), "the actor is not a name")?;
        Ok(Self {
            issuer,
            actor: actor.into(),
            vault: VaultClaim::read(claims.vault),
            role: Role::from_claim(claims.role.and_then(Value::as_str)),
            audiences: audience.into_names(),
        })
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

/// Visible ASCII with spaces inside: what RFC 9110 lets a sender write into a header and every
/// receiver reads alike. Other letters are bytes without a meaning there.
fn is_vault(name: &str) -> bool {
    (1..=MAX_VAULT_BYTES).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && !name.starts_with(' ')
        && !name.ends_with(' ')
}

/// What the claims `grant` and `records` say together; the second is read only of our own tokens.
pub(super) fn records_claim(
    grant: Option<&str>,
    records: Option<&str>,
) -> Result<RecordsClaim, TokenRejected> {
    match (grant, records) {
        (None, None) => Ok(RecordsClaim::None),
        (None, Some("owner")) => Ok(RecordsClaim::Owner),
        (Some(grant), None) if is_grant_id(grant) => Ok(RecordsClaim::Grant(grant.into())),
        _ => Err(TokenRejected("what the token says about records is malformed")),
    }
}

/// A name that survives a log, a header and a comparison: not empty, not long, without control
/// characters and without white space at its ends.
pub(super) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && !name.chars().any(char::is_control)
        && name.trim() == name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(
        act: Option<Value>,
        vault: Option<Value>,
        role: Option<Value>,
    ) -> Result<IdentityClaims, TokenRejected> {
        let naming = Naming { act: act.as_ref(), vault: vault.as_ref(), role: role.as_ref() };
        IdentityClaims::read(
            Some("https://id.example".into()),
            "ann",
            naming,
            Audience::One("us".to_owned()),
        )
    }

    #[test]
    fn the_subject_acts_unless_somebody_acts_for_them() {
        let actor = |act| read(act, None, None).map(|identity| identity.actor.to_string());
        assert_eq!(actor(None), Ok("ann".to_owned()));
        assert_eq!(actor(Some(json!({ "sub": "bob" }))), Ok("bob".to_owned()));
        // Those before the last in a chain are not acting now (RFC 8693, section 4.1).
        assert_eq!(
            actor(Some(json!({ "sub": "bob", "act": { "sub": "eve" } }))),
            Ok("bob".to_owned())
        );
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
            assert!(actor(Some(act.clone())).is_err(), "{act}");
        }
    }

    #[test]
    fn a_vault_is_one_name_that_a_header_carries_unchanged() {
        let vault = |claim| read(None, claim, None).unwrap().vault;
        assert_eq!(vault(None), VaultClaim::None);
        for name in ["v", "Vault 7", "a/b:c@d.example,e", &"v".repeat(256)] {
            assert_eq!(vault(Some(json!(name))), VaultClaim::One(name.into()), "{name}");
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
            assert_eq!(vault(Some(claim.clone())), VaultClaim::Malformed, "{claim}");
        }
    }

    #[test]
    fn a_role_that_is_no_text_is_a_viewer() {
        let role = |claim| read(None, None, claim).unwrap().role;
        assert_eq!(role(Some(json!("admin"))), Role::Admin);
        for claim in [
            None,
            Some(json!(null)),
            Some(json!(["admin"])),
            Some(json!({ "admin": true })),
            Some(json!(3)),
        ] {
            assert_eq!(role(claim.clone()), Role::Viewer, "{claim:?}");
        }
    }

    #[test]
    fn everyone_addressed_is_named() {
        let naming = || Naming { act: None, vault: None, role: None };
        let read = |audience| IdentityClaims::read(None, "ann", naming(), audience).unwrap();
        assert_eq!(read(Audience::One("a".to_owned())).audiences, ["a"]);
        assert_eq!(
            read(Audience::Many(vec!["a".to_owned(), "b".to_owned()])).audiences,
            ["a", "b"]
        );
    }
}
