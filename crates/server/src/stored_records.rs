//! The resource server of this process, which the content ladder asks.
//!
//! The ladder's requests go to the same operations as requests to `/v1`, with the caller's own
//! authority.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::ReadRequest;
use stile_domain::records::shown_records::ShownRecords;
use stile_ladder::port::{ErrorResponse, MAX_ANSWER_BYTES, RecordServer, too_large};
use stile_records::RecordService;
use stile_records::response_sink::{CountingSink, ResponseSink};
use stile_store::cancellation::Cancellation;
use stile_store::read_limit::ReadLimit;

use crate::fair_share::{FairShare, Neighbour};
use crate::http::v1::MAX_READ;
use crate::shares::Shares;

/// The time limit for checking whether a caller can see any record. With indexes it takes a
/// millisecond; a list of tools must not wait for longer than a person notices.
const MAX_LOOK: Duration = Duration::from_millis(250);

/// The resource server of this process.
pub struct StoredRecords {
    services: RecordService,
    readers: Arc<FairShare>,
    /// Returns the time at which grants must be valid.
    clock: fn() -> Instant,
}

impl StoredRecords {
    /// Serves the records of `services`. `clock` returns the time at which grants must be valid.
    pub fn new(services: RecordService, clock: fn() -> Instant) -> Self {
        Self { services, readers: Shares::default().database_readers, clock }
    }

    /// Shares these database readers with other ways to the records.
    #[must_use]
    pub fn with_readers(self, readers: Arc<FairShare>) -> Self {
        Self { readers, ..self }
    }
}

/// A response that is cut off at [`MAX_ANSWER_BYTES`].
#[derive(Default)]
struct CappedResponse {
    text: String,
    is_over: bool,
}

impl ResponseSink for CappedResponse {
    fn write(&mut self, part: &str) {
        self.is_over = self.is_over || self.text.len() + part.len() > MAX_ANSWER_BYTES;
        if !self.is_over {
            self.text.push_str(part);
        }
    }

    fn is_closed(&self) -> bool {
        self.is_over
    }
}

impl RecordServer for StoredRecords {
    fn send<'a>(
        &'a self,
        caller: &'a Principal,
        request: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        async move { self.send_counting(caller, request, &Mutex::default()).await }.boxed()
    }

    fn send_counting<'a>(
        &'a self,
        caller: &'a Principal,
        request: ReadRequest,
        shown: &'a Mutex<ShownRecords>,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        let (services, caller, now) = (self.services.clone(), caller.clone(), (self.clock)());
        async move {
            let cancellation = Cancellation::default();
            // Dropped if the client hangs up.
            let _cancels = cancellation.on_drop();
            let services = services.within(ReadLimit::new(MAX_READ, cancellation));
            let reader = self.readers.take(&Neighbour::of(&caller), 1).await;
            let reader = reader.map_err(Problem::from)?;
            let read = tokio::task::spawn_blocking(move || {
                let mut out = CappedResponse::default();
                let mut counting = CountingSink::new(&mut out);
                let answered = services.answer_unjournalled(&caller, now, &request, &mut counting);
                let records = counting.into_shown();
                drop(reader);
                answered.map(|()| (out, records))
            });
            let (out, records) = match read.await {
                Ok(done) => done?,
                // The operation panicked, and the panic hook has logged it.
                Err(_) => {
                    return Err(Problem::Internal { incident: stile_store::new_incident() }.into());
                }
            };
            if out.is_over {
                return Err(too_large());
            }
            shown.lock().unwrap_or_else(PoisonError::into_inner).add_all(records);
            Ok(out.text)
        }
        .boxed()
    }

    fn shows_any_record<'a>(&'a self, caller: &'a Principal) -> BoxFuture<'a, bool> {
        let (services, caller, now) = (self.services.clone(), caller.clone(), (self.clock)());
        async move {
            let services = services.within(ReadLimit::new(MAX_LOOK, Cancellation::default()));
            let Ok(reader) = self.readers.take(&Neighbour::of(&caller), 1).await else {
                return true;
            };
            let look = tokio::task::spawn_blocking(move || {
                let found = services.shows_any_record(&caller, now);
                drop(reader);
                found
            });
            match look.await {
                Ok(Ok(is_there)) => is_there,
                // After another failure, such as a look that took too long, a call of a tool says
                // more than a list without the tool.
                Ok(Err(problem)) => !problem.is_of_a_grant_without_effect(),
                Err(_) => true,
            }
        }
        .boxed()
    }

    fn seal(&self, plain: &[u8]) -> Result<String, ErrorResponse> {
        Ok(self.services.records.seal(plain)?)
    }

    fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.services.records.unseal(text)
    }
}
