//! The resource server, as the ladder asks it: in this process or over HTTP, with the same
//! requests.
//!
//! The ladder is a client of the interface at `/v1` and of nothing beneath it. A request is an
//! endpoint with its parameters; what comes back is the JSON that `/v1` answers, or its error
//! object, unchanged.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Map, Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::request::ReadRequest;

/// The longest answer that is taken. The parameters that the ladder sends keep answers far below
/// it; a server that does not know them may send whole records.
pub const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// The response of a resource server that refuses a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorResponse {
    /// The HTTP status.
    pub status: u16,
    /// The object under `error`: `type`, `code`, `message` and what else it says.
    pub error: Map<String, Json>,
}

impl ErrorResponse {
    /// The member `code`.
    pub fn code(&self) -> &str {
        self.member("code")
    }

    /// The member `param`, where there is one.
    pub fn param(&self) -> &str {
        self.member("param")
    }

    /// The member `reason` of a cursor that leads nowhere.
    pub fn reason(&self) -> Option<CursorProblem> {
        let all = [CursorProblem::Malformed, CursorProblem::Mismatch, CursorProblem::Stale];
        all.into_iter().find(|why| why.reason() == self.member("reason"))
    }

    fn member(&self, name: &str) -> &str {
        self.error.get(name).and_then(Json::as_str).unwrap_or_default()
    }
}

impl From<Problem> for ErrorResponse {
    fn from(problem: Problem) -> Self {
        Self { status: problem.code().1, error: problem.to_json() }
    }
}

/// A resource server.
pub trait RecordServer: Send + Sync + 'static {
    /// Answers a request, as JSON.
    fn ask<'a>(
        &'a self,
        caller: &'a Principal,
        ask: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>>;

    /// Seals state that a client is to bring back.
    ///
    /// # Errors
    /// Where there is no randomness.
    fn seal(&self, plain: &[u8]) -> Result<String, ErrorResponse>;

    /// Opens what [`RecordServer::seal`] made; none for everything else.
    fn unseal(&self, text: &str) -> Option<Vec<u8>>;
}

/// What is said of an answer that is longer than is taken.
pub fn too_large() -> ErrorResponse {
    let error = json!({
        "type": "adapter_error", "code": "answer_too_large",
        "message": "the resource server's answer is longer than is taken here; ask for fewer `fields` or a smaller `limit`",
    });
    ErrorResponse { status: 502, error: error.as_object().cloned().unwrap_or_default() }
}

/// For whom a handle or a cursor is made: the grant, or the owner.
pub(super) fn caller_name(caller: &Principal) -> Arc<str> {
    match caller.records() {
        RecordsClaim::None => "".into(),
        RecordsClaim::Owner => "owner".into(),
        RecordsClaim::Grant(grant) => format!("grant:{grant}").into(),
    }
}
