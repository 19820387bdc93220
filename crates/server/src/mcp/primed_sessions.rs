//! The SDK's sessions, with event streams that each revision can read.
//!
//! Revision 2025-11-25 begins a stream with an event that has an id and no data, so that a client
//! can ask for the rest if the stream breaks. Clients of older revisions parse such an event as a
//! message, fail, and give the server up, as Gemini CLI 0.61 does with 2025-06-18. The SDK sends
//! the event to all of them. *Source*: MCP 2025-11-25, transports, "Sending Messages to the
//! Server".
//! A request that was not answered when its session ended gets an error (`unanswered`).

use std::collections::HashSet;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _, future, stream};
use rmcp::model::{ClientJsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage, ServerResult};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{
    RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
};

use super::unanswered::{Unanswered, answered};

/// When a client should connect again after its stream broke.
const RETRY: Duration = Duration::from_secs(3);
/// The id of the event that begins the stream of a session.
const FIRST_EVENT: &str = "0";

/// The sessions of this process.
pub(super) struct PrimedSessions {
    inner: LocalSessionManager,
    /// The sessions whose revision defines events without data.
    primed: Mutex<HashSet<SessionId>>,
    unanswered: Unanswered,
}

type Refused = <LocalSessionManager as SessionManager>::Error;

impl PrimedSessions {
    pub(super) fn new(inner: LocalSessionManager) -> Self {
        Self { inner, primed: Mutex::default(), unanswered: Unanswered::default() }
    }

    fn is_primed(&self, id: &SessionId) -> bool {
        self.lock().contains(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.primed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the response to `initialize` agreed on a revision that has events without data.
fn agrees_on_priming(response: &ServerJsonRpcMessage) -> bool {
    match response {
        ServerJsonRpcMessage::Response(response) => match &response.result {
            ServerResult::InitializeResult(result) => {
                result.protocol_version >= ProtocolVersion::V_2025_11_25
            }
            _ => false,
        },
        _ => false,
    }
}

/// Leaves out events without data, unless `is_primed`.
fn readable(
    events: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    is_primed: bool,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    events.filter(move |event| future::ready(is_primed || event.message.is_some()))
}

impl SessionManager for PrimedSessions {
    type Error = Refused;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    fn create_session(
        &self,
    ) -> impl Future<Output = Result<(SessionId, Self::Transport), Refused>> + Send {
        self.inner.create_session()
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Refused> {
        let response = self.inner.initialize_session(id, message).await?;
        if agrees_on_priming(&response) {
            self.lock().insert(SessionId::clone(id));
        }
        Ok(response)
    }

    fn has_session(&self, id: &SessionId) -> impl Future<Output = Result<bool, Refused>> + Send {
        self.inner.has_session(id)
    }

    fn close_session(&self, id: &SessionId) -> impl Future<Output = Result<(), Refused>> + Send {
        self.lock().remove(id);
        self.inner.close_session(id)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Refused> {
        let is_primed = self.is_primed(id);
        let waiting = self.unanswered.add(id, &message);
        let events = self.inner.create_stream(id, message).await?;
        Ok(answered(readable(events, is_primed), waiting))
    }

    fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Refused>> + Send {
        self.unanswered.note_cancellation(id, &message);
        self.inner.accept_message(id, message)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Refused> {
        let is_primed = self.is_primed(id);
        let first = is_primed.then(|| ServerSseMessage::priming(FIRST_EVENT, RETRY));
        let events = self.inner.create_standalone_stream(id).await?;
        Ok(readable(stream::iter(first).chain(events), is_primed))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Refused> {
        let is_primed = self.is_primed(id);
        Ok(readable(self.inner.resume(id, last_event_id).await?, is_primed))
    }

    fn restore_session(
        &self,
        id: SessionId,
    ) -> impl Future<Output = Result<RestoreOutcome<Self::Transport>, Refused>> + Send {
        self.inner.restore_session(id)
    }
}
