//! The records that a client asks for, and the grant that the owner's consent makes.
//!
//! A request names streams, fields and times. The client learns nothing of what exists before the
//! owner has decided: names are checked when the page is shown, to the owner alone.
//! [`super::record_choices`] has what the owner chooses of a request.
//!
//! *Source*: RFC 9396, sections 2 and 5; the `https://pdpp.dev/data-access` type.

use serde_json::Value;
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_records::RecordService;
use stile_records::grant_document::{ClientDocument, GrantDocument, REQUEST_TYPE};
use stile_records::grant_request::{GrantRequest, StreamGrantRequest};

use super::oauth_error::{OAuthError, OAuthErrorCode};

/// The longest `authorization_details`, in bytes.
const MAX_DETAIL_BYTES: usize = 16 * 1024;
/// The most streams of one request.
const MAX_STREAMS: usize = 32;
/// The longest purpose that the owner is asked to read, in characters.
pub const MAX_PURPOSE_CHARS: usize = 300;

/// The records of this server, and the principal that owns them.
#[derive(Clone)]
pub struct OwnedRecords {
    /// The operations on the records.
    pub service: RecordService,
    /// The owner, who makes grants.
    pub owner: Principal,
}

/// The records that a client asks for.
#[derive(Clone, Debug)]
pub struct AskedRecords {
    document: GrantDocument,
}

/// A grant that was made of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeGrant {
    /// The identifier of the grant.
    pub id: String,
    /// Whether one token is all that the grant is good for.
    pub single_use: bool,
}

impl AskedRecords {
    /// Parses `authorization_details`; `None` for an empty list.
    ///
    /// # Errors
    /// `invalid_authorization_details`.
    pub fn parse(text: &str, client: &str) -> Result<Option<Self>, OAuthError> {
        let invalid = |why: String| {
            let why = why.replace(['`', '"', '\\'], "");
            OAuthError::new(OAuthErrorCode::InvalidAuthorizationDetails, why)
        };
        let details = match serde_json::from_str(text) {
            Ok(Value::Array(details)) if text.len() <= MAX_DETAIL_BYTES => details,
            _ => return Err(invalid("authorization_details is not a JSON array".to_owned())),
        };
        let detail = match details.as_slice() {
            [] => return Ok(None),
            [detail] => detail,
            _ => return Err(invalid("a token has one grant; ask for one detail".to_owned())),
        };
        if detail.get("type").and_then(Value::as_str) != Some(REQUEST_TYPE) {
            return Err(invalid(format!("the one type here is {REQUEST_TYPE}")));
        }
        // The reason may quote the client, and an error goes into an address.
        let parsed = GrantDocument::parse(detail.to_string().as_bytes());
        let mut document = parsed.map_err(|_| invalid("the detail is malformed".to_owned()))?;
        if document.streams.is_empty() || document.streams.len() > MAX_STREAMS {
            return Err(invalid(format!("a detail names 1 to {MAX_STREAMS} streams")));
        }
        let purpose = document.purpose_description.as_deref().unwrap_or_default();
        if purpose.chars().count() > MAX_PURPOSE_CHARS {
            let why = format!("purpose_description has more than {MAX_PURPOSE_CHARS} characters");
            return Err(invalid(why));
        }
        document.client = Some(ClientDocument { client_id: client.to_owned() });
        let checked = document.clone().into_request(Instant(0));
        checked.map_err(|_| invalid("the members of the detail do not fit together".to_owned()))?;
        Ok(Some(Self { document }))
    }

    /// Returns the streams that the client asks for.
    pub fn streams(&self) -> &[StreamGrantRequest] {
        &self.document.streams
    }

    /// Returns what the client says that it wants the records for.
    pub fn purpose(&self) -> Option<&str> {
        self.document.purpose_description.as_deref()
    }

    /// Returns whether one token is all that the client asks for.
    pub fn is_single_use(&self) -> bool {
        self.document.access_mode.as_deref() == Some("single_use")
    }

    /// Returns the request for a grant of these streams, on the terms that the client asks for.
    ///
    /// # Errors
    /// The message for the owner.
    pub fn request_of(
        &self,
        streams: Vec<StreamGrantRequest>,
        now: Instant,
    ) -> Result<GrantRequest, String> {
        let mut document = self.document.clone();
        document.streams = streams;
        document.into_request(now).map_err(|error| error.to_string())
    }
}

/// Returns the request for a grant to a client of streams that the owner chose.
///
/// # Errors
/// The message for the owner.
pub fn grant_of_streams(
    client: &str,
    streams: Vec<StreamGrantRequest>,
    now: Instant,
) -> Result<GrantRequest, String> {
    let mut document = GrantDocument::of_streams(streams);
    document.client = Some(ClientDocument { client_id: client.to_owned() });
    document.into_request(now).map_err(|error| error.to_string())
}

impl OwnedRecords {
    /// Makes a grant.
    ///
    /// # Errors
    /// The message for the owner; then no grant is made.
    pub fn grant(&self, request: GrantRequest, now: Instant) -> Result<MadeGrant, String> {
        let single_use = request.single_use;
        let made = self.service.create_grant(&self.owner, now, request);
        let made = made.map_err(|error| error.to_string())?;
        Ok(MadeGrant { id: made.id, single_use })
    }

    /// Revokes a grant that nobody needs any more. The log has the reason if that fails.
    pub fn revoke(&self, grant: &str, now: Instant) {
        if let Err(problem) = self.service.revoke_grant(&self.owner, grant, now) {
            tracing::error!(target: "stile::sign_in", %problem, "a grant could not be revoked");
        }
    }
}
