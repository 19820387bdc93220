//! Lets one transaction of each tenant write at a time, before it takes a connection.
//!
//! The database decides who writes, since other servers write too. But a transaction that waits in
//! the database holds one of the few connections. Without turns, a person who writes much would
//! keep all others of the same server from writing.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::error::PgError;
use super::pool::QUEUE;

/// The tenants that write at this moment, by number.
#[derive(Default)]
pub(crate) struct Turns {
    writing: Mutex<HashSet<i64>>,
    ended: Condvar,
}

/// The permission to write, until it is dropped.
pub(crate) struct Turn<'t> {
    turns: &'t Turns,
    tenant: i64,
}

impl Turns {
    /// Waits until no other transaction of this server writes for the tenant.
    ///
    /// # Errors
    /// [`PgError::Busy`] if that takes too long.
    pub(crate) fn wait(&self, tenant: i64) -> Result<Turn<'_>, PgError> {
        let is_writing = |writing: &mut HashSet<i64>| writing.contains(&tenant);
        let waited = self.ended.wait_timeout_while(self.lock(), QUEUE, is_writing);
        let (mut writing, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(PgError::Busy);
        }
        writing.insert(tenant);
        Ok(Turn { turns: self, tenant })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().remove(&self.tenant);
        self.turns.ended.notify_all();
    }
}
