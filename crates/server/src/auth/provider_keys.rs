//! The public keys of an identity provider, fetched and kept in memory.
//!
//! Anybody can send a token, so the work that a token can cause is bounded: while the provider
//! answers, all requests together start at most one fetch in vain per [`Lack::cooldown`]. While the
//! provider does not answer, they start at most one per [`PROBE_INTERVAL`], so that the first
//! request after its recovery finds it. A token that only the provider could settle is refused as
//! [`TokenRejected::PROVIDER_DOWN`], and never as invalid.
//!
//! An unreachable provider changes nothing for known keys until [`MAX_AGE`]. A key that the
//! provider withdraws is forgotten at the first use after [`REFETCH_AFTER`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::key_set::{KeySet, KeySetError};
use super::rejection::TokenRejected;
use super::signature::PublicKeyAlgorithm;

const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time that a request waits for a fetch. It is longer than [`FETCH_TIMEOUT`], so that
/// the fetch ends first.
const WAIT_TIMEOUT: Duration = Duration::from_secs(6);

/// The least time between the starts of two fetches after the first has failed.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The least time between the starts of two fetches for tokens with an unknown `kid`, and of two
/// that only the age of the set asks for.
const COOLDOWN: Duration = Duration::from_secs(30);

/// The least time between the starts of two fetches for tokens with a wrong signature.
const REPLACED_COOLDOWN: Duration = Duration::from_secs(10);

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
    /// The last fetch, for requests that wait for it.
    fetch: Option<Fetch>,
    /// When a token with an unknown `kid` last started a fetch that did not help.
    unknown: Option<Instant>,
    /// When a token with a wrong signature last started a fetch that did not help.
    replaced: Option<Instant>,
}

impl State {
    /// Returns when tokens that lack this last started a fetch that did not help.
    fn in_vain(&mut self, lack: Lack) -> &mut Option<Instant> {
        match lack {
            Lack::UnknownKey => &mut self.unknown,
            Lack::ReplacedKey => &mut self.replaced,
        }
    }

    /// Forgets that a fetch did not help: it failed, so it brought no set that lacks the key.
    fn forget_in_vain(&mut self, failed: Instant) {
        for last in [&mut self.unknown, &mut self.replaced] {
            last.take_if(|last| *last == failed);
        }
    }
}

/// What a token lacks that a newer set of keys may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// No key of the set fits the token's header.
    UnknownKey,
    /// A key fits, and did not sign the token. The provider may have replaced it under its `kid`.
    ReplacedKey,
}

impl Lack {
    /// Returns the least time between two fetches that do not help.
    fn cooldown(self) -> Duration {
        match self {
            Self::UnknownKey => COOLDOWN,
            Self::ReplacedKey => REPLACED_COOLDOWN,
        }
    }
}

struct FetchedSet {
    set: Arc<KeySet>,
    /// When the fetch began: the set may be as old as that.
    requested: Instant,
}

/// A fetch that has begun.
#[derive(Clone)]
struct Fetch {
    began: Instant,
    /// `None` until the fetch has ended.
    outcome: watch::Receiver<Option<Result<(), KeyFetchError>>>,
}

impl Fetch {
    /// Whether the fetch has neither an outcome yet nor ended in a panic of its source.
    fn is_under_way(&self) -> bool {
        self.outcome.borrow().is_none() && self.outcome.has_changed().is_ok()
    }

    fn succeeded(&self) -> bool {
        *self.outcome.borrow() == Some(Ok(()))
    }

