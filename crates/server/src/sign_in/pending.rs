//! The requests of clients that wait for the owner's decision, and those that were pushed.
//!
//! A request is kept as its client sent it, and is checked again where it is used. It is in memory,
//! or in the database that several servers share: it lives for minutes, and a client whose request
//! is lost asks again. The number of requests is bounded, also for each address. If there are too
//! many, the oldest of the address that has most is dropped, so nobody crowds out the others. What
//! the owner has opened is in a reserve that no other request can crowd out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stile_domain::hash::hex;
use stile_store::state::{Bounds, ShortLived, StateError, TokenStore};

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

/// How long the handle of a decided request is remembered, in seconds. A person who goes back in
/// the browser does so within a day.
const DECIDED_SECONDS: u64 = 24 * 60 * 60;
/// The most decided requests that are remembered.
const MAX_DECIDED: usize = 1000;
/// The kind of the rows that have decided requests.
const DECIDED: &str = "decided";

/// The most requests that the owner has opened.
const MAX_OPENED: usize = 100;
/// The source of the requests that the owner has opened. No address reads like this.
const OWNER: &str = "the owner";

/// The kind of the rows that have requests.
const KIND: &str = "request";

/// The requests that wait, by handle.
#[derive(Default)]
pub struct PendingRequests {
    here: Mutex<HashMap<String, Pending>>,
    /// When requests were decided, by handle.
    decided: Mutex<HashMap<String, Instant>>,
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
    #[error("{}", .0.consequence())]
    State(#[from] StateError),
}

/// Reads a request out of the database.
fn sent(found: Result<Option<String>, StateError>) -> Option<SentRequest> {
    match found {
        Ok(found) => serde_json::from_str(&found?).ok(),
        Err(error) => {
            error.log("a request was not found");
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

    /// Keeps a request, and returns its handle, which nobody can guess. If there are too many,
    /// drops the oldest of the address, or of the address that has most.
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
            let bounds =
                Bounds { of_owner: MAX_PENDING_OF_ADDRESS, of_all: MAX_PENDING, apart: OWNER };
            tokens.keep_short_lived_of_many(new, bounds, now)?;
            return Ok(handle);
        }
        let mut pending = self.lock();
        pending.retain(|_, pending| is_waiting(pending, now));
        make_room(&mut pending, address);
        let address = address.to_owned();
        pending.insert(handle.clone(), Pending { request, address, at: now });
        Ok(handle)
    }

    /// Puts a request that the owner has opened into the reserve, where it waits for as long as it
    /// would have otherwise.
    pub fn reserve(&self, handle: &str, now: Instant) {
        if let Some(tokens) = &self.shared {
            let (now, key) = (unix_seconds(wall_clock()), hex(&digest_of(handle)));
            let reserved = tokens.find_short_lived(KIND, &key, now).and_then(|found| match found {
                Some((value, ends)) => {
                    let new =
                        ShortLived { kind: KIND, key: &key, owner: OWNER, value: &value, ends };
                    tokens.keep_short_lived(new, MAX_OPENED, now).map(drop)
                }
                None => Ok(()),
            });
            if let Err(error) = reserved {
                error.log("a request was not reserved");
            }
            return;
        }
        let mut pending = self.lock();
        let is_new = pending.get(handle).is_some_and(|pending| pending.address != OWNER);
        if !is_new {
            return;
        }
        pending.retain(|_, pending| is_waiting(pending, now));
        let is_opened = |pending: &Pending| pending.address == OWNER;
        if pending.values().filter(|pending| is_opened(pending)).count() >= MAX_OPENED
            && let Some(oldest) = oldest(&pending, is_opened)
        {
            pending.remove(&oldest);
        }
        if let Some(pending) = pending.get_mut(handle) {
            OWNER.clone_into(&mut pending.address);
        }
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
            let key = hex(&digest_of(handle));
            let taken = sent(tokens.take_short_lived(KIND, &key, now))?;
            let ends = now.saturating_add(DECIDED_SECONDS as i64);
            let new = ShortLived { kind: DECIDED, key: &key, owner: OWNER, value: "", ends };
            if let Err(error) = tokens.keep_short_lived(new, MAX_DECIDED, now) {
                error.log("a decision was not remembered");
            }
            return Some(taken);
        }
        let taken = self.lock().remove(handle).filter(|taken| is_waiting(taken, now))?;
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        if decided.len() >= MAX_DECIDED {
            let oldest =
                decided.iter().min_by_key(|(_, at)| **at).map(|(handle, _)| handle.clone());
            oldest.and_then(|oldest| decided.remove(&oldest));
        }
        decided.insert(handle.to_owned(), now);
        Some(taken.request)
    }

    /// Returns whether the owner decided a request within the last day.
    pub fn was_decided(&self, handle: &str, now: Instant) -> bool {
        if let Some(tokens) = &self.shared {
            let now = unix_seconds(wall_clock());
            let found = tokens.find_short_lived(DECIDED, &hex(&digest_of(handle)), now);
            return found.is_ok_and(|found| found.is_some());
        }
        let decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        let life = Duration::from_secs(DECIDED_SECONDS);
        decided.get(handle).is_some_and(|at| now.saturating_duration_since(*at) < life)
    }

