//! The time of a line as text.

use stile_domain::records::instant::Instant;

/// Formats a time as RFC 3339 in UTC with exactly six decimals, so that times sort as text.
pub(super) fn timestamp(time: Instant) -> String {
    let second = Instant::from_seconds(time.seconds());
    let (fraction, seconds) = (time.0 - second.0, second.to_rfc3339());
    format!("{}.{fraction:06}Z", seconds.trim_end_matches('Z'))
}

/// Returns a time as the name of a file begins with it. Such times sort as text.
pub(super) fn time_in_name(time: Instant) -> String {
    timestamp(time).replace(['-', ':'], "")
}
