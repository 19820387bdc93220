//! How a call of the gateway fails, in the one envelope of the hosted tools: `{"error","code"}`.

use serde_json::{Value, json};
use stile_domain::error::Refusal;

use super::upstream::Failure;

/// The code of every refusal, whatever its cause.
pub const CODE: &str = "UPSTREAM_ERROR";

/// Why a call was refused. No variant has room for what was sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// `path` is missing, no string, or unsafe.
    InvalidPath,
    /// There is something besides `path`.
    InvalidArguments,
    /// The note is larger than is parsed.
    TooLarge,
    /// The note did not come.
    Upstream(Failure),
    /// Something of ours broke.
    Internal {
        /// What the user can tell the operator. The log does not repeat it.
        incident: u64,
    },
}

impl Refused {
    /// What the caller is told.
    pub fn message(self) -> String {
        match self {
            Self::InvalidPath => "Invalid path".to_owned(),
            Self::InvalidArguments => "Invalid arguments".to_owned(),
            Self::TooLarge | Self::Upstream(Failure::TooLarge) => "Note too large".to_owned(),
            // The same as if the server had said so, which it would have.
            Self::Upstream(Failure::NotForwarded) => "Upstream 403".to_owned(),
            Self::Upstream(Failure::Status(status)) => format!("Upstream {status}"),
            Self::Upstream(Failure::Timeout) => "Upstream timeout".to_owned(),
            Self::Upstream(Failure::Unavailable) => "Upstream unavailable".to_owned(),
            Self::Upstream(Failure::InvalidResponse) => "Upstream invalid response".to_owned(),
            Self::Internal { incident } => {
                format!("Internal error; give the user incident number {incident}")
            }
        }
    }

    /// The structured answer.
    pub fn to_json(self) -> Value {
        json!({ "error": self.message(), "code": CODE })
    }

    /// One of a few words for logs and metrics.
    pub fn class(self) -> &'static str {
        match self {
            Self::InvalidPath => "invalid_path",
            Self::InvalidArguments => "invalid_arguments",
            Self::TooLarge | Self::Upstream(Failure::TooLarge) => "too_large",
            Self::Upstream(Failure::NotForwarded) => "not_forwarded",
            Self::Upstream(Failure::Status(_)) => "upstream_status",
            Self::Upstream(Failure::Timeout) => "upstream_timeout",
            Self::Upstream(Failure::Unavailable) => "upstream_unavailable",
            Self::Upstream(Failure::InvalidResponse) => "upstream_invalid",
            Self::Internal { .. } => "internal",
        }
    }

    /// The class of the status that the server answered with, as far as it is known.
    pub fn status_class(self) -> &'static str {
        match self {
            Self::Upstream(Failure::Status(status)) => match status / 100 {
                1 => "1xx",
                2 => "2xx",
                3 => "3xx",
                4 => "4xx",
                5 => "5xx",
                _ => "other",
            },
            Self::TooLarge | Self::Upstream(Failure::TooLarge | Failure::InvalidResponse) => "2xx",
            _ => "none",
        }
    }

    /// What arguments that did not parse are told as.
    pub(super) fn of_arguments(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::InvalidPath { .. } => Self::InvalidPath,
            _ => Self::InvalidArguments,
        }
    }
}

/// The schema of a refusal.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "error": { "type": "string" }, "code": { "type": "string", "const": CODE } },
        "required": ["error", "code"],
        "additionalProperties": false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_every_refusal_is_one_of_the_words_of_the_contract() {
        let told = |refused: Refused| refused.to_json().to_string();
        insta::assert_snapshot!(
            [
                Refused::InvalidPath,
                Refused::InvalidArguments,
                Refused::TooLarge,
                Refused::Upstream(Failure::TooLarge),
                Refused::Upstream(Failure::NotForwarded),
                Refused::Upstream(Failure::Status(404)),
                Refused::Upstream(Failure::Status(401)),
                Refused::Upstream(Failure::Status(403)),
                Refused::Upstream(Failure::Status(429)),
                Refused::Upstream(Failure::Status(302)),
                Refused::Upstream(Failure::Status(503)),
                Refused::Upstream(Failure::Timeout),
                Refused::Upstream(Failure::Unavailable),
                Refused::Upstream(Failure::InvalidResponse),
                Refused::Internal { incident: 7 },
            ]
            .map(|refused| format!(
                "{} | {} | {}",
                told(refused),
                refused.class(),
                refused.status_class()
            ))
            .join("\n")
        );
    }
}
