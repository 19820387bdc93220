//! `POST /v1/ingest/{stream}`: JSON Lines of any length, stored batch by batch as they come.
//!
//! The body is read by this task and the store is written by a thread that may block; between them
//! wait a few pieces, so that neither gets ahead of the other. A body that stalls or breaks off
//! ends the ingest: whole batches that were stored stay, and the rest is not there. Only an empty
//! piece says that the body was whole. Where the store has an answer before that, the sender need
//! not send the rest to get it.

use std::io::{self, BufRead, Read};

use axum::body::{Body, Bytes};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_records::calls::Call;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{V1, blocking, json_answer, now};

/// Pieces of a body that wait for the store.
const WAITING: usize = 8;

/// Stores what comes.
pub(super) async fn answer(
    v1: &V1,
    caller: Principal,
    call: Call,
    body: Body,
) -> Result<Response<Body>, Problem> {
    let services = v1.services.clone();
    let store = move |lines: &mut dyn BufRead| {
        services.ingest(&caller, now(), &call.stream, &call.pairs, lines)
    };
    Ok(json_answer(StatusCode::OK, received(v1, body, store).await?.to_string()))
}

/// Has a thread that may block do something with a body as it comes.
pub(super) async fn received<T: Send + 'static>(
    v1: &V1,
    mut body: Body,
    store: impl FnOnce(&mut dyn BufRead) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let (pieces, received) = mpsc::channel(WAITING);
    let storing =
        blocking(move || store(&mut Pieces { received, piece: Bytes::new(), ended: false }));
    let stall = v1.timeouts.stall;
    let reading = async move {
        loop {
            let piece = match timeout(stall, body.frame()).await {
                Ok(None) => {
                    let _ = pieces.send(Ok(Bytes::new())).await;
                    return;
                }
                Ok(Some(Ok(frame))) => frame.into_data().map_err(|_| ()),
                Ok(Some(Err(_))) | Err(_) => {
                    let _ = pieces.send(Err(io::ErrorKind::UnexpectedEof.into())).await;
                    return;
                }
            };
            // What is no data are trailers, which say nothing here. A store that has finished wants
            // no more.
            if let Ok(piece) = piece
                && !piece.is_empty()
                && pieces.send(Ok(piece)).await.is_err()
            {
                return;
            }
        }
    };
    tokio::pin!(storing);
    tokio::select! {
        biased;
        stored = &mut storing => stored,
        () = reading => storing.await,
    }
}

/// A body as it is read on the other side.
struct Pieces {
    received: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
    ended: bool,
}

impl BufRead for Pieces {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.piece.is_empty() && !self.ended {
            // Whoever goes away without a word was cut off: what came of the last line may look
            // whole.
            self.piece = self
                .received
                .blocking_recv()
                .unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
            self.ended = self.piece.is_empty();
        }
        Ok(&self.piece)
    }

    fn consume(&mut self, amount: usize) {
        let _ = self.piece.split_to(amount.min(self.piece.len()));
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let taken = self.fill_buf()?.read(buffer)?;
        self.consume(taken);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_whole_only_where_that_is_said() {
        for whole in [true, false] {
            let (pieces, received) = mpsc::channel(WAITING);
            pieces.try_send(Ok(Bytes::from_static(b"a\nb"))).unwrap();
            if whole {
                pieces.try_send(Ok(Bytes::new())).unwrap();
            }
            drop(pieces);
            let mut read = String::new();
            let mut lines = Pieces { received, piece: Bytes::new(), ended: false };
            assert_eq!(
                (lines.read_to_string(&mut read).is_ok(), lines.fill_buf().is_ok()),
                (whole, whole)
            );
        }
    }
}
