//! Room for one more connection, when there is none.
//!
//! Connections are bounded in number, and someone who opens thousands and sends nothing must not
//! keep others out. So each connection that has no request under way stands in a line, and when a
//! new one arrives at a full server, the one that has stood longest goes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The connections that have no request under way, longest first.
#[derive(Clone, Default)]
pub struct IdleConnections {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    next: AtomicU64,
    line: Mutex<BTreeMap<u64, CancellationToken>>,
}

impl IdleConnections {
    /// Puts a connection at the end of the line; returns its number.
    pub fn join(&self, close: CancellationToken) -> u64 {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, close);
        number
    }

    /// Takes a connection out of the line.
    pub fn leave(&self, number: u64) {
        self.lock().remove(&number);
    }

    /// Closes the connection that has waited longest, if any waits.
    pub fn close_first(&self) -> bool {
        let first = self.lock().pop_first();
        if let Some((_, close)) = &first {
            close.cancel();
        }
        first.is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, CancellationToken>> {
        self.shared.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_waiting_goes_first_and_the_busy_stay() {
        let line = IdleConnections::default();
        let tokens: Vec<CancellationToken> = (0..3).map(|_| CancellationToken::new()).collect();
        let numbers: Vec<u64> = tokens.iter().map(|token| line.join(token.clone())).collect();
        line.leave(numbers[0]);
        assert!(line.close_first());
        assert_eq!(
            tokens.iter().map(CancellationToken::is_cancelled).collect::<Vec<_>>(),
            [false, true, false]
        );
        assert!(line.close_first());
        assert!(!line.close_first());
    }
}
