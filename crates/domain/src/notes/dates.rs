//! Converts the unquoted dates of YAML to the ISO 8601 timestamps of the facets.
//!
//! *Source*: YAML 1.1's timestamp type, which note programs follow, with the arithmetic of
//! ECMA-262's `Date.UTC`: the 31st of February is a day of March.

use crate::civil;

/// Converts an unquoted date or timestamp to ISO 8601 in UTC with milliseconds. Returns `None` for
/// any other scalar.
pub(super) fn iso(text: &str) -> Option<String> {
    let mut scan = Scan(text.as_bytes());
    let year = scan.digits(4, 4)?;
    scan.byte(b'-')?;
    let (month, month_digits) = scan.counted(1, 2)?;
    scan.byte(b'-')?;
    let (day, day_digits) = scan.counted(1, 2)?;
    if scan.is_empty() {
        // A date without a time has two digits for the month and two for the day.
        return (month_digits == 2 && day_digits == 2)
            .then(|| format_iso(civil::days_from_civil(year, month, day) * MILLIS_PER_DAY));
    }
    if scan.byte(b'T').or_else(|| scan.byte(b't')).is_none() && !scan.spaces() {
        return None;
    }
    let hour = scan.digits(1, 2)?;
    scan.byte(b':')?;
    let minute = scan.digits(2, 2)?;
    scan.byte(b':')?;
    let second = scan.digits(2, 2)?;
    let millis = if scan.byte(b'.').is_some() { scan.fraction() } else { 0 };
    let offset = scan.zone()?;
    let minutes = hour * 60 + minute - offset;
    Some(format_iso(
        civil::days_from_civil(year, month, day) * MILLIS_PER_DAY
            + (minutes * 60 + second) * 1000
            + millis,
    ))
}

const MILLIS_PER_DAY: i64 = 86_400_000;

/// The bytes that are not scanned yet.
struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self, wanted: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == wanted).then(|| self.0 = rest)
    }

    /// Takes up to `most` digits. Returns their value and their number.
    fn counted(&mut self, least: usize, most: usize) -> Option<(i64, usize)> {
        let count = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        (count >= least).then_some((number, count))
    }

    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        self.counted(least, most).map(|(number, _)| number)
    }

    /// Takes a fraction of any length. Returns whole milliseconds.
    fn fraction(&mut self) -> i64 {
        let (mut millis, mut unit) = (0, 100);
        while let Some((digit @ b'0'..=b'9', rest)) = self.0.split_first() {
            millis += i64::from(digit - b'0') * unit;
            unit /= 10;
            self.0 = rest;
        }
        millis
    }

    fn spaces(&mut self) -> bool {
        let before = self.0.len();
        while let Some((b' ' | b'\t', rest)) = self.0.split_first() {
            self.0 = rest;
        }
        self.0.len() < before
    }

    /// Takes the time zone at the end of the text: nothing, `Z`, `+1` or `-05:30`. Returns the
    /// minutes east of UTC.
    fn zone(&mut self) -> Option<i64> {
        if self.is_empty() {
            return Some(0);
        }
        self.spaces();
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        let sign = match first {
            b'Z' => return self.is_empty().then_some(0),
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let hours = self.digits(1, 2)?;
        let minutes = if self.byte(b':').is_some() { self.digits(2, 2)? } else { 0 };
        self.is_empty().then_some(sign * (hours * 60 + minutes))
    }
}

fn format_iso(millis: i64) -> String {
    let (days, millis) = (millis.div_euclid(MILLIS_PER_DAY), millis.rem_euclid(MILLIS_PER_DAY));
    let (year, month, day) = civil::civil_from_days(days);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        _ => format!("{year:+07}"),
    };
    let (second, millis) = (millis / 1000, millis % 1000);
    let (minute, second) = (second / 60, second % 60);
    format!(
        "{year}-{month:02}-{day:02}T{:02}:{:02}:{second:02}.{millis:03}Z",
        minute / 60,
        minute % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_timestamps_become_utc() {
        for (text, expected) in [
            ("2025-03-01", Some("2025-03-01T00:00:00.000Z")),
            ("2024-02-29", Some("2024-02-29T00:00:00.000Z")),
            ("2025-02-31", Some("2025-03-03T00:00:00.000Z")),
            ("2025-13-01", Some("2026-01-01T00:00:00.000Z")),
            ("2025-00-10", Some("2024-12-10T00:00:00.000Z")),
            ("1969-12-31T23:59:59.9999Z", Some("1969-12-31T23:59:59.999Z")),
            ("2026-05-25T12:34:56Z", Some("2026-05-25T12:34:56.000Z")),
            ("2026-5-2 1:34:56.5 +1", Some("2026-05-02T00:34:56.500Z")),
            ("2026-05-25\t12:34:56-05:30", Some("2026-05-25T18:04:56.000Z")),
            ("2026-05-25t12:34:56", Some("2026-05-25T12:34:56.000Z")),
            ("9999-12-32", Some("+010000-01-01T00:00:00.000Z")),
            ("0000-01-00", Some("-000001-12-31T00:00:00.000Z")),
            ("2025-3-1", None),
            ("2025-03-01 ", None),
            ("2025-03-01T12:34", None),
            ("2025-03-01T12:34:56+1:5", None),
            ("2025-03-01T12:34:56Zx", None),
            ("12025-03-01", None),
            ("2024", None),
            ("", None),
        ] {
            assert_eq!(iso(text).as_deref(), expected, "{text}");
        }
    }
}
