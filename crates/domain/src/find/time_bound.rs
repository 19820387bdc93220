//! A bound on the time of a change, as a caller writes it: a date, a time or an age.

use crate::facts::UnixNanos;
use crate::records::instant::Instant;

/// A time, or how long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeBound {
    /// This time.
    At(UnixNanos),
    /// So many nanoseconds before now.
    Ago(UnixNanos),
}

impl TimeBound {
    /// Parses a date (`2026-03-01`, its beginning in UTC), a time as RFC 3339 writes it, or an age:
    /// a number and `m`, `h`, `d` or `w`, as in `7d`. Returns `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim_end_matches(['m', 'h', 'd', 'w']);
        let minutes = match text.get(digits.len()..)? {
            "m" => 1,
            "h" => 60,
            "d" => 24 * 60,
            "w" => 7 * 24 * 60,
            _ => return Instant::parse(text).map(|at| Self::At(at.0.saturating_mul(1000))),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: i64 = is_number.then(|| digits.parse().ok())??;
        Some(Self::Ago(number.saturating_mul(minutes).saturating_mul(60 * 1_000_000_000)))
    }

    /// Returns the time that is meant at `now`.
    pub fn at(self, now: UnixNanos) -> UnixNanos {
        match self {
            Self::At(time) => time,
            Self::Ago(nanos) => now.saturating_sub(nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_date_a_time_or_an_age() {
        let week = 7 * 24 * 3600 * 1_000_000_000;
        assert_eq!(TimeBound::parse("7d"), Some(TimeBound::Ago(week)));
        assert_eq!(TimeBound::parse("1w"), TimeBound::parse("7d"));
        assert_eq!(TimeBound::parse("90m").unwrap().at(0), -90 * 60 * 1_000_000_000);
        assert_eq!(TimeBound::parse("1970-01-02"), Some(TimeBound::At(24 * 3600 * 1_000_000_000)));
        for wrong in ["", "d", "7", "7x", "-7d", "7dd", "yesterday"] {
            assert_eq!(TimeBound::parse(wrong), None, "{wrong}");
        }
        let far = TimeBound::parse("999999999999999999d").unwrap();
        assert!(far.at(i64::MIN) <= far.at(0));
    }
}
