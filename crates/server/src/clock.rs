//! The time of the machine, for code that has no clock of its own.

use std::time::{SystemTime, UNIX_EPOCH};

use stile_domain::records::instant::Instant;
pub(crate) use stile_store::clock::wall_clock;

/// Returns the time by which grants are judged.
pub(crate) fn now() -> Instant {
    let since = wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Returns UTC seconds since 1970; 0 for an earlier time.
pub(crate) fn unix_seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
