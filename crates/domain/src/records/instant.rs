//! Points in time, as the grants and filters on records compare them.
//!
//! Exports write times in many ways. The parser reads RFC 3339 with the usual liberties: a space
//! instead of the `T`, no offset, no seconds, or no time at all. The formatter writes one form, in
//! UTC. There is no clock here, and there are no time zones and no leap seconds.
//!
//! *Source*: RFC 3339 section 5.6. `jiff` decides which dates exist.

use std::fmt::Write as _;

use jiff::civil::Date;

use crate::civil::{self, DateScanner};

/// A point in time: microseconds since 1970-01-01T00:00:00Z, negative before that.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize,
)]
pub struct Instant(pub i64);

/// The longest text that is a time, in bytes. Longer texts may be kept in pieces, where conditions
/// do not look. Every condition must agree on which texts are times.
const MAX_BYTES: usize = 64;
/// The length of `2026-03-01`. No longer text is a date alone.
const DATE_BYTES: usize = 10;
/// The microseconds of a second, for lengths of time beside an [`Instant`].
pub const MICROS_A_SECOND: i64 = 1_000_000;
/// The microseconds of a day, which has 86,400 seconds in UTC.
pub const MICROS_A_DAY: i64 = 86_400 * MICROS_A_SECOND;

/// A text that holds a time, as a calendar counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalendarTime {
    /// A date alone, in days since 1970-01-01. It is the same date in every time zone.
    Date(i64),
    /// A point in time, which has another date in another time zone.
    Moment(Instant),
}

impl CalendarTime {
    /// Parses every text that [`Instant::parse`] does.
    pub fn parse(text: &str) -> Option<Self> {
        let instant = Instant::parse(text)?;
        Some(match text.len() {
            DATE_BYTES => Self::Date(instant.day()),
            _ => Self::Moment(instant),
        })
    }
}

impl Instant {
    /// The first microsecond of the year 0000, the earliest result of [`Instant::parse`].
    pub const FIRST: Self = Self(-719_528 * MICROS_A_DAY);
    /// The last microsecond of the year 9999, the latest result of [`Instant::parse`].
    pub const LAST: Self = Self(2_932_897 * MICROS_A_DAY - 1);

    /// Returns the time `seconds` after 1970-01-01T00:00:00Z, or the nearest one that an `i64` of
    /// microseconds holds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(MICROS_A_SECOND))
    }

    /// Returns the whole seconds since 1970-01-01T00:00:00Z, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(MICROS_A_SECOND)
    }

    /// Returns the midnight in UTC with which the day `days` after 1970-01-01 begins, or the
    /// nearest time that an `i64` of microseconds holds.
    pub const fn from_day(days: i64) -> Self {
        Self(days.saturating_mul(MICROS_A_DAY))
    }

    /// Returns the days from 1970-01-01 to the day in UTC that the time is in.
    pub const fn day(self) -> i64 {
        self.0.div_euclid(MICROS_A_DAY)
    }

    /// Returns the time so many days of 24 hours later, or earlier where `days` is negative.
    #[must_use]
    pub const fn plus_days(self, days: i64) -> Self {
        Self(self.0.saturating_add(days.saturating_mul(MICROS_A_DAY)))
    }

    /// Parses a date-time, or a date as its midnight in UTC.
    ///
    /// *Shape*: at most 64 bytes of `YYYY-MM-DD`, optionally followed by `T`, `t` or a space and
    /// `HH:MM`, then optionally `:SS`, optionally a `.` and digits (those beyond microseconds are
    /// cut off), and optionally `Z`, `z`, `+HH:MM` or `-HH:MM`. A time without an offset is in UTC.
    /// The second 60 is the second that follows. Returns `None` for any other text, for a date that
    /// does not exist, and for a UTC year outside 0000 to 9999.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut scan = DateScanner(text.as_bytes());
        let year = scan.digits(4)?;
        scan.one_of(b"-")?;
        let month = scan.digits(2)?;
        scan.one_of(b"-")?;
        let day = scan.digits(2)?;
        // `Date` refuses a day that the calendar does not have.
        let date = Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?);
        let days = civil::day_number(date.ok()?);
        let micros = if scan.is_empty() { 0 } else { time(&mut scan)? };
        let instant = Self(days * MICROS_A_DAY + micros);
        (Self::FIRST..=Self::LAST).contains(&instant).then_some(instant)
    }

    /// Formats the time as RFC 3339 in UTC: `2025-03-01T08:00:00Z`, with three or six digits of a
    /// fraction unless the fraction is zero.
    ///
    /// A year outside 0000 to 9999, which no text is parsed as, is written with a sign and six
    /// digits.
    pub fn to_rfc3339(self) -> String {
        let micros = self.0.rem_euclid(MICROS_A_DAY);
        let (second, micros) = (micros / MICROS_A_SECOND, micros % MICROS_A_SECOND);
        let mut text = civil::format_date_time(self.day(), second);
        // Writing to a string does not fail.
        let _ = match (micros, micros % 1000) {
            (0, _) => Ok(()),
            (_, 0) => write!(text, ".{:03}", micros / 1000),
            _ => write!(text, ".{micros:06}"),
        };
        text.push('Z');
        text
    }
}

