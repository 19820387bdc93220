//! Why a call of a remote note tool fails, and the one form in which callers read it:
//! `{"error","code"}`.

use serde_json::{Value, json};
use stile_domain::tool_name::ShownTools;

use super::source::UpstreamFailure;
use crate::answer::{Answer, Failure};
use crate::arguments::ArgumentError;
use crate::notes::note_tool::invalid_path;
use crate::tool::{Denial, ToolError};

/// The code of every refusal, whatever its cause.
pub const CODE: &str = "UPSTREAM_ERROR";

/// Why a call failed. No variant has room for what was sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteNoteError {
    /// `path` is missing, is not a string, or is unsafe.
    InvalidPath,
    /// There is an argument beside `path`.
    InvalidArguments,
    /// The note is larger than the parser accepts.
    TooLarge,
    /// The server that has the notes did not send the note.
    Upstream(UpstreamFailure),
    /// A fault of this program.
    Internal {
        /// A number that the user can give to the operator.
        incident: u64,
    },
}

impl RemoteNoteError {
    /// Returns the message that the caller reads.
    pub fn message(self) -> String {
        match self {
            Self::InvalidPath => "Invalid path".to_owned(),
            Self::InvalidArguments => "Invalid arguments".to_owned(),
            Self::TooLarge | Self::Upstream(UpstreamFailure::TooLarge) => {
                "Note too large".to_owned()
            }
            // The server would have answered 403.
            Self::Upstream(UpstreamFailure::NotForwarded | UpstreamFailure::OutOfScope) => {
                "Upstream 403".to_owned()
            }
            Self::Upstream(UpstreamFailure::Status(status)) => format!("Upstream {status}"),
            Self::Upstream(UpstreamFailure::Timeout) => "Upstream timeout".to_owned(),
            Self::Upstream(UpstreamFailure::Unavailable) => "Upstream unavailable".to_owned(),
            Self::Upstream(UpstreamFailure::InvalidResponse) => {
                "Upstream invalid response".to_owned()
            }
            Self::Internal { incident } => {
                format!("Internal error; give the user incident number {incident}")
            }
        }
    }

    /// Returns the outcome label for logs and metrics.
    pub fn class(self) -> &'static str {
        match self {
            Self::InvalidPath => "invalid_path",
            Self::InvalidArguments => "invalid_arguments",
            Self::TooLarge | Self::Upstream(UpstreamFailure::TooLarge) => "too_large",
            Self::Upstream(UpstreamFailure::NotForwarded) => "not_forwarded",
            Self::Upstream(UpstreamFailure::OutOfScope) => "out_of_scope",
            Self::Upstream(UpstreamFailure::Status(_)) => "upstream_status",
            Self::Upstream(UpstreamFailure::Timeout) => "upstream_timeout",
            Self::Upstream(UpstreamFailure::Unavailable) => "upstream_unavailable",
            Self::Upstream(UpstreamFailure::InvalidResponse) => "upstream_invalid",
            Self::Internal { .. } => "internal",
        }
    }

    /// Returns the class of the HTTP status that the server answered with; `none` if it is unknown.
    pub fn status_class(self) -> &'static str {
        match self {
            Self::Upstream(UpstreamFailure::Status(status)) => match status / 100 {
                1 => "1xx",
                2 => "2xx",
                3 => "3xx",
                4 => "4xx",
                5 => "5xx",
                _ => "other",
            },
            Self::TooLarge
            | Self::Upstream(UpstreamFailure::TooLarge | UpstreamFailure::InvalidResponse) => "2xx",
            _ => "none",
        }
    }
}

impl ToolError for RemoteNoteError {
    const IS_LOGGED: bool = false;

    fn from_arguments(error: ArgumentError, arguments: &Value) -> Self {
        match invalid_path(&error, arguments) {
            Some(_) => Self::InvalidPath,
            None => Self::InvalidArguments,
        }
    }

    fn internal(incident: u64) -> Self {
        Self::Internal { incident }
    }

    fn into_answer(self, _: &'static str, _: ShownTools) -> Answer {
        let incident = match self {
            Self::Internal { incident } => Some(incident),
            _ => None,
        };
        let failure = Failure {
            code: self.class().into(),
            incident,
            outcome: self.class(),
            upstream: self.status_class(),
        };
        Answer::failed(json!({ "error": self.message(), "code": CODE }), None, failure)
    }

    /// The call itself says why: `ask` of a remote note tool denies none.
    fn into_denial(self, _: ShownTools) -> Option<Denial> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_reads_as_the_contract_says() {
        let answer =
            |error: RemoteNoteError| error.into_answer("a tool", ShownTools::default()).text;
        insta::assert_snapshot!(
            [
                RemoteNoteError::InvalidPath,
                RemoteNoteError::InvalidArguments,
                RemoteNoteError::TooLarge,
                RemoteNoteError::Upstream(UpstreamFailure::TooLarge),
                RemoteNoteError::Upstream(UpstreamFailure::NotForwarded),
                RemoteNoteError::Upstream(UpstreamFailure::OutOfScope),
                RemoteNoteError::Upstream(UpstreamFailure::Status(404)),
                RemoteNoteError::Upstream(UpstreamFailure::Status(401)),
                RemoteNoteError::Upstream(UpstreamFailure::Status(403)),
                RemoteNoteError::Upstream(UpstreamFailure::Status(429)),
                RemoteNoteError::Upstream(UpstreamFailure::Status(302)),
                RemoteNoteError::Upstream(UpstreamFailure::Status(503)),
                RemoteNoteError::Upstream(UpstreamFailure::Timeout),
                RemoteNoteError::Upstream(UpstreamFailure::Unavailable),
                RemoteNoteError::Upstream(UpstreamFailure::InvalidResponse),
                RemoteNoteError::Internal { incident: 7 },
            ]
            .map(|refused| format!(
                "{} | {} | {}",
                answer(refused),
                refused.class(),
                refused.status_class()
            ))
            .join("\n")
        );
    }
}
