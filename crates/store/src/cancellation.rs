//! Ends work that nobody waits for any more.
//!
//! The work runs on a thread that cannot be stopped from outside, so it asks from time to time. A
//! future that waits for the work owns a [`CancelOnDrop`], and is dropped if its client hangs up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether some work is cancelled. Clones are about the same work.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<Signal>);

#[derive(Debug, Default)]
struct Signal {
    is_cancelled: AtomicBool,
    cancelled: Notify,
}

/// Cancels work when dropped.
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Cancellation {
    /// Cancels the work, which ends at the next point where that is safe.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Release);
        self.0.cancelled.notify_waiters();
    }

    /// Returns a guard that cancels the work when dropped.
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// Returns whether the work was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Acquire)
    }

    /// Waits until the work is cancelled.
    pub async fn cancelled(&self) {
        // A cancellation after this line is noticed.
        let cancelled = self.0.cancelled.notified();
        if !self.is_cancelled() {
            cancelled.await;
        }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
