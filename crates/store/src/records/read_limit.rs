//! When a read of the database ends before it is complete: if it takes too long, or if whoever
//! asked has gone. A read occupies one of a few connections.

use std::time::{Duration, Instant};

use crate::cancellation::Cancellation;

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

    /// Returns whether nobody waits for the read any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }
}
