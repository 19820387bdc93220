//! The requests of clients that wait for the owner's decision, and those that were pushed.
//!
//! A request is kept as its client sent it, and is checked again where it is used. It is in memory,
//! or in the database that several servers share: it lives for minutes, and a client whose request
//! is lost asks again. The number of requests is bounded, also for each address, so that nobody
//! crowds out the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stile_domain::hash::hex;
use stile_store::state::{ShortLived, StateError, TokenStore};

use super::secret::{NoRandomNumbers, RandomSecret, digest_of};
use crate::clock::{unix_seconds, wall_clock};

/// The beginning of a reference to a pushed request, before its handle.
pub const REQUEST_URI: &str = "urn:ietf:params:oauth:request_uri:";
/// How long a request waits for the owner, in seconds.
pub const WAIT_SECONDS: u64 = 10 * 60;
const WAIT: Duration = Duration::from_secs(WAIT_SECONDS);
/// The most requests of all addresses.
const MAX_PENDING: usize = 1000;
/// The most requests of one address. A tunnel makes all clients one address.
const MAX_PENDING_OF_ADDRESS: usize = 200;

/// The kind of the rows that have requests.
const KIND: &str = "request";

/// The requests that wait, by handle.
#[derive(Default)]
pub struct PendingRequests {
    here: Mutex<HashMap<String, Pending>>,
    /// The database that several servers share; `None` if this server is alone.
    shared: Option<Arc<TokenStore>>,
}

/// A request as its client sent it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRequest {
    /// The parameters, as a query or a form has them.
    pub parameters: String,
    /// The issuer that the request was sent to.
    pub origin: String,
}

struct Pending {
    request: SentRequest,
    address: String,
    at: Instant,
}

/// Why a request was not kept.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// The system gives no random numbers for a handle.
    #[error(transparent)]
    Random(#[from] NoRandomNumbers),
    /// The database that the servers share fails.
    #[error("the database cannot answer now; try again in a minute")]
    State(#[from] StateError),
}

/// Reads a request out of the database.
fn sent(found: Result<Option<String>, StateError>) -> Option<SentRequest> {
    match found {
        Ok(found) => serde_json::from_str(&found?).ok(),
        Err(error) => {
            tracing::error!(target: "stile::sign_in", %error, "a request was not found");
            None
        }
    }
}

impl PendingRequests {
    /// Keeps requests in the database if other servers share it, and otherwise in memory.
    pub fn new(tokens: &Arc<TokenStore>) -> Self {
        let shared = tokens.is_shared().then(|| Arc::clone(tokens));
        Self { shared, ..Self::default() }
    }

    /// Keeps a request, and returns its handle, which nobody can guess. Drops the oldest of the
    /// address, or of all, if there are too many.
    ///
    /// # Errors
    /// [`NotKept`].
    pub fn keep(
        &self,
        request: SentRequest,
        address: &str,
        now: Instant,
    ) -> Result<String, NotKept> {
        let secret = RandomSecret::draw()?;
        let handle = secret.reveal().to_owned();
        if let Some(tokens) = &self.shared {
            let now = unix_seconds(wall_clock());
            let new = ShortLived {
                kind: KIND,
                key: &hex(&secret.digest()),
                owner: address,
                value: &serde_json::to_string(&request).unwrap_or_default(),
                ends: now.saturating_add(WAIT_SECONDS as i64),
            };
            tokens.keep_short_lived(new, MAX_PENDING_OF_ADDRESS, now)?;
            return Ok(handle);
        }
        let mut pending = self.lock();
        pending.retain(|_, pending| is_waiting(pending, now));
        let of_address = |pending: &Pending| pending.address == address;
        let own = pending.values().filter(|pending| of_address(pending)).count();
        let dropped = if own >= MAX_PENDING_OF_ADDRESS {
            oldest(&pending, of_address)
        } else if pending.len() >= MAX_PENDING {
            oldest(&pending, |_| true)
        } else {
            None
        };
        if let Some(dropped) = dropped {
            pending.remove(&dropped);
        }
        let address = address.to_owned();
        pending.insert(handle.clone(), Pending { request, address, at: now });
        Ok(handle)
    }

    /// Returns a request that waits; `None` if it was decided or waited for too long.
    pub fn find(&self, handle: &str, now: Instant) -> Option<SentRequest> {
        if let Some(tokens) = &self.shared {
            let now = unix_seconds(wall_clock());
            let found = tokens.find_short_lived(KIND, &hex(&digest_of(handle)), now);
            return sent(found.map(|found| found.map(|(value, _)| value)));
        }
        let pending = self.lock();
        let found = pending.get(handle).filter(|pending| is_waiting(pending, now));
        found.map(|pending| pending.request.clone())
    }

    /// Takes a request away to decide it, so that it is decided once.
    pub fn take(&self, handle: &str, now: Instant) -> Option<SentRequest> {
        if let Some(tokens) = &self.shared {
            let now = unix_seconds(wall_clock());
            return sent(tokens.take_short_lived(KIND, &hex(&digest_of(handle)), now));
        }
        let taken = self.lock().remove(handle)?;
        is_waiting(&taken, now).then_some(taken.request)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Pending>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_waiting(pending: &Pending, now: Instant) -> bool {
    now.saturating_duration_since(pending.at) < WAIT
}

fn oldest(pending: &HashMap<String, Pending>, of: impl Fn(&Pending) -> bool) -> Option<String> {
    let candidates = pending.iter().filter(|(_, pending)| of(pending));
    candidates.min_by_key(|(_, pending)| pending.at).map(|(handle, _)| handle.clone())
}
