//! Dates as YAML writes them without quotes, and as the facets tell them.
//!
//! *Source*: YAML 1.1's timestamp type, which note programs follow, with the arithmetic of
//! ECMA-262's `Date.UTC`: the 31st of February is a day of March.

use crate::civil;

/// An unquoted date or timestamp as ISO 8601 in UTC with milliseconds; `None` where the scalar is
/// neither.
pub(super) fn iso(text: &str) -> Option<String> {
    let mut scan = Scan(text.as_bytes());
    let year = scan.digits(4, 4)?;
    scan.byte(b'-')?;
    let (month, month_digits) = scan.counted(1, 2)?;
    scan.byte(b'-')?;
    let (day, day_digits) = scan.counted(1, 2)?;
    if scan.is_empty() {
        // A date alone has two digits for each.
        return (month_digits == 2 && day_digits == 2)
            .then(|| written(civil::days_from_civil(year, month, day) * MILLIS_A_DAY));
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
    Some(written(
        civil::days_from_civil(year, month, day) * MILLIS_A_DAY
            + (minutes * 60 + second) * 1000
            + millis,
    ))
}

const MILLIS_A_DAY: i64 = 86_400_000;

struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self, wanted: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == wanted).then(|| self.0 = rest)
    }

    /// Takes as many digits as there are, up to `most`.
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

    /// Milliseconds of a fraction of any length, the rest cut off.
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

    /// Minutes east of UTC, to the end of the text: none, `Z`, or `+1`, `-05:30`.
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

fn written(millis: i64) -> String {
    let (days, millis) = (millis.div_euclid(MILLIS_A_DAY), millis.rem_euclid(MILLIS_A_DAY));
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
    fn dates_and_timestamps_are_told_in_utc() {
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
