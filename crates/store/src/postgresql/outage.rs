//! One line in the log for an outage of the database, whatever the number of requests that meet it.
//!
//! A process has one database, so the outage is the process's.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often an outage that goes on is logged again.
const AGAIN: Duration = Duration::from_secs(60);

/// When the outage began, and when it was logged last.
#[derive(Clone, Copy, Debug)]
struct Outage {
    began: Instant,
    logged: Instant,
}

static OUTAGE: Mutex<Option<Outage>> = Mutex::new(None);

/// Logs that the database cannot answer: when an outage begins, and then once a minute.
pub(crate) fn report(reason: &dyn Display) {
    if note(&mut lock(), Instant::now()) {
        tracing::warn!(
            %reason,
            "the database cannot answer; requests are refused until it does, and this line is \
             repeated once a minute"
        );
    }
}

/// Logs that the database answers again, if an outage was logged.
pub(crate) fn end() {
    if let Some(Outage { began, .. }) = lock().take() {
        tracing::warn!(seconds = began.elapsed().as_secs(), "the database answers again");
    }
}

/// Returns whether the log already says that the database cannot answer.
pub fn is_in_outage() -> bool {
    lock().is_some()
}

/// Notes a failure, and returns whether it is worth a line.
fn note(outage: &mut Option<Outage>, now: Instant) -> bool {
    match outage {
        Some(known) if now.saturating_duration_since(known.logged) < AGAIN => false,
        Some(known) => {
            known.logged = now;
            true
        }
        None => {
            *outage = Some(Outage { began: now, logged: now });
            true
        }
    }
}

fn lock() -> MutexGuard<'static, Option<Outage>> {
    OUTAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_worth_one_line_a_minute() {
        let (mut outage, began) = (None, Instant::now());
        let said: Vec<u64> = (0..=150)
            .filter(|second| note(&mut outage, began + Duration::from_secs(*second)))
            .collect();
        assert_eq!(said, [0, 60, 120]);
        outage = None;
        assert!(note(&mut outage, began + Duration::from_secs(151)), "the next outage");
    }
}
