//! Why a request about records was refused, as the resource server says it.
//!
//! One enum for every way in: its type, code and message are the same at `/v1`, in a tool and on
//! the command line. A message names parameters and what the caller itself wrote, never anything
//! that a grant hides: a record outside a grant is refused in the words for one that does not
//! exist.

use serde_json::{Map, Value, json};

use super::{aggregator, decimal};

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A parameter is unknown, missing, repeated or malformed, or two exclude each other.
    #[error("{message}")]
    InvalidRequest {
        /// Which parameter.
        param: Option<String>,
        /// What is wrong and what to send instead.
        message: String,
    },
    /// The window's selectors are out of range or exclude each other.
    #[error("{message}")]
    InvalidWindow {
        /// Which parameter.
        param: &'static str,
        /// What is wrong and what to send instead.
        message: String,
    },
    /// The field's name is empty or holds U+0000.
    #[error("`field` must be the name of one top-level field, of 1 to 512 bytes without U+0000")]
    InvalidFieldPath,
    /// A cursor leads nowhere.
    #[error("{}", .0.message())]
    InvalidCursor(CursorProblem),
    /// What is to be gone on with since leads nowhere.
    #[error("{}", .0.sync_message())]
    InvalidChangesSince(CursorProblem),
    /// What is to be gone on with in a record leads nowhere.
    #[error("{}", .0.fields_message())]
    InvalidFieldsCursor(CursorProblem),
    /// The field is not declared. Said to the owner alone.
    #[error(
        "the stream does not declare the field `{field}`; `/v1/streams/{{stream}}` lists those that there are"
    )]
    UnknownField {
        /// As the caller wrote it.
        field: String,
        /// In which parameter.
        param: String,
    },
    /// The body of a request cannot be used.
    #[error("{message}")]
    InvalidDeclaration {
        /// What is wrong.
        message: String,
    },
    /// The protocol version that was asked for is not spoken.
    #[error("this server speaks PDPP-Version {supported}")]
    UnsupportedVersion {
        /// The one that is spoken.
        supported: &'static str,
    },
    /// The token is good and has nothing to do with records, or is a client's where an owner's is
    /// needed.
    #[error("{message}")]
    InsufficientScope {
        /// What is needed.
        message: &'static str,
    },
    /// The grant does not name the stream, or no such connection in it. The same where there is
    /// none.
    #[error("the grant does not include the stream `{stream}`{}; `/v1/streams` lists those that it does", connection.as_ref().map(|name| format!(" in the connection `{name}`")).unwrap_or_default())]
    StreamNotAllowed {
        /// As the caller wrote it.
        stream: String,
        /// As the caller wrote it, if it did.
        connection: Option<String>,
    },
    /// The grant does not name the field. The same where there is none.
    #[error(
        "the grant does not include the field `{field}`; `/v1/schema` lists those that it does"
    )]
    FieldNotGranted {
        /// As the caller wrote it.
        field: String,
        /// In which parameter.
        param: String,
    },
    /// The grant has ended.
    #[error("the grant has expired; ask the owner for a new one")]
    GrantExpired,
    /// The owner took the grant back.
    #[error("the grant was revoked by the owner")]
    GrantRevoked,
    /// The grant is damaged or of an unknown kind, and so allows nothing.
    #[error("the grant cannot be used; ask the owner for a new one")]
    GrantInvalid,
    /// Another token used the grant first.
    #[error(
        "the grant is for a single token and another one has used it; ask the owner for a new grant"
    )]
    GrantConsumed,
    /// There is no such record, or the grant hides it.
    #[error("there is no such record in the stream")]
    NotFound,
    /// The owner asks for a stream that there is not.
    #[error("there is no stream `{stream}`{}; `/v1/streams` lists those that there are", connection.as_ref().map(|name| format!(" in the connection `{name}`")).unwrap_or_default())]
    StreamNotFound {
        /// As the caller wrote it.
        stream: String,
        /// As the caller wrote it, if it did.
        connection: Option<String>,
    },
    /// The record has no such field.
    #[error("the record has no field `{field}`")]
    FieldNotFound {
        /// As the caller wrote it.
        field: String,
    },
    /// The text that was looked for does not occur.
    #[error("`q` does not occur in the field; simple case folding was applied to both")]
    QueryNotFound,
    /// Several granted connections have what was asked for.
    #[error("several connections have this; send one of them as `connection_id`")]
    AmbiguousConnection {
        /// Which.
        connections: Vec<String>,
    },
    /// Several granted connections have the stream whose details were asked for.
    #[error(
        "several connections have this stream, each with a declaration of its own; send `connection_id`"
    )]
    AmbiguousSchema {
        /// Which.
        connections: Vec<String>,
    },
    /// What changed since is not known any more.
    #[error(
        "`changes_since` is from more than 30 days ago, or from before the records were restored or the clock was \
             set; begin again with `changes_since=beginning`"
    )]
    ChangesExpired,
    /// There is no such blob, or no record shows it to the caller.
    #[error("there is no such blob in the records that can be read")]
    BlobNotFound,
    /// A blob has more bytes than one can have.
    #[error("a blob has at most 4,294,967,296 bytes; nothing is stored")]
    BlobTooLarge,
    /// No byte that was asked for is there.
    #[error(
        "the blob has {bytes} bytes and none of those that `Range` names; leave the header out, or name others"
    )]
    RangeNotSatisfiable {
        /// How many it has.
        bytes: u64,
    },
    /// The field is binary.
    #[error(
        "the field `{field}` is binary and has no text to show; read its bytes with `offset_bytes` and `limit_bytes`"
    )]
    FieldNotText {
        /// As the caller wrote it.
        field: String,
    },
    /// Bytes are asked for of a field that is not binary.
    #[error(
        "the field `{field}` is not binary; read it by characters, with `offset_chars` and `limit_chars`"
    )]
    FieldNotBinary {
        /// As the caller wrote it.
        field: String,
    },
    /// The relation cannot be followed, or not so far.
    #[error("{message}")]
    InvalidExpand {
        /// Which parameter.
        param: String,
        /// What is wrong and what to send instead.
        message: String,
    },
    /// Lists are not sorted so.
    #[error("{message}")]
    InvalidSort {
        /// What is wrong and what to send instead.
        message: String,
    },
    /// More different values than are told apart.
    #[error("the field has more than {} different values, or more than {} MiB of them, among these records; send a `filter` that leaves fewer records", aggregator::MAX_GROUPS, aggregator::MAX_GROUP_BYTES >> 20)]
    TooManyGroups {
        /// In which parameter the field was sent.
        param: &'static str,
    },
    /// A number that is too long to be added.
    #[error(
        "the field has a number of more than {} digits before the point or {} after it; send a `filter` that leaves it out",
        decimal::MAX_WHOLE,
        decimal::MAX_PLACES
    )]
    NumberTooLong,
    /// A search passed over records for so long that others would have to wait.
    #[error(
        "the search was given up after 20 seconds: each word is in very many records that do not have all of them; look for rarer words, or in fewer streams"
    )]
    SearchTooBroad,
    /// Another process writes, or every reader is busy.
    #[error("the store is busy; wait a second and send the request again")]
    Busy,
    /// The disk is full. Nothing of what failed was written.
    #[error("the disk is full; nothing of this batch was written. The owner must make room")]
    Full,
    /// The database is damaged.
    #[error(
        "the database of records is damaged; the owner must restore a backup (`stile backup` makes them)"
    )]
    Corrupt,
    /// What nobody expected; the log has the same number.
    #[error("the server failed; if it fails again, tell the owner the incident number {incident}")]
    Internal {
        /// The line in the log.
        incident: u64,
    },
}

