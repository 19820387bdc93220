//! A database of records for the tests of what is done with one.

use std::io::BufRead;

use serde_json::Value as Json;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::scope::Scopes;
use stile_store::records::Records;
use stile_store::state::StateDir;

use stile_records::RecordService;
use stile_records::operation_declaration::{OperationCall, OperationHandler};
use stile_records::operations::Operation;
use stile_records::request_target::RequestTarget;

pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) services: RecordService,
}

pub(crate) fn rig() -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(&folder.path().join("state")).unwrap();
    let services = RecordService::new(Records::open(&state, Instant(0)).unwrap());
    Rig { folder, services }
}

#[expect(clippy::disallowed_methods, reason = "a test is its own owner")]
pub(crate) fn principal(claim: RecordsClaim) -> Principal {
    Principal::assert_verified("ann", Some("token"), None, Scopes::none(), claim)
}

pub(crate) fn owner() -> Principal {
    principal(RecordsClaim::Owner)
}

fn target(stream: &str, key: &str, pairs: &[(&str, &str)]) -> RequestTarget {
    RequestTarget {
        stream: stream.to_owned(),
        key: key.to_owned(),
        pairs: pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect(),
        path: "/".to_owned(),
        query: String::new(),
    }
}

impl Rig {
    pub(crate) fn ask(
        &self,
        operation: Operation,
        stream: &str,
        key: &str,
        pairs: &[(&str, &str)],
    ) -> Json {
        self.try_ask(operation, stream, key, pairs).unwrap()
    }

    pub(crate) fn try_ask(
        &self,
        operation: Operation,
        stream: &str,
        key: &str,
        pairs: &[(&str, &str)],
    ) -> Result<Json, Problem> {
        let call = operation.declaration().read_call(target(stream, key, pairs)).unwrap();
        let mut out = String::new();
        self.services.answer(&owner(), Instant(1), &call, &mut out)?;
        Ok(serde_json::from_str(&out).unwrap())
    }

    pub(crate) fn record(&self, stream: &str, key: &str) -> Json {
        self.ask(Operation::GetRecord, stream, key, &[])
    }

    /// Stores lines of JSON at a moment.
    pub(crate) fn ingest(
        &self,
        now: Instant,
        connection: &str,
        stream: &str,
        body: &mut dyn BufRead,
    ) -> Json {
        let target = target(stream, "", &[("connection_id", connection)]);
        self.store(now, Operation::IngestRecords, target, body)
    }

    fn store(
        &self,
        now: Instant,
        operation: Operation,
        target: RequestTarget,
        body: &mut dyn BufRead,
    ) -> Json {
        let operation = operation.declaration();
        let OperationHandler::Store(handler) = operation.handler else { panic!("{operation:?}") };
        let call = OperationCall { operation, handler, target };
        self.services.store(&owner(), now, &call, body).unwrap()
    }

    /// Stores a blob and names it.
    pub(crate) fn blob(&self, bytes: &[u8]) -> String {
        let answer =
            self.store(Instant(1), Operation::PutBlob, target("", "", &[]), &mut &bytes[..]);
        answer["blob_id"].as_str().unwrap().to_owned()
    }

    /// All bytes of a blob, where a record exposes it.
    pub(crate) fn blob_bytes(&self, id: &str) -> Option<Vec<u8>> {
        let operation = Operation::GetBlob.declaration();
        let OperationHandler::Blob(handler) = operation.handler else { panic!("{operation:?}") };
        let call = OperationCall { operation, handler, target: target("", id, &[]) };
        self.services.blob_part(&owner(), Instant(1), &call, 0, u64::MAX).ok()
    }

    pub(crate) fn keys(&self, stream: &str) -> Vec<String> {
        let list =
            self.ask(Operation::ListRecords, stream, "", &[("limit", "100"), ("order", "asc")]);
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn streams(&self) -> Vec<Json> {
        self.ask(Operation::ListStreams, "", "", &[])["data"].as_array().unwrap().clone()
    }

    pub(crate) fn count(&self, stream: &str) -> u64 {
        let streams = self.streams();
        let counts = streams
            .iter()
            .filter(|row| row["name"] == stream)
            .map(|row| row["record_count"].as_u64().unwrap());
        counts.sum()
    }
}
