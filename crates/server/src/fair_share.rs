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

mod turns;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use stile_domain::client_name::is_self_named;
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_store::space::ThreadShare;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::turns::Turns;

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
    /// Calls that go through folders and search in files.
    Walks,
    /// Connections to the database of records.
    DatabaseReaders,
    /// Requests to the server that has the notes.
    UpstreamRequests,
    /// Bytes of answers that wait for their reader.
    AnswerBytes,
    /// Threads for the requests of a sign-in, which need no token.
    StrangerThreads,
    /// Bytes of files that were sent to the owner's page.
    UploadBytes,
}

impl Resource {
    /// Returns the name of the resource in an error, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::BodyBytes => "bytes of request bodies",
            Self::Calls => "calls in flight",
            Self::Threads => "threads for files",
            Self::Walks => "searches at once",
            Self::DatabaseReaders => "database readers",
            Self::UpstreamRequests => "requests to the server with the notes",
            Self::AnswerBytes => "bytes of unread answers",
            Self::StrangerThreads => "threads for requests without a token",
            Self::UploadBytes => "bytes of files that wait for their import",
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
        // A client may call itself by many names, and has one share under all of them.
        let client = principal.client().filter(|name| !is_self_named(name));
        let client = client.or(principal.token()).unwrap_or_default();
        Self { subject: principal.subject().into(), client: client.into() }
    }

    /// Returns the neighbour that nobody verified: the source of a request, such as an address, is
    /// the subject, and the way in is the client.
    pub fn stranger(source: &str, way: &str) -> Self {
        Self { subject: source.into(), client: way.into() }
    }
}

/// The pause of a call that has to wait for its share again, if too many requests wait.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// A bounded resource, shared.
pub struct FairShare {
    resource: Resource,
    pub(crate) capacity: usize,
    /// The most waiters of one client.
    max_waiting: usize,
    patience: Duration,
    state: Mutex<State>,
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
mod tests;
