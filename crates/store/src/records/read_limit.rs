//! When a read of the database ends before it is complete.
//!
//! A read occupies one of a few connections. It ends early if it takes too long, or if whoever
//! asked has gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The limit of one read. Clones limit the same read.
#[derive(Clone, Debug)]
pub struct ReadLimit {
    cancelled: Arc<AtomicBool>,
    /// `None` for a read of the owner on the command line, who can interrupt the program.
    deadline: Option<Instant>,
}

/// Ends a read when dropped. A future that waits for a read owns one, so that the read ends if the
/// client hangs up.
#[derive(Debug)]
pub struct CancelOnDrop(Arc<AtomicBool>);

impl ReadLimit {
    /// Limits a read to `max`, and returns what cancels it.
    pub fn new(max: Duration) -> (Self, CancelOnDrop) {
        let cancelled = Arc::new(AtomicBool::new(false));
        let deadline = Instant::now().checked_add(max);
        (Self { cancelled: Arc::clone(&cancelled), deadline }, CancelOnDrop(cancelled))
    }

    /// Returns a limit that is never reached.
    pub fn none() -> Self {
        Self { cancelled: Arc::default(), deadline: None }
    }

    /// Returns whether the read must end now.
    pub fn is_reached(&self) -> bool {
        self.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns whether nobody waits for the read any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
