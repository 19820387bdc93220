//! One connection's bytes, with a bound on every wait.
//!
//! Between the socket and the HTTP library: each head is judged on its way in
//! ([`super::request_head`]), and the verdicts wait in a [`ConnectionState`] for the service that answers. A head
//! that does not arrive in time, a connection that idles too long and a client that does not take
//! its answer are cut off. Waits inside a body are bounded where bodies are read, and an event
//! stream may of course be silent for hours.
//!
//! When a connection is closed while the client is still sending (a body that is too large, say),
//! what it sends is read and dropped for a moment: a socket closed over unread bytes resets, and
//! the client would never see the answer that tells it why.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Timeouts;
use super::idle_connections::IdleConnections;
use super::request_head::{HeadScanner, HeadVerdict, StreamPosition};

/// What a connection and the service that answers on it share.
pub struct ConnectionState {
    verdicts: Mutex<VecDeque<HeadVerdict>>,
    answering: AtomicUsize,
    /// When the last answer ended.
    free_since: Mutex<Option<Instant>>,
    line: IdleConnections,
    place_in_line: Mutex<Option<u64>>,
    close: CancellationToken,
}

/// How much is read and dropped while closing.
const LINGER_BYTES: usize = 512 * 1024;
/// And for how long.
const LINGER: Duration = Duration::from_secs(1);

impl ConnectionState {
    /// For a new connection, which waits in `line`.
    pub fn new(line: IdleConnections) -> Arc<Self> {
        let close = CancellationToken::new();
        let number = line.join(close.clone());
        Arc::new(Self {
            verdicts: Mutex::default(),
            answering: AtomicUsize::new(0),
            free_since: Mutex::new(None),
            line,
            place_in_line: Mutex::new(Some(number)),
            close,
        })
    }

    /// The verdict on the next request. Without one the request was not seen here, and is refused.
    pub fn verdict(&self) -> HeadVerdict {
        let next = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.unwrap_or(HeadVerdict::Refuse("the request follows one that was to be the last"))
    }

    /// Says that a request is under way, until the returned value is dropped.
    pub fn answering(self: &Arc<Self>) -> ActiveRequest {
        if self.answering.fetch_add(1, Ordering::AcqRel) == 0 {
            self.leave_line();
        }
        ActiveRequest { link: Arc::clone(self) }
    }

    /// Completes when the connection is to make room.
    pub async fn closed(&self) {
        self.close.cancelled().await;
    }

    fn free_since(&self) -> Option<Instant> {
        *self.free_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Acquire) > 0
    }

    fn leave_line(&self) {
        if let Some(number) =
            self.place_in_line.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            self.line.leave(number);
        }
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        self.leave_line();
    }
}

/// A request that is under way.
pub struct ActiveRequest {
    link: Arc<ConnectionState>,
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if self.link.answering.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.link.free_since.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Instant::now());
            let number = self.link.line.join(self.link.close.clone());
            *self.link.place_in_line.lock().unwrap_or_else(PoisonError::into_inner) = Some(number);
        }
    }
}

/// A connection with its guards.
pub struct BoundedStream<S> {
    inner: S,
    preamble: HeadScanner,
    link: Arc<ConnectionState>,
    timeouts: Timeouts,
    /// When the head that is awaited or under way must be complete.
    head_due: Instant,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
    closing: Option<Closing>,
}

/// A connection on which all was said, and whose client may still be talking.
struct Closing {
    until: Pin<Box<Sleep>>,
    left: usize,
}

impl<S> BoundedStream<S> {
    /// Guards a connection that was accepted just now.
    pub fn new(inner: S, link: Arc<ConnectionState>, timeouts: Timeouts) -> Self {
        let head_due = Instant::now() + timeouts.head;
        Self {
            inner,
            preamble: HeadScanner::new(),
            link,
            timeouts,
            head_due,
            reading: None,
            writing: None,
            closing: None,
        }
    }

    fn took_in(&mut self, bytes: &[u8]) {
        let before = self.preamble.place();
        let verdicts = &self.link.verdicts;
        let mut heads = 0;
        self.preamble.feed(bytes, |verdict| {
            heads += 1;
            verdicts.lock().unwrap_or_else(PoisonError::into_inner).push_back(verdict);
        });
        match self.preamble.place() {
            // A head that began before keeps its deadline, however it drips.
            StreamPosition::Head if before == StreamPosition::Head && heads == 0 => {}
            StreamPosition::Head => self.head_due = Instant::now() + self.timeouts.head,
            StreamPosition::Between if before == StreamPosition::Between && heads == 0 => {}
            _ => self.head_due = Instant::now() + self.timeouts.idle,
        }
        self.reading = None;
    }

    /// Whether the client has been waited for long enough.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let due = self.head_due;
            let timer = self.reading.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let place = self.preamble.place();
            if self.link.is_answering() || place == StreamPosition::Body {
                // It is the client that waits.
                self.head_due = Instant::now() + self.timeouts.idle;
            } else if place == StreamPosition::Between
                && let Some(free) = self.link.free_since()
            {
                self.head_due = self.head_due.max(free + self.timeouts.idle);
            }
            if Instant::now() >= self.head_due {
                return Poll::Ready(());
            }
            self.reading = None;
        }
    }
}

fn overdue() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match Pin::new(&mut this.inner).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                if let Some(bytes) = buffer.filled().get(before..)
                    && !bytes.is_empty()
                {
                    this.took_in(bytes);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => this.poll_overdue(cx).map(|()| Err(overdue())),
        }
    }
}

impl<S: AsyncRead + Unpin> BoundedStream<S> {
    /// Reads and drops what still comes, until the client has closed too or enough was read.
    fn poll_silent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let closing = self.closing.get_or_insert_with(|| Closing {
            until: Box::pin(sleep_until(Instant::now() + LINGER)),
            left: LINGER_BYTES,
        });
        if closing.until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut dropped = [0; 8 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut dropped);
            match Pin::new(&mut self.inner).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && closing.left > 0 => {
                    closing.left = closing.left.saturating_sub(buffer.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> BoundedStream<S> {
    /// Bounds the wait for a client that takes nothing.
    fn poll_taken<T>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.writing = None;
            return wrote;
        }
        let stall = self.timeouts.stall;
        let timer =
            self.writing.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + stall)));
        timer.as_mut().poll(cx).map(|()| Err(overdue()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.poll_taken(cx, wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.inner).poll_write_vectored(cx, pieces);
        this.poll_taken(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(cx);
        this.poll_taken(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.closing.is_none() {
            let shut = Pin::new(&mut this.inner).poll_shutdown(cx);
            match this.poll_taken(cx, shut) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
        }
        // Between two requests nothing is on its way that could be answered.
        if this.preamble.place() == StreamPosition::Between {
            return Poll::Ready(Ok(()));
        }
        this.poll_silent(cx).map(Ok)
    }
}