    /// Waits for the outcome, at most [`WAIT_TIMEOUT`].
    async fn outcome(mut self) -> Result<(), KeyFetchError> {
        match timeout(WAIT_TIMEOUT, self.outcome.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.unwrap_or(Err(KeyFetchError::Unreachable)),
            // The task of the fetch panicked.
            Ok(Err(_)) => Err(KeyFetchError::Unreachable),
            Err(_) => Err(KeyFetchError::TimedOut),
        }
    }
}

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
        let fetch = self.0.join_or_start(&mut self.0.lock());
        fetch.outcome().await
    }

    /// Returns the last set, unless it is older than [`MAX_AGE`], without waiting. Starts a fetch
    /// if the set is older than [`REFETCH_AFTER`].
    pub(super) fn current(&self) -> Option<Arc<KeySet>> {
        let (set, age) = self.unexpired()?;
        if age > REFETCH_AFTER {
            let mut state = self.0.lock();
            let is_due = |fetch: &Fetch| fetch.began.elapsed() >= COOLDOWN;
            if state.fetch.as_ref().is_none_or(is_due) {
                self.0.join_or_start(&mut state);
            }
        }
        Some(set)
    }

    /// Verifies a signature with the key that a token's header means, and returns the set with that
    /// key. If no known key verifies the signature, the token is not refused before a fetch, or
    /// before a recent fetch that did not help.
    ///
    /// # Errors
    /// [`TokenRejected`]: the signature is wrong, or no key that may still be used fits.
    /// [`TokenRejected::PROVIDER_DOWN`]: a newer set could have the key, and cannot be fetched.
    pub(super) async fn verify(
        &self,
        kid: Option<&str>,
        algorithm: PublicKeyAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<Arc<KeySet>, TokenRejected> {
        let judge = |set: &Option<Arc<KeySet>>| match set {
            Some(set) if set.verifies(kid, algorithm, message, signature) => Ok(Arc::clone(set)),
            Some(set) if set.has(kid, algorithm) => Err(Lack::ReplacedKey),
            _ => Err(Lack::UnknownKey),
        };
        let arrived = Instant::now();
        let mut set = self.current();
        let mut verdict = judge(&set);
        // A fetch that began before the token came may fail although the provider is back, or
        // bring an older set. In that case a second fetch follows.
        for _ in 0..2 {
            let Err(lack) = verdict else { break };
            let Some(fetch) = self.fetch_for(lack) else { break };
            let began = fetch.began;
            // The log has the reason of a failure. An earlier set stays.
            let _ = fetch.outcome().await;
            let before = std::mem::replace(&mut set, self.unexpired().map(|(set, _)| set));
            if !is_same(&before, &set) {
                verdict = judge(&set);
            }
            if verdict.is_ok() {
                // The fetch was not in vain.
                *self.0.lock().in_vain(lack) = None;
            }
            if began >= arrived {
                break;
            }
        }
        verdict.map_err(|lack| match lack {
            _ if set.is_none() || !self.0.last_fetch_succeeded() => TokenRejected::PROVIDER_DOWN,
            Lack::UnknownKey => TokenRejected("the identity provider has no such key"),
            Lack::ReplacedKey => TokenRejected("the signature is not right"),
        })
    }

    /// Returns the last set and its age, unless it is older than [`MAX_AGE`].
    fn unexpired(&self) -> Option<(Arc<KeySet>, Duration)> {
        let state = self.0.lock();
        let fetched = state.fetched.as_ref()?;
        let age = fetched.requested.elapsed();
        (age <= MAX_AGE).then(|| (Arc::clone(&fetched.set), age))
    }

    /// Joins the fetch that is under way, or starts one for a token that lacks a key. Returns
    /// `None` if the last such fetch, or the last that failed, was too short a time ago.
    fn fetch_for(&self, lack: Lack) -> Option<Fetch> {
        let mut state = self.0.lock();
        match &state.fetch {
            Some(fetch) if fetch.is_under_way() => return Some(fetch.clone()),
            Some(fetch) if !fetch.succeeded() => {
                if fetch.began.elapsed() < PROBE_INTERVAL {
                    return None;
                }
            }
            _ => {
                let in_vain = state.in_vain(lack);
                if in_vain.is_some_and(|last| last.elapsed() < lack.cooldown()) {
                    return None;
                }
            }
        }
        let fetch = self.0.join_or_start(&mut state);
        *state.in_vain(lack) = Some(fetch.began);
        Some(fetch)
    }
}

/// Whether both are the same set, which need not be judged twice.
fn is_same(one: &Option<Arc<KeySet>>, other: &Option<Arc<KeySet>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last fetch brought a set.
    fn last_fetch_succeeded(&self) -> bool {
        self.lock().fetch.as_ref().is_some_and(Fetch::succeeded)
    }

    /// Joins the fetch that is under way, or starts one.
    ///
    /// The fetch is a task of its own: the request that started it may be cancelled while others
    /// wait for the outcome.
    fn join_or_start(self: &Arc<Self>, state: &mut State) -> Fetch {
        if let Some(fetch) = state.fetch.as_ref().filter(|fetch| fetch.is_under_way()) {
            return fetch.clone();
        }
        if let Some(failed) = state.fetch.take_if(|fetch| !fetch.succeeded()) {
            state.forget_in_vain(failed.began);
        }
        let (sender, outcome) = watch::channel(None);
        let fetch = Fetch { began: Instant::now(), outcome };
        state.fetch = Some(fetch.clone());
        tokio::spawn(Arc::clone(self).fetch(fetch.began, sender));
        fetch
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

#[cfg(test)]
mod tests;
