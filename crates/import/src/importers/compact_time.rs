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
    }
}
