//! The resource server, as the ladder asks it: in this process or over HTTP, with the same
//! requests.
//!
//! The ladder is a client of the interface at `/v1` and of nothing beneath it. A request is an
//! endpoint with its parameters; what comes back is the JSON that `/v1` answers, or its error
//! object, unchanged.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::record_id::encode_key;
use stile_domain::scope::encode_component;

use crate::records::RecordServices;
use crate::records::calls::Call;
use crate::records::endpoints::Endpoint;
use crate::records::list::Address;
use crate::records::sink::Sink;

/// The longest answer that is taken. The parameters that the ladder sends keep answers far below
/// it; a server that does not know them may send whole records.
pub const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// A request that reads.
#[derive(Clone, Debug)]
pub struct Ask {
    /// To which endpoint.
    pub endpoint: &'static Endpoint,
    /// The stream in its path, if that has one.
    pub stream: String,
    /// The record in its path, if that has one.
    pub key: String,
    /// Its parameters, not encoded.
    pub pairs: Vec<(String, String)>,
}

impl Ask {
    /// To an endpoint without a stream.
    pub fn of(endpoint: &'static Endpoint) -> Self {
        Self { endpoint, stream: String::new(), key: String::new(), pairs: Vec::new() }
    }

    /// The same with one parameter more.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.pairs.push((name.into(), value.into()));
        self
    }

    /// The same with a parameter, if there is one.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value.to_string()),
            None => self,
        }
    }

    /// The same with one name more in a list. Without the brackets a comma would be two names.
    #[must_use]
    pub fn with_name(self, list: &str, name: &str) -> Self {
        let list = if name.contains(',') { format!("{list}[]") } else { list.to_owned() };
        self.with(list, name)
    }

    /// The path, byte for byte as it is to be sent: nothing in it is a step to another place.
    pub fn path(&self) -> String {
        self.endpoint
            .path
            .replace("{stream}", &encode_key(&self.stream))
            .replace("{id}", &encode_key(&self.key))
    }

    /// The query, encoded.
    pub fn query(&self) -> String {
        let pairs = self.pairs.iter();
        let pairs: Vec<String> = pairs
            .map(|(name, value)| format!("{}={}", encode_component(name), encode_component(value)))
            .collect();
        pairs.join("&")
    }
}

/// What a resource server says against a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Declined {
    /// The HTTP status.
    pub status: u16,
    /// The object under `error`: `type`, `code`, `message` and what else it says.
    pub error: Map<String, Json>,
}

impl Declined {
    /// The member `code`.
    pub fn code(&self) -> &str {
        self.member("code")
    }

    /// The member `param`, where there is one.
    pub(super) fn param(&self) -> &str {
        self.member("param")
    }

    /// The member `reason` of a cursor that leads nowhere.
    pub(super) fn reason(&self) -> Option<CursorProblem> {
        let all = [CursorProblem::Malformed, CursorProblem::Mismatch, CursorProblem::Stale];
        all.into_iter().find(|why| why.reason() == self.member("reason"))
    }

    fn member(&self, name: &str) -> &str {
        self.error.get(name).and_then(Json::as_str).unwrap_or_default()
    }
}

impl From<Problem> for Declined {
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
        ask: Ask,
    ) -> BoxFuture<'a, Result<String, Declined>>;

    /// Seals state that a client is to bring back.
    ///
    /// # Errors
    /// Where there is no randomness.
    fn seal(&self, plain: &[u8]) -> Result<String, Declined>;

    /// Opens what [`RecordServer::seal`] made; none for everything else.
    fn unseal(&self, text: &str) -> Option<Vec<u8>>;

    /// Writes down that a call was made, where calls are written down.
    fn tell(&self, caller: &Principal, tool: &'static str, outcome: Result<(), &Map<String, Json>>);
}

/// The resource server of this process.
pub struct Stored {
    services: RecordServices,
    /// The time, by which grants are judged.
    clock: fn() -> Instant,
}

impl Stored {
    /// The records of `services`.
    pub fn new(services: RecordServices, clock: fn() -> Instant) -> Self {
        Self { services, clock }
    }
}

/// An answer that stops growing where it is longer than any should be.
#[derive(Default)]
struct Capped {
    text: String,
    is_over: bool,
}

impl Sink for Capped {
    fn put(&mut self, part: &str) {
        self.is_over = self.is_over || self.text.len() + part.len() > MAX_ANSWER_BYTES;
        if !self.is_over {
            self.text.push_str(part);
        }
    }

    fn is_gone(&self) -> bool {
        self.is_over
    }
}

impl RecordServer for Stored {
    fn ask<'a>(
        &'a self,
        caller: &'a Principal,
        ask: Ask,
    ) -> BoxFuture<'a, Result<String, Declined>> {
        let (services, caller, now) = (self.services.clone(), caller.clone(), (self.clock)());
        let address = Address { path: ask.path(), query: String::new() };
        let Ask { endpoint, stream, key, pairs } = ask;
        let call = Call { endpoint, stream, key, pairs, address };
        async move {
            let read = tokio::task::spawn_blocking(move || {
                let mut out = Capped::default();
                services.ask(&caller, now, &call, &mut out).map(|()| out)
            });
            let out = match read.await {
                Ok(done) => done?,
                // A panic, which the hook has told of.
                Err(_) => {
                    return Err(Problem::Internal { incident: stile_store::new_incident() }.into());
                }
            };
            if out.is_over { Err(too_large()) } else { Ok(out.text) }
        }
        .boxed()
    }

    fn seal(&self, plain: &[u8]) -> Result<String, Declined> {
        Ok(self.services.records.seal(plain)?)
    }

    fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.services.records.unseal(text)
    }

    fn tell(
        &self,
        caller: &Principal,
        tool: &'static str,
        outcome: Result<(), &Map<String, Json>>,
    ) {
        self.services.tell_tool(caller, tool, outcome);
    }
}

/// What is said of an answer that is longer than is taken.
pub fn too_large() -> Declined {
    let error = json!({
        "type": "adapter_error", "code": "answer_too_large",
        "message": "the resource server's answer is longer than is taken here; ask for fewer `fields` or a smaller `limit`",
    });
    Declined { status: 502, error: error.as_object().cloned().unwrap_or_default() }
}

/// For whom a handle or a cursor is made: the grant, or the owner.
pub(super) fn who(caller: &Principal) -> Arc<str> {
    match caller.records() {
        RecordsClaim::None => "".into(),
        RecordsClaim::Owner => "owner".into(),
        RecordsClaim::Grant(grant) => format!("grant:{grant}").into(),
    }
}
