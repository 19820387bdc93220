//! A few connections that requests share.
//!
//! A connection is asked whether it still answers each time it is taken, by the statement that
//! begins its transaction. So the question costs nothing, and a connection that a firewall dropped
//! without a word costs one request [`ANSWERS_WITHIN`] and no request more: the pools of a database
//! share their [`Doubts`], and none asks another connection that may have been dropped with it.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::PgConnection;
use super::error::PgError;
use super::outage;
use super::settings::Settings;
use crate::read_limit::ReadLimit;

/// How long a request waits for a connection.
pub(super) const QUEUE: Duration = Duration::from_secs(10);
/// How long an idle connection may take to begin a transaction, which waits for nobody. One that
/// takes longer is closed, and another one is opened.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_millis(1500);
/// How long a connection that nobody uses stays open.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// An attempt to connect that failed after this long makes the next ones fail at once for a while.
const SLOW: Duration = Duration::from_millis(500);
/// How long that while is.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Connections: the idle ones, and the number of all.
pub(crate) struct Pool {
    settings: Arc<Settings>,
    doubts: Arc<Doubts>,
    most: usize,
    state: Mutex<PoolState>,
    returned: Condvar,
    /// How often a request found no connection.
    refusals: AtomicU64,
}

#[derive(Default)]
struct PoolState {
    /// The connections that no request uses. The last one was used last.
    idle: Vec<IdleConnection>,
    /// The number of all connections.
    open: usize,
}

struct IdleConnection {
    connection: PgConnection,
    /// When the database answered last.
    answered: Instant,
}

/// Which connections to a database may have fallen silent, and whether new ones are tried.
#[derive(Default)]
pub(crate) struct Doubts {
    /// Connections that did not answer after this moment are not used again.
    since: Mutex<Option<Instant>>,
    /// Until when no other connection is tried, after an attempt that took long.
    no_attempt_until: Mutex<Option<Instant>>,
}

/// What a pool has, and how often it had nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// What the connections are for.
    pub name: &'static str,
    /// How many connections are open.
    pub open: usize,
    /// Those of them that no request uses.
    pub idle: usize,
    /// The most connections that are ever open.
    pub most: usize,
    /// How often a request waited in vain for a connection, or could not connect.
    pub refusals: u64,
}

/// A borrowed connection with an open transaction. [`Borrowed::end`] and [`Borrowed::commit`]
/// return the connection. If neither is called, because of a panic, the connection is closed,
/// which ends the transaction.
pub(crate) struct Borrowed<'p> {
    pool: &'p Pool,
    connection: Option<PgConnection>,
}

impl Doubts {
    /// Notes that a connection did not answer which was asked at `asked`.
    fn raise(&self, asked: Instant) {
        let mut since = self.lock();
        *since = Some(since.map_or(asked, |since| since.max(asked)));
    }

    fn concern(&self, answered: Instant) -> bool {
        self.lock().is_some_and(|since| answered < since)
    }

    /// Returns whether a connection may be tried now, which takes so long at most. While the
    /// database does not answer, one attempt is made at a time.
    fn admit_attempt(&self, most: Duration) -> bool {
        let (mut until, now) = (self.no_attempt_until(), Instant::now());
        match *until {
            Some(end) if now < end => false,
            Some(_) => {
                *until = Some(now + most);
                true
            }
            None => true,
        }
    }

    /// Notes how long an attempt took that failed.
    fn note_failure(&self, took: Duration) {
        *self.no_attempt_until() = (took > SLOW).then(|| Instant::now() + AT_ONCE);
    }

    fn note_success(&self) {
        *self.no_attempt_until() = None;
    }

    fn no_attempt_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.no_attempt_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    pub(crate) fn new(settings: Arc<Settings>, doubts: Arc<Doubts>, most: usize) -> Self {
        Self {
            settings,
            doubts,
            most,
            state: Mutex::default(),
            returned: Condvar::new(),
            refusals: AtomicU64::new(0),
        }
    }

    /// Adds an open connection.
    pub(crate) fn add(&self, connection: PgConnection) {
        let mut state = self.lock();
        state.idle.push(IdleConnection { connection, answered: Instant::now() });
        state.open += 1;
    }

