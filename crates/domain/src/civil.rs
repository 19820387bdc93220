//! Converts between Gregorian dates and day numbers, and scans and formats dates. No clock is read
//! here.
//!
//! `jiff` is the calendar. It has the years to 9999, and a stored time may lie beyond them; since
//! the calendar repeats itself every 400 years, such a date is counted in an era that `jiff` has.

use jiff::SignedDuration;
use jiff::civil::Date;

const EPOCH: Date = Date::constant(1970, 1, 1);
/// The years after which the calendar repeats itself.
const ERA_YEARS: i64 = 400;
/// The days of these years.
const ERA_DAYS: i64 = 146_097;

/// Returns the days from 1970-01-01 to a date.
pub(crate) fn day_number(date: Date) -> i64 {
    date.duration_since(EPOCH).as_hours() / 24
}

/// Returns the days from 1970-01-01 to a date. A month or day past its end runs into the next one.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let months = year * 12 + month - 1;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let (era, year) = (year.div_euclid(ERA_YEARS), year.rem_euclid(ERA_YEARS));
    // The first of a month of the years 0 to 399 is always a date.
    let first = Date::new(year as i16, month as i8, 1).unwrap_or(EPOCH);
    era * ERA_DAYS + day_number(first) + day - 1
}

/// Returns the year, month and day that lie `days` after 1970-01-01.
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let date = EPOCH.saturating_add(SignedDuration::from_hours(day_of_era * 24));
    (era * ERA_YEARS + i64::from(date.year()), date.month().into(), date.day().into())
}

/// Formats a day and a second of that day as `2025-03-01T08:00:00`. A year outside 0000 to 9999 has
/// a sign and six digits.
pub(crate) fn format_date_time(days: i64, second: i64) -> String {
    let (year, month, day) = civil_from_days(days);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        _ => format!("{year:+07}"),
    };
    let (minute, second) = (second / 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{:02}:{:02}:{second:02}", minute / 60, minute % 60)
}

/// The rest of a text that holds a date.
pub(crate) struct DateScanner<'a>(pub(crate) &'a [u8]);

impl DateScanner<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next byte if it is one of `wanted`.
    pub(crate) fn one_of(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        wanted.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    /// Takes up to `most` digits. Returns their value and their number.
    pub(crate) fn counted(&mut self, least: usize, most: usize) -> Option<(i64, usize)> {
        let count = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        (count >= least).then_some((number, count))
    }

    /// Takes exactly `count` digits.
    pub(crate) fn digits(&mut self, count: usize) -> Option<i64> {
        self.counted(count, count).map(|(number, _)| number)
    }

    /// Takes the digits of a fraction, the first of which counts `unit`. Ignores those that count
    /// less than one.
    pub(crate) fn fraction(&mut self, mut unit: i64) -> i64 {
        let mut value = 0;
        while let Some((digit @ b'0'..=b'9', rest)) = self.0.split_first() {
            value += i64::from(digit - b'0') * unit;
            unit /= 10;
            self.0 = rest;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_number_converts_to_a_date_and_back() {
        assert_eq!(
            (
                days_from_civil(1970, 1, 1),
                days_from_civil(2000, 2, 29),
                days_from_civil(2000, 14, 0)
            ),
            (0, 11_016, days_from_civil(2001, 1, 31))
        );
        for day in -800_000..800_000 {
            let (year, month, of_month) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, of_month), day);
            assert!((1..=12).contains(&month) && (1..=31).contains(&of_month));
        }
    }
}
