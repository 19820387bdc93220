//! Ends work that nobody waits for any more.
//!
//! The work runs on a thread that cannot be stopped from outside, so it asks from time to time. A
//! future that waits for the work owns a [`CancelOnDrop`], and is dropped if its client hangs up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether some work is cancelled. Clones are about the same work.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

/// Cancels work when dropped.
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Cancellation {
    /// Cancels the work, which ends at the next point where that is safe.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns a guard that cancels the work when dropped.
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// Returns whether the work was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
