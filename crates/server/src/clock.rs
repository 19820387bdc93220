//! The time, where the parts that have no clock are told of it.

use std::time::{SystemTime, UNIX_EPOCH};

use stile_domain::records::instant::Instant;

/// The time by which grants are judged.
pub(crate) fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
