//! A request's body, read once, whole, and within bounds.

use axum::body::{Body, Bytes};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::Timeouts;

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// It is longer than allowed; the rest was not read.
    TooLarge,
    /// Its next piece, or its end, did not come in time.
    Stalled,
    /// The client went away, or the framing is broken.
    Broken,
}

/// Room made before anything has arrived, whatever length was announced.
const FIRST_ROOM: usize = 64 * 1024;

/// Reads all of a body.
///
/// # Errors
/// [`BodyError`]; one that announces more than `most` bytes is not read at all.
pub async fn read(body: Body, most: usize, timeouts: &Timeouts) -> Result<Bytes, BodyError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > most {
        return Err(BodyError::TooLarge);
    }
    timeout(timeouts.body, pieces(body, announced.min(FIRST_ROOM), most, timeouts))
        .await
        .unwrap_or(Err(BodyError::Stalled))
}

async fn pieces(
    mut body: Body,
    room: usize,
    most: usize,
    timeouts: &Timeouts,
) -> Result<Bytes, BodyError> {
    let mut bytes = Vec::with_capacity(room);
    loop {
        let piece = timeout(timeouts.stall, body.frame()).await.map_err(|_| BodyError::Stalled)?;
        let Some(piece) = piece else { return Ok(bytes.into()) };
        let Ok(piece) = piece.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if piece.len() > most - bytes.len() {
            return Err(BodyError::TooLarge);
        }
        bytes.extend_from_slice(&piece);
    }
}
