//! The public keys of an identity provider, fetched and kept in memory.
//!
//! Anybody can send a token, so the work that a token can cause is bounded: all requests together
//! start at most one fetch per [`COOLDOWN`], whatever keys they name. An unreachable provider
//! changes nothing until [`MAX_AGE`]. A key that the provider withdraws is forgotten at the first
//! use after [`REFETCH_AFTER`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::key_set::{KeySet, KeySetError};
use super::rejection::{TokenRejected, check};
use super::signature::PublicKeyAlgorithm;

const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time that a request waits for a fetch. It is longer than [`FETCH_TIMEOUT`], so that
/// the fetch ends first.
const WAIT_TIMEOUT: Duration = Duration::from_secs(6);

/// The least time between the starts of two fetches that requests ask for.
const COOLDOWN: Duration = Duration::from_secs(30);

/// The age from which a set that is in use is fetched again, so that a withdrawn key goes.
const REFETCH_AFTER: Duration = Duration::from_secs(10 * 60);

/// The age from which a set is no longer used, because nobody could report a withdrawn key.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Where a set of keys comes from. An implementation needs no time limit of its own, follows no
/// redirect, and reads at most [`MAX_KEY_SET_BYTES`](super::MAX_KEY_SET_BYTES).
pub trait KeySource: Send + Sync + 'static {
    /// Fetches the document. The future is dropped when it takes too long.
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, KeyFetchError>>;
}

/// Why there is no new set of keys. The error repeats no address and nothing that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFetchError {
    /// The source does not answer, or does not speak HTTP.
    #[error("the source of the keys cannot be reached")]
    Unreachable,
    /// The response took too long.
    #[error("the source of the keys did not answer in time")]
    TimedOut,
    /// The response had this status instead of 200.
    #[error("the source of the keys answered with status {0}")]
    Status(u16),
    /// The response is not a usable set of keys.
    #[error(transparent)]
    KeySet(#[from] KeySetError),
}

/// The keys of one identity provider. Clones share them.
///
/// Ages are measured by the monotonic clock, which nobody sets back.
#[derive(Clone)]
pub struct ProviderKeys(Arc<Inner>);

struct Inner {
    source: Box<dyn KeySource>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    fetched: Option<FetchedSet>,
    /// When the last fetch began, whatever its outcome.
    last_attempt: Option<Instant>,
    /// The last fetch, for requests that wait for it.
    fetch: Option<Fetch>,
}

struct FetchedSet {
    set: Arc<KeySet>,
    /// When the fetch began: the set may be as old as that.
    requested: Instant,
}

/// The outcome of a fetch; `None` until the fetch has ended.
type Fetch = watch::Receiver<Option<Result<(), KeyFetchError>>>;

impl ProviderKeys {
    /// Keys that will come from `source`. None is fetched yet.
    pub fn new(source: impl KeySource) -> Self {
        Self(Arc::new(Inner { source: Box::new(source), state: Mutex::default() }))
    }

    /// Fetches the set now, or waits for the fetch that is under way. For the start of a server:
    /// ignores the time since the last fetch.
    ///
    /// # Errors
    /// [`KeyFetchError`]. Keys that were known stay, and later requests will fetch again.
    pub async fn refresh(&self) -> Result<(), KeyFetchError> {
        match self.start_or_join_fetch(Duration::ZERO) {
            Some(fetch) => outcome(fetch).await,
            None => Err(KeyFetchError::Unreachable),
        }
    }

    /// Returns the last set, unless it is older than [`MAX_AGE`], without waiting. Starts a fetch
    /// if the set is older than [`REFETCH_AFTER`].
    pub(super) fn current(&self) -> Option<Arc<KeySet>> {
        let (set, age) = self.unexpired()?;
        if age > REFETCH_AFTER {
            self.start_or_join_fetch(COOLDOWN);
        }
        Some(set)
    }

