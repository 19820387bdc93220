//! `POST /v1/ingest/{stream}`: JSON Lines of any length, stored batch by batch as they come.
//!
//! The body is read by this task and the store is written by a thread that may block; between them wait a few
//! pieces, so that neither gets ahead of the other. A body that stalls or breaks off ends the ingest: whole batches
//! that were stored stay, and the rest is not there.

use std::io::{self, BufRead, Read};

use axum::body::{Body, Bytes};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_tools::records::calls::Call;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{V1, blocking, json_answer, now};

/// Pieces of a body that wait for the store.
const WAITING: usize = 8;

/// Stores what comes.
pub(super) async fn answer(v1: &V1, caller: Principal, call: Call, mut body: Body) -> Result<Response<Body>, Problem> {
    let (pieces, received) = mpsc::channel(WAITING);
    let services = v1.services.clone();
    let storing = blocking(move || {
        let mut lines = Pieces { received, piece: Bytes::new() };
        services.ingest(&caller, now(), &call.stream, &call.pairs, &mut lines)
    });
    let stall = v1.timeouts.stall;
    let reading = async move {
        loop {
            let piece = match timeout(stall, body.frame()).await {
                Ok(None) => return,
                Ok(Some(Ok(frame))) => frame.into_data().map_err(|_| ()),
                Ok(Some(Err(_))) | Err(_) => {
                    let _ = pieces.send(Err(io::ErrorKind::UnexpectedEof.into())).await;
                    return;
                }
            };
            // What is no data are trailers, which say nothing here. A store that has finished wants no more.
            if let Ok(piece) = piece
                && pieces.send(Ok(piece)).await.is_err()
            {
                return;
            }
        }
    };
    let (stored, ()) = tokio::join!(storing, reading);
    Ok(json_answer(StatusCode::OK, stored?.to_string()))
}

/// A body as it is read on the other side.
struct Pieces {
    received: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl BufRead for Pieces {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.piece.is_empty() {
            match self.received.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => break,
            }
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
