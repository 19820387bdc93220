//! Dates and times without marks between their parts, such as `20260105` and `121500`, as
//! calendars, contacts and statements of banks write them.
//!
//! *Source*: ISO 8601-1, basic format.

use stile_domain::records::instant::Instant;

/// Returns the date with which a text begins, as RFC 3339 writes it, and what follows. Hyphens
/// between the parts are taken, too.
pub(super) fn date(text: &str) -> Option<(String, &str)> {
    let (year, rest) = digits(text, 4)?;
    let (month, rest) = digits(rest.strip_prefix('-').unwrap_or(rest), 2)?;
    let (day, rest) = digits(rest.strip_prefix('-').unwrap_or(rest), 2)?;
    let date = format!("{year}-{month}-{day}");
    Instant::parse(&date).map(|_| (date, rest))
}

/// Returns the time of day with which a text begins, as RFC 3339 writes it, and what follows.
pub(super) fn clock(text: &str) -> Option<(String, &str)> {
    let (hour, rest) = digits(text, 2)?;
    let (minute, rest) = digits(rest.strip_prefix(':').unwrap_or(rest), 2)?;
    let (second, rest) = digits(rest.strip_prefix(':').unwrap_or(rest), 2)?;
    Some((format!("{hour}:{minute}:{second}"), rest))
}

/// Returns a time as RFC 3339 writes it. `None` beyond the years 0000 to 9999, as the first hours
/// of the year 0000 in a zone ahead of UTC are.
pub(super) fn written(at: Instant) -> Option<String> {
    let text = at.to_rfc3339();
    Instant::parse(&text).map(|_| text)
}

/// Returns what was read of a text or, where it could not be read, the text. Stored as it is
/// written, it is counted among the values that do not fit, and nothing is lost.
pub(super) fn or_as_written(read: Option<String>, text: &str) -> Option<String> {
    read.or_else(|| Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
}

fn digits(text: &str, count: usize) -> Option<(&str, &str)> {
    let (head, rest) = text.split_at_checked(count)?;
    head.bytes().all(|byte| byte.is_ascii_digit()).then_some((head, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_read_with_and_without_marks() {
        for text in ["20260105", "2026-01-05"] {
            assert_eq!(date(text), Some(("2026-01-05".to_owned(), "")), "{text}");
        }
        assert_eq!(date("20260105T1"), Some(("2026-01-05".to_owned(), "T1")));
        for text in ["", "2026", "20261305", "20260230", "januar05", "é0260105"] {
            assert_eq!(date(text), None, "{text}");
        }
        assert_eq!(clock("101112Z"), Some(("10:11:12".to_owned(), "Z")));
        assert_eq!(clock("10:11:12"), Some(("10:11:12".to_owned(), "")));
        assert_eq!((clock("1011"), clock("é01112")), (None, None));
        let first = Instant::parse("0000-01-01T00:00:00Z").unwrap();
        assert_eq!(written(first).as_deref(), Some("0000-01-01T00:00:00Z"));
        assert_eq!(written(Instant(first.0 - 1)), None);
    }
}