/// Why a cursor leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorProblem {
    /// It was not made here, or was changed on the way.
    Malformed,
    /// It belongs to another request or another grant.
    Mismatch,
    /// What it continues has changed.
    Stale,
}

impl CursorProblem {
    /// The member `reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Mismatch => "mismatch",
            Self::Stale => "stale",
        }
    }

    fn sync_message(self) -> &'static str {
        match self {
            Self::Malformed => {
                "`changes_since` must be `beginning` or the `next_changes_since` of an answer"
            }
            _ => {
                "`changes_since` belongs to another stream, connection or grant; begin again with `beginning`"
            }
        }
    }

    fn fields_message(self) -> &'static str {
        match self {
            Self::Malformed => {
                "`fields_cursor` is not the `next_cursor` of a record's `more_fields`; begin again without it"
            }
            Self::Mismatch => {
                "`fields_cursor` belongs to another record or other `fields`; send it where it came from"
            }
            Self::Stale => {
                "the fields before `fields_cursor` are others by now; begin again without it"
            }
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Malformed => {
                "`cursor` is not one that this server returned; begin again without it"
            }
            Self::Mismatch => {
                "`cursor` belongs to another request; send it with the parameters that it came from"
            }
            Self::Stale => "what `cursor` continues has changed since; begin again without it",
        }
    }
}

