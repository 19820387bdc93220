//! Makes room for a new connection at a full server.
//!
//! The number of connections is bounded, and a client that opens thousands and sends nothing must
//! not keep others out. So each connection without an active request is queued here, and when a new
//! one arrives at a full server, the connection that has been idle for longest is closed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The connections without an active request, the one idle for longest first.
#[derive(Clone, Default)]
pub struct IdleConnections {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    next: AtomicU64,
    waiting: Mutex<BTreeMap<u64, CancellationToken>>,
}

impl IdleConnections {
    /// Adds a connection that became idle, and returns its number. Cancelling `close` closes the
    /// connection.
    pub fn add(&self, close: CancellationToken) -> u64 {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, close);
        number
    }

    /// Removes a connection that is no longer idle.
    pub fn remove(&self, number: u64) {
        self.lock().remove(&number);
    }

    /// Closes the connection that has been idle for longest. Returns `false` if none is idle.
    pub fn close_longest_idle(&self) -> bool {
        let first = self.lock().pop_first();
        if let Some((_, close)) = &first {
            close.cancel();
        }
        first.is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, CancellationToken>> {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_connection_is_closed_first_and_busy_ones_stay() {
        let idle = IdleConnections::default();
        let tokens: Vec<CancellationToken> = (0..3).map(|_| CancellationToken::new()).collect();
        let numbers: Vec<u64> = tokens.iter().map(|token| idle.add(token.clone())).collect();
        idle.remove(numbers[0]);
        assert!(idle.close_longest_idle());
        assert_eq!(
            tokens.iter().map(CancellationToken::is_cancelled).collect::<Vec<_>>(),
            [false, true, false]
        );
        assert!(idle.close_longest_idle());
        assert!(!idle.close_longest_idle());
    }
}
