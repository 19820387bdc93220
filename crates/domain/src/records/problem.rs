//! Why a request about records was refused, as the resource server reports it.
//!
//! One enum serves every way in: the type, code and message of an error are the same at `/v1`, in a
//! tool and on the command line. A message names parameters and what the caller wrote, never
//! anything that a grant hides. A record outside a grant is refused with the message for a record
//! that does not exist.

use serde_json::{Map, Value, json};

use super::{aggregator, decimal};

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A parameter is unknown, missing, repeated or malformed, or two exclude each other.
    #[error("{message}")]
    InvalidRequest {
        /// The name of the parameter.
        param: Option<String>,
        /// The error, and what to send instead.
        message: String,
    },
    /// The parameters that select a window are out of range or exclude each other.
    #[error("{message}")]
    InvalidWindow {
        /// The name of the parameter.
        param: &'static str,
        /// The error, and what to send instead.
        message: String,
    },
    /// The field's name is empty or contains U+0000.
    #[error("`field` must be the name of one top-level field, of 1 to 512 bytes without U+0000")]
    InvalidFieldPath,
    /// The cursor of a list, a window or a search cannot be used.
    #[error("{}", .0.message())]
    InvalidCursor(CursorProblem),
    /// The cursor in `changes_since` cannot be used.
    #[error("{}", .0.sync_message())]
    InvalidChangesSince(CursorProblem),
    /// The cursor to further fields of a record cannot be used.
    #[error("{}", .0.fields_message())]
    InvalidFieldsCursor(CursorProblem),
    /// The stream does not declare the field. Only the owner sees this error.
    #[error(
        "the stream does not declare the field `{field}`; the schema lists the declared fields"
    )]
    UnknownField {
        /// The name that the caller sent.
        field: String,
        /// The parameter that contained the name.
        param: String,
    },
    /// The declaration in a request's body cannot be used.
    #[error("{message}")]
    InvalidDeclaration {
        /// The error.
        message: String,
    },
    /// The server does not speak the requested protocol version.
    #[error("this server speaks PDPP-Version {supported}")]
    UnsupportedVersion {
        /// The version that the server speaks.
        supported: &'static str,
    },
    /// The token is valid but gives no access to records, or is a client's where the owner's is
    /// required.
    #[error("{message}")]
    InsufficientScope {
        /// What is required.
        message: &'static str,
    },
    /// The grant does not name the stream, or does not name the connection for it. The error is the
    /// same for a stream that does not exist.
    #[error(
        "the grant does not include the stream `{stream}`{}; the schema lists the granted streams",
        in_connection(connection.as_deref())
    )]
    StreamNotAllowed {
        /// The name that the caller sent.
        stream: String,
        /// The connection's name, if the caller sent one.
        connection: Option<String>,
    },
    /// The grant does not name the field. The error is the same for a field that does not exist.
    #[error("the grant does not include the field `{field}`; the schema lists the granted fields")]
    FieldNotGranted {
        /// The name that the caller sent.
        field: String,
        /// The parameter that contained the name.
        param: String,
    },
    /// The grant has expired.
    #[error("the grant has expired; ask the owner for a new one")]
    GrantExpired,
    /// The owner revoked the grant.
    #[error("the grant was revoked by the owner")]
    GrantRevoked,
    /// The grant is damaged or of an unknown version, and so allows nothing.
    #[error("the grant cannot be used; ask the owner for a new one")]
    GrantInvalid,
    /// Another token used the single-use grant first.
    #[error(
        "the grant is for a single token and another one has used it; ask the owner for a new grant"
    )]
    GrantConsumed,
    /// The record does not exist, or the grant hides it.
    #[error("there is no such record in the stream")]
    NotFound,
    /// The owner requests a stream that does not exist.
    #[error(
        "there is no stream `{stream}`{}; the schema lists all streams",
        in_connection(connection.as_deref())
    )]
    StreamNotFound {
        /// The name that the caller sent.
        stream: String,
        /// The connection's name, if the caller sent one.
        connection: Option<String>,
    },
    /// The owner names a grant that does not exist.
    #[error("there is no such grant; the list of grants names all of them")]
    GrantNotFound,
    /// The owner names a token that was not minted for the grant.
    #[error("the grant has no such token; the answer that returned a token names it as `jti`")]
    TokenNotFound,
    /// The record does not have the field.
    #[error("the record has no field `{field}`")]
    FieldNotFound {
        /// The name that the caller sent.
        field: String,
    },
    /// The text that the window is to lie around does not occur in the field.
    #[error("`q` does not occur in the field; simple case folding was applied to both")]
    QueryNotFound,
    /// Several granted connections have the requested record or stream.
    #[error("several connections have this; send one of them as `connection_id`")]
    AmbiguousConnection {
        /// The names of those connections.
        connections: Vec<String>,
    },
    /// Several granted connections have the stream whose declaration is requested.
    #[error(
        "several connections have this stream, each with a declaration of its own; send \
         `connection_id`"
    )]
    AmbiguousSchema {
        /// The names of those connections.
        connections: Vec<String>,
    },
    /// The store no longer knows the changes since that moment.
    #[error(
        "`changes_since` is from more than 30 days ago, or from before the records were restored \
         or the clock was set; begin again with `changes_since=beginning`"
    )]
    ChangesExpired,
    /// The blob does not exist, or no record that the caller may see refers to it.
    #[error("there is no such blob in the records that can be read")]
    BlobNotFound,
    /// The blob is larger than allowed.
    #[error("a blob has at most 4,294,967,296 bytes; nothing is stored")]
    BlobTooLarge,
    /// The blob has none of the requested bytes.
    #[error(
        "the blob has {bytes} bytes, and `Range` names none of them; leave the header out or \
         name other bytes"
    )]
    RangeNotSatisfiable {
        /// The size of the blob, in bytes.
        bytes: u64,
    },
    /// The request reads a binary field as text.
    #[error("the field `{field}` is binary and has no text; read its bytes")]
    FieldNotText {
        /// The name that the caller sent.
        field: String,
    },
    /// The request reads bytes of a field that is not binary.
    #[error(
        "the field `{field}` is not binary; read it by characters, with `offset_chars` and \
         `limit_chars`"
    )]
    FieldNotBinary {
        /// The name that the caller sent.
        field: String,
    },
    /// The relationship cannot be expanded, or not with this limit.
    #[error("{message}")]
    InvalidExpand {
        /// The name of the parameter.
        param: String,
        /// The error, and what to send instead.
        message: String,
    },
    /// The list cannot be sorted as requested.
    #[error("{message}")]
    InvalidSort {
        /// The error, and what to send instead.
        message: String,
    },
    /// The field has too many distinct values to count.
    #[error(
        "the field has more than {} different values, or more than {} MiB of them, among these \
         records; send a `filter` that leaves fewer records",
        aggregator::MAX_GROUPS,
        aggregator::MAX_GROUP_BYTES >> 20
    )]
    TooManyGroups {
        /// The parameter that named the field.
        param: &'static str,
    },
    /// A number has too many digits to be added.
    #[error(
        "the field has a number of more than {} digits before the point or {} after it; send a \
         `filter` that leaves it out",
        decimal::MAX_WHOLE,
        decimal::MAX_PLACES
    )]
    NumberTooLong,
    /// The search examined records for so long that other requests would have to wait.
    #[error("the search was stopped after 20 seconds: {}", terms.advice())]
    SearchTooBroad {
        /// What was searched for.
        terms: BroadTerms,
    },
    /// The request read records for so long that other requests would have to wait.
    #[error(
        "the server stopped reading for this request after 20 seconds; ask about fewer records: \
         narrow the request by `filter` or by time, or to one stream"
    )]
    QueryTooBroad,
    /// Another process writes, or every reader is in use.
    #[error("the store is busy; wait a second and send the request again")]
    Busy,
    /// The store cannot take a write now, or a write was cancelled. The write was undone.
    #[error(
        "the store is busy; nothing of this batch was stored. Wait a second and send the request \
         again: what was stored before is not stored twice"
    )]
    NotStored,
    /// The database takes no writes: it is a standby, its settings say so, or its tables are a
    /// newer version's.
    #[error(
        "the database takes no writes now: it is a standby, is set to read only, or has the tables \
         of a newer version; nothing was stored, and reads are answered. Send the request again \
         once it takes writes"
    )]
    TakesNoWrites,
    /// The connection to the database broke while it kept a write, so nobody knows the outcome.
    #[error(
        "the store did not say whether it kept this write. Look whether it is there, or send the \
         request again: a row that is stored already is not stored twice"
    )]
    MayBeStored,
    /// The caller's share of a resource is used up by other requests of the same caller.
    #[error(
        "your share of the server's {share} is used up by your other requests. Nothing was done. \
         Wait until some of them have ended, then send this request again"
    )]
    ShareUsedUp {
        /// The name of the resource, in the plural.
        share: &'static str,
    },
    /// The disk is full. The failed request wrote nothing.
    #[error("the disk is full; nothing of this batch was written. The owner must make room")]
    Full,
    /// The database is damaged.
    #[error(
        "the database of records is damaged; the owner must restore a backup (`stile backup` \
         makes them)"
    )]
    Corrupt,
    /// An unexpected failure. The log has an entry with the same incident number.
    #[error("the server failed; if it fails again, tell the owner the incident number {incident}")]
    Internal {
        /// The incident number.
        incident: u64,
    },
}

