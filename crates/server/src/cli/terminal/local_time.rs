//! The times that commands show to a person: in the zone of the machine, or in UTC with `--utc`.
//!
//! JSON, journals and exports have times in UTC always. The zone is chosen once, before a command
//! runs, because a process has one terminal.

use std::sync::OnceLock;

use clap::ArgMatches;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use stile_domain::records::instant::Instant;

static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// What marks a heading over times in UTC.
const IN_UTC: &str = " (UTC)";

/// Chooses the zone that the command line asks for.
pub(crate) fn choose(matches: &ArgMatches) {
    // What tests compare must not depend on the machine that they run on.
    let is_utc = cfg!(test) || asks_for_utc(matches);
    let _ = ZONE.set(if is_utc { TimeZone::UTC } else { TimeZone::system() });
}

/// Returns whether a command or one of its subcommands got `--utc`.
fn asks_for_utc(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("utc").ok().flatten().copied();
    here.unwrap_or(false) || matches.subcommand().is_some_and(|(_, below)| asks_for_utc(below))
}

fn zone() -> &'static TimeZone {
    ZONE.get_or_init(|| TimeZone::UTC)
}

/// Returns a time to the minute, as in `2026-01-31 09:05`.
pub(crate) fn minute(instant: Instant) -> String {
    formatted(instant, zone(), "%Y-%m-%d %H:%M")
}

/// Returns a time to the second, as in `2026-01-31 09:05:00`.
pub(crate) fn second(instant: Instant) -> String {
    formatted(instant, zone(), "%Y-%m-%d %H:%M:%S")
}

/// Returns the day of a time, as in `2026-01-31`.
pub(crate) fn day(instant: Instant) -> String {
    formatted(instant, zone(), "%Y-%m-%d")
}

/// Returns a time to the minute within a sentence, which says so if it is in UTC.
pub(crate) fn in_words(instant: Instant) -> String {
    let mark = if is_utc(zone()) { IN_UTC } else { "" };
    format!("{}{mark}", minute(instant))
}

/// Returns what a sentence before a list of times adds, if they are in UTC.
pub(crate) fn note_of_zone() -> &'static str {
    if is_utc(zone()) { " (times in UTC)" } else { "" }
}

/// Returns the heading over times, of one that is written for UTC: `WHEN (UTC)` or `WHEN`.
pub(crate) fn heading(in_utc: &str) -> &str {
    match in_utc.strip_suffix(IN_UTC) {
        Some(plain) if !is_utc(zone()) => plain,
        _ => in_utc,
    }
}

/// Returns the time that a text without a zone means, in the zone in which times are shown: the
/// beginning of `2026-01-31`, or `2026-01-31T08:00`; `None` for anything else.
pub(crate) fn of_text(text: &str) -> Option<Instant> {
    of_text_in(text, zone())
}

fn of_text_in(text: &str, zone: &TimeZone) -> Option<Instant> {
    const DAY_LENGTH: usize = "2026-01-31".len();
    let clock = text.get(DAY_LENGTH..)?;
    // What names a zone itself is not in the zone of the place.
    let time: DateTime =
        text.parse().ok().filter(|_| !clock.contains(['Z', 'z', '+', '-', '[']))?;
    let there = time.to_zoned(zone.clone()).ok()?;
    Some(Instant(there.timestamp().as_microsecond()))
}

/// Returns whether a zone is UTC, or none that the machine names.
fn is_utc(zone: &TimeZone) -> bool {
    *zone == TimeZone::UTC || matches!(zone.iana_name(), Some("UTC" | "Etc/UTC") | None)
}

/// Formats a time; one that no calendar has, as RFC 3339 writes it.
fn formatted(instant: Instant, zone: &TimeZone, form: &str) -> String {
    match Timestamp::from_microsecond(instant.0) {
        Ok(at) => at.to_zoned(zone.clone()).strftime(form).to_string(),
        Err(_) => instant.to_rfc3339(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_as_the_clock_of_the_place_has_it() {
        let at = Instant::parse("2026-01-31T23:05:09Z").unwrap();
        let summer = Instant::parse("2026-07-31T23:05:09Z").unwrap();
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let form = "%Y-%m-%d %H:%M";
        assert_eq!(formatted(at, &berlin, form), "2026-02-01 00:05");
        assert_eq!(formatted(summer, &berlin, form), "2026-08-01 01:05");
        assert_eq!(formatted(at, &TimeZone::UTC, form), "2026-01-31 23:05");
        assert!(is_utc(&TimeZone::UTC) && !is_utc(&berlin));
        for (text, utc) in [
            ("2026-02-01", "2026-01-31T23:00:00Z"),
            ("2026-02-01T08:30", "2026-02-01T07:30:00Z"),
            ("2026-07-01 08:30:15", "2026-07-01T06:30:15Z"),
        ] {
            assert_eq!(of_text_in(text, &berlin), Instant::parse(utc), "{text}");
        }
        for text in ["2026-02-30", "2026-02-01T00:00:00Z", "2026-02-01T00:00+01:00", "7d", ""] {
            assert_eq!(of_text_in(text, &berlin), None, "{text}");
        }
    }

    #[test]
    fn a_heading_says_that_times_are_in_utc() {
        assert_eq!(heading("WHEN (UTC)"), "WHEN (UTC)");
        assert_eq!(heading("CLIENT"), "CLIENT");
        assert!(in_words(Instant(0)).ends_with(" (UTC)"));
    }
}
