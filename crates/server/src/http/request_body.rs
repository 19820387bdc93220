//! Reads the body of a request once and whole, within limits of size and time; or to its end, where
//! a refusal came before.

use std::future::Future as _;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::connection::ConnectionState;
use super::options::Timeouts;
use crate::fair_share::{Share, ShareUsedUp};

/// Why a request body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The body is longer than allowed. The rest was not read.
    TooLarge,
    /// The next piece or the end did not arrive in time.
    Stalled,
    /// The caller's other requests hold too many bytes.
    ShareUsedUp(ShareUsedUp),
    /// The client disconnected, or the framing is invalid.
    Broken,
}

/// The most bytes that are allocated before anything has arrived, whatever `Content-Length` says.
const MAX_INITIAL_CAPACITY: usize = 64 * 1024;

/// The longest refused body that is read to its end, in bytes.
const MAX_DRAINED_BYTES: usize = 256 * 1024 * 1024;
/// How long a refused body is read.
const MAX_DRAIN: Duration = Duration::from_secs(10);

/// The longest body that is read after its request was answered, in bytes: a message is shorter.
const MAX_LEFT_BYTES: u64 = 64 * 1024;
/// How long such a body is read.
const MAX_LEFT_WAIT: Duration = Duration::from_secs(1);

/// How long the whole body of a stranger's request may take, from the end of its head. The
/// longest that strangers may send is a form of some kilobytes.
const STRANGER_BODY: Duration = Duration::from_secs(10);

/// What a handler leaves of a request body. A connection is used again only when the body of its
/// last request was read, so a client that was refused would find it closed.
pub struct LeftBody(Arc<Mutex<Body>>);

impl LeftBody {
    /// Returns the body for the handler, and what will be left of it. The body of a stranger must
    /// arrive within ten seconds from now.
    pub fn of(body: Body, connection: &Arc<ConnectionState>) -> (Body, Self) {
        let left = Arc::new(Mutex::new(Body::empty()));
        let lent = LentBody {
            inner: body,
            left: Arc::clone(&left),
            connection: Arc::clone(connection),
            due: Instant::now() + STRANGER_BODY,
            timer: None,
        };
        lent.note_arrival();
        (Body::new(lent), Self(left))
    }

    /// Reads and drops what is left, if that is short and comes soon. Returns whether the end came.
    pub async fn reaches_its_end(self) -> bool {
        let left = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if left.is_end_stream() {
            return true;
        }
        if left.size_hint().upper().is_none_or(|bytes| bytes > MAX_LEFT_BYTES) {
            return false;
        }
        timeout(MAX_LEFT_WAIT, left.collect()).await.is_ok_and(|read| read.is_ok())
    }
}

/// A body that is given back when it is dropped.
struct LentBody {
    inner: Body,
    left: Arc<Mutex<Body>>,
    connection: Arc<ConnectionState>,
    /// When the body must be whole if its connection is a stranger's.
    due: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl LentBody {
    fn note_arrival(&self) {
        if self.inner.is_end_stream() {
            self.connection.request_arrived();
        }
    }

    /// Completes when the client of a body that has not arrived has no more time.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.connection.waits_for_stranger() {
            return Poll::Pending;
        }
        let due = self.due;
        self.timer.get_or_insert_with(|| Box::pin(sleep_until(due))).as_mut().poll(cx)
    }
}

impl HttpBody for LentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Pending => this
                .poll_overdue(cx)
                .map(|()| Some(Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut))))),
            Poll::Ready(None) => {
                this.connection.request_arrived();
                Poll::Ready(None)
            }
            frame => {
                this.note_arrival();
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for LentBody {
    fn drop(&mut self) {
        let inner = mem::take(&mut self.inner);
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = inner;
    }
}

/// Reads a body of at most `max_bytes`, counted in `held` as they arrive.
///
/// # Errors
/// [`BodyError`]. Of a body whose `Content-Length` is larger nothing is kept.
pub async fn read(
    body: Body,
    max_bytes: usize,
    timeouts: &Timeouts,
    held: &mut Share,
) -> Result<Bytes, BodyError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > max_bytes {
        drain(body, announced, timeouts).await;
        return Err(BodyError::TooLarge);
    }
    timeout(timeouts.body, read_pieces(body, announced, max_bytes, timeouts, held))
        .await
        .unwrap_or(Err(BodyError::Stalled))
}

/// Reads and drops a body that is refused, if it is not much too long. Clients that send a whole
/// body before they read would otherwise find the connection closed, and never see the answer.
pub async fn drain(mut body: Body, announced: usize, timeouts: &Timeouts) {
    if announced > MAX_DRAINED_BYTES {
        return;
    }
    let pieces = async { while let Some(Ok(_)) = body.frame().await {} };
    // The client learns of its body's size in any case, at worst from a closed connection.
    let _ = timeout(timeouts.stall.min(MAX_DRAIN), pieces).await;
}

async fn read_pieces(
    mut body: Body,
    announced: usize,
    max_bytes: usize,
    timeouts: &Timeouts,
    held: &mut Share,
) -> Result<Bytes, BodyError> {
    let mut bytes = Vec::with_capacity(announced.min(MAX_INITIAL_CAPACITY));
    loop {
        let piece = timeout(timeouts.stall, body.frame()).await.map_err(|_| BodyError::Stalled)?;
        let Some(piece) = piece else { return Ok(bytes.into()) };
        let Ok(piece) = piece.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if piece.len() > max_bytes - bytes.len() {
            return Err(BodyError::TooLarge);
        }
        held.grow(piece.len()).map_err(BodyError::ShareUsedUp)?;
        bytes.extend_from_slice(&piece);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures::StreamExt as _;
    use futures::stream;
    use tokio::time::sleep;

    use super::*;
    use crate::fair_share::{FairShare, Neighbour, Resource};
    use crate::http::stranger_places::StrangerPlaces;

    /// A body of which a byte arrives every three seconds.
    fn slow(bytes: usize) -> Body {
        let pieces = stream::iter(0..bytes).then(async |_| {
            sleep(Duration::from_secs(3)).await;
            Ok::<_, std::convert::Infallible>(Bytes::from_static(b"x"))
        });
        Body::from_stream(pieces)
    }

    async fn read_as(connection: &Arc<ConnectionState>, bytes: usize) -> (bool, Duration) {
        let begun = Instant::now();
        let (body, _left) = LeftBody::of(slow(bytes), connection);
        (body.collect().await.is_ok(), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn the_body_of_a_stranger_has_a_deadline_however_steadily_it_arrives() {
        let places = StrangerPlaces::new(8);
        let connection = ConnectionState::new(places.take(IpAddr::from([192, 0, 2, 1])));
        assert_eq!(read_as(&connection, 20).await, (false, STRANGER_BODY));
        assert!(read_as(&connection, 3).await.0, "a body that is whole in time");
        let connections = FairShare::new(Resource::Connections, 8, 1, Duration::ZERO);
        connection.admit(&connections, &Neighbour::stranger("ann", "laptop")).unwrap();
        assert!(read_as(&connection, 20).await.0, "the body of a verified caller");
    }
}
