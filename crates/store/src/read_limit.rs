//! When a read of the database ends before it is complete: if it takes too long, or if whoever
//! asked has gone. A read occupies one of a few connections.

use std::time::{Duration, Instant};

use crate::cancellation::Cancellation;

/// The number of connections of one process that read at once.
pub const MAX_READERS: usize = 8;

/// The limit of one read. Clones limit the same read.
#[derive(Clone, Debug)]
pub struct ReadLimit {
    cancellation: Cancellation,
    /// `None` for a read of the owner on the command line, who can interrupt the program.
    deadline: Option<Instant>,
}

impl ReadLimit {
    /// Limits a read to `max`, and to the time until it is cancelled.
    pub fn new(max: Duration, cancellation: Cancellation) -> Self {
        Self { cancellation, deadline: Instant::now().checked_add(max) }
    }

    /// Returns a limit that is never reached.
    pub fn none() -> Self {
        Self { cancellation: Cancellation::default(), deadline: None }
    }

    /// Returns whether the read must end now.
    pub fn is_reached(&self) -> bool {
        self.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns the time until the deadline. `None` if there is no deadline.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Waits until nobody waits for the read any more.
    pub(crate) async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }

    /// Returns whether nobody waits for the read any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }
}
