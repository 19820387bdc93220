//! The public keys of an identity provider, fetched and kept.
//!
//! Tokens come in before anything of them is known, so what a token can make this server do is bounded: at most
//! one fetch in [`COOLDOWN`] for all requests together, whatever they name. A provider that cannot be reached
//! changes nothing until [`HARD_STOP`], and a key that it withdraws is forgotten after [`REFETCH_AFTER`] of use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::Rejected;
use super::compact::check;
use super::jwk::{Algorithm, KeySet};

/// The longest document that is read.
pub const MAX_SET_BYTES: usize = 256 * 1024;

/// How long a fetch may take in all.
const FETCH_LIMIT: Duration = Duration::from_secs(5);

/// How long a request waits for a fetch. A little more than the fetch may take, so that it ends first.
const PATIENCE: Duration = Duration::from_secs(6);

/// How far apart the starts of two fetches are that requests ask for.
const COOLDOWN: Duration = Duration::from_secs(30);

/// The age from which a set that is used is fetched again, so that a key that was withdrawn goes.
const REFETCH_AFTER: Duration = Duration::from_secs(10 * 60);

/// The age from which a set is not used any more: nobody could tell us that its keys were withdrawn.
const HARD_STOP: Duration = Duration::from_secs(24 * 60 * 60);

/// Where a set of keys comes from. Whoever implements this needs no limit in time of its own, follows no
/// redirect, and reads no more than [`MAX_SET_BYTES`].
pub trait KeySource: Send + Sync + 'static {
    /// Fetches the document. The future is dropped when it takes too long.
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, FetchError>>;
}

/// Why there is no new set of keys. It has no room for an address or for anything that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Nobody answered there, or not in a way that is understood.
    #[error("the source of the keys cannot be reached")]
    Unreachable,
    /// The answer took too long.
    #[error("the source of the keys did not answer in time")]
    TimedOut,
    /// The answer was of another status than 200.
    #[error("the source of the keys answered with status {0}")]
    Status(u16),
    /// The answer was longer than [`MAX_SET_BYTES`], or a set of more keys than anybody has.
    #[error("the set of keys is too long")]
    TooLong,
    /// The answer was no set of keys, or one in which a name is repeated.
    #[error("what was fetched is not a set of keys")]
    Malformed,
    /// The answer was a set without a key for RS256 or ES256 that is strong enough.
    #[error("no key of the set can be used")]
    NoUsableKey,
}

/// The keys of one identity provider. Clones share them.
///
/// Ages are measured by the monotonic clock, which nobody sets back.
#[derive(Clone)]
pub struct Jwks(Arc<Shared>);

struct Shared {
    source: Box<dyn KeySource>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last set that was fetched.
    good: Option<Good>,
    /// When the last fetch began, whatever came of it.
    attempted: Option<Instant>,
    /// The last fetch, for whoever waits for it.
    flight: Option<Flight>,
}

struct Good {
    set: Arc<KeySet>,
    /// When its fetch began: the set is at least as old as that.
    asked: Instant,
}

/// A fetch that may be under way: nothing, until it has ended.
type Flight = watch::Receiver<Option<Result<(), FetchError>>>;

impl Jwks {
    /// Keys that come from `source`; none yet.
    pub fn new(source: impl KeySource) -> Self {
        Self(Arc::new(Shared { source: Box::new(source), state: Mutex::default() }))
    }

    /// Fetches the set now, or waits for the fetch that is under way. For the start of a server: it does not ask
    /// when the last fetch was.
    ///
    /// # Errors
    /// [`FetchError`]. What was known before stays, and later requests will try again.
    pub async fn refresh(&self) -> Result<(), FetchError> {
        match self.fly(Duration::ZERO) {
            Some(flight) => landed(flight).await,
            None => Err(FetchError::Unreachable),
        }
    }

    /// Verifies a signature with the key that a token means.
    ///
    /// # Errors
    /// [`Rejected`]: the signature is not right, or there is no such key, or none that may still be used.
    pub(super) async fn verify(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Rejected> {
        let set = self.set_for(kid, algorithm).await?;
        check(set.verifies(kid, algorithm, message, signature), "the signature is not right")
    }

    /// A set that has a key for such a token.
    async fn set_for(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<Arc<KeySet>, Rejected> {
        // Without a name there is none that is unknown: the set that we have decides.
        let knows = |set: &KeySet| kid.is_none() || set.has(kid, algorithm);
        if let Some((set, age)) = self.good().filter(|(set, _)| knows(set)) {
            if age > REFETCH_AFTER {
                self.fly(COOLDOWN);
            }
            return Ok(set);
        }
        if let Some(flight) = self.fly(COOLDOWN) {
            // Why it failed is in the log. There may have been a set before, and it may be good still.
            let _ = landed(flight).await;
        }
        let (set, _) = self.good().ok_or(Rejected("the keys of the identity provider are not known"))?;
        check(knows(&set), "the identity provider has no such key").map(|()| set)
    }

    /// The last set, while it may be used, and its age.
    fn good(&self) -> Option<(Arc<KeySet>, Duration)> {
        let state = self.0.lock();
        let good = state.good.as_ref()?;
        let age = good.asked.elapsed();
        (age <= HARD_STOP).then(|| (Arc::clone(&good.set), age))
    }

    /// Joins the fetch that is under way, or starts one if the last began at least `apart` ago.
    ///
    /// It flies alone: whoever made it start may hang up, and others wait for it.
    fn fly(&self, apart: Duration) -> Option<Flight> {
        let mut state = self.0.lock();
        if let Some(flight) = state.flight.as_ref().filter(|flight| is_under_way(flight)) {
            return Some(flight.clone());
        }
        let now = Instant::now();
        if state.attempted.is_some_and(|last| now.duration_since(last) < apart) {
            return None;
        }
        let (landing, flight) = watch::channel(None);
        state.attempted = Some(now);
        state.flight = Some(flight.clone());
        drop(state);
        tokio::spawn(Arc::clone(&self.0).fetch(now, landing));
        Some(flight)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(self: Arc<Self>, asked: Instant, landing: watch::Sender<Option<Result<(), FetchError>>>) {
        let fetched = timeout(FETCH_LIMIT, self.source.fetch()).await.unwrap_or(Err(FetchError::TimedOut));
        let outcome = match fetched.and_then(|document| KeySet::parse(&document)) {
            Ok(set) => {
                tracing::debug!(target: "stile::auth", usable = set.len(), "the keys of the identity provider were fetched");
                self.lock().good = Some(Good { set: Arc::new(set), asked });
                Ok(())
            }
            Err(why) => {
                tracing::warn!(target: "stile::auth", %why, "the keys of the identity provider were not fetched");
                Err(why)
            }
        };
        landing.send_replace(Some(outcome));
    }
}

/// Whether a fetch has not ended, neither with an outcome nor by a panic of its source.
fn is_under_way(flight: &Flight) -> bool {
    flight.borrow().is_none() && flight.has_changed().is_ok()
}

/// Waits for a fetch, but not for ever.
async fn landed(mut flight: Flight) -> Result<(), FetchError> {
    match timeout(PATIENCE, flight.wait_for(Option::is_some)).await {
        Ok(Ok(outcome)) => outcome.unwrap_or(Err(FetchError::Unreachable)),
        // Its task is gone without an outcome.
        Ok(Err(_)) => Err(FetchError::Unreachable),
        Err(_) => Err(FetchError::TimedOut),
    }
}