impl Problem {
    /// A parameter that is wrong.
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self::InvalidRequest { param: Some(param.to_owned()), message: message.into() }
    }

    /// The stable code, and the HTTP status (the interface's table of errors).
    pub fn code(&self) -> (&'static str, u16) {
        match self {
            Self::InvalidRequest { .. } => ("invalid_request", 400),
            Self::InvalidWindow { .. } => ("invalid_window", 400),
            Self::InvalidFieldPath => ("invalid_field_path", 400),
            Self::InvalidCursor(_)
            | Self::InvalidChangesSince(_)
            | Self::InvalidFieldsCursor(_) => ("invalid_cursor", 400),
            Self::UnknownField { .. } => ("unknown_field", 400),
            Self::InvalidDeclaration { .. } => ("invalid_declaration", 400),
            Self::InvalidExpand { .. } => ("invalid_expand", 400),
            Self::InvalidSort { .. } => ("invalid_sort", 400),
            Self::UnsupportedVersion { .. } => ("unsupported_version", 400),
            Self::InsufficientScope { .. } => ("insufficient_scope", 403),
            Self::StreamNotAllowed { .. } => ("grant_stream_not_allowed", 403),
            Self::FieldNotGranted { .. } => ("field_not_granted", 403),
            Self::GrantExpired => ("grant_expired", 403),
            Self::GrantRevoked => ("grant_revoked", 403),
            Self::GrantInvalid => ("grant_invalid", 403),
            Self::GrantConsumed => ("grant_consumed", 403),
            Self::NotFound | Self::StreamNotFound { .. } => ("not_found", 404),
            Self::FieldNotFound { .. } => ("field_not_found", 404),
            Self::QueryNotFound => ("query_not_found", 404),
            Self::AmbiguousConnection { .. } => ("ambiguous_connection", 409),
            Self::AmbiguousSchema { .. } => ("ambiguous_schema_detail", 409),
            Self::ChangesExpired => ("cursor_expired", 410),
            Self::BlobNotFound => ("blob_not_found", 404),
            Self::BlobTooLarge => ("blob_too_large", 413),
            Self::RangeNotSatisfiable { .. } => ("range_not_satisfiable", 416),
            Self::FieldNotText { .. } => ("field_not_text", 422),
            Self::FieldNotBinary { .. } => ("field_not_binary", 422),
            Self::TooManyGroups { .. } => ("too_many_groups", 422),
            Self::NumberTooLong => ("number_too_long", 422),
            Self::SearchTooBroad => ("search_too_broad", 422),
            Self::Busy => ("busy", 503),
            Self::Full => ("storage_full", 507),
            Self::Corrupt => ("storage_corrupt", 500),
            Self::Internal { .. } => ("api_error", 500),
        }
    }

    /// The member `type`.
    pub fn kind(&self) -> &'static str {
        match self.code().1 {
            400 | 413 | 416 => "invalid_request_error",
            403 => "permission_error",
            404 => "not_found_error",
            410 => "gone_error",
            _ => "api_error",
        }
    }

    /// The object under `error`, but for `request_id`.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut error = Map::new();
        let mut put = |name: &str, value: Value| error.insert(name.to_owned(), value);
        put("type", self.kind().into());
        put("code", self.code().0.into());
        put("message", self.to_string().into());
        if let Some(param) = self.param() {
            put("param", param.into());
        }
        match self {
            Self::InvalidCursor(why)
            | Self::InvalidChangesSince(why)
            | Self::InvalidFieldsCursor(why) => {
                drop(put("reason", why.reason().into()));
            }
            Self::Internal { incident } => drop(put("incident", (*incident).into())),
            Self::AmbiguousConnection { connections } | Self::AmbiguousSchema { connections } => {
                put(
                    "available_connections",
                    connections.iter().map(|name| json!({ "connection_id": name })).collect(),
                );
                put("retry_with", "connection_id".into());
            }
            _ => {}
        }
        error
    }

    fn param(&self) -> Option<&str> {
        match self {
            Self::InvalidRequest { param, .. } => param.as_deref(),
            Self::InvalidWindow { param, .. } => Some(param),
            Self::UnknownField { param, .. } | Self::FieldNotGranted { param, .. } => Some(param),
            Self::InvalidFieldPath | Self::FieldNotFound { .. } => Some("field"),
            Self::FieldNotText { .. } | Self::FieldNotBinary { .. } => Some("field"),
            Self::StreamNotFound { .. } => Some("stream"),
            Self::InvalidCursor(_) => Some("cursor"),
            Self::InvalidFieldsCursor(_) => Some("fields_cursor"),
            Self::QueryNotFound | Self::SearchTooBroad => Some("q"),
            Self::ChangesExpired | Self::InvalidChangesSince(_) => Some("changes_since"),
            Self::InvalidExpand { param, .. } => Some(param),
            Self::InvalidSort { .. } => Some("sort"),
            Self::TooManyGroups { param } => Some(param),
            Self::NumberTooLong => Some("field"),
            _ => None,
        }
    }
}
