//! Parses the `Date` of a message.
//!
//! A year of two digits lies between 1950 and 2049, and three digits count from 1900. Of the zones
//! in letters only those of North America and Greenwich have an offset; any other is UTC, as the
//! RFC demands. Second 60 is second 0 of the next minute. Comments and the day of the week are
//! skipped.
//!
//! *Source*: RFC 5322, sections 3.3 and 4.3.

use stile_domain::records::instant::Instant;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const ZONES: [(&str, i32); 11] = [
    ("UT", 0),
    ("GMT", 0),
    ("Z", 0),
    ("EST", -5),
    ("EDT", -4),
    ("CST", -6),
    ("CDT", -5),
    ("MST", -7),
    ("MDT", -6),
    ("PST", -8),
    ("PDT", -7),
];

/// Returns a date as RFC 3339, with the sender's offset. `None` for an invalid date, and for a date
/// without a zone, because its instant is unknown.
pub(super) fn to_rfc3339(text: &str) -> Option<String> {
    let plain = without_comments(text);
    let mut words =
        plain.split([' ', '\t', '\r', '\n', ',']).filter(|word| !word.is_empty()).peekable();
    if words.peek()?.starts_with(|first: char| first.is_ascii_alphabetic()) {
        words.next();
    }
    let day = digits(words.next()?, 1..=2)?;
    let month = words.next()?.to_ascii_lowercase();
    let month = MONTHS.iter().position(|&name| month.starts_with(name))? + 1;
    let year = words.next()?;
    let year = match (year.len(), digits(year, 2..=4)?) {
        (2, year @ 0..=49) => year + 2000,
        (2 | 3, year) => year + 1900,
        (_, year) => year,
    };
    let mut clock = words.next()?.split(':');
    let (hour, minute) = (digits(clock.next()?, 1..=2)?, digits(clock.next()?, 1..=2)?);
    let second = clock.next().map_or(Some(0), |second| digits(second, 1..=2))?;
    if clock.next().is_some() {
        return None;
    }
    let zone = zone(words.next()?)?;
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}");
    Instant::parse(&text).map(|_| text)
}

fn digits(word: &str, length: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let fits = length.contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| fits)
}

fn zone(word: &str) -> Option<String> {
    if let Some(rest) = word.strip_prefix(['+', '-']) {
        let (hours, minutes) = rest.split_at_checked(2).filter(|_| rest.len() == 4)?;
        let (hours, minutes) = (digits(hours, 2..=2)?, digits(minutes, 2..=2)?);
        let sign = if word.starts_with('-') && (hours, minutes) != (0, 0) { '-' } else { '+' };
        return Some(format!("{sign}{hours:02}:{minutes:02}"));
    }
    let is_zone = word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let hours = ZONES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word))
        .map_or(0, |(_, hours)| *hours);
    is_zone.then(|| if hours == 0 { "Z".to_owned() } else { format!("-{:02}:00", -hours) })
}

/// Removes comments, which can be nested. A comment that is not closed reaches to the end.
fn without_comments(text: &str) -> String {
    let (mut plain, mut depth, mut is_escaped) = (String::new(), 0_usize, false);
    for character in text.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if depth > 0 => is_escaped = true,
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since 1970, worked out by hand.
    fn instant(text: &str) -> Option<i64> {
        to_rfc3339(text).map(|text| Instant::parse(&text).unwrap().0 / 1_000_000)
    }

    #[test]
    fn the_instant_is_right_in_every_zone() {
        // 2024-03-01T00:00:00Z is 19783 days after 1970-01-01, and so 1709251200.
        for (text, expected) in [
            ("Fri, 01 Mar 2024 00:00:00 +0000", 1_709_251_200),
            ("Thu, 29 Feb 2024 16:00:00 -0800", 1_709_251_200),
            ("Fri, 1 Mar 2024 05:30:00 +0530", 1_709_251_200),
            ("Thu, 29 Feb 2024 19:00:00 EST", 1_709_251_200),
            ("Thu, 29 Feb 2024 20:00:00 EDT", 1_709_251_200),
            ("Thu, 29 Feb 2024 16:00 pst", 1_709_251_200),
            ("1 Mar 2024 00:00:00 GMT", 1_709_251_200),
            ("1 Mar 24 00:00:00 UT", 1_709_251_200),
            ("1 Mar 124 00:00:00 Z", 1_709_251_200),
            ("1 Mar 2024 00:00:00 -0000", 1_709_251_200),
            ("1 Mar 2024 00:00:00 CET", 1_709_251_200),
            (
                "Fri,\r\n 1 (one) March 2024\t00:00:00 +0000 (Greenwich (GMT) \\) time)",
                1_709_251_200,
            ),
            // The leap second 1999-12-31T23:59:60Z counts as 946684800, the second after it.
            ("Fri, 31 Dec 99 23:59:60 +0000", 946_684_800),
            ("Thu, 1 Jan 1970 00:00:01 +0000", 1),
            ("31 Dec 69 23:59:59 GMT", -1),
            ("1 Jan 49 00:00:00 +0000", 2_493_072_000),
        ] {
            assert_eq!(instant(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn the_offset_of_the_sender_is_kept() {
        assert_eq!(
            to_rfc3339("Fri, 1 Mar 2024 09:05:00 -0830").unwrap(),
            "2024-03-01T09:05:00-08:30"
        );
        assert_eq!(to_rfc3339("Fri, 1 Mar 2024 9:05 EST").unwrap(), "2024-03-01T09:05:00-05:00");
    }

    #[test]
    fn an_invalid_date_is_absent() {
        for text in [
            "", "Fri", "Fri, 1 Mar 2024", "Fri, 1 Mar 2024 00:00:00", "30 Feb 2024 00:00:00 +0000",
            "0 Mar 2024 00:00:00 +0000", "1 Mrz 2024 00:00:00 +0000", "1 Mar 2024 24:00:00 +0000",
            "1 Mar 2024 00:60:00 +0000", "1 Mar 2024 00:00:00:00 +0000",
            "1 Mar 20240 00:00:00 +0000", "1 Mar 2024 00:00:00 +00", "1 Mar 2024 00:00:00 +00é",
            "2024-03-01T00:00:00Z", "1 Mar 2024 (00:00:00 +0000",
        ] {
            assert_eq!(to_rfc3339(text), None, "{text}");
        }
    }
}
