//! A database of records for the tests of what is done with one.

use serde_json::Value as Json;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::scope::Scopes;
use stile_store::records::Records;
use stile_store::state::StateDir;

use stile_records::RecordService;
use stile_records::calls::Call;
use stile_records::endpoints::{BLOB, Endpoint, PUT_BLOB, RECORD, RECORDS, STREAMS};
use stile_records::list::Address;

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

fn call(endpoint: &'static Endpoint, stream: &str, key: &str, pairs: &[(&str, &str)]) -> Call {
    let pairs = pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
    let address = Address { path: "/".to_owned(), query: String::new() };
    Call { endpoint, stream: stream.to_owned(), key: key.to_owned(), pairs, address }
}

impl Rig {
    pub(crate) fn ask(
        &self,
        endpoint: &'static Endpoint,
        stream: &str,
        key: &str,
        pairs: &[(&str, &str)],
    ) -> Json {
        self.try_ask(endpoint, stream, key, pairs).unwrap()
    }

    pub(crate) fn try_ask(
        &self,
        endpoint: &'static Endpoint,
        stream: &str,
        key: &str,
        pairs: &[(&str, &str)],
    ) -> Result<Json, Problem> {
        let call = call(endpoint, stream, key, pairs);
        let mut out = String::new();
        self.services.answer(&owner(), Instant(1), &call, &mut out)?;
        Ok(serde_json::from_str(&out).unwrap())
    }

    pub(crate) fn record(&self, stream: &str, key: &str) -> Json {
        self.ask(&RECORD, stream, key, &[])
    }

    /// Stores a blob and names it.
    pub(crate) fn blob(&self, bytes: &[u8]) -> String {
        let answer = self
            .services
            .take_blob(&owner(), &call(&PUT_BLOB, "", "", &[]), &mut &bytes[..])
            .unwrap();
        answer["blob_id"].as_str().unwrap().to_owned()
    }

    /// All bytes of a blob, where a record exposes it.
    pub(crate) fn blob_bytes(&self, id: &str) -> Option<Vec<u8>> {
        self.services.blob_part(&owner(), Instant(1), &call(&BLOB, "", id, &[]), 0, u64::MAX).ok()
    }

    pub(crate) fn keys(&self, stream: &str) -> Vec<String> {
        let list = self.ask(&RECORDS, stream, "", &[("limit", "100"), ("order", "asc")]);
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn streams(&self) -> Vec<Json> {
        self.ask(&STREAMS, "", "", &[])["data"].as_array().unwrap().clone()
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
