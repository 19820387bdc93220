//! A grant as a JSON document: an issued grant, a client's request for one, or a list of streams.
//!
//! The command line reads such a document from a file, and `/v1` from the body of a request. A
//! member that is not understood is an error, because a limit that is not read would make a broader
//! grant than the document says.

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use stile_domain::records::grant::{Retention, StatedSource, StatedTerms};
use stile_domain::records::instant::Instant;

use crate::grant_request::{
    GrantRequest, GrantRequestError, OmittedConnections, StreamGrantRequest, invalid,
};
use crate::printable::printable;

/// The largest document, in bytes.
pub const MAX_GRANT_DOCUMENT_BYTES: u64 = 8 << 20;
/// The `type` of a client's request. *Source*: RFC 9396, section 2.
pub const REQUEST_TYPE: &str = "https://pdpp.dev/data-access";
/// The version of the shape of an issued grant.
const VERSION: &str = "0.1.0";

/// A grant that the owner requests, that another program issued, or that a client asks for.
///
/// *Shape*: that of a grant of the records interface, or of a request with a `type`. Of an issued
/// grant, its own identifier, times and subject are passed over: the new grant has its own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `streams`")]
pub struct GrantDocument {
    /// The type of the document, [`REQUEST_TYPE`], if it is a client's request.
    #[serde(default, rename = "type")]
    pub request_type: Option<String>,
    /// The version of the shape, `0.1.0`.
    #[serde(default)]
    pub version: Option<String>,
    /// The client that gets the grant.
    #[serde(default)]
    pub client: Option<ClientDocument>,
    /// The source of the records.
    #[serde(default)]
    pub source: Option<StatedSource>,
    /// The purpose as an absolute URI.
    #[serde(default)]
    pub purpose_code: Option<String>,
    /// The purpose in the owner's words.
    #[serde(default)]
    pub purpose_description: Option<String>,
    /// How often the grant may be used: `continuous` or `single_use`.
    #[serde(default)]
    pub access_mode: Option<String>,
    /// The streams that the grant covers.
    pub streams: Vec<StreamGrantRequest>,
    /// How long the client may keep what it read.
    #[serde(default)]
    pub retention: Option<Retention>,
    /// When the grant expires.
    #[serde(default)]
    pub expires_at: Option<String>,
    #[serde(default)]
    grant_id: Option<IgnoredAny>,
    #[serde(default)]
    issued_at: Option<IgnoredAny>,
    #[serde(default)]
    subject: Option<IgnoredAny>,
    #[serde(default)]
    source_declaration: Option<IgnoredAny>,
    #[serde(default)]
    selection_preset: Option<IgnoredAny>,
    #[serde(default)]
    client_claims: Option<IgnoredAny>,
}

/// The client of a grant, as JSON.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `client_id`")]
pub struct ClientDocument {
    /// The name of the client.
    pub client_id: String,
}

impl GrantDocument {
    /// Makes a document with these streams and nothing else.
    pub fn of_streams(streams: Vec<StreamGrantRequest>) -> Self {
        Self { streams, ..Self::default() }
    }

    /// Parses a document. A JSON array is a list of streams.
    ///
    /// # Errors
    /// [`GrantRequestError::Invalid`] if a member is unknown, missing, repeated or malformed.
    pub fn parse(json: &[u8]) -> Result<Self, GrantRequestError> {
        if json.trim_ascii_start().starts_with(b"[") {
            return read(json).map(Self::of_streams);
        }
        let document: Self = read(json)?;
        if document.version.as_ref().is_some_and(|version| version != VERSION) {
            return invalid(format!("this is a grant of another version than {VERSION}"));
        }
        match &document.request_type {
            Some(kind) if kind != REQUEST_TYPE => invalid(format!(
                "the `type` of a request for records is `{REQUEST_TYPE}`, not `{}`",
                printable(kind)
            )),
            // An issued grant names its streams in full. A request could mean others.
            Some(_) if document.selection_preset.is_some() => {
                invalid("a request with `selection_preset` is not understood; name its `streams`")
            }
            _ => Ok(document),
        }
    }

