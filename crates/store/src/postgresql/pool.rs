//! A few connections that requests share.

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

/// An attempt to connect that failed after this long makes the next ones fail at once for a while.
const SLOW: Duration = Duration::from_millis(500);
/// How long that while is.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Connections: the idle ones, and the number of all.
pub(crate) struct Pool {
    settings: Arc<Settings>,
    most: usize,
    idle: Mutex<(Vec<PgConnection>, usize)>,
    returned: Condvar,
    /// When the database last did not answer an attempt to connect.
    silent_since: Mutex<Option<Instant>>,
    /// How often a request found no connection.
    refusals: AtomicU64,
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

impl Pool {
    pub(crate) fn new(settings: Arc<Settings>, most: usize) -> Self {
        Self {
            settings,
            most,
            idle: Mutex::default(),
            returned: Condvar::new(),
            silent_since: Mutex::default(),
            refusals: AtomicU64::new(0),
        }
    }

    /// Adds an open connection.
    pub(crate) fn add(&self, connection: PgConnection) {
        let mut idle = self.lock();
        idle.0.push(connection);
        idle.1 += 1;
    }

    /// Borrows a connection and begins a transaction.
    ///
    /// An idle connection may have been lost with its server. Another one is then tried, and last a
    /// new one. Nothing has happened by then, so this is safe.
    pub(crate) fn begin(&self, text: &str, limit: &ReadLimit) -> Result<Borrowed<'_>, PgError> {
        let none_free =
            |(idle, all): &mut (Vec<PgConnection>, usize)| idle.is_empty() && *all >= self.most;
        let waiting = self.returned.wait_timeout_while(self.lock(), QUEUE, none_free);
        let (mut idle, waited) = waiting.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return Err(PgError::Busy);
        }
        loop {
            let Some(connection) = idle.0.pop() else { break };
            drop(idle);
            let borrowed = Borrowed { pool: self, connection: Some(connection) };
            borrowed.set_limit(limit.clone());
            match borrowed.batch(text) {
                Ok(()) => return Ok(borrowed),
                Err(error) if borrowed.is_usable() || matches!(error, PgError::LimitReached) => {
                    return Err(error);
                }
                Err(_) => {}
            }
            drop(borrowed);
            idle = self.lock();
        }
        idle.1 += 1;
        drop(idle);
        let mut borrowed = Borrowed { pool: self, connection: None };
        borrowed.connection = Some(self.connect()?);
        borrowed.set_limit(limit.clone());
        borrowed.batch(text)?;
        Ok(borrowed)
    }

    /// Opens another connection. For a second after the database has not answered an attempt,
    /// further attempts fail at once, so that requests do not wait for one in vain.
    fn connect(&self) -> Result<PgConnection, PgError> {
        let began = Instant::now();
        let silent_since = *self.silence();
        if silent_since.is_some_and(|since| began.saturating_duration_since(since) < AT_ONCE) {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return Err(PgError::Busy);
        }
        match PgConnection::open(&self.settings) {
            Ok(connection) => {
                *self.silence() = None;
                outage::end();
                Ok(connection)
            }
            Err(error) => {
                outage::report(&error);
                if began.elapsed() > SLOW {
                    *self.silence() = Some(Instant::now());
                }
                self.refusals.fetch_add(1, Ordering::Relaxed);
                Err(PgError::Busy)
            }
        }
    }

    /// Returns what the pool has at this moment.
    pub(crate) fn usage(&self, name: &'static str) -> PoolUse {
        let idle = self.lock();
        let refusals = self.refusals.load(Ordering::Relaxed);
        PoolUse { name, open: idle.1, idle: idle.0.len(), most: self.most, refusals }
    }

    fn silence(&self) -> MutexGuard<'_, Option<Instant>> {
        self.silent_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<PgConnection>, usize)> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
            Err(error) if self.is_usable() => Err(error),
            Err(_) => Err(PgError::Unknown),
        }
    }

    fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.lock().0.push(connection);
            self.pool.returned.notify_one();
        }
        std::mem::forget(self);
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.pool.lock().1 -= 1;
        self.pool.returned.notify_one();
    }
}
