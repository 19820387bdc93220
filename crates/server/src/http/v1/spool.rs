//! Sends an answer from the thread that reads the store to the connection.
//!
//! An answer is held until it has [`HOLD`] bytes. So most answers have a length, and a late error
//! is still an error response. A longer answer is streamed: the thread waits for a slow reader and
//! stops when the reader goes away. While the thread waits, it occupies one of the few connections
//! to the database, so the thread gives up a reader that takes less than [`SLOWEST`] on average.
//! Only an answer that ends with an empty part is complete. An error, a panic or a slow reader
//! breaks the connection off, which no client mistakes for the end.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::stream;
use http::Response;
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_records::RecordService;
use stile_records::operation_declaration::{OperationCall, ReadHandler};
use stile_records::response_sink::ResponseSink;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{panic_problem, success_status};
use crate::http::responses::json_text;

/// The bytes that are held before an answer is streamed, and the size of its parts.
const HOLD: usize = 64 * 1024;
/// The number of parts that may wait for the connection.
const WAITING: usize = 4;

/// The bytes a second that a reader must take, after the time that any reader may stall. Eight
/// readers that deliberately read at this rate occupy all connections to the database for as long
/// as their records are long.
const SLOWEST: u64 = 16 * 1024;

/// Answers a call. A reader may stall for `stall`.
pub(super) async fn answer(
    service: RecordService,
    caller: Principal,
    call: OperationCall<ReadHandler>,
    now: Instant,
    stall: Duration,
) -> Result<Response<Body>, Problem> {
    let status = success_status(call.operation);
    let (mut spool, begins, body) = Spool::new(stall);
    let work = tokio::task::spawn_blocking(move || {
        let outcome = service.answer(&caller, now, &call, &mut spool);
        spool.finish(outcome)
    });
    tokio::select! {
        biased;
        Ok(()) = begins => {}
        done = work => {
            let held = done.unwrap_or_else(|_| Err(panic_problem()))?;
            return Ok(json_text(status, held));
        }
    }
    Ok(json_text(status, body))
}

/// Returns a body of the received parts, which ends well only with an empty part.
fn body_of(received: mpsc::Receiver<Bytes>) -> Body {
    Body::from_stream(stream::unfold(Some(received), |received| async move {
        let mut received = received?;
        match received.recv().await {
            Some(end) if end.is_empty() => None,
            Some(part) => Some((Ok(part), Some(received))),
            None => Some((Err(io::Error::other("broken off")), None)),
        }
    }))
}

/// The part of an answer that was not sent yet, and the channel to the connection.
struct Spool {
    held: String,
    /// Notified once that the answer is streamed; `None` afterwards.
    begun: Option<oneshot::Sender<()>>,
    parts: mpsc::Sender<Bytes>,
    closed: bool,
    stall: Duration,
    /// [`SLOWEST`], except in tests.
    slowest: u64,
    sent: u64,
    /// The time that this thread has waited for the reader.
    waited: Duration,
}

impl ResponseSink for Spool {
    fn write(&mut self, part: &str) {
        if self.closed {
            return;
        }
        self.held.push_str(part);
        if self.held.len() >= HOLD {
            self.send();
        }
    }

    fn is_closed(&self) -> bool {
        self.closed
    }
}

impl Spool {
    fn new(stall: Duration) -> (Self, oneshot::Receiver<()>, Body) {
        let (parts, received) = mpsc::channel(WAITING);
        let (begun, begins) = oneshot::channel();
        let spool = Self {
            held: String::new(),
            begun: Some(begun),
            parts,
            closed: false,
            stall,
            slowest: SLOWEST,
            sent: 0,
            waited: Duration::ZERO,
        };
        (spool, begins, body_of(received))
    }

    fn send(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.closed = begun.send(()).is_err();
        }
        let part = Bytes::from(std::mem::take(&mut self.held));
        self.closed = self.closed || !self.try_send(part);
    }

    /// Sends a part. Returns false if the reader has gone or is too slow.
    fn try_send(&mut self, part: Bytes) -> bool {
        let length = part.len() as u64;
        let patience = self.stall + Duration::from_secs(self.sent / self.slowest);
        let since = std::time::Instant::now();
        let sending =
            async { timeout(patience.saturating_sub(self.waited), self.parts.send(part)).await };
        let taken = matches!(Handle::current().block_on(sending), Ok(Ok(())));
        self.waited += since.elapsed();
        self.sent += length;
        taken
    }

    /// Returns the whole answer if nothing was sent yet, else sends the rest and returns nothing.
    fn finish(mut self, outcome: Result<(), Problem>) -> Result<String, Problem> {
        if self.begun.is_some() {
            return outcome.map(|()| self.held);
        }
        match outcome {
            Ok(()) if self.closed => {}
            Ok(()) => {
                if !self.held.is_empty() {
                    self.send();
                }
                // An empty part, which marks the end.
                self.send();
            }
            Err(problem) => {
                tracing::warn!(target: "stile::http", code = problem.code().0, "an answer was broken off");
            }
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn spooled(stall: Duration, write: impl FnOnce(Spool) + Send + 'static) -> Body {
        let (spool, begins, body) = Spool::new(stall);
        // One of the tests makes the task panic.
        drop(tokio::task::spawn_blocking(move || write(spool)).await);
        begins.await.unwrap();
        body
    }

    #[tokio::test]
    async fn a_finished_answer_is_complete() {
        let (mut spool, _begins, body) = Spool::new(Duration::from_secs(60));
        let text = "x".repeat(HOLD / 3);
        let work = tokio::task::spawn_blocking(move || {
            (0..30).for_each(|_| spool.write(&text));
            spool.finish(Ok(()))
        });
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), 30 * (HOLD / 3));
        assert_eq!(work.await.unwrap(), Ok(String::new()));
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_gets_a_broken_answer() {
        let body = spooled(Duration::from_millis(50), |mut spool| {
            spool.slowest = u64::MAX;
            let part = "x".repeat(HOLD);
            while !spool.is_closed() {
                spool.write(&part);
            }
            spool.finish(Ok(())).unwrap();
        });
        assert!(body.await.collect().await.is_err());
    }

    #[tokio::test]
    async fn a_panic_or_an_error_in_the_middle_breaks_the_answer_off() {
        let failed = spooled(Duration::from_secs(60), |mut spool| {
            spool.write(&"x".repeat(HOLD));
            spool.finish(Err(Problem::Corrupt)).unwrap();
        });
        assert!(failed.await.collect().await.is_err());
        let panicked = spooled(Duration::from_secs(60), |mut spool| {
            spool.write(&"x".repeat(HOLD));
            panic!("in the middle");
        });
        assert!(panicked.await.collect().await.is_err());
    }
}
