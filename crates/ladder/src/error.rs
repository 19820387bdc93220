//! Errors of the record tools, and how an answer shows them.

use serde_json::{Map, Value as Json, json};
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::tool_name::ShownTools;
use stile_tools::answer::{Answer, Failure, ResourceLink};
use stile_tools::arguments::ArgumentError;
use stile_tools::tool::{Denial, ToolError};
use stile_tools::toolset::{ResourceError, ResourceErrorKind};

use super::budget::{MAX_ANSWER_PART_BYTES, exceeds};
use super::json_members::{members, present_members};
use super::port::{ErrorResponse, too_large};
use super::text_lines;

/// The code for a call that the token does not allow.
const INSUFFICIENT_SCOPE: &str = "insufficient_scope";

/// The tools that name a record. For the others, `not_found` can only mean the stream.
const OF_RECORDS: [&str; 2] = ["fetch", "read_record_field"];

/// Why a call failed: the error of the resource server, unchanged, or a mistake in the call.
#[derive(Clone, Debug, PartialEq)]
pub enum LadderError {
    /// The resource server refused the request.
    Server {
        /// The server's response, unchanged.
        response: ErrorResponse,
        /// A link to the bytes of a field that is not text, if the server may have any.
        bytes: Option<ResourceLink>,
    },
    /// The call is wrong. Nothing was read.
    InvalidCall {
        /// The stable name of the error.
        code: &'static str,
        /// What is wrong and what to send instead.
        message: String,
        /// The argument that is wrong, if one is.
        param: Option<&'static str>,
    },
    /// A cursor or a resource address cannot be used.
    Cursor(CursorProblem),
}

impl From<ErrorResponse> for LadderError {
    fn from(response: ErrorResponse) -> Self {
        // The tool's argument is `cursor`, and a handle contains the cursor.
        match (response.code(), response.param()) {
            ("invalid_cursor", "fields_cursor") => {
                Self::Cursor(response.reason().unwrap_or(CursorProblem::Malformed))
            }
            _ => Self::Server { response, bytes: None },
        }
    }
}

impl From<Problem> for LadderError {
    fn from(problem: Problem) -> Self {
        ErrorResponse::from(problem).into()
    }
}

impl LadderError {
    /// Makes the error for arguments that do not match the schema.
    pub(crate) fn arguments(message: impl Into<String>) -> Self {
        Self::InvalidCall { code: "invalid_arguments", message: message.into(), param: None }
    }

    /// Makes the error for one argument.
    pub(crate) fn call(
        code: &'static str,
        param: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self::InvalidCall { code, message: message.into(), param: Some(param) }
    }

    /// Makes the error for a response that does not follow the interface at `/v1`.
    pub(crate) fn invalid_response() -> Self {
        let error = members([
            ("type", "adapter_error".into()),
            ("code", "provider_error".into()),
            (
                "message",
                "the resource server's answer is not one that this interface has; nothing can be shown of it"
                    .into(),
            ),
        ]);
        ErrorResponse { status: 502, error }.into()
    }

    /// Returns the object under `error`.
    pub fn to_json(&self) -> Map<String, Json> {
        match self {
            Self::Server { response, .. } => response.error.clone(),
            Self::InvalidCall { code, message, param } => present_members([
                ("type", Some("adapter_error".into())),
                ("code", Some((*code).into())),
                ("message", Some(message.as_str().into())),
                ("param", param.map(Json::from)),
            ]),
            Self::Cursor(why) => members([
                ("type", "invalid_request_error".into()),
                ("code", "invalid_cursor".into()),
                ("message", cursor_message(*why).into()),
                ("reason", why.reason().into()),
            ]),
        }
    }

    /// Returns the tool to call next, if one shows what exists.
    pub fn next(&self, tool: &str) -> Option<&'static str> {
        match self {
            Self::Server { response, .. } => match response.code() {
                "grant_stream_not_allowed"
                | "field_not_granted"
                | "unknown_field"
                | "ambiguous_connection" => Some("schema"),
                "field_not_found" | "query_not_found" => Some("fetch"),
                "not_found" if response.param() == "stream" || !OF_RECORDS.contains(&tool) => {
                    Some("schema")
                }
                "not_found" => Some("search"),
                _ => None,
            },
            Self::Cursor(CursorProblem::Stale) => Some("fetch"),
            Self::InvalidCall { .. } | Self::Cursor(_) => None,
        }
    }

    /// Returns the HTTP status that `/v1` gives the error, or would give it.
    pub fn status(&self) -> u16 {
        match self {
            Self::Server { response, .. } => response.status,
            Self::InvalidCall { .. } | Self::Cursor(_) => 400,
        }
    }
}

