//! Durations as people type them.

use std::time::Duration;

use clap::ArgMatches;
use stile_domain::records::instant::Instant;

use crate::cli::failure::Failure;
use crate::cli::terminal::local_time;
use crate::clock;

/// Parses a number and one unit: `45s`, `90m`, `12h` or `30d`. Returns `None` for anything else.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text.get(digits.len()..)? {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    let number: u64 =
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    number.checked_mul(unit).map(Duration::from_secs)
}

/// Parses the time from which on something counts: a date (`2026-01-31`, its beginning), a time
/// (`2026-01-31T08:00`), or how long before `now`, as in `12h`. A date, and a time without a zone
/// as RFC 3339 writes it, are in the zone in which times are shown. Returns `None` for anything
/// else.
pub(crate) fn since(text: &str, now: Instant) -> Option<Instant> {
    match parse(text) {
        Some(ago) => {
            let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
            Some(Instant(now.0.saturating_sub(micros).max(0)))
        }
        None => local_time::of_text(text).or_else(|| Instant::parse(text)),
    }
}

/// Parses `--since`; `None` if it was not given.
pub(crate) fn since_flag(matches: &ArgMatches) -> Result<Option<Instant>, Failure> {
    time_flag(matches, "since")
}

/// Parses a flag that names a time as `--since` does; `None` if it was not given.
pub(crate) fn time_flag(matches: &ArgMatches, flag: &str) -> Result<Option<Instant>, Failure> {
    let Some(text) = matches.get_one::<String>(flag) else { return Ok(None) };
    let since = since(text, clock::now()).ok_or_else(|| {
        Failure::Usage(format!(
            "--{flag}: `{}` is neither a date such as 2026-01-31, nor a time such as \
             2026-01-31T08:00, nor how long ago, as in 90m, 12h or 7d",
            text.escape_debug()
        ))
    })?;
    Ok(Some(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_one_unit() {
        for (text, seconds) in [
            ("45s", Some(45)),
            ("90m", Some(5400)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("0s", Some(0)),
            ("30", None),
            ("d", None),
            ("", None),
            ("+3d", None),
            ("-3d", None),
            ("3 d", None),
            ("3D", None),
            ("1d12h", None),
            ("3d ", None),
            ("1.5h", None),
            ("99999999999999999999d", None),
            ("999999999999999999d", None),
        ] {
            assert_eq!(parse(text), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn a_time_since_is_a_date_a_time_or_an_age() {
        let now = Instant::parse("2026-01-31T12:00:00Z").unwrap();
        let since = |text: &str| since(text, now).map(Instant::to_rfc3339);
        assert_eq!(since("2026-01-30").as_deref(), Some("2026-01-30T00:00:00Z"));
        assert_eq!(since("2026-01-30T08:00:00Z").as_deref(), Some("2026-01-30T08:00:00Z"));
        assert_eq!(since("12h").as_deref(), Some("2026-01-31T00:00:00Z"));
        assert_eq!(since("999999d").as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(since("yesterday"), None);
    }
}
