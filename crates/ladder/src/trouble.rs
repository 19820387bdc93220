//! Why a call on the ladder was refused.

use serde_json::{Map, Value as Json};
use stile_domain::records::problem::CursorProblem;

use super::port::Declined;

/// The tools that are called with a record; the others have nothing to be missing but a stream.
const OF_RECORDS: [&str; 2] = ["fetch", "read_record_field"];

/// A refused call: what the resource server said, unchanged, or what is wrong with the call itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// The resource server says so.
    Declined(Declined),
    /// The call is wrong, and nothing was read.
    Call {
        /// A stable name.
        code: &'static str,
        /// What is wrong and what to send instead.
        message: String,
        /// Which argument.
        param: Option<&'static str>,
    },
    /// A cursor or a handle leads nowhere.
    Lost(CursorProblem),
}

impl From<Declined> for Trouble {
    fn from(declined: Declined) -> Self {
        // `fetch` calls it `cursor`, and an address has it inside.
        match (declined.code(), declined.param()) {
            ("invalid_cursor", "fields_cursor") => {
                Self::Lost(declined.reason().unwrap_or(CursorProblem::Malformed))
            }
            _ => Self::Declined(declined),
        }
    }
}

impl Trouble {
    /// Arguments that do not fit the schema.
    pub(super) fn arguments(message: impl Into<String>) -> Self {
        Self::Call { code: "invalid_arguments", message: message.into(), param: None }
    }

    /// One argument that cannot be used.
    pub(super) fn call(
        code: &'static str,
        param: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self::Call { code, message: message.into(), param: Some(param) }
    }

    /// An answer that is none of this interface's.
    pub(super) fn not_understood() -> Self {
        let pairs = [
            ("type", "adapter_error"),
            ("code", "provider_error"),
            (
                "message",
                "the resource server's answer is not one that this interface has; nothing can be shown of it",
            ),
        ];
        let error =
            pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        Self::Declined(Declined { status: 502, error })
    }

    /// The object under `error`.
    pub fn to_json(&self) -> Map<String, Json> {
        let mut error = Map::new();
        let mut put = |name: &str, value: Json| drop(error.insert(name.to_owned(), value));
        match self {
            Self::Declined(declined) => return declined.error.clone(),
            Self::Call { code, message, param } => {
                put("type", "adapter_error".into());
                put("code", (*code).into());
                put("message", message.as_str().into());
                if let Some(param) = param {
                    put("param", (*param).into());
                }
            }
            Self::Lost(why) => {
                put("type", "invalid_request_error".into());
                put("code", "invalid_cursor".into());
                put("message", lost(*why).into());
                put("reason", why.reason().into());
            }
        }
        error
    }

    /// The tool that shows what is there instead of what this one was called with, where one does.
    pub fn next(&self, tool: &str) -> Option<&'static str> {
        match self {
            Self::Declined(declined) => match declined.code() {
                "grant_stream_not_allowed"
                | "field_not_granted"
                | "unknown_field"
                | "ambiguous_connection" => Some("schema"),
                "field_not_found" | "query_not_found" => Some("fetch"),
                "not_found" if declined.param() == "stream" || !OF_RECORDS.contains(&tool) => {
                    Some("schema")
                }
                "not_found" => Some("search"),
                _ => None,
            },
            Self::Lost(CursorProblem::Stale) => Some("fetch"),
            Self::Call { .. } | Self::Lost(_) => None,
        }
    }

    /// The status that `/v1` gives it, or would.
    pub fn status(&self) -> u16 {
        match self {
            Self::Declined(declined) => declined.status,
            Self::Call { .. } | Self::Lost(_) => 400,
        }
    }
}

fn lost(why: CursorProblem) -> &'static str {
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
    fn what_is_missing_is_looked_for_where_it_is_listed() {
        let no_stream = Trouble::from(Declined::from(Problem::StreamNotFound {
            stream: "x".to_owned(),
            connection: None,
        }));
        let no_record = Trouble::from(Declined::from(Problem::NotFound));
        for tool in ["schema", "query_records", "aggregate", "search", "fetch", "read_record_field"]
        {
            assert_eq!(no_stream.next(tool), Some("schema"));
            // A server that does not say which of the two it is.
            assert_eq!(
                no_record.next(tool),
                Some(if OF_RECORDS.contains(&tool) { "search" } else { "schema" })
            );
        }
    }

    #[test]
    fn a_cursor_of_fields_is_a_cursor() {
        for why in [CursorProblem::Malformed, CursorProblem::Mismatch, CursorProblem::Stale] {
            assert_eq!(
                Trouble::from(Declined::from(Problem::InvalidFieldsCursor(why))),
                Trouble::Lost(why)
            );
            let other = Declined::from(Problem::InvalidCursor(why));
            assert_eq!(Trouble::from(other.clone()), Trouble::Declined(other));
        }
    }
}
