//! The resources that a server shares among its callers, and how much of each it has.

use std::sync::Arc;
use std::time::Duration;

use stile_tools::toolset::Caller;

use crate::by_vault::ByVault;
use crate::fair_share::{FairShare, Resource};

/// The shared resources of a server. Every request takes its part of each that it uses, whatever
/// endpoint it is for.
pub struct Shares {
    /// [`Resource::Connections`] whose last request was admitted.
    pub connections: Arc<FairShare>,
    /// [`Resource::BodyBytes`], in bytes of memory.
    pub body_bytes: Arc<FairShare>,
    /// [`Resource::Calls`], until their responses have been sent.
    pub calls: Arc<FairShare>,
    /// [`Resource::Threads`], one for each call.
    pub threads: Arc<FairShare>,
    /// [`Resource::Walks`], one for each call, beside its thread.
    pub walks: Arc<FairShare>,
    /// [`Resource::DatabaseReaders`], one for each read.
    pub database_readers: Arc<FairShare>,
    /// [`Resource::UpstreamRequests`] of each server that has notes, one for each call. A server
    /// that does not answer keeps the calls to no other waiting.
    pub upstream_requests: ByVault<Arc<FairShare>>,
    /// [`Resource::AnswerBytes`], in bytes of files.
    pub answer_bytes: Arc<FairShare>,
}

/// How long a request waits for a share.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most requests of one client that wait for a share.
const MAX_WAITING: usize = 256;
/// Calls in flight. Each may hold an answer of some hundred kilobytes.
const CALLS: usize = 1024;
/// Threads for files: enough that slow disks keep the processors busy.
const THREADS: usize = 16;
/// Requests to one server with notes. Each may hold a response of the largest size.
const UPSTREAM_REQUESTS: usize = 64;
/// How long a search waits: each one before it may take two seconds.
const WALK_PATIENCE: Duration = Duration::from_secs(60);
/// Threads for requests without a token: enough that one that waits for the disk keeps no other
/// waiting, and few beside the hundreds of threads that the runtime has for all.
const STRANGER_THREADS: usize = 16;
/// Bytes of request bodies in memory. Parsing a body takes several times as much.
const BODY_BYTES: usize = 64 << 20;
/// Bytes of answers in files of the state folder.
const ANSWER_BYTES: usize = 2 << 30;

impl Default for Shares {
    fn default() -> Self {
        Self::new(4096, 4 << 20)
    }
}

impl Shares {
    /// Shares half of `max_connections`, since the other half are connections whose callers are not
    /// known yet, and what bodies of `max_body_bytes` need.
    pub fn new(max_connections: usize, max_body_bytes: usize) -> Self {
        let of = |resource, capacity| FairShare::new(resource, capacity, MAX_WAITING, PATIENCE);
        let body_bytes = BODY_BYTES.max(max_body_bytes.saturating_mul(4));
        Self {
            connections: of(Resource::Connections, max_connections / 2),
            body_bytes: of(Resource::BodyBytes, body_bytes),
            calls: of(Resource::Calls, CALLS),
            threads: of(Resource::Threads, THREADS),
            walks: FairShare::new(Resource::Walks, walks(), MAX_WAITING, WALK_PATIENCE),
            database_readers: of(Resource::DatabaseReaders, stile_store::read_limit::MAX_READERS),
            upstream_requests: ByVault::one(Self::requests_of_one_upstream()),
            answer_bytes: of(Resource::AnswerBytes, ANSWER_BYTES),
        }
    }

    /// Returns the requests to one server that has notes, which nobody shares yet.
    pub fn requests_of_one_upstream() -> Arc<FairShare> {
        FairShare::new(Resource::UpstreamRequests, UPSTREAM_REQUESTS, MAX_WAITING, PATIENCE)
    }

    /// Returns the threads for requests without a token, which nobody shares yet. The sources of
    /// such requests share them as verified callers share the others.
    pub fn threads_of_strangers() -> Arc<FairShare> {
        FairShare::new(Resource::StrangerThreads, STRANGER_THREADS, MAX_WAITING, PATIENCE)
    }

    /// Returns the resource that a call of this caller takes a part of; `None` if no server has the
    /// notes of the caller's vault, and for what only requests without a token use.
    pub fn of(&self, resource: Resource, caller: &Caller) -> Option<&Arc<FairShare>> {
        let vault = || caller.session.as_ref().map_or("", |session| &session.vault);
        Some(match resource {
            Resource::Connections => &self.connections,
            Resource::BodyBytes => &self.body_bytes,
            Resource::Calls => &self.calls,
            Resource::Threads => &self.threads,
            Resource::Walks => &self.walks,
            Resource::DatabaseReaders => &self.database_readers,
            Resource::UpstreamRequests => return self.upstream_requests.get(vault()),
            Resource::AnswerBytes => &self.answer_bytes,
            Resource::StrangerThreads | Resource::UploadBytes => return None,
        })
    }
}

/// Returns how many searches work at once. Each keeps a processor busy for as long as it works, and
/// every other request waits for a processor behind them. So one client, which has half of these,
/// searches with as many threads as there are processors.
fn walks() -> usize {
    std::thread::available_parallelism().map_or(2, |count| count.get()).max(2) * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_shares_are_64_mib_of_bodies_and_2_gib_of_answers() {
        let shares = Shares::default();
        assert_eq!(shares.body_bytes.capacity, 64 * 1024 * 1024);
        assert_eq!(shares.answer_bytes.capacity, 2 * 1024 * 1024 * 1024);
        assert_eq!(shares.connections.capacity, 2048);
    }
}