    /// Returns the handles of the requests that wait, the latest first. Servers that share a
    /// database know no handles, only their digests.
    pub fn waiting(&self, now: Instant) -> Vec<String> {
        let pending = self.lock();
        let waiting = pending.iter().filter(|(_, pending)| is_waiting(pending, now));
        let mut waiting: Vec<(&String, Instant)> =
            waiting.map(|(handle, pending)| (handle, pending.at)).collect();
        waiting.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
        waiting.into_iter().map(|(handle, _)| handle.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Pending>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_waiting(pending: &Pending, now: Instant) -> bool {
    now.saturating_duration_since(pending.at) < WAIT
}

/// Drops a request if there are too many for another one of an address.
fn make_room(pending: &mut HashMap<String, Pending>, address: &str) {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for waiting in pending.values().filter(|waiting| waiting.address != OWNER) {
        *counts.entry(&waiting.address).or_default() += 1;
    }
    let own = counts.get(address).copied().unwrap_or_default();
    let crowded = if own >= MAX_PENDING_OF_ADDRESS {
        Some(address.to_owned())
    } else if counts.values().sum::<usize>() >= MAX_PENDING {
        let most = counts.values().max().copied().unwrap_or_default();
        let with_most = |waiting: &Pending| counts.get(waiting.address.as_str()) == Some(&most);
        oldest(pending, with_most).and_then(|handle| Some(pending.get(&handle)?.address.clone()))
    } else {
        None
    };
    let dropped = crowded.and_then(|crowded| oldest(pending, |other| other.address == crowded));
    if let Some(dropped) = dropped {
        pending.remove(&dropped);
    }
}

fn oldest(pending: &HashMap<String, Pending>, of: impl Fn(&Pending) -> bool) -> Option<String> {
    let candidates = pending.iter().filter(|(_, pending)| of(pending));
    candidates.min_by_key(|(_, pending)| pending.at).map(|(handle, _)| handle.clone())
}

#[cfg(test)]
mod tests {
    use stile_store::postgresql::Database;
    use stile_testkit::postgres::PostgresServer;

    use super::*;

    fn request() -> SentRequest {
        SentRequest { parameters: "client_id=a".to_owned(), origin: "http://a".to_owned() }
    }

    /// Sends more requests than fit, from so many addresses.
    fn flood(pending: &PendingRequests, addresses: usize, now: Instant) {
        for number in 0..2 * MAX_PENDING {
            let address = format!("192.0.2.{}", number % addresses);
            pending.keep(request(), &address, now).unwrap();
        }
        assert!(pending.lock().len() <= MAX_PENDING + MAX_OPENED);
    }

    #[test]
    fn strangers_with_many_addresses_push_out_their_own_requests_first() {
        let now = Instant::now();
        for addresses in [1, 6, 19, 200] {
            let pending = PendingRequests::default();
            let handle = pending.keep(request(), "198.51.100.1", now).unwrap();
            flood(&pending, addresses, now + Duration::from_secs(1));
            assert!(pending.take(&handle, now).is_some(), "{addresses}");
        }
    }

    #[test]
    fn requests_in_a_database_of_several_servers_keep_to_the_same_bounds() {
        let test = "requests_in_a_database_of_several_servers_keep_to_the_same_bounds";
        let Some(server) = PostgresServer::shared(test) else { return };
        let database = server.database();
        let tokens = Arc::new(TokenStore::on(&Database::open(&database.address()).unwrap()));
        let (pending, now) = (PendingRequests::new(&tokens), Instant::now());
        let handle = pending.keep(request(), "198.51.100.1", now).unwrap();
        let opened = pending.keep(request(), "192.0.2.0", now).unwrap();
        pending.reserve(&opened, now);
        for number in 0..MAX_PENDING + 100 {
            pending.keep(request(), &format!("192.0.2.{}", number % 19), now).unwrap();
        }
        let kept = tokens.count_short_lived(KIND, unix_seconds(wall_clock())).unwrap();
        assert_eq!(kept, MAX_PENDING + 1, "and the request that the owner has opened");
        assert!(!pending.was_decided(&handle, now));
        assert!(pending.take(&handle, now).is_some() && pending.take(&opened, now).is_some());
        assert!(pending.was_decided(&handle, now) && pending.was_decided(&opened, now));
    }

    #[test]
    fn a_decided_request_is_told_from_one_that_waited_too_long() {
        let (pending, now) = (PendingRequests::default(), Instant::now());
        let [decided, late] = [(); 2].map(|()| pending.keep(request(), "a", now).unwrap());
        assert!(pending.take(&decided, now).is_some() && pending.take(&decided, now).is_none());
        assert!(pending.take(&late, now + WAIT).is_none());
        let day = Duration::from_secs(DECIDED_SECONDS);
        assert!(pending.was_decided(&decided, now + WAIT) && !pending.was_decided(&late, now));
        assert!(!pending.was_decided(&decided, now + day));
        for _ in 0..=MAX_DECIDED {
            let other = pending.keep(request(), "a", now + WAIT).unwrap();
            pending.take(&other, now + WAIT).unwrap();
        }
        assert!(!pending.was_decided(&decided, now + WAIT), "the oldest is forgotten first");
    }

    #[test]
    fn what_the_owner_has_opened_stays_whoever_asks_and_ends_in_time() {
        let (pending, now) = (PendingRequests::default(), Instant::now());
        let handle = pending.keep(request(), "192.0.2.0", now).unwrap();
        pending.reserve(&handle, now);
        flood(&pending, 1, now);
        flood(&pending, 250, now);
        assert_eq!(pending.find(&handle, now), Some(request()));
        // The owner may open many, and the oldest of them goes.
        for _ in 0..=MAX_OPENED {
            let other = pending.keep(request(), "192.0.2.0", now + Duration::from_secs(1)).unwrap();
            pending.reserve(&other, now);
        }
        assert_eq!(pending.find(&handle, now), None);
        let last = pending.keep(request(), "192.0.2.0", now).unwrap();
        pending.reserve(&last, now);
        assert_eq!(pending.find(&last, now + WAIT), None);
    }
}
