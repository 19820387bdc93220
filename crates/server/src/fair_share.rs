//! Shares a bounded resource among callers, so that no caller can take all of it.
//!
//! The rule is that of dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds
//! for shared-memory packet switches", 1998): a client may take more as long as it holds less than
//! what is free, and a subject as long as it holds less than twice what is free. A client alone
//! gets half of the resource, a subject alone two thirds, and three greedy subjects leave a seventh
//! free. A client that holds nothing may take its first part while its subject holds less than four
//! times what is free, so that it is served beside greedy clients of the same subject, while a
//! subject with very many clients still leaves a fifth. A subject that holds something never takes
//! the last unit, since such parts of a small resource are less than one unit. So a caller who
//! holds nothing finds something free at once, without fixed quotas.
//!
//! Whoever may take no more waits without a thread, for a bounded time and in a queue of bounded
//! length. What is given back goes to the waiting subjects in turn, and within a subject to its
//! clients in turn.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_store::space::ThreadShare;
use stile_tools::toolset::Caller;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::by_vault::ByVault;

/// What is shared. Refusals name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Connections on which a request is being answered.
    Connections,
    /// Bytes of request bodies that the server holds.
    BodyBytes,
    /// Calls that are being answered.
    Calls,
    /// Threads that read and write files.
    Threads,
    /// Connections to the database of records.
    DatabaseReaders,
    /// Requests to the server that has the notes.
    UpstreamRequests,
    /// Bytes of answers that wait for their reader.
    AnswerBytes,
}

impl Resource {
    /// Returns the name of the resource in an error, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::BodyBytes => "bytes of request bodies",
            Self::Calls => "calls in flight",
            Self::Threads => "threads for files",
            Self::DatabaseReaders => "database readers",
            Self::UpstreamRequests => "requests to the server with the notes",
            Self::AnswerBytes => "bytes of unread answers",
        }
    }
}

/// A caller's share of a resource is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the caller's share of {} is used up", .0.name())]
pub struct ShareUsedUp(pub Resource);

impl From<ShareUsedUp> for Problem {
    fn from(ShareUsedUp(resource): ShareUsedUp) -> Self {
        Self::ShareUsedUp { share: resource.name() }
    }
}

/// A subject, and the client or token with which the subject calls. Two clients of one subject are
/// neighbours too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Neighbour {
    subject: Arc<str>,
    client: Arc<str>,
}

impl Neighbour {
    /// Returns the neighbour that a verified caller is. The client is the one that the token names,
    /// or the token itself.
    pub fn of(principal: &Principal) -> Self {
        let client = principal.client().or(principal.token()).unwrap_or_default();
        Self { subject: principal.subject().into(), client: client.into() }
    }
}

/// A bounded resource, shared.
pub struct FairShare {
    resource: Resource,
    capacity: usize,
    /// The most waiters of one client.
    max_waiting: usize,
    patience: Duration,
    state: Mutex<State>,
}

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
/// The pause of a call that has to wait for its share again, if too many requests wait.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// The most requests of one client that wait for a share.
const MAX_WAITING: usize = 256;
/// Calls in flight. Each may hold an answer of some hundred kilobytes.
const CALLS: usize = 1024;
/// Threads for files: enough that slow disks keep the processors busy.
const THREADS: usize = 16;
/// Requests to one server with notes. Each may hold a response of the largest size.
const UPSTREAM_REQUESTS: usize = 64;
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
            database_readers: of(Resource::DatabaseReaders, stile_store::records::MAX_READERS),
            upstream_requests: ByVault::one(Self::requests_of_one_upstream()),
            answer_bytes: of(Resource::AnswerBytes, ANSWER_BYTES),
        }
    }

    /// Returns the requests to one server that has notes, which nobody shares yet.
    pub fn requests_of_one_upstream() -> Arc<FairShare> {
        FairShare::new(Resource::UpstreamRequests, UPSTREAM_REQUESTS, MAX_WAITING, PATIENCE)
    }

    /// Returns the resource that a call of this caller takes a part of; `None` if no server has the
    /// notes of the caller's vault.
    pub fn of(&self, resource: Resource, caller: &Caller) -> Option<&Arc<FairShare>> {
        let vault = || caller.session.as_ref().map_or("", |session| &session.vault);
        Some(match resource {
            Resource::Connections => &self.connections,
            Resource::BodyBytes => &self.body_bytes,
            Resource::Calls => &self.calls,
            Resource::Threads => &self.threads,
            Resource::DatabaseReaders => &self.database_readers,
            Resource::UpstreamRequests => return self.upstream_requests.get(vault()),
            Resource::AnswerBytes => &self.answer_bytes,
        })
    }
}