/// Reads from the `T` to the end of the text. Returns microseconds since the date's midnight in
/// UTC.
fn time(scan: &mut DateScanner<'_>) -> Option<i64> {
    scan.one_of(b"Tt ")?;
    let hour = scan.digits(2)?;
    scan.one_of(b":")?;
    let minute = scan.digits(2)?;
    let (mut second, mut micros) = (0, 0);
    if scan.one_of(b":").is_some() {
        second = scan.digits(2)?;
        if scan.one_of(b".").is_some() {
            scan.0.first().filter(|byte| byte.is_ascii_digit())?;
            micros = scan.fraction(MICROS_A_SECOND / 10);
        }
    }
    let offset = offset(scan)?;
    (hour < 24 && minute < 60 && second <= 60 && scan.is_empty())
        .then_some((hour * 3600 + minute * 60 + second - offset) * MICROS_A_SECOND + micros)
}

/// Returns seconds east of UTC. An absent offset is UTC.
fn offset(scan: &mut DateScanner<'_>) -> Option<i64> {
    if scan.is_empty() || scan.one_of(b"Zz").is_some() {
        return Some(0);
    }
    let sign = if scan.one_of(b"+-")? == b'-' { -1 } else { 1 };
    let hours = scan.digits(2)?;
    scan.one_of(b":")?;
    let minutes = scan.digits(2)?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seconds_and_days_are_rounded_down_and_end_where_times_do() {
        let at = |text: &str| Instant::parse(text).unwrap();
        for (time, second, day) in [
            ("1970-01-01", 0, 0),
            ("1969-12-31T23:59:59.5Z", -1, -1),
            ("2026-01-31T09:05:00.999999Z", 1_769_850_300, 20_484),
        ] {
            assert_eq!((at(time).seconds(), at(time).day()), (second, day), "{time}");
        }
        assert_eq!(Instant::from_seconds(1_769_850_300), at("2026-01-31T09:05:00Z"));
        assert_eq!(Instant::from_day(20_484), at("2026-01-31"));
        assert_eq!(at("2026-01-31T09:05:00Z").plus_days(-31), at("2025-12-31T09:05:00Z"));
        assert_eq!(Instant::from_seconds(i64::MAX), Instant(i64::MAX));
        assert_eq!(Instant(0).plus_days(i64::MIN), Instant(i64::MIN));
    }

    #[test]
    fn the_date_formats_of_exports_are_parsed() {
        for (text, expected) in [
            ("1970-01-01", "1970-01-01T00:00:00Z"),
            ("2025-03-01", "2025-03-01T00:00:00Z"),
            ("2024-02-29T12:34:56Z", "2024-02-29T12:34:56Z"),
            ("2024-02-29 12:34:56", "2024-02-29T12:34:56Z"),
            ("2024-02-29t12:34z", "2024-02-29T12:34:00Z"),
            ("2024-02-29 12:34", "2024-02-29T12:34:00Z"),
            ("2026-05-25T12:34:56-05:30", "2026-05-25T18:04:56Z"),
            ("2026-05-25T00:30:00.5+01:00", "2026-05-24T23:30:00.500Z"),
            ("1969-12-31T23:59:59.9999999999Z", "1969-12-31T23:59:59.999999Z"),
            ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
            ("0000-01-01", "0000-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
            ("2000-01-01T00:00:00.0001Z", "2000-01-01T00:00:00.000100Z"),
        ] {
            assert_eq!(
                Instant::parse(text).map(Instant::to_rfc3339).as_deref(),
                Some(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn other_texts_are_not_times() {
        for text in [
            "", " 2025-03-01", "2025-03-01 ", "2025-3-1", "2025-02-29", "2025-13-01", "2025-00-10",
            "2025-01-00", "2025-03-01T", "2025-03-01T12", "2025-03-01T12:34:",
            "2025-03-01T12:34:56.", "2025-03-01T12:34.5", "2025-03-01T24:00:00Z",
            "2025-03-01T12:60Z", "2025-03-01T12:34:61Z", "2025-03-01T12:34:56+1:00",
            "2025-03-01T12:34:56+0100", "2025-03-01T12:34:56+24:00", "2025-03-01T12:34:56Zx",
            "2025-03-01Z", "2025-03-01  12:34", "12025-03-01", "-001-03-01", "2024",
            "0000-01-01T00:00:00+00:01", "9999-12-31T23:59:60Z", "２０２５-03-01", "+025-03-01",
            "2025-03-01T+1:00",
        ] {
            assert_eq!(Instant::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_year_beyond_9999_is_formatted() {
        assert_eq!(Instant(i64::MIN).to_rfc3339(), "-290308-12-21T19:59:05.224192Z");
        assert_eq!(Instant(i64::MAX).to_rfc3339(), "+294247-01-10T04:00:54.775807Z");
    }

    proptest! {
        #[test]
        fn a_formatted_time_is_parsed_again(
            micros in Instant::FIRST.0..=Instant::LAST.0,
            coarse in prop::sample::select(vec![1, 1000, 1_000_000]),
        ) {
            let instant = Instant(micros.div_euclid(coarse) * coarse);
            let text = instant.to_rfc3339();
            prop_assert_eq!(Instant::parse(&text), Some(instant), "{}", text);
        }

        #[test]
        fn formatted_times_sort_by_time(
            a in Instant::FIRST.0..=Instant::LAST.0,
            b in Instant::FIRST.0..=Instant::LAST.0,
        ) {
            let (whole_a, whole_b) = (a.div_euclid(1_000_000), b.div_euclid(1_000_000));
            let text = |second: i64| Instant(second * 1_000_000).to_rfc3339();
            prop_assert_eq!(whole_a.cmp(&whole_b), text(whole_a).cmp(&text(whole_b)));
        }

        #[test]
        fn any_text_is_a_time_in_range_or_refused(text in "[0-9TtZz:. +-]{0,40}") {
            if let Some(instant) = Instant::parse(&text) {
                prop_assert!((Instant::FIRST..=Instant::LAST).contains(&instant));
            }
        }
    }
}
