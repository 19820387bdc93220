//! How a refusal of the file and note tools reads: code, message and more in an `error` object.

use serde_json::{Value, json};
use stile_domain::error::Refusal;
use stile_domain::path::SpacePath;
use stile_domain::tool_name::ShownTools;

use crate::answer::{Answer, Failure};
use crate::arguments::ArgumentError;
use crate::tool::{Denial, ToolError};

impl ToolError for Refusal {
    fn from_arguments(error: ArgumentError, _: &Value) -> Self {
        match error {
            ArgumentError::Path { name, why } => Self::InvalidPath { argument: name.into(), why },
            other => Self::invalid_argument(other.to_string()),
        }
    }

    fn internal(incident: u64) -> Self {
        Self::Internal { incident }
    }

    fn journal_full(_: u64) -> Self {
        Self::JournalFull
    }

    fn unknown_outcome(path: SpacePath, _: u64) -> Self {
        Self::UnknownOutcome { path }
    }

    fn into_answer(self, _: &'static str, names: ShownTools) -> Answer {
        let structured = json!({ "error": self.to_json(names) });
        Answer::failed(structured, Some(self.message(names)), failure(&self))
    }

    fn into_denial(self, names: ShownTools) -> Option<Denial> {
        let Self::InsufficientScope { needed, .. } = &self else { return None };
        let scopes = needed.iter().map(ToString::to_string).collect();
        Some(Denial { code: self.code().0, message: self.message(names), scopes })
    }
}

/// Returns what the journal and the metrics record of a refusal.
pub(crate) fn failure(refusal: &Refusal) -> Failure {
    let incident = match refusal {
        Refusal::Internal { incident } => Some(*incident),
        _ => None,
    };
    let code = refusal.code().0;
    Failure { code: code.into(), incident, outcome: code, upstream: "none" }
}
