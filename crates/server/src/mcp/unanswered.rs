//! Answers the requests that were not answered when their session ended.
//!
//! The SDK ends the streams of a session that ends, whether their requests were answered or not. A
//! client that waits for an answer without a timeout would then wait for ever. So the stream of a
//! request that was not answered, and that its client did not cancel, ends with an error.

use std::collections::HashMap;
use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, StreamExt as _, stream};
use rmcp::ErrorData;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};

use super::envelope;

type Key = (SessionId, RequestId);
/// Each request with whether its client cancelled it.
type Table = Arc<Mutex<HashMap<Key, Arc<AtomicBool>>>>;

/// The requests of all sessions that wait for an answer.
#[derive(Default)]
pub(super) struct Unanswered(Table);

/// A request that waits for an answer, until this is dropped.
pub(super) struct Waiting {
    table: Table,
    key: Key,
    is_cancelled: Arc<AtomicBool>,
    is_answered: AtomicBool,
}

impl Unanswered {
    /// Remembers a request until the returned value is dropped; `None` for a notification or a
    /// response, which nobody answers.
    pub(super) fn add(
        &self,
        session: &SessionId,
        message: &ClientJsonRpcMessage,
    ) -> Option<Waiting> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let key = (SessionId::clone(session), request.id.clone());
        let is_cancelled = Arc::new(AtomicBool::new(false));
        lock(&self.0).insert(key.clone(), Arc::clone(&is_cancelled));
        let (table, is_answered) = (Arc::clone(&self.0), AtomicBool::new(false));
        Some(Waiting { table, key, is_cancelled, is_answered })
    }

    /// Notes that a client cancels a request, if the message says so.
    pub(super) fn note_cancellation(&self, session: &SessionId, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Notification(message) = message else { return };
        let ClientNotification::CancelledNotification(cancelled) = &message.notification else {
            return;
        };
        let Some(request) = cancelled.params.request_id.clone() else { return };
        if let Some(is_cancelled) = lock(&self.0).get(&(SessionId::clone(session), request)) {
            is_cancelled.store(true, Ordering::Release);
        }
    }
}

impl Waiting {
    fn note_answer(&self, event: &ServerSseMessage) {
        let is_answer = match event.message.as_deref() {
            Some(ServerJsonRpcMessage::Response(response)) => response.id == self.key.1,
            Some(ServerJsonRpcMessage::Error(error)) => error.id.as_ref() == Some(&self.key.1),
            _ => false,
        };
        if is_answer {
            self.is_answered.store(true, Ordering::Release);
        }
    }

    /// Returns the error that ends the stream, if the request waits still.
    fn last_event(&self) -> Option<ServerSseMessage> {
        let is_over = [&self.is_answered, &self.is_cancelled];
        if is_over.iter().any(|flag| flag.load(Ordering::Acquire)) {
            return None;
        }
        let error = ErrorData::new(ErrorCode(envelope::ENDED), envelope::ENDED_TEXT, None);
        let message = ServerJsonRpcMessage::error(error, Some(self.key.1.clone()));
        Some(ServerSseMessage::from_message(message))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        // A later request may have the same id.
        if table.get(&self.key).is_some_and(|flag| Arc::ptr_eq(flag, &self.is_cancelled)) {
            table.remove(&self.key);
        }
    }
}

/// Returns the events of a request, with an error at the end if none of them is the answer.
pub(super) fn answered(
    events: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    waiting: Option<Waiting>,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    let waiting = waiting.map(Arc::new);
    let at_end = waiting.clone();
    events
        .inspect(move |event| {
            if let Some(waiting) = &waiting {
                waiting.note_answer(event);
            }
        })
        .chain(stream::iter(iter::once_with(move || at_end?.last_event()).flatten()))
}

fn lock(table: &Table) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<AtomicBool>>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
