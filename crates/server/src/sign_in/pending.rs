//! The requests of clients that wait for the owner's decision, and those that were pushed.
//!
//! They are in memory: a request lives for minutes, and a client whose request is lost asks again.
//! Their number is bounded, also for each address, so that nobody crowds out the others.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::access_request::AccessRequest;
use super::secret::{NoRandomNumbers, RandomSecret};

/// The beginning of a reference to a pushed request, before its handle.
pub const REQUEST_URI: &str = "urn:ietf:params:oauth:request_uri:";
/// How long a request waits for the owner, in seconds.
pub const WAIT_SECONDS: u64 = 10 * 60;
const WAIT: Duration = Duration::from_secs(WAIT_SECONDS);
/// The most requests of all addresses.
const MAX_PENDING: usize = 1000;
/// The most requests of one address. A tunnel makes all clients one address.
const MAX_PENDING_OF_ADDRESS: usize = 200;

/// The requests that wait, by handle.
#[derive(Default)]
pub struct PendingRequests(Mutex<HashMap<String, Pending>>);

struct Pending {
    request: AccessRequest,
    address: String,
    at: Instant,
}

impl PendingRequests {
    /// Keeps a request, and returns its handle, which nobody can guess. Drops the oldest of the
    /// address, or of all, if there are too many.
    ///
    /// # Errors
    /// [`NoRandomNumbers`].
    pub fn keep(
        &self,
        request: AccessRequest,
        address: &str,
        now: Instant,
    ) -> Result<String, NoRandomNumbers> {
        let handle = RandomSecret::draw()?.reveal().to_owned();
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
    pub fn find(&self, handle: &str, now: Instant) -> Option<AccessRequest> {
        let pending = self.lock();
        let found = pending.get(handle).filter(|pending| is_waiting(pending, now));
        found.map(|pending| pending.request.clone())
    }

    /// Takes a request away to decide it, so that it is decided once.
    pub fn take(&self, handle: &str, now: Instant) -> Option<AccessRequest> {
        let taken = self.lock().remove(handle)?;
        is_waiting(&taken, now).then_some(taken.request)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_waiting(pending: &Pending, now: Instant) -> bool {
    now.saturating_duration_since(pending.at) < WAIT
}

fn oldest(pending: &HashMap<String, Pending>, of: impl Fn(&Pending) -> bool) -> Option<String> {
    let candidates = pending.iter().filter(|(_, pending)| of(pending));
    candidates.min_by_key(|(_, pending)| pending.at).map(|(handle, _)| handle.clone())
}
