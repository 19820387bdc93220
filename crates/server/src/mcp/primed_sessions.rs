//! The SDK's sessions, with event streams that each revision can read.
//!
//! Revision 2025-11-25 begins a stream with an event that has an id and no data, so that a client
//! can ask for the rest if the stream breaks. Clients of older revisions parse such an event as a
//! message, fail, and give the server up, as Gemini CLI 0.61 does with 2025-06-18. The SDK sends
//! the event to all of them. *Source*: MCP 2025-11-25, transports, "Sending Messages to the
//! Server".
//! A request that was not answered when its session ended gets an error (`unanswered`).
//!
//! The SDK keeps the last notifications of a session, and begins each stream with them, whoever
//! opens it. A caller with fewer rights would see which addresses another one watched, and a client
//! would be told again what it was told. So a stream begins with none of those that were sent
//! before (`SentEvents`), and of several open streams one gets each message (`outlets`).

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _, future, stream};
use rmcp::model::{
    ClientJsonRpcMessage, ProtocolVersion, RootsListChangedNotification, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{
    RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
};

use super::outlets::Outlets;
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
    sent: SentEvents,
    outlets: Outlets,
    unanswered: Unanswered,
}

type Refused = <LocalSessionManager as SessionManager>::Error;

impl PrimedSessions {
    pub(super) fn new(inner: LocalSessionManager) -> Self {
        let (sent, unanswered) = (SentEvents::default(), Unanswered::default());
        let outlets = Outlets::default();
        Self { inner, primed: Mutex::default(), sent, outlets, unanswered }
    }

    /// Counts a session as used. Returns whether it is in memory.
    pub(super) async fn touch(&self, id: &SessionId) -> bool {
        // A notification that nothing here waits for: no other message of a client leaves the
        // session as it is.
        let roots = RootsListChangedNotification::default();
        let message = ClientJsonRpcMessage::notification(roots.into());
        self.inner.accept_message(id, message).await.is_ok()
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

/// The number of the last notification that each session was sent on an event stream of its own.
#[derive(Clone, Default)]
struct SentEvents(Arc<Mutex<HashMap<SessionId, u64>>>);

impl SentEvents {
    /// Leaves out the notifications of a session that were sent before. Events that belong to the
    /// answer of a request stay.
    fn new_ones(
        &self,
        id: &SessionId,
        events: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    ) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
        let (sent, id) = (self.clone(), SessionId::clone(id));
        events.filter(move |event| {
            let number = event.event_id.as_deref().and_then(|number| number.parse().ok());
            future::ready(number.is_none_or(|number| sent.is_new(&id, number)))
        })
    }

    /// Notes that a notification is sent. Returns whether it was not sent before.
    fn is_new(&self, id: &SessionId, number: u64) -> bool {
        let mut sent = self.lock();
        let is_new = sent.get(id).is_none_or(|last| number > *last);
        if is_new {
            sent.insert(SessionId::clone(id), number);
        }
        is_new
    }

    fn forget(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        self.sent.forget(id);
        self.outlets.forget(id);
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
        let source = async {
            let events = self.inner.create_standalone_stream(id).await?;
            Ok::<_, Refused>(self.sent.new_ones(id, events))
        };
        let events = self.outlets.open(id, source).await?;
        Ok(readable(stream::iter(first).chain(events), is_primed))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Refused> {
        let is_primed = self.is_primed(id);
        // The id of an event that belongs to the answer of a request names the request, too.
        let is_of_request = last_event_id.contains('/');
        let source = async {
            let events = self.inner.resume(id, last_event_id).await?;
            Ok::<_, Refused>(self.sent.new_ones(id, events))
        };
        let events = match is_of_request {
            true => source.await?.left_stream(),
            false => self.outlets.open(id, source).await?.right_stream(),
        };
        Ok(readable(events, is_primed))
    }

    fn restore_session(
        &self,
        id: SessionId,
    ) -> impl Future<Output = Result<RestoreOutcome<Self::Transport>, Refused>> + Send {
        // Its notifications are numbered anew.
        self.sent.forget(&id);
        self.outlets.forget(&id);
        self.inner.restore_session(id)
    }
}
