//! Reads the body of a request once and whole, within limits of size and time.

use axum::body::{Body, Bytes};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::Timeouts;
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

/// Reads a body of at most `max_bytes`, counted in `held` as they arrive.
///
/// # Errors
/// [`BodyError`]. A body whose `Content-Length` is larger is not read at all.
pub async fn read(
    body: Body,
    max_bytes: usize,
    timeouts: &Timeouts,
    held: &mut Share,
) -> Result<Bytes, BodyError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > max_bytes {
        return Err(BodyError::TooLarge);
    }
    timeout(timeouts.body, read_pieces(body, announced, max_bytes, timeouts, held))
        .await
        .unwrap_or(Err(BodyError::Stalled))
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
