//! A connection with a limit on every wait.
//!
//! Between the socket and the HTTP library, each request head is judged on its way in
//! ([`super::request_head`]), and the verdicts wait in a [`ConnectionState`] for the service that
//! answers. A connection is cut off if a head does not arrive in time, if it idles too long, or if
//! the client does not read its response. Waits inside a request body are limited where bodies are
//! read. An event stream may be silent for hours.
//!
//! If a connection is closed while the client is still sending, for example a body that is too
//! large, the bytes are read and dropped for a moment. A socket that is closed over unread bytes
//! resets, and the client would never see the response with the reason.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::options::Timeouts;
use super::request_head::{HeadScanner, HeadVerdict, StreamPosition};
use super::stranger_places::{Place, WayIn};
use crate::fair_share::{FairShare, Neighbour, Share, ShareUsedUp};

/// State that a connection shares with the service that answers its requests.
pub struct ConnectionState {
    verdicts: Mutex<VecDeque<HeadVerdict>>,
    active_requests: AtomicUsize,
    /// When the last response ended.
    free_since: Mutex<Option<Instant>>,
    /// The place among the connections of strangers, until a good token came.
    place: Place,
    /// The request through a proxy that may turn out to be a stranger's, on a connection on which
    /// a good token came before.
    proxied: Mutex<Option<(IpAddr, WayIn)>>,
    /// The share of connections that the last admitted caller holds with this one.
    share: Mutex<Option<Share>>,
}

/// How many bytes are read and dropped while closing.
const LINGER_BYTES: usize = 512 * 1024;
/// How long bytes are read and dropped while closing.
const LINGER: Duration = Duration::from_secs(1);

impl ConnectionState {
    /// The state of a new connection, which is a stranger's.
    pub fn new(place: Place) -> Arc<Self> {
        Arc::new(Self {
            verdicts: Mutex::default(),
            active_requests: AtomicUsize::new(0),
            free_since: Mutex::new(None),
            place,
            proxied: Mutex::default(),
            share: Mutex::default(),
        })
    }

    /// Counts the connection for a verified caller, until it closes or another caller uses it. From
    /// now on the connection is no stranger's.
    ///
    /// # Errors
    /// [`ShareUsedUp`], if the caller has too many connections.
    pub fn admit(&self, shared: &Arc<FairShare>, caller: &Neighbour) -> Result<(), ShareUsedUp> {
        let mut share = lock(&self.share);
        if !share.as_ref().is_some_and(|share| share.is_of(caller)) {
            *share = None;
            *share = Some(shared.try_take(caller, 1)?);
        }
        *lock(&self.proxied) = None;
        self.place.leave();
        Ok(())
    }

    /// Notes where a request comes from and what it is for, before its token is verified. A
    /// connection on which a good token came stays the caller's, unless a proxy shares it out
    /// among its clients.
    pub fn begin(&self, source: IpAddr, way: WayIn) {
        if self.place.is_of_stranger() {
            self.place.begin(source, way);
        } else if self.place.is_proxied(source) {
            *lock(&self.proxied) = Some((source, way));
        }
    }

    /// Returns whether a request waits for its client and is a stranger's.
    pub fn waits_for_stranger(&self) -> bool {
        if let Some((source, way)) = lock(&self.proxied).take() {
            self.place.begin(source, way);
        }
        self.place.is_of_stranger()
    }

    /// Notes that the whole request has arrived.
    pub fn request_arrived(&self) {
        self.place.request_arrived();
    }

    /// Takes the verdict on the next request. A request without a verdict follows the last one that
    /// is allowed, and is refused.
    pub fn next_verdict(&self) -> HeadVerdict {
        let next = lock(&self.verdicts).pop_front();
        next.unwrap_or(HeadVerdict::Refuse("the request follows one that was to be the last"))
    }