/// The terms of a search that examined too many records, as far as the advice depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroadTerms {
    /// One prefix and nothing else.
    OnePrefix,
    /// One word or phrase and nothing else.
    One,
    /// Several terms.
    Several,
}

impl BroadTerms {
    /// Returns why the search took long, and what to search for instead.
    fn advice(self) -> &'static str {
        match self {
            Self::OnePrefix => {
                "the prefix begins words of very many records; send a longer prefix or a further \
                 word, or search in fewer streams"
            }
            Self::One => {
                "the word occurs in very many records that do not match otherwise; send a further \
                 word, or search in fewer streams"
            }
            Self::Several => {
                "each word occurs in very many records that lack another one; search for rarer \
                 words, or in fewer streams"
            }
        }
    }
}

fn in_connection(connection: Option<&str>) -> String {
    connection.map(|name| format!(" in the connection `{name}`")).unwrap_or_default()
}

/// Why a cursor cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorProblem {
    /// This server did not make the cursor, or the cursor was changed on the way.
    Malformed,
    /// The cursor belongs to another request or another grant.
    Mismatch,
    /// The content that the cursor continues has changed.
    Stale,
}

impl CursorProblem {
    /// Returns the value of the error's member `reason`.
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
                "`changes_since` belongs to another stream, connection or grant; begin again \
                 with `beginning`"
            }
        }
    }

    fn fields_message(self) -> &'static str {
        match self {
            Self::Malformed => {
                "`fields_cursor` is not the `next_cursor` of a record's `more_fields`; begin \
                 again without it"
            }
            Self::Mismatch => {
                "`fields_cursor` belongs to another record or other `fields`; send it where it \
                 came from"
            }
            Self::Stale => {
                "the fields before `fields_cursor` have changed since; begin again without it"
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
    /// Makes an [`Problem::InvalidRequest`] for one parameter.
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self::InvalidRequest { param: Some(param.to_owned()), message: message.into() }
    }

    /// Returns whether the grant of the caller does not count, whatever the caller asks for.
    pub fn is_of_a_grant_without_effect(&self) -> bool {
        matches!(
            self,
            Self::GrantExpired | Self::GrantRevoked | Self::GrantInvalid | Self::GrantConsumed
        )
    }

    /// Refuses a request because of one parameter. The result is always an error.
    pub fn refuse<T>(param: &str, message: impl Into<String>) -> Result<T, Self> {
        Err(Self::invalid(param, message))
    }

    /// Returns the stable code and the HTTP status, as the interface's table of errors lists them.
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
            Self::NotFound
            | Self::StreamNotFound { .. }
            | Self::GrantNotFound
            | Self::TokenNotFound => ("not_found", 404),
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
            Self::SearchTooBroad { .. } => ("search_too_broad", 422),
            Self::QueryTooBroad => ("query_too_broad", 422),
            Self::Busy | Self::NotStored | Self::TakesNoWrites => ("busy", 503),
            Self::MayBeStored => ("outcome_unknown", 503),
            Self::ShareUsedUp { .. } => ("share_used_up", 429),
            Self::Full => ("storage_full", 507),
            Self::Corrupt => ("storage_corrupt", 500),
            Self::Internal { .. } => ("api_error", 500),
        }
    }

    /// Returns the value of the error's member `type`.
    pub fn kind(&self) -> &'static str {
        match self.code().1 {
            400 | 413 | 416 => "invalid_request_error",
            403 => "permission_error",
            404 => "not_found_error",
            410 => "gone_error",
            429 => "rate_limit_error",
            _ => "api_error",
        }
    }

    /// Returns the object under `error`, without `request_id`.
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
            Self::QueryNotFound | Self::SearchTooBroad { .. } => Some("q"),
            Self::ChangesExpired | Self::InvalidChangesSince(_) => Some("changes_since"),
            Self::InvalidExpand { param, .. } => Some(param),
            Self::InvalidSort { .. } => Some("sort"),
            Self::TooManyGroups { param } => Some(param),
            Self::NumberTooLong => Some("field"),
            _ => None,
        }
    }
}
