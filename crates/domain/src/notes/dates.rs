//! Converts the unquoted dates of YAML to the ISO 8601 timestamps of the facets.
//!
//! *Source*: YAML 1.1's timestamp type, which note programs follow, with the arithmetic of
//! ECMA-262's `Date.UTC`: the 31st of February is a day of March.

use crate::civil::{self, DateScanner};

/// Converts an unquoted date or timestamp to ISO 8601 in UTC with milliseconds. Returns `None` for
/// any other scalar.
pub(super) fn iso(text: &str) -> Option<String> {
    let mut scan = DateScanner(text.as_bytes());
    let year = scan.digits(4)?;
    scan.one_of(b"-")?;
    let (month, month_digits) = scan.counted(1, 2)?;
    scan.one_of(b"-")?;
    let (day, day_digits) = scan.counted(1, 2)?;
    if scan.is_empty() {
        // A date without a time has two digits for the month and two for the day.
        return (month_digits == 2 && day_digits == 2)
            .then(|| format_iso(civil::days_from_civil(year, month, day) * MILLIS_PER_DAY));
    }
    if scan.one_of(b"Tt").is_none() && !spaces(&mut scan) {
        return None;
    }
    let (hour, _) = scan.counted(1, 2)?;
    scan.one_of(b":")?;
    let minute = scan.digits(2)?;
    scan.one_of(b":")?;
    let second = scan.digits(2)?;
    let millis = if scan.one_of(b".").is_some() { scan.fraction(100) } else { 0 };
    let offset = zone(&mut scan)?;
    let minutes = hour * 60 + minute - offset;
    Some(format_iso(
        civil::days_from_civil(year, month, day) * MILLIS_PER_DAY
            + (minutes * 60 + second) * 1000
            + millis,
    ))
}

/// Returns whether what [`iso`] converts is a date without a time.
pub(super) fn is_day(text: &str) -> bool {
    text.len() == "2025-03-01".len()
}

const MILLIS_PER_DAY: i64 = 86_400_000;

/// Takes blanks. Returns whether there was one.
fn spaces(scan: &mut DateScanner<'_>) -> bool {
    let before = scan.0.len();
    while scan.one_of(b" \t").is_some() {}
    scan.0.len() < before
}

/// Takes the time zone at the end of the text: nothing, `Z`, `+1` or `-05:30`. Returns the minutes
/// east of UTC.
fn zone(scan: &mut DateScanner<'_>) -> Option<i64> {
    if scan.is_empty() {
        return Some(0);
    }
    spaces(scan);
    let sign = match scan.one_of(b"Z+-")? {
        b'Z' => return scan.is_empty().then_some(0),
        b'-' => -1,
        _ => 1,
    };
    let (hours, _) = scan.counted(1, 2)?;
    let minutes = if scan.one_of(b":").is_some() { scan.digits(2)? } else { 0 };
    scan.is_empty().then_some(sign * (hours * 60 + minutes))
}

fn format_iso(millis: i64) -> String {
    let (days, millis) = (millis.div_euclid(MILLIS_PER_DAY), millis.rem_euclid(MILLIS_PER_DAY));
    let (second, millis) = (millis / 1000, millis % 1000);
    format!("{}.{millis:03}Z", civil::format_date_time(days, second))
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
