//! The resource server of this process, as the content ladder asks it.
//!
//! The adapter calls the same operations that `/v1` calls, with the caller's own authority.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::ReadRequest;
use stile_ladder::port::{ErrorResponse, MAX_ANSWER_BYTES, RecordServer, too_large};
use stile_records::RecordService;
use stile_records::operation_declaration::OperationCall;
use stile_records::request_target::RequestTarget;
use stile_records::response_sink::ResponseSink;

use crate::fair_share::{FairShare, Neighbour};

/// The resource server of this process.
pub struct StoredRecords {
    services: RecordService,
    readers: Arc<FairShare>,
    /// The time, by which grants are judged.
    clock: fn() -> Instant,
}

impl StoredRecords {
    /// Reads the records of `services`. Each request uses one of `readers`.
    pub fn new(services: RecordService, readers: Arc<FairShare>, clock: fn() -> Instant) -> Self {
        Self { services, readers, clock }
    }
}

/// An answer that stops growing where it is longer than any should be.
#[derive(Default)]
struct Capped {
    text: String,
    is_over: bool,
}

impl ResponseSink for Capped {
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
    fn ask<'a>(
        &'a self,
        caller: &'a Principal,
        ask: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        let (services, caller, now) = (self.services.clone(), caller.clone(), (self.clock)());
        let path = ask.path();
        let ReadRequest { operation, stream, key, parameters: pairs } = ask;
        let target = RequestTarget { stream, key, pairs, path, query: String::new() };
        let call = OperationCall::from_read_operation(operation, target);
        async move {
            let reader = self.readers.take(&Neighbour::of(&caller), 1).await;
            let reader = reader.map_err(Problem::from)?;
            let read = tokio::task::spawn_blocking(move || {
                let mut out = Capped::default();
                let answered = services.answer_unjournalled(&caller, now, &call, &mut out);
                drop(reader);
                answered.map(|()| out)
            });
            let out = match read.await {
                Ok(done) => done?,
                // A panic, which the hook has told of.
                Err(_) => {
                    return Err(Problem::Internal { incident: stile_store::new_incident() }.into());
                }
            };
            if out.is_over { Err(too_large()) } else { Ok(out.text) }
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
