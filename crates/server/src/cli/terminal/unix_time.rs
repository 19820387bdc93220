//! The times of tokens and sessions, which are whole seconds since 1970.

use stile_domain::records::instant::Instant;

use super::local_time;

/// Returns seconds since 1970 as RFC 3339 in UTC: `2027-01-15T08:00:00Z`.
pub(crate) fn rfc3339(seconds: i64) -> String {
    instant(seconds).to_rfc3339()
}

/// Formats Unix seconds to the minute, as in `2026-01-31 09:05`.
pub(crate) fn minute(seconds: i64) -> String {
    local_time::minute(instant(seconds))
}

/// Returns the time that Unix seconds are.
pub(crate) fn instant(seconds: i64) -> Instant {
    Instant::from_seconds(seconds)
}