/// A part of the resource, given back when dropped.
pub struct Share {
    of: Arc<FairShare>,
    by: Neighbour,
    units: usize,
}

/// A share that a call holds, except while the call waits for something else.
#[derive(Debug)]
pub struct PausedShare {
    of: Arc<FairShare>,
    by: Neighbour,
    units: usize,
    held: Mutex<Option<Share>>,
}

impl From<Share> for PausedShare {
    fn from(share: Share) -> Self {
        let (of, by, units) = (Arc::clone(&share.of), share.by.clone(), share.units);
        Self { of, by, units, held: Mutex::new(Some(share)) }
    }
}

impl PausedShare {
    fn held(&self) -> MutexGuard<'_, Option<Share>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadShare for PausedShare {
    fn give_back(&self) {
        self.held().take();
    }

    fn try_take_back(&self) -> bool {
        let share = self.of.try_take(&self.by, self.units).ok();
        let taken = share.is_some();
        *self.held() = share;
        taken
    }

    fn take_back(&self) -> BoxFuture<'_, ()> {
        async {
            // The call itself limits the time.
            let share = loop {
                match self.of.take(&self.by, self.units).await {
                    Ok(share) => break share,
                    Err(ShareUsedUp(_)) => tokio::time::sleep(RETRY_AFTER).await,
                }
            };
            *self.held() = Some(share);
        }
        .boxed()
    }
}

#[derive(Default)]
struct State {
    used: usize,
    subjects: Turns<Subject>,
}

#[derive(Default)]
struct Subject {
    used: usize,
    clients: Turns<Client>,
}

#[derive(Default)]
struct Client {
    used: usize,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    units: usize,
    send: oneshot::Sender<Share>,
}

/// Entries by name, with an order in which those that wait take turns.
struct Turns<T> {
    by_name: HashMap<Arc<str>, T>,
    order: VecDeque<Arc<str>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T: Default> Turns<T> {
    /// Returns the entry, which comes last in the order if it is new.
    fn entry(&mut self, name: &Arc<str>) -> &mut T {
        if !self.by_name.contains_key(name) {
            self.order.push_back(Arc::clone(name));
        }
        self.by_name.entry(Arc::clone(name)).or_default()
    }

    fn remove(&mut self, name: &Arc<str>) {
        self.by_name.remove(name);
        self.order.retain(|other| other != name);
    }

    /// Returns the first result that `take` finds in the order, and puts its entry last.
    fn next<R>(&mut self, mut take: impl FnMut(&Arc<str>, &mut T) -> Option<R>) -> Option<R> {
        for position in 0..self.order.len() {
            let name = self.order.get(position)?;
            let found = self.by_name.get_mut(name).and_then(|entry| take(name, entry));
            if found.is_some() {
                let name = self.order.remove(position)?;
                self.order.push_back(name);
                return found;
            }
        }
        None
    }
}

impl fmt::Debug for FairShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FairShare({:?}, {})", self.resource, self.capacity)
    }
}

