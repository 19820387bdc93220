//! An answer on its way from a thread that reads the store to the connection.
//!
//! Until [`HOLD`] bytes are there the answer is held, so that most answers have a length and an
//! error that comes late is still told as one. A longer answer is streamed: a slow reader makes the
//! thread wait, and one that goes away makes it stop. While it waits, a connection to the database
//! waits with it, and of those there are few; so whoever takes less than [`SLOWEST`] in the long
//! run is given up. Only what ends with an empty part was whole: an error, a panic or a reader who
//! was given up breaks the connection off, which no client takes for the end.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::stream;
use http::{Response, StatusCode};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_records::RecordService;
use stile_records::calls::Call;
use stile_records::sink::ResponseSink;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{json_answer, panicked};

/// What is held before an answer is streamed, and the size of the parts that it is streamed in.
const HOLD: usize = 64 * 1024;
/// Parts that wait for the connection.
const WAITING: usize = 4;

/// Bytes a second that a reader must take, after the time that any may stall. Eight who read on
/// purpose as slowly as that keep all connections to the database from others for as long as a
/// record of theirs is long.
const SLOWEST: u64 = 16 * 1024;

/// Answers a call that reads. A reader may stall for `stall`.
pub(super) async fn answer(
    services: RecordService,
    caller: Principal,
    call: Call,
    now: Instant,
    stall: Duration,
) -> Result<Response<Body>, Problem> {
    let (mut spool, begins, body) = Spool::new(stall);
    let work = tokio::task::spawn_blocking(move || {
        let outcome = services.answer(&caller, now, &call, &mut spool);
        spool.finish(outcome)
    });
    tokio::select! {
        biased;
        Ok(()) = begins => {}
        done = work => {
            let held = done.unwrap_or_else(|_| Err(panicked()))?;
            return Ok(json_answer(StatusCode::OK, held));
        }
    }
    Ok(json_answer(StatusCode::OK, body))
}

/// What comes, up to the empty part that says that all of it came.
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

struct Spool {
    held: String,
    /// Told once that the answer is longer than is held; none afterwards.
    begun: Option<oneshot::Sender<()>>,
    parts: mpsc::Sender<Bytes>,
    gone: bool,
    stall: Duration,
    /// [`SLOWEST`], but for tests.
    slowest: u64,
    sent: u64,
    /// How long the reader was waited for.
    waited: Duration,
}

impl ResponseSink for Spool {
    fn write(&mut self, part: &str) {
        if self.gone {
            return;
        }
        self.held.push_str(part);
        if self.held.len() >= HOLD {
            self.send();
        }
    }

    fn is_closed(&self) -> bool {
        self.gone
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
            gone: false,
            stall,
            slowest: SLOWEST,
            sent: 0,
            waited: Duration::ZERO,
        };
        (spool, begins, body_of(received))
    }

    fn send(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.gone = begun.send(()).is_err();
        }
        let part = Bytes::from(std::mem::take(&mut self.held));
        self.gone = self.gone || !self.is_taken(part);
    }

    /// Waits until the reader has room for a part, if that is soon enough.
    fn is_taken(&mut self, part: Bytes) -> bool {
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

    /// What was held, if nothing was sent; otherwise sends the rest.
    fn finish(mut self, outcome: Result<(), Problem>) -> Result<String, Problem> {
        if self.begun.is_some() {
            return outcome.map(|()| self.held);
        }
        match outcome {
            Ok(()) if self.gone => {}
            Ok(()) => {
                if !self.held.is_empty() {
                    self.send();
                }
                // The end.
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
        // A panic of it is what one of the tests is about.
        drop(tokio::task::spawn_blocking(move || write(spool)).await);
        begins.await.unwrap();
        body
    }

    #[tokio::test]
    async fn what_ends_well_is_whole() {
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
    async fn a_reader_that_takes_nothing_is_given_up_and_sees_no_end() {
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
    async fn a_panic_and_an_error_in_the_middle_are_no_end() {
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