impl ToolError for LadderError {
    fn from_arguments(error: ArgumentError, _: &Json) -> Self {
        Self::arguments(error.to_string())
    }

    fn internal(incident: u64) -> Self {
        Problem::Internal { incident }.into()
    }

    fn into_answer(self, tool: &'static str, names: ShownTools) -> Answer {
        let mut error = self.to_json();
        let next = self.next(tool).filter(|next| names.has(next));
        if let Some(next) = next.filter(|_| !error.contains_key("next")) {
            error.insert("next".to_owned(), json!({ "tool": next }));
        }
        let failure = self.failure(&error);
        let structured = json!({ "error": error });
        if exceeds(&structured, MAX_ANSWER_PART_BYTES) {
            return Self::from(too_large()).into_answer(tool, ShownTools::default());
        }
        let links = match self {
            Self::Server { bytes: Some(link), .. } => vec![link],
            _ => Vec::new(),
        };
        let text = text_lines::escape_line_breaks(structured.to_string());
        Answer { links, ..Answer::failed(structured, Some(text), failure) }
    }

    fn into_denial(self, _: ShownTools) -> Option<Denial> {
        let message =
            self.to_json().get("message").and_then(Json::as_str).unwrap_or_default().to_owned();
        Some(Denial { code: INSUFFICIENT_SCOPE, message, scopes: Vec::new() })
    }
}

impl LadderError {
    /// Returns what the journal and the metrics record. The code may be another server's, so the
    /// metrics use a word of this program.
    pub(crate) fn failure(&self, error: &Map<String, Json>) -> Failure {
        let code = error.get("code").and_then(Json::as_str).unwrap_or("error").to_owned();
        let outcome = if self.status() >= 500 { "failed" } else { "refused" };
        let incident = error.get("incident").and_then(Json::as_u64);
        Failure { code: code.into(), incident, outcome, upstream: "none" }
    }

    /// Converts the error to an error of a resource with the same error object.
    pub(crate) fn into_resource_error(self) -> ResourceError {
        let data = self.to_json();
        let kind = match self.status() {
            404 => ResourceErrorKind::NotFound,
            status if status >= 500 => ResourceErrorKind::Failed,
            _ => ResourceErrorKind::Invalid,
        };
        let message = data.get("message").and_then(Json::as_str);
        let message = message.unwrap_or("the resource was not read").to_owned();
        ResourceError { kind, message, data }
    }
}

fn cursor_message(why: CursorProblem) -> &'static str {
    match why {
        CursorProblem::Malformed => {
            "this is no cursor or resource address that was given out here; begin again with `search` or `fetch`"
        }
        CursorProblem::Mismatch => {
            "this was given out for another record, field, call or grant; use it with what it came from"
        }
        CursorProblem::Stale => "what this continues has changed since; begin again with `fetch`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_domain::records::problem::Problem;

    #[test]
    fn not_found_leads_to_the_tool_that_lists_what_exists() {
        let no_stream = LadderError::from(ErrorResponse::from(Problem::StreamNotFound {
            stream: "x".to_owned(),
            connection: None,
        }));
        let no_record = LadderError::from(Problem::NotFound);
        for tool in ["schema", "query_records", "aggregate", "search", "fetch", "read_record_field"]
        {
            assert_eq!(no_stream.next(tool), Some("schema"));
            // A server may leave out which of the two it means.
            assert_eq!(
                no_record.next(tool),
                Some(if OF_RECORDS.contains(&tool) { "search" } else { "schema" })
            );
        }
    }

    #[test]
    fn an_invalid_fields_cursor_is_an_invalid_cursor() {
        for why in [CursorProblem::Malformed, CursorProblem::Mismatch, CursorProblem::Stale] {
            assert_eq!(
                LadderError::from(Problem::InvalidFieldsCursor(why)),
                LadderError::Cursor(why)
            );
            let other = ErrorResponse::from(Problem::InvalidCursor(why));
            let server = LadderError::Server { response: other.clone(), bytes: None };
            assert_eq!(LadderError::from(other), server);
        }
    }
}
