//! Answers the plainest calls of a session on stdio without the SDK.
//!
//! Such a call has a name and arguments and nothing else: it asks for no progress and names no task
//! and no version. The SDK would copy it and its answer from tree to tree, and wake several tasks
//! for it. Every other message goes to the SDK, and so does every call before the client has said
//! that it is initialized. A test holds that both ways give the same bytes.
//!
//! As with the SDK, a call that is cancelled ends by itself and gets no answer, and a call that
//! runs when the input ends is answered.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::Implementation;
use serde::Deserialize as _;
use serde_json::Value;
use stile_store::cancellation::Cancellation;
use tokio::sync::mpsc;

use crate::mcp::envelope::{Envelope, INITIALIZE};
use crate::mcp::handler::{Handler, SessionCall};

/// What the client says once it has the answer to `initialize`.
const INITIALIZED: &str = "notifications/initialized";
const CANCELLED: &str = "notifications/cancelled";
const CALL: &str = "tools/call";

/// The calls that are answered here.
pub(super) struct PlainCalls {
    handler: Handler,
    /// What the client said of itself.
    client: Option<Arc<Implementation>>,
    /// Whether the client said that it is initialized.
    is_open: bool,
    running: Arc<Running>,
}

/// The calls that run, each under its id as JSON.
#[derive(Default)]
struct Running(Mutex<HashMap<String, Cancellation>>);

impl Running {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Cancellation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlainCalls {
    /// Answers with `handler`.
    pub(super) fn new(handler: Handler) -> Self {
        Self { handler, client: None, is_open: false, running: Arc::default() }
    }

    /// Looks at a message. Returns whether the message was dealt with here; the SDK must get every
    /// other one.
    pub(super) fn takes(
        &mut self,
        message: &Envelope,
        responses: Option<&mpsc::Sender<Vec<u8>>>,
    ) -> bool {
        match message.method() {
            Some(INITIALIZE) => {
                let params = message.members().get("params");
                let client = params.and_then(|params| params.get("clientInfo"));
                let client = client.and_then(|client| Implementation::deserialize(client).ok());
                (self.client, self.is_open) = (client.map(Arc::new), false);
                false
            }
            Some(INITIALIZED) => {
                self.is_open = true;
                false
            }
            Some(CANCELLED) => self.cancel(message),
            Some(CALL) if self.is_open => responses.is_some_and(|to| self.answer(message, to)),
            _ => false,
        }
    }

    /// Cancels a call that runs here.
    fn cancel(&self, message: &Envelope) -> bool {
        let params = message.members().get("params");
        let Some(id) = params.and_then(|params| params.get("requestId")) else { return false };
        let cancelled = self.running.lock().remove(&id.to_string());
        cancelled.as_ref().map(Cancellation::cancel).is_some()
    }

    /// Begins a call if it is a plain one.
    fn answer(&self, message: &Envelope, responses: &mpsc::Sender<Vec<u8>>) -> bool {
        let Some((client, call)) = self.client.clone().zip(plain_call(message)) else {
            return false;
        };
        if !self.handler.knows_tool(&call.name) {
            return false;
        }
        let (key, cancellation) = (call.id.to_string(), Cancellation::default());
        match self.running.lock().entry(key.clone()) {
            // Two calls with one id: the protocol forbids it. The SDK answers the second.
            Entry::Occupied(_) => return false,
            Entry::Vacant(place) => place.insert(cancellation.clone()),
        };
        let (handler, running) = (self.handler.clone(), Arc::clone(&self.running));
        let responses = responses.clone();
        tokio::spawn(async move {
            let answer = handler.answer_session_call(call, &client, cancellation).await;
            if running.lock().remove(&key).is_some() {
                // An error means that nobody reads. The input will end too.
                let _ = responses.send(answer.into_bytes()).await;
            }
        });
        true
    }
}

/// Returns the call in a message that has nothing but a name and arguments.
fn plain_call(message: &Envelope) -> Option<SessionCall> {
    let (members, id) = (message.members(), message.id()?.clone());
    let params = members.get("params")?.as_object()?;
    let name = params.get("name")?.as_str()?.to_owned();
    let arguments = match params.get("arguments") {
        None => Value::Null,
        Some(arguments) => Value::Object(arguments.as_object()?.clone()),
    };
    let known = 1 + usize::from(params.contains_key("arguments"));
    (members.len() == 4 && params.len() == known).then_some(SessionCall { id, name, arguments })
}