    /// Verifies a signature with the key that a token's header means, and returns the set with that
    /// key.
    ///
    /// # Errors
    /// [`TokenRejected`]: the signature is wrong, or no key that may still be used fits.
    pub(super) async fn verify(
        &self,
        kid: Option<&str>,
        algorithm: PublicKeyAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<Arc<KeySet>, TokenRejected> {
        let set = self.set_with(kid, algorithm).await?;
        check(set.verifies(kid, algorithm, message, signature), "the signature is not right")?;
        Ok(set)
    }

    /// Returns a set with the named key. Waits for a fetch only if the current set has no such key.
    async fn set_with(
        &self,
        kid: Option<&str>,
        algorithm: PublicKeyAlgorithm,
    ) -> Result<Arc<KeySet>, TokenRejected> {
        // A token without a name cannot name an unknown key, so the current set decides.
        let has_key = |set: &Arc<KeySet>| kid.is_none() || set.has(kid, algorithm);
        if let Some(set) = self.current().filter(has_key) {
            return Ok(set);
        }
        if let Some(fetch) = self.start_or_join_fetch(COOLDOWN) {
            // The log has the reason of a failure. An earlier set may still have the key.
            let _ = outcome(fetch).await;
        }
        let (set, _) = self
            .unexpired()
            .ok_or(TokenRejected("the keys of the identity provider are not known"))?;
        check(has_key(&set), "the identity provider has no such key")?;
        Ok(set)
    }

    /// Returns the last set and its age, unless it is older than [`MAX_AGE`].
    fn unexpired(&self) -> Option<(Arc<KeySet>, Duration)> {
        let state = self.0.lock();
        let fetched = state.fetched.as_ref()?;
        let age = fetched.requested.elapsed();
        (age <= MAX_AGE).then(|| (Arc::clone(&fetched.set), age))
    }

    /// Joins the fetch that is under way, or starts one if the last began at least `cooldown` ago.
    ///
    /// The fetch is a task of its own: the request that started it may be cancelled while others
    /// wait for the outcome.
    fn start_or_join_fetch(&self, cooldown: Duration) -> Option<Fetch> {
        let mut state = self.0.lock();
        if let Some(fetch) = state.fetch.as_ref().filter(|fetch| is_under_way(fetch)) {
            return Some(fetch.clone());
        }
        let now = Instant::now();
        if state.last_attempt.is_some_and(|last| now.duration_since(last) < cooldown) {
            return None;
        }
        let (sender, fetch) = watch::channel(None);
        state.last_attempt = Some(now);
        state.fetch = Some(fetch.clone());
        drop(state);
        tokio::spawn(Arc::clone(&self.0).fetch(now, sender));
        Some(fetch)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(
        self: Arc<Self>,
        requested: Instant,
        sender: watch::Sender<Option<Result<(), KeyFetchError>>>,
    ) {
        let document = timeout(FETCH_TIMEOUT, self.source.fetch())
            .await
            .unwrap_or(Err(KeyFetchError::TimedOut));
        let outcome = match document.and_then(|document| Ok(KeySet::parse(&document)?)) {
            Ok(set) => {
                let usable = set.len();
                tracing::debug!(
                    target: "stile::auth",
                    usable,
                    "the keys of the identity provider were fetched"
                );
                self.lock().fetched = Some(FetchedSet { set: Arc::new(set), requested });
                Ok(())
            }
            Err(why) => {
                tracing::warn!(
                    target: "stile::auth",
                    %why,
                    "the keys of the identity provider were not fetched"
                );
                Err(why)
            }
        };
        sender.send_replace(Some(outcome));
    }
}

/// Whether a fetch has neither an outcome yet nor ended in a panic of its source.
fn is_under_way(fetch: &Fetch) -> bool {
    fetch.borrow().is_none() && fetch.has_changed().is_ok()
}

/// Waits for the outcome of a fetch, at most [`WAIT_TIMEOUT`].
async fn outcome(mut fetch: Fetch) -> Result<(), KeyFetchError> {
    match timeout(WAIT_TIMEOUT, fetch.wait_for(Option::is_some)).await {
        Ok(Ok(outcome)) => outcome.unwrap_or(Err(KeyFetchError::Unreachable)),
        // The task of the fetch panicked.
        Ok(Err(_)) => Err(KeyFetchError::Unreachable),
        Err(_) => Err(KeyFetchError::TimedOut),
    }
}

#[cfg(test)]
mod tests;