impl FairShare {
    /// Shares `capacity` units. A client that may take no more waits for `patience`, with at most
    /// `max_waiting` requests at once.
    pub fn new(
        resource: Resource,
        capacity: usize,
        max_waiting: usize,
        patience: Duration,
    ) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self { resource, capacity: capacity.max(1), max_waiting, patience, state })
    }

    /// Takes `units`, or waits for them.
    ///
    /// # Errors
    /// [`ShareUsedUp`], if the wait takes too long, or too many requests of this client wait.
    pub async fn take(
        self: &Arc<Self>,
        by: &Neighbour,
        units: usize,
    ) -> Result<Share, ShareUsedUp> {
        let waiting = {
            let mut state = self.lock();
            match self.take_now(&mut state, by, units) {
                Ok(share) => return Ok(share),
                Err(ShareUsedUp(_)) => self.wait(&mut state, by, units)?,
            }
        };
        let _forgets = Forgets { of: self, by };
        match timeout(self.patience, waiting).await {
            Ok(Ok(share)) => Ok(share),
            Ok(Err(_)) | Err(_) => Err(ShareUsedUp(self.resource)),
        }
    }

    /// Takes `units` if the client may take them now.
    ///
    /// # Errors
    /// [`ShareUsedUp`].
    pub fn try_take(self: &Arc<Self>, by: &Neighbour, units: usize) -> Result<Share, ShareUsedUp> {
        self.take_now(&mut self.lock(), by, units)
    }

    fn take_now(
        self: &Arc<Self>,
        state: &mut State,
        by: &Neighbour,
        units: usize,
    ) -> Result<Share, ShareUsedUp> {
        let free = self.capacity - state.used;
        let subject = state.subjects.by_name.get(&by.subject);
        let client = subject.and_then(|subject| subject.clients.by_name.get(&by.client));
        let used = [subject.map_or(0, |subject| subject.used), client.map_or(0, |it| it.used)];
        if !may_take(free, used, units) {
            return Err(ShareUsedUp(self.resource));
        }
        state.used += units;
        let subject = state.subjects.entry(&by.subject);
        subject.used += units;
        subject.clients.entry(&by.client).used += units;
        Ok(Share { of: Arc::clone(self), by: by.clone(), units })
    }

    fn wait(
        &self,
        state: &mut State,
        by: &Neighbour,
        units: usize,
    ) -> Result<oneshot::Receiver<Share>, ShareUsedUp> {
        let client = state.subjects.entry(&by.subject).clients.entry(&by.client);
        client.waiting.retain(|waiter| !waiter.send.is_closed());
        if client.waiting.len() >= self.max_waiting {
            return Err(ShareUsedUp(self.resource));
        }
        let (send, receive) = oneshot::channel();
        client.waiting.push_back(Waiter { units, send });
        Ok(receive)
    }

    /// Gives units back, and passes what is free to those who wait.
    fn give_back(self: &Arc<Self>, by: &Neighbour, units: usize) {
        // A share whose waiter has gone gives itself back, which must not happen under the lock.
        let mut unclaimed = Vec::new();
        let mut state = self.lock();
        state.used -= units;
        let subject = state.subjects.entry(&by.subject);
        subject.used -= units;
        subject.clients.entry(&by.client).used -= units;
        while let Some((neighbour, waiter)) = self.next_waiter(&mut state) {
            if waiter.send.is_closed() {
                continue;
            }
            if let Ok(share) = self.take_now(&mut state, &neighbour, waiter.units)
                && let Err(share) = waiter.send.send(share)
            {
                unclaimed.push(share);
            }
        }
        state.forget_unused(by);
        drop(state);
        drop(unclaimed);
    }

    /// Removes the next waiter that has gone or may take its units now.
    fn next_waiter(&self, state: &mut State) -> Option<(Neighbour, Waiter)> {
        let free = self.capacity - state.used;
        state.subjects.next(|subject_name, subject| {
            let subject_used = subject.used;
            subject.clients.next(|client_name, client| {
                let first = client.waiting.front()?;
                let is_next = first.send.is_closed()
                    || may_take(free, [subject_used, client.used], first.units);
                let neighbour = || Neighbour {
                    subject: Arc::clone(subject_name),
                    client: Arc::clone(client_name),
                };
                is_next.then(|| client.waiting.pop_front()).flatten().map(|it| (neighbour(), it))
            })
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a client whose wait has ended, even if the request was dropped while it waited.
struct Forgets<'a> {
    of: &'a Arc<FairShare>,
    by: &'a Neighbour,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.of.lock().forget_unused(self.by);
    }
}

/// Whether a subject and a client that hold this much may take `units`, if `free` are free.
fn may_take(free: usize, [subject, client]: [usize; 2], units: usize) -> bool {
    let factor = if client == 0 { 4 } else { 2 };
    let is_left = if subject == 0 { units <= free } else { units < free };
    is_left && client < free && subject < free.saturating_mul(factor)
}

impl State {
    /// Forgets a client that neither holds nor awaits anything, so that memory is bounded.
    fn forget_unused(&mut self, by: &Neighbour) {
        let subject = self.subjects.entry(&by.subject);
        let client = subject.clients.entry(&by.client);
        if client.used == 0 && client.waiting.iter().all(|waiter| waiter.send.is_closed()) {
            subject.clients.remove(&by.client);
        }
        if subject.clients.by_name.is_empty() {
            self.subjects.remove(&by.subject);
        }
    }
}

impl Share {
    /// Returns whether this neighbour holds the share.
    pub fn is_of(&self, neighbour: &Neighbour) -> bool {
        self.by == *neighbour
    }

    /// Takes `units` more.
    ///
    /// # Errors
    /// [`ShareUsedUp`]. What was held before is still held.
    pub fn grow(&mut self, units: usize) -> Result<(), ShareUsedUp> {
        let mut more = self.of.try_take(&self.by, units)?;
        self.units += std::mem::take(&mut more.units);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.give_back(&self.by, self.units);
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Share({:?}, {})", self.of.resource, self.units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(subject: &str, client: &str) -> Neighbour {
        Neighbour { subject: subject.into(), client: client.into() }
    }

    fn of(capacity: usize) -> Arc<FairShare> {
        FairShare::new(Resource::Calls, capacity, 4, Duration::from_secs(60))
    }

    /// Takes single units until the client may take no more.
    fn take_all(shared: &Arc<FairShare>, by: &Neighbour) -> Vec<Share> {
        std::iter::from_fn(|| shared.try_take(by, 1).ok()).collect()
    }

    #[test]
    fn a_client_gets_half_its_subject_two_thirds_and_many_clients_of_it_four_fifths() {
        let shared = of(60);
        let mut held = take_all(&shared, &neighbour("ann", "laptop"));
        assert_eq!(held.len(), 30);
        held.extend(take_all(&shared, &neighbour("ann", "phone")));
        assert_eq!(held.len(), 40);
        for number in 0..100 {
            held.extend(take_all(&shared, &neighbour("ann", &number.to_string())));
        }
        assert_eq!(held.len(), 48);
    }

    #[test]
    fn a_client_that_holds_nothing_is_served_beside_greedy_clients_of_its_subject() {
        // Of a smaller resource, the fourth client of a subject may have to wait its turn.
        for capacity in 12..64 {
            let shared = of(capacity);
            let held: Vec<_> = ["a", "b", "c"]
                .iter()
                .flat_map(|client| take_all(&shared, &neighbour("ann", client)))
                .collect();
            assert!(shared.try_take(&neighbour("ann", "d"), 1).is_ok(), "{}", held.len());
            assert!(shared.try_take(&neighbour("bob", ""), 1).is_ok(), "{}", held.len());
        }
    }

    #[test]
    fn a_caller_who_holds_nothing_is_served_beside_three_greedy_subjects() {
        for capacity in 4..64 {
            let shared = of(capacity);
            let greedy = ["ann", "bob", "cid"].map(|subject| neighbour(subject, "a"));
            let mut held: Vec<_> =
                greedy.iter().map(|by| shared.try_take(by, 1).unwrap()).collect();
            // Clients that hold nothing may take more than those that hold something.
            for client in ["a", "b", "c"] {
                for Neighbour { subject, .. } in &greedy {
                    held.extend(take_all(&shared, &neighbour(subject, client)));
                }
            }
            assert!(shared.try_take(&neighbour("dan", ""), 1).is_ok(), "of {capacity}: {held:?}");
        }
    }

    #[test]
    fn everything_is_given_back_and_forgotten() {
        let shared = of(8);
        let mut share = shared.try_take(&neighbour("ann", ""), 2).unwrap();
        share.grow(1).unwrap();
        assert_eq!(shared.lock().used, 3);
        drop(share);
        assert_eq!(shared.lock().used, 0);
        assert!(shared.lock().subjects.by_name.is_empty());
        assert!(shared.lock().subjects.order.is_empty());
    }

    #[test]
    fn a_share_is_of_the_client_that_took_it() {
        let share = of(8).try_take(&neighbour("ann", "laptop"), 2).unwrap();
        assert!(share.is_of(&neighbour("ann", "laptop")));
        assert!(!share.is_of(&neighbour("ann", "phone")));
        assert!(!share.is_of(&neighbour("bob", "laptop")));
        assert_eq!(format!("{share:?}"), "Share(Calls, 2)");
    }

    #[test]
    fn a_refusal_names_the_resource() {
        let used_up = ShareUsedUp(Resource::Calls).to_string();
        assert_eq!(used_up, "the caller's share of calls in flight is used up");
    }

    #[test]
    fn the_default_shares_are_64_mib_of_bodies_and_2_gib_of_answers() {
        let shares = Shares::default();
        assert_eq!(shares.body_bytes.capacity, 64 * 1024 * 1024);
        assert_eq!(shares.answer_bytes.capacity, 2 * 1024 * 1024 * 1024);
        assert_eq!(shares.connections.capacity, 2048);
    }

    #[tokio::test]
    async fn those_who_wait_take_turns_by_subject_and_then_by_client() {
        let shared = of(1);
        let held = shared.try_take(&neighbour("zoe", ""), 1).unwrap();
        let served = Arc::new(Mutex::new(Vec::new()));
        let names = [("ann", "a"), ("ann", "a"), ("ann", "b"), ("bob", "c"), ("bob", "c")];
        let mut tasks = Vec::new();
        for (subject, client) in names {
            let (shared, served) = (Arc::clone(&shared), Arc::clone(&served));
            tasks.push(tokio::spawn(async move {
                let share = shared.take(&neighbour(subject, client), 1).await.unwrap();
                served.lock().unwrap().push(client);
                drop(share);
            }));
            // The task runs until it waits, so that the queue has the order of this list.
            tokio::task::yield_now().await;
        }
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*served.lock().unwrap(), ["a", "c", "b", "c", "a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_after_the_patience_and_a_queue_has_a_bounded_length() {
        let shared = FairShare::new(Resource::Threads, 1, 1, Duration::from_secs(5));
        let by = neighbour("ann", "");
        let held = shared.try_take(&by, 1).unwrap();
        let waiting = shared.take(&by, 1);
        let refused = shared.take(&by, 1);
        let (waited, refused) = tokio::join!(waiting, refused);
        assert_eq!(refused.unwrap_err(), ShareUsedUp(Resource::Threads));
        assert_eq!(waited.unwrap_err(), ShareUsedUp(Resource::Threads));
        drop(held);
        assert!(shared.take(&by, 1).await.is_ok());
    }

    #[tokio::test]
    async fn a_waiter_that_has_gone_takes_nothing() {
        let shared = of(1);
        let held = shared.try_take(&neighbour("ann", ""), 1).unwrap();
        {
            let by = neighbour("bob", "");
            let gone = shared.take(&by, 1);
            tokio::pin!(gone);
            assert!(futures::poll!(&mut gone).is_pending());
        }
        assert_eq!(shared.lock().subjects.by_name.len(), 1);
        drop(held);
        assert_eq!(shared.lock().used, 0);
        assert!(shared.try_take(&neighbour("cid", ""), 1).is_ok());
    }
}
