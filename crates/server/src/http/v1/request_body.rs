//! Passes the body of a request to a thread that may block, while the body arrives.
//!
//! This task reads the connection, and the thread reads a channel of a few pieces, so that neither
//! gets far ahead of the other. Only an empty piece says that the body is complete: a body that
//! stalls or breaks off is an error for the thread. If the thread finishes early, the sender gets
//! the answer without sending the rest.

use std::io::{self, BufRead, Read};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use stile_domain::records::problem::Problem;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::blocking;

/// The number of pieces that may wait for the thread.
const WAITING_PIECES: usize = 8;

/// Runs `read` on a thread that may block, with a reader of the body. The sender may stall for
/// `stall`.
pub(super) async fn with_reader<T: Send + 'static>(
    mut body: Body,
    stall: Duration,
    read: impl FnOnce(&mut dyn BufRead) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let (pieces, received) = mpsc::channel(WAITING_PIECES);
    let reading =
        blocking(move || read(&mut BodyReader { received, piece: Bytes::new(), ended: false }));
    let receiving = async move {
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
            // Trailers are ignored. A send fails when the thread has finished.
            if let Ok(piece) = piece
                && !piece.is_empty()
                && pieces.send(Ok(piece)).await.is_err()
            {
                return;
            }
        }
    };
    tokio::pin!(reading);
    tokio::select! {
        biased;
        outcome = &mut reading => outcome,
        () = receiving => reading.await,
    }
}

/// The thread's side of the channel.
struct BodyReader {
    received: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
    ended: bool,
}

impl BufRead for BodyReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.piece.is_empty() && !self.ended {
            // A channel that closes without an empty piece means a body that broke off. Its last
            // line may look complete.
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

impl Read for BodyReader {
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
    fn a_body_is_complete_only_after_an_empty_piece() {
        for is_complete in [true, false] {
            let (pieces, received) = mpsc::channel(WAITING_PIECES);
            pieces.try_send(Ok(Bytes::from_static(b"a\nb"))).unwrap();
            if is_complete {
                pieces.try_send(Ok(Bytes::new())).unwrap();
            }
            drop(pieces);
            let mut read = String::new();
            let mut reader = BodyReader { received, piece: Bytes::new(), ended: false };
            assert_eq!(
                (reader.read_to_string(&mut read).is_ok(), reader.fill_buf().is_ok()),
                (is_complete, is_complete)
            );
        }
    }
}
