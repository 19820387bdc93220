//! The resource server that the ladder asks: in this process or over HTTP, with the same requests.
//!
//! The ladder is a client of the interface at `/v1` and of nothing beneath it. A request is an
//! operation with its parameters. The response is the JSON of `/v1`, or its error object,
//! unchanged.

use std::sync::{Arc, Mutex, OnceLock};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::request::ReadRequest;
use stile_domain::records::shown_records::ShownRecords;

/// The longest accepted response, in bytes. The ladder's parameters keep responses much shorter,
/// but a server that does not know them may send whole records.
pub const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// An error response of a resource server.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorResponse {
    /// The HTTP status, 400 or above.
    pub status: u16,
    /// The object under `error`, with `type`, `code`, `message` and further members.
    pub error: Map<String, Json>,
}

impl ErrorResponse {
    /// Returns the member `code`; empty if absent.
    pub fn code(&self) -> &str {
        self.member("code")
    }

    /// Returns the member `param`; empty if absent.
    pub fn param(&self) -> &str {
        self.member("param")
    }

    /// Returns the member `reason`, which says why a cursor was refused.
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

/// A server that answers requests about records.
pub trait RecordServer: Send + Sync + 'static {
    /// Answers a request with JSON text.
    fn send<'a>(
        &'a self,
        caller: &'a Principal,
        request: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>>;

    /// Answers as [`RecordServer::send`] does, and adds to `shown` the records that the answer has.
    /// A server that journals its requests itself adds none.
    fn send_counting<'a>(
        &'a self,
        caller: &'a Principal,
        request: ReadRequest,
        _shown: &'a Mutex<ShownRecords>,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        self.send(caller, request)
    }

    /// Returns whether the caller may see at least one record; true where finding out would cost
    /// more than a look, or fails, so that the answer to a call says why.
    fn shows_any_record<'a>(&'a self, _caller: &'a Principal) -> BoxFuture<'a, bool> {
        futures::future::ready(true).boxed()
    }

    /// Seals state that a client sends back later.
    ///
    /// # Errors
    /// If the system has no randomness.
    fn seal(&self, plain: &[u8]) -> Result<String, ErrorResponse>;

    /// Opens text from [`RecordServer::seal`]; `None` for any other text.
    fn unseal(&self, text: &str) -> Option<Vec<u8>>;

    /// Returns where to remember whether the server finds values within fields, for a server that
    /// may be another program. `None` if the server surely does.
    fn finds_inner_values(&self) -> Option<&OnceLock<bool>> {
        None
    }
}

/// Makes the error for a response longer than [`MAX_ANSWER_BYTES`].
pub fn too_large() -> ErrorResponse {
    let error = json!({
        "type": "adapter_error", "code": "answer_too_large",
        "message": "the resource server's answer is longer than is taken here; ask for fewer `fields` or a smaller `limit`",
    });
    ErrorResponse { status: 502, error: error.as_object().cloned().unwrap_or_default() }
}

/// Names the caller that a handle or a cursor is issued to: a grant, or the owner.
pub(super) fn caller_name(caller: &Principal) -> Arc<str> {
    match caller.records() {
        // Neither reads anything.
        RecordsClaim::None | RecordsClaim::Import(_) => "".into(),
        RecordsClaim::Owner => "owner".into(),
        RecordsClaim::Grant(grant) => format!("grant:{grant}").into(),
    }
}
