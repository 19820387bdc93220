//! Each message of a session goes to one of its open event streams alone.
//!
//! A client may open several event streams for one session. The SDK sends to the one that was
//! opened first, and to none once that has ended. What a stream may be told is compared with the
//! token that the last one came with. So messages go to the stream that was opened last, and once
//! it has ended to the one before.
//!
//! *Source*: MCP 2025-11-25, transports, "Multiple Connections".

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::{Stream, StreamExt as _};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use tokio::sync::{Notify, OwnedMutexGuard, mpsc};

/// The most messages that wait for a stream whose client does not read.
const QUEUE_LENGTH: usize = 16;

/// The open event streams of all sessions.
#[derive(Default)]
pub(super) struct Outlets(Mutex<HashMap<SessionId, Arc<OfSession>>>);

/// The open event streams of one session.
#[derive(Default)]
struct OfSession {
    open: Mutex<Open>,
    /// Told when a stream was opened or has ended.
    changed: Notify,
    /// Held by the task that takes the messages from the SDK.
    turn: Arc<Turn>,
}

type Turn = tokio::sync::Mutex<()>;

/// The streams in the order in which they were opened.
#[derive(Default)]
struct Open {
    last_number: u64,
    streams: Vec<(u64, mpsc::Sender<ServerSseMessage>)>,
}

impl Outlets {
    /// Opens an event stream of a session. `source` gets the messages from the SDK, where no other
    /// stream is open.
    pub(super) async fn open<S, E>(
        &self,
        id: &SessionId,
        source: impl Future<Output = Result<S, E>>,
    ) -> Result<Outlet, E>
    where
        S: Stream<Item = ServerSseMessage> + Send + 'static,
    {
        let of_session = {
            let mut all = self.lock();
            // Of a session that the SDK closed nobody tells, and its streams have ended.
            all.retain(|_, of_session| Arc::strong_count(of_session) > 1);
            Arc::clone(all.entry(SessionId::clone(id)).or_default())
        };
        let turn = loop {
            let changed = of_session.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(stream) = of_session.add_to_others() {
                return Ok(stream);
            }
            // The stream before may have ended just now. While the SDK knows of it, it sends
            // nothing to another one.
            tokio::select! {
                turn = Arc::clone(&of_session.turn).lock_owned() => break turn,
                () = changed => {}
            }
        };
        let source = source.await?;
        let stream = of_session.add();
        tokio::spawn(pass_on(Box::pin(source), of_session, turn));
        Ok(stream)
    }

    /// Forgets a session that has ended.
    pub(super) fn forget(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<OfSession>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OfSession {
    /// Opens a stream, unless no other one is open.
    fn add_to_others(self: &Arc<Self>) -> Option<Outlet> {
        let open = self.lock();
        (!open.streams.is_empty()).then(|| self.add_to(open))
    }

    /// Opens a stream.
    fn add(self: &Arc<Self>) -> Outlet {
        self.add_to(self.lock())
    }

    fn add_to(self: &Arc<Self>, mut open: MutexGuard<'_, Open>) -> Outlet {
        let (sender, messages) = mpsc::channel(QUEUE_LENGTH);
        open.last_number += 1;
        let number = open.last_number;
        open.streams.push((number, sender));
        drop(open);
        self.changed.notify_waiters();
        Outlet { of: Arc::clone(self), number, messages }
    }

    fn remove(&self, number: u64) {
        self.lock().streams.retain(|(other, _)| *other != number);
        self.changed.notify_waiters();
    }

    /// Sends a message to the stream that was opened last, or if that has ended to the one before.
    async fn send(&self, message: ServerSseMessage) {
        loop {
            let last = self.lock().streams.last().cloned();
            let Some((number, stream)) = last else { return };
            if stream.send(message.clone()).await.is_ok() {
                return;
            }
            self.remove(number);
        }
    }

    /// Waits until no stream is open.
    async fn none_is_open(&self) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if self.lock().streams.is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open stream, until this is dropped.
pub(super) struct Outlet {
    of: Arc<OfSession>,
    number: u64,
    messages: mpsc::Receiver<ServerSseMessage>,
}

impl Stream for Outlet {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll_recv(context)
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.of.remove(self.number);
    }
}

/// Passes the messages of a session on until they end, which ends the streams, or until no stream
/// is open.
async fn pass_on(
    mut source: impl Stream<Item = ServerSseMessage> + Unpin,
    to: Arc<OfSession>,
    turn: OwnedMutexGuard<()>,
) {
    loop {
        let message = tokio::select! {
            message = source.next() => message,
            () = to.none_is_open() => None,
        };
        match message {
            Some(message) => to.send(message).await,
            None => break,
        }
    }
    to.lock().streams.clear();
    // The SDK learns that nobody listens before another stream is opened.
    drop(source);
    drop(turn);
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use rmcp::model::{ServerJsonRpcMessage, ServerNotification, ToolListChangedNotification};

    use super::*;

    fn message() -> ServerSseMessage {
        let changed = ToolListChangedNotification::default();
        let changed = ServerNotification::ToolListChangedNotification(changed);
        ServerSseMessage::from_message(ServerJsonRpcMessage::notification(changed))
    }

    #[tokio::test]
    async fn a_message_goes_to_the_stream_that_was_opened_last_and_after_it_to_the_one_before() {
        let (outlets, id) = (Outlets::default(), SessionId::from("s"));
        let (from, mut to) = mpsc::channel::<ServerSseMessage>(4);
        let source = stream::poll_fn(move |context| to.poll_recv(context));
        let open = async |source| outlets.open(&id, async { Ok::<_, Infallible>(source) }).await;
        let mut first = open(source.left_stream()).await.unwrap();
        let none = || stream::empty().right_stream();
        let mut second = open(none()).await.unwrap();
        from.send(message()).await.unwrap();
        assert!(second.next().await.is_some());
        drop(second);
        from.send(message()).await.unwrap();
        assert!(first.next().await.is_some(), "nothing else came to it before");
        drop(first);
        // Nobody listens any more, so the messages are taken from the SDK anew.
        from.closed().await;
        assert!(open(none()).await.unwrap().next().await.is_none());
    }
}
