//! Collects the answer of an operation before the connection gets any of it.
//!
//! An answer of up to [`MAX_HELD`] bytes is held in memory, a longer one in a file without a name
//! in the state folder. So the thread, the database reader and the snapshot of the database are
//! free as soon as the answer is complete, however slowly its reader takes it, and a late error is
//! still an error response. The caller's share of such files is bounded. If the client hangs up,
//! the operation stops.

use std::io::{self, Read, Write as _};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::stream;
use http::Response;
use http::header::CONTENT_LENGTH;
use stile_domain::records::problem::Problem;
use stile_records::operation_declaration::{OperationCall, ReadHandler};
use stile_records::response_sink::ResponseSink;
use stile_store::cancellation::Cancellation;
use stile_store::read_limit::ReadLimit;
use stile_store::records::{Records, SpoolFile};

use super::{MAX_READ, Requester, V1, clock, success_status};
use crate::fair_share::{FairShare, Neighbour, Share};
use crate::http::responses::{json_text, with_header};

/// The most bytes of an answer in memory, and the size of the parts in which a longer one is sent.
const MAX_HELD: usize = 64 * 1024;

/// Answers a call.
pub(super) async fn answer(
    v1: &V1,
    Requester { principal, neighbour, service }: Requester,
    call: OperationCall<ReadHandler>,
) -> Result<Response<Body>, Problem> {
    let status = success_status(call.operation);
    let cancellation = Cancellation::default();
    // Dropped if the client hangs up.
    let _cancels = cancellation.on_drop();
    let limit = ReadLimit::new(MAX_READ, cancellation);
    let service = service.within(limit.clone());
    let shared = Arc::clone(&v1.admission.shares().answer_bytes);
    let spool = Spool::new(service.records.clone(), shared, neighbour.clone(), limit);
    let run = move || {
        let mut spool = spool;
        let outcome = service.answer(&principal, clock::now(), &call, &mut spool);
        spool.finish(outcome)
    };
    match v1.blocking(&neighbour, run).await? {
        Collected::Text(text) => Ok(json_text(status, text)),
        Collected::File { file, share, bytes } => {
            let response = json_text(status, body_of(file.into_reader(), share));
            Ok(with_header(response, CONTENT_LENGTH, &bytes.to_string()))
        }
    }
}

/// A complete answer.
enum Collected {
    Text(String),
    File { file: SpoolFile, share: Share, bytes: usize },
}

/// Collects an answer.
struct Spool {
    records: Records,
    shared: Arc<FairShare>,
    by: Neighbour,
    limit: ReadLimit,
    /// What is not in the file.
    held: String,
    file: Option<(SpoolFile, Share)>,
    bytes: usize,
    problem: Option<Problem>,
}

impl ResponseSink for Spool {
    fn write(&mut self, part: &str) {
        if self.is_closed() {
            return;
        }
        self.held.push_str(part);
        self.bytes += part.len();
        if self.held.len() >= MAX_HELD {
            self.problem = self.write_to_file().err();
        }
    }

    fn is_closed(&self) -> bool {
        self.problem.is_some() || self.limit.is_cancelled()
    }
}

impl Spool {
    fn new(records: Records, shared: Arc<FairShare>, by: Neighbour, limit: ReadLimit) -> Self {
        let held = String::new();
        Self { records, shared, by, limit, held, file: None, bytes: 0, problem: None }
    }

    /// Appends the part of the answer that is in memory to the file, and makes the file if there is
    /// none.
    fn write_to_file(&mut self) -> Result<(), Problem> {
        let bytes = self.held.len();
        let (file, share) = match &mut self.file {
            Some(open) => open,
            none => {
                let share = self.shared.try_take(&self.by, 0)?;
                let file = self.records.create_spool_file().map_err(|error| spool_error(&error))?;
                none.insert((file, share))
            }
        };
        share.grow(bytes)?;
        file.write_all(self.held.as_bytes()).map_err(|error| spool_error(&error))?;
        self.held.clear();
        Ok(())
    }

    fn finish(mut self, outcome: Result<(), Problem>) -> Result<Collected, Problem> {
        // An operation may end well although the answer was cut off.
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        outcome?;
        if self.file.is_some() {
            self.write_to_file()?;
        }
        Ok(match self.file {
            Some((file, share)) => Collected::File { file, share, bytes: self.bytes },
            None => Collected::Text(self.held),
        })
    }
}

fn spool_error(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Problem::Busy,
        _ => {
            let incident = stile_store::new_incident();
            tracing::error!(target: "stile::http", incident, kind = ?error.kind(), "cannot spool an answer");
            Problem::Internal { incident }
        }
    }
}

/// Returns a body of what `file` holds. A thread is busy only while it reads a part.
fn body_of(file: impl Read + Send + 'static, share: Share) -> Body {
    Body::from_stream(stream::unfold(Some((file, share)), |state| async move {
        let (mut file, share) = state?;
        let part = tokio::task::spawn_blocking(move || {
            let mut part = Vec::new();
            file.by_ref().take(MAX_HELD as u64).read_to_end(&mut part).map(|_| (part, file))
        });
        match part.await.unwrap_or_else(|_| Err(io::Error::other("a read panicked"))) {
            Ok((part, _)) if part.is_empty() => None,
            Ok((part, file)) => Some((Ok(Bytes::from(part)), Some((file, share)))),
            Err(error) => Some((Err(error), None)),
        }
    }))
}