    /// Returns the members of the document that a new grant does not take over.
    pub fn passed_over(&self) -> Vec<&'static str> {
        let members = [
            ("grant_id", self.grant_id),
            ("issued_at", self.issued_at),
            ("subject", self.subject),
            ("source_declaration", self.source_declaration),
            ("selection_preset", self.selection_preset),
            ("client_claims", self.client_claims),
        ];
        members.into_iter().filter_map(|(name, value)| value.map(|_| name)).collect()
    }

    /// Returns the request for a grant that the document states, made at the time `now`.
    ///
    /// # Errors
    /// [`GrantRequestError::Invalid`] if the client is missing, or members do not fit together.
    pub fn into_request(self, now: Instant) -> Result<GrantRequest, GrantRequestError> {
        // Which connections are of a source is not known, so a grant of all would be too broad.
        let names_all = |stream: &StreamGrantRequest| stream.connection_ids.is_none();
        if self.source.is_some() && self.streams.iter().any(names_all) {
            return invalid(
                "the grant has `source`, and a stream without `instance_ids`; name the connections of that source",
            );
        }
        let Some(client) = self.client else {
            return invalid("`client` is missing; name the client as `{\"client_id\": \"…\"}`");
        };
        let expires = match self.expires_at.as_deref().map(Instant::parse) {
            Some(None) => {
                return invalid("`expires_at` is not a time such as 2026-01-31T12:00:00Z");
            }
            expires => expires.flatten(),
        };
        if expires.is_some_and(|expires| expires <= now) {
            return invalid("`expires_at` is in the past");
        }
        let single_use = match self.access_mode.as_deref() {
            None | Some("continuous") => false,
            Some("single_use") => true,
            Some(_) => return invalid("`access_mode` is `continuous` or `single_use`"),
        };
        let omitted_connections = match self.request_type {
            Some(_) => OmittedConnections::OnlyOne,
            None => OmittedConnections::All,
        };
        Ok(GrantRequest {
            client: client.client_id,
            purpose: self.purpose_description,
            expires,
            single_use,
            stated: StatedTerms {
                purpose_code: self.purpose_code,
                source: self.source,
                retention: self.retention,
            },
            streams: self.streams,
            omitted_connections,
        })
    }
}

fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, GrantRequestError> {
    serde_json::from_slice(json).or_else(|error| match error.classify() {
        Category::Data => invalid(format!("this is not a grant: {error}")),
        Category::Syntax | Category::Eof | Category::Io => {
            invalid(format!("this is not JSON: {error}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &str) -> String {
        let made = GrantDocument::parse(json.as_bytes())
            .and_then(|document| document.into_request(Instant(0)));
        made.map(|request| format!("{request:?}")).unwrap_err().to_string()
    }

    #[test]
    fn a_document_that_is_not_understood_is_refused_with_the_reason() {
        let refusals: Vec<String> = [
            r#"{"streams":[],"limit":1}"#,
            r#"{"streams":[{"name":"a","fields":["b"],"fields":["b","c"]}]}"#,
            r#"{"client":{"client_id":"c"}}"#,
            r#"{"streams":[]"#,
            "nothing",
            r#"{"streams":[],"version":"9"}"#,
            r#"{"type":"payment_initiation","streams":[]}"#,
            r#"{"type":"https://pdpp.dev/data-access","streams":[],"selection_preset":"x"}"#,
            r#"{"type":"https://pdpp.dev/data-access","streams":[{"name":"a","necessity":"optional"}]}"#,
            r#"{"streams":[]}"#,
            r#"{"client":{"client_id":"c"},"streams":[],"expires_at":"soon"}"#,
            r#"{"client":{"client_id":"c"},"streams":[],"expires_at":"1969-01-01"}"#,
            r#"{"client":{"client_id":"c"},"streams":[],"access_mode":"twice"}"#,
            r#"{"client":{"client_id":"c"},"streams":[{"name":"a"}],"source":{"kind":"connector","id":"a:b"}}"#,
        ]
        .into_iter()
        .map(refusal)
        .collect();
        insta::assert_snapshot!(refusals.join("\n"));
    }

    #[test]
    fn claims_of_a_client_are_passed_over_and_never_more_than_one_connection_is_meant() {
        let json = r#"{"type":"https://pdpp.dev/data-access","client":{"client_id":"c"},
            "streams":[{"name":"a"}],"client_claims":{"commitments":["x"]}}"#;
        let document = GrantDocument::parse(json.as_bytes()).unwrap();
        assert_eq!(document.passed_over(), ["client_claims"]);
        let request = document.into_request(Instant(0)).unwrap();
        assert_eq!(request.omitted_connections, OmittedConnections::OnlyOne);
    }
}
