//! A database of records in a temporary folder, for unit tests.

use std::io::BufRead;

use serde_json::Value as Json;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::scope::Scopes;
use stile_store::records::Records;
use stile_store::state::StateDir;

use crate::RecordService;
use crate::operation_declaration::{OperationCall, OperationHandler};
use crate::operations::Operation;
use crate::request_target::RequestTarget;

pub(crate) struct TestStore {
    _folder: tempfile::TempDir,
    pub(crate) service: RecordService,
}

#[expect(clippy::disallowed_methods, reason = "a test is its own owner")]
pub(crate) fn principal(claim: RecordsClaim) -> Principal {
    Principal::assert_verified("ann", Some("token"), None, Scopes::none(), claim)
}

pub(crate) fn owner() -> Principal {
    principal(RecordsClaim::Owner)
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(&folder.path().join("state")).unwrap();
        let service = RecordService::new(Records::open(&state, Instant(0)).unwrap());
        Self { _folder: folder, service }
    }

    /// Sends a request to an operation that reads, as the owner.
    pub(crate) fn read(
        &self,
        operation: Operation,
        stream: &str,
        key: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Json, Problem> {
        let target = RequestTarget::new(stream, key, parameters);
        let call = operation.declaration().read_call(target).unwrap();
        let mut out = String::new();
        self.service.answer(&owner(), Instant(1), &call, &mut out)?;
        Ok(serde_json::from_str(&out).unwrap())
    }

    /// Ingests lines at the time 7.
    pub(crate) fn ingest(
        &self,
        caller: &Principal,
        stream: &str,
        parameters: &[(&str, &str)],
        body: &mut dyn BufRead,
    ) -> Result<Json, Problem> {
        let operation = Operation::IngestRecords.declaration();
        let OperationHandler::Store(handler) = operation.handler else { panic!("{operation:?}") };
        let call = OperationCall {
            operation,
            handler,
            target: RequestTarget::new(stream, "", parameters),
        };
        self.service.store(caller, Instant(7), &call, body)
    }

    pub(crate) fn record(&self, stream: &str, key: &str) -> Json {
        self.read(Operation::GetRecord, stream, key, &[]).unwrap()
    }

    pub(crate) fn keys(&self, stream: &str) -> Vec<String> {
        let parameters = [("limit", "100"), ("order", "asc")];
        let list = self.read(Operation::ListRecords, stream, "", &parameters).unwrap();
        let rows = list["data"].as_array().unwrap();
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn streams(&self) -> Vec<Json> {
        let list = self.read(Operation::ListStreams, "", "", &[]).unwrap();
        list["data"].as_array().unwrap().clone()
    }

    pub(crate) fn count(&self, stream: &str) -> u64 {
        let streams = self.streams();
        let rows = streams.iter().filter(|row| row["name"] == stream);
        rows.map(|row| row["record_count"].as_u64().unwrap()).sum()
    }
}
