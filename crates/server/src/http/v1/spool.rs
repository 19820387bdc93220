//! An answer on its way from a thread that reads the store to the connection.
//!
//! Until [`HOLD`] bytes are there the answer is held, so that most answers have a length and an error that comes
//! late is still told as one. A longer answer is streamed: a slow reader makes the thread wait, and one that goes
//! away makes it stop. An error after the beginning breaks the connection off, which no client takes for the end.

use std::io;

use axum::body::{Body, Bytes};
use futures::stream;
use http::{Response, StatusCode};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_tools::records::RecordServices;
use stile_tools::records::calls::Call;
use stile_tools::records::sink::Sink;
use tokio::sync::{mpsc, oneshot};

use super::{json_answer, panicked};

/// What is held before an answer is streamed, and the size of the parts that it is streamed in.
const HOLD: usize = 64 * 1024;
/// Parts that wait for the connection.
const WAITING: usize = 4;

type Part = Result<Bytes, io::Error>;

/// Answers a call that reads.
pub(super) async fn answer(
    services: RecordServices,
    caller: Principal,
    call: Call,
    now: Instant,
) -> Result<Response<Body>, Problem> {
    let (parts, mut received) = mpsc::channel::<Part>(WAITING);
    let (begun, begins) = oneshot::channel();
    let work = tokio::task::spawn_blocking(move || {
        let mut spool = Spool { held: String::new(), begun: Some(begun), parts, gone: false };
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
    let parts = stream::poll_fn(move |context| received.poll_recv(context));
    Ok(json_answer(StatusCode::OK, Body::from_stream(parts)))
}

struct Spool {
    held: String,
    /// Told once that the answer is longer than is held; none afterwards.
    begun: Option<oneshot::Sender<()>>,
    parts: mpsc::Sender<Part>,
    gone: bool,
}

impl Sink for Spool {
    fn put(&mut self, part: &str) {
        if self.gone {
            return;
        }
        self.held.push_str(part);
        if self.held.len() >= HOLD {
            self.send();
        }
    }

    fn is_gone(&self) -> bool {
        self.gone
    }
}

impl Spool {
    fn send(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.gone = begun.send(()).is_err();
        }
        let part = Bytes::from(std::mem::take(&mut self.held));
        self.gone = self.gone || self.parts.blocking_send(Ok(part)).is_err();
    }

    /// What was held, if nothing was sent; otherwise sends the rest.
    fn finish(mut self, outcome: Result<(), Problem>) -> Result<String, Problem> {
        if self.begun.is_some() {
            return outcome.map(|()| self.held);
        }
        match outcome {
            Ok(()) => self.send(),
            Err(problem) => {
                tracing::warn!(target: "stile::http", code = problem.code().0, "an answer was broken off");
                let _ = self.parts.blocking_send(Err(io::Error::other("broken off")));
            }
        }
        Ok(String::new())
    }
}
