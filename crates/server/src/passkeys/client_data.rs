//! What the browser says about a ceremony: its kind, the challenge, and the page that asked.
//!
//! *Source*: Web Authentication Level 3, section 5.8.1.

use serde_json::Value;

use crate::challenges::Purpose;
use stile_domain::json::strict::parse_object;

/// The longest client data, in bytes. Browsers write about 150.
const MAX_BYTES: usize = 4096;

/// The members that are checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientData {
    kind: String,
    /// The challenge, in base64url.
    pub(super) challenge: String,
    /// The origin of the page.
    pub(super) origin: String,
    is_framed: bool,
}

impl ClientData {
    /// Parses the JSON that the browser signed over. Refuses repeated names and other types.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_BYTES {
            return None;
        }
        let members = parse_object(bytes)?;
        let text = |name: &str| members.get(name)?.as_str().map(str::to_owned);
        let is_framed = match members.get("crossOrigin") {
            None | Some(Value::Bool(false)) => members.contains_key("topOrigin"),
            Some(_) => true,
        };
        Some(Self {
            kind: text("type")?,
            challenge: text("challenge")?,
            origin: text("origin")?,
            is_framed,
        })
    }

    /// Returns whether the page asked for this ceremony, and not inside a frame of another site.
    pub(super) fn is_for(&self, purpose: Purpose) -> bool {
        let kind = match purpose {
            Purpose::PasskeyRegistration => "webauthn.create",
            Purpose::PasskeySignIn => "webauthn.get",
            Purpose::OpenIdSignIn => return false,
        };
        self.kind == kind && !self.is_framed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceremony_in_a_frame_or_of_the_other_kind_is_recognised() {
        let base = r#""challenge":"abc","origin":"http://localhost:1""#;
        for (members, registers, signs_in) in [
            (r#""type":"webauthn.create""#, true, false),
            (r#""type":"webauthn.get""#, false, true),
            (r#""type":"webauthn.get","crossOrigin":false"#, false, true),
            (r#""type":"webauthn.get","crossOrigin":true"#, false, false),
            (r#""type":"webauthn.get","crossOrigin":null"#, false, false),
            (r#""type":"webauthn.get","topOrigin":"https://evil.example""#, false, false),
            (r#""type":"payment.get""#, false, false),
        ] {
            let data = ClientData::parse(format!("{{{base},{members}}}").as_bytes()).unwrap();
            assert_eq!(data.is_for(Purpose::PasskeyRegistration), registers, "{members}");
            assert_eq!(data.is_for(Purpose::PasskeySignIn), signs_in, "{members}");
        }
    }

    #[test]
    fn client_data_that_is_not_one_object_is_refused() {
        let long = format!(
            r#"{{"type":"webauthn.get","challenge":"{}","origin":"o"}}"#,
            "a".repeat(MAX_BYTES)
        );
        for text in [
            "",
            "[]",
            "{}",
            r#"{"type":"webauthn.get","challenge":"a"}"#,
            r#"{"type":"webauthn.get","challenge":7,"origin":"o"}"#,
            r#"{"type":"webauthn.get","type":"webauthn.create","challenge":"a","origin":"o"}"#,
            &long,
        ] {
            assert_eq!(ClientData::parse(text.as_bytes()), None, "{text:.80}");
        }
    }
}