    /// Marks the connection as busy until the returned value is dropped.
    pub fn start_request(self: &Arc<Self>) -> ActiveRequest {
        self.active_requests.fetch_add(1, Ordering::AcqRel);
        ActiveRequest { connection: Arc::clone(self) }
    }

    /// Completes when the connection must close to make room for another.
    pub async fn must_close(&self) {
        self.place.must_close().await;
    }

    fn free_since(&self) -> Option<Instant> {
        *lock(&self.free_since)
    }

    fn is_busy(&self) -> bool {
        self.active_requests.load(Ordering::Acquire) > 0
    }

    /// Notes that no request is active any more.
    fn answered(&self) {
        *lock(&self.free_since) = Some(Instant::now());
        *lock(&self.proxied) = None;
        if lock(&self.share).is_some() {
            self.place.leave();
        } else {
            self.place.answered();
        }
    }
}

/// A request that is being answered.
pub struct ActiveRequest {
    connection: Arc<ConnectionState>,
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if self.connection.active_requests.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.connection.answered();
        }
    }
}

/// A byte stream whose waits are limited.
pub struct BoundedStream<S> {
    inner: S,
    heads: HeadScanner,
    state: Arc<ConnectionState>,
    timeouts: Timeouts,
    /// When the head that is awaited or arriving must be complete.
    head_due: Instant,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
    closing: Option<Closing>,
}

/// A connection that has sent its last response, and whose client may still be sending.
struct Closing {
    until: Pin<Box<Sleep>>,
    left: usize,
}

impl<S> BoundedStream<S> {
    /// Limits the waits of a connection that was accepted just now.
    pub fn new(inner: S, state: Arc<ConnectionState>, timeouts: Timeouts) -> Self {
        let head_due = Instant::now() + timeouts.head;
        Self {
            inner,
            heads: HeadScanner::new(),
            state,
            timeouts,
            head_due,
            reading: None,
            writing: None,
            closing: None,
        }
    }

    fn received(&mut self, bytes: &[u8]) {
        let before = self.heads.position();
        let verdicts = &self.state.verdicts;
        let mut heads = 0;
        self.heads.feed(bytes, |verdict| {
            heads += 1;
            lock(verdicts).push_back(verdict);
        });
        match self.heads.position() {
            // A head that began before keeps its deadline, however slowly its bytes arrive.
            StreamPosition::Head if before == StreamPosition::Head && heads == 0 => {}
            StreamPosition::Head => self.head_due = Instant::now() + self.timeouts.head,
            StreamPosition::Between if before == StreamPosition::Between && heads == 0 => {}
            _ => self.head_due = Instant::now() + self.timeouts.idle,
        }
        self.reading = None;
    }

    /// Completes when the client has missed its deadline.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let due = self.head_due;
            let timer = self.reading.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let position = self.heads.position();
            if self.state.is_busy() || position == StreamPosition::Body {
                // The client is waiting for this server, or the body has its own limits.
                self.head_due = Instant::now() + self.timeouts.idle;
            } else if position == StreamPosition::Between
                && let Some(free) = self.state.free_since()
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
                    this.received(bytes);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => this.poll_overdue(cx).map(|()| Err(overdue())),
        }
    }
}

impl<S: AsyncRead + Unpin> BoundedStream<S> {
    /// Reads and drops bytes until the client closes too, or a limit is reached.
    fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
    /// Limits the wait for a client that does not read.
    fn poll_within_stall<T>(
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
        this.poll_within_stall(cx, wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.inner).poll_write_vectored(cx, pieces);
        this.poll_within_stall(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(cx);
        this.poll_within_stall(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.closing.is_none() {
            let shut = Pin::new(&mut this.inner).poll_shutdown(cx);
            match this.poll_within_stall(cx, shut) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
        }
        // Between two requests the client has sent nothing that could be lost.
        if this.heads.position() == StreamPosition::Between {
            return Poll::Ready(Ok(()));
        }
        this.poll_drained(cx).map(Ok)
    }
}
