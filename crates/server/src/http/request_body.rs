//! Reads the body of a request once and whole, within limits of size and time; or to its end, where
//! a refusal came before.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

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

/// What a handler leaves of a request body. A connection is used again only when the body of its
/// last request was read, so a client that was refused would find it closed.
pub struct LeftBody(Arc<Mutex<Body>>);

impl LeftBody {
    /// Returns the body for the handler, and what will be left of it.
    pub fn of(body: Body) -> (Body, Self) {
        let left = Arc::new(Mutex::new(Body::empty()));
        let lent = LentBody { inner: body, left: Arc::clone(&left) };
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
}

impl HttpBody for LentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().inner).poll_frame(cx)
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
async fn drain(mut body: Body, announced: usize, timeouts: &Timeouts) {
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