    /// Borrows a connection and begins a transaction.
    ///
    /// An idle connection may have been lost with its server, or may have fallen silent. Another
    /// one is then tried, and last a new one. Nothing has happened by then, so this is safe.
    pub(crate) fn begin(&self, text: &str, limit: &ReadLimit) -> Result<Borrowed<'_>, PgError> {
        let queue_ends = Instant::now() + QUEUE;
        while let Some(borrowed) = self.take(queue_ends)? {
            borrowed.set_limit(limit.clone());
            let asked = Instant::now();
            match borrowed.batch_within(text, ANSWERS_WITHIN) {
                Ok(()) => return Ok(borrowed),
                Err(PgError::LimitReached) => return Err(PgError::LimitReached),
                Err(error) if borrowed.is_usable() && !error.ends_connection() => {
                    return Err(error);
                }
                Err(PgError::NoAnswer) => {
                    tracing::debug!("an idle connection to the database does not answer");
                    self.doubts.raise(asked);
                }
                Err(_) => {}
            }
        }
        let mut borrowed = Borrowed { pool: self, connection: None };
        borrowed.connection = Some(self.connect()?);
        borrowed.set_limit(limit.clone());
        borrowed.batch(text)?;
        Ok(borrowed)
    }

    /// Waits for a connection until `end`. Returns an idle one, or `None` for the permission to
    /// open another one, which then counts as open.
    fn take(&self, end: Instant) -> Result<Option<Borrowed<'_>>, PgError> {
        let none_free = |state: &mut PoolState| state.idle.is_empty() && state.open >= self.most;
        let left = end.saturating_duration_since(Instant::now());
        let waiting = self.returned.wait_timeout_while(self.lock(), left, none_free);
        let (mut state, waited) = waiting.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return Err(PgError::Busy);
        }
        let closed = self.take_out_worn(&mut state);
        let found = state.idle.pop();
        if found.is_none() {
            state.open += 1;
        }
        drop(state);
        drop(closed);
        Ok(found.map(|idle| Borrowed { pool: self, connection: Some(idle.connection) }))
    }

    /// Closes the idle connections that are old, that nobody has used for a while, or that may have
    /// fallen silent.
    pub(crate) fn close_worn(&self) {
        let mut state = self.lock();
        let closed = self.take_out_worn(&mut state);
        drop(state);
        drop(closed);
    }

    /// Takes out the idle connections that are not to be used again. They no longer count as open.
    fn take_out_worn(&self, state: &mut PoolState) -> Vec<IdleConnection> {
        let now = Instant::now();
        let is_worn = |idle: &mut IdleConnection| {
            idle.connection.is_worn(now)
                || now.saturating_duration_since(idle.answered) > IDLE
                || self.doubts.concern(idle.answered)
        };
        let worn: Vec<IdleConnection> = state.idle.extract_if(.., is_worn).collect();
        state.open -= worn.len();
        worn
    }

    /// Opens another connection. After the database has not answered an attempt, one attempt is
    /// made at a time, with a second between them, and further ones fail at once. So one request
    /// waits in vain, and not all.
    fn connect(&self) -> Result<PgConnection, PgError> {
        if !self.doubts.admit_attempt(self.settings.connect_timeout()) {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return Err(PgError::Busy);
        }
        let began = Instant::now();
        match PgConnection::open(&self.settings) {
            Ok(connection) => {
                self.doubts.note_success();
                outage::end();
                Ok(connection)
            }
            Err(error) => {
                outage::report(&error);
                self.doubts.note_failure(began.elapsed());
                self.refusals.fetch_add(1, Ordering::Relaxed);
                Err(PgError::Busy)
            }
        }
    }

    /// Returns what the pool has at this moment.
    pub(crate) fn usage(&self, name: &'static str) -> PoolUse {
        let state = self.lock();
        let refusals = self.refusals.load(Ordering::Relaxed);
        PoolUse { name, open: state.open, idle: state.idle.len(), most: self.most, refusals }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Borrowed<'_> {
    type Target = PgConnection;

    #[expect(clippy::expect_used, reason = "the connection is taken only when the borrow ends")]
    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("the connection is borrowed")
    }
}

impl Borrowed<'_> {
    /// Ends the transaction without keeping what it wrote, and returns the connection.
    pub(crate) fn end(self, text: &str) {
        self.set_limit(ReadLimit::none());
        if self.is_usable() && self.batch(text).is_ok() {
            self.give_back();
        }
    }

    /// Keeps what the transaction wrote, durably, and returns the connection.
    ///
    /// # Errors
    /// [`PgError::Unknown`] if the answer to the commit was lost, so that nobody knows whether the
    /// database kept the write.
    pub(crate) fn commit(self) -> Result<(), PgError> {
        match self.batch("COMMIT") {
            Ok(()) => {
                self.give_back();
                Ok(())
            }
            // A database that ends the connection may have kept the write before it said so.
            Err(error) if self.is_usable() && !error.ends_connection() => Err(error),
            Err(_) => Err(PgError::Unknown),
        }
    }

    fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.lock().idle.push(IdleConnection { connection, answered: Instant::now() });
            self.pool.returned.notify_one();
        }
        std::mem::forget(self);
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.pool.lock().open -= 1;
        self.pool.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_connection_casts_doubt_on_those_that_answered_before_it_was_asked() {
        let (doubts, asked) = (Doubts::default(), Instant::now());
        let before = asked.checked_sub(Duration::from_secs(1)).unwrap();
        assert!(!doubts.concern(before));
        doubts.raise(asked);
        doubts.raise(before);
        assert!(doubts.concern(before));
        assert!(!doubts.concern(asked), "a connection that was opened since");
    }

    #[test]
    fn while_the_database_does_not_answer_one_attempt_is_made_at_a_time() {
        let doubts = Doubts::default();
        let admits = || doubts.admit_attempt(Duration::from_secs(60));
        assert!(admits() && admits(), "nothing is wrong yet");
        doubts.note_failure(SLOW / 2);
        assert!(admits(), "it refuses at once, which costs nobody anything");
        doubts.note_failure(SLOW * 2);
        assert!(!admits(), "not within a second");
        *doubts.no_attempt_until() = Some(Instant::now());
        assert!(admits() && !admits(), "one tries, and the others do not wait for it");
        doubts.note_success();
        assert!(admits() && admits());
    }
}
