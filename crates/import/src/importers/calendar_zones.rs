//! The time zones that a calendar describes itself, under names of its own.
//!
//! Outlook names a zone `Customized Time Zone` and says its offset and when its clocks change. One
//! rule for standard time and at most one for daylight saving time are read, each without an end. A
//! zone with a history of rules is left unknown: its times would be wrong for some years.
//!
//! *Source*: RFC 5545, section 3.6.5; POSIX.1-2017, section 8.3, for the form of the rules.

use std::collections::HashMap;

use stile_domain::records::zone::Zone;

use super::compact_time;
use super::content_lines::ContentLine;

/// One part of a zone, such as its daylight saving time.
#[derive(Default)]
struct Part {
    /// Seconds ahead of UTC.
    offset: Option<i32>,
    /// When it begins each year, as POSIX writes it: `M3.5.0/02:00:00`.
    begins: Option<String>,
    clock: Option<String>,
    has_end: bool,
}

/// A zone while it is read.
#[derive(Default)]
struct Described {
    id: String,
    /// What the zone is in the IANA database, as some programs say.
    location: Option<String>,
    standard: Vec<Part>,
    daylight: Vec<Part>,
}

/// Reads the zones that the lines of a calendar describe, by their names.
pub(super) fn described_zones(lines: &[ContentLine]) -> HashMap<String, Zone> {
    let mut zones = HashMap::new();
    let (mut open, mut part): (Option<Described>, Option<Part>) = (None, None);
    for line in lines {
        let value = line.value.trim();
        let kind = value.to_ascii_uppercase();
        match (line.name.as_str(), kind.as_str(), &mut open) {
            ("BEGIN", "VTIMEZONE", _) => open = Some(Described::default()),
            ("END", "VTIMEZONE", _) => {
                if let Some(zone) = open.take()
                    && let Some(found) = zone.zone()
                {
                    zones.insert(zone.id, found);
                }
            }
            ("BEGIN", "STANDARD" | "DAYLIGHT", _) => part = Some(Part::default()),
            ("END", "STANDARD", Some(zone)) => zone.standard.extend(part.take()),
            ("END", "DAYLIGHT", Some(zone)) => zone.daylight.extend(part.take()),
            (name, _, Some(zone)) => match (&mut part, name) {
                (Some(part), name) => part.read(name, value),
                (None, "TZID") => zone.id = value.to_owned(),
                (None, "X-LIC-LOCATION") => zone.location = Some(value.to_owned()),
                _ => {}
            },
            _ => {}
        }
    }
    zones
}

impl Part {
    fn read(&mut self, name: &str, value: &str) {
        match name {
            "TZOFFSETTO" => self.offset = offset(value),
            "DTSTART" => {
                let clock = compact_time::date(value).and_then(|(_, rest)| {
                    compact_time::clock(rest.strip_prefix('T')?).map(|(clock, _)| clock)
                });
                self.clock = clock;
            }
            "RRULE" => {
                self.has_end = value.to_ascii_uppercase().contains("UNTIL=");
                self.begins = yearly(value);
            }
            _ => {}
        }
    }
}

impl Described {
    /// Returns the zone; `None` if it has a history, or a rule of another form.
    fn zone(&self) -> Option<Zone> {
        let named = self.location.as_deref().and_then(Zone::named);
        named.or_else(|| Zone::of_rules(&self.rules()?))
    }

    fn rules(&self) -> Option<String> {
        let [standard] = self.standard.as_slice() else { return None };
        let name = |name: &str, part: &Part| Some(format!("{name}{}", posix_offset(part.offset?)));
        match self.daylight.as_slice() {
            [] => name("STD", standard),
            [daylight] if !standard.has_end && !daylight.has_end => {
                let begins = |part: &Part| {
                    Some(format!("{}/{}", part.begins.as_deref()?, part.clock.as_deref()?))
                };
                let names = format!("{}{}", name("STD", standard)?, name("DST", daylight)?);
                Some(format!("{names},{},{}", begins(daylight)?, begins(standard)?))
            }
            _ => None,
        }
    }
}

/// Reads an offset such as `+0130` or `-053000`, in seconds.
fn offset(text: &str) -> Option<i32> {
    let sign = match text.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let number = |at: usize| match text.get(at..at + 2) {
        None => Some(0),
        Some(digits) => digits.parse::<i32>().ok(),
    };
    let seconds = number(1)? * 3600 + number(3)? * 60 + number(5)?;
    (text.len() >= 5).then_some(sign * seconds)
}

/// Writes an offset as POSIX does, which counts what is to be added to reach UTC.
fn posix_offset(seconds: i32) -> String {
    let sign = if seconds > 0 { "-" } else { "+" };
    let seconds = seconds.unsigned_abs();
    format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Reads a rule such as `FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU`, and writes it as POSIX does: `M3.5.0`.
fn yearly(rule: &str) -> Option<String> {
    const DAYS: [&str; 7] = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"];
    let rule = rule.to_ascii_uppercase();
    let part = |name: &str| {
        rule.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
    };
    if part("FREQ") != Some("YEARLY") || part("INTERVAL").is_some_and(|every| every != "1") {
        return None;
    }
    let month: u8 = part("BYMONTH")?.parse().ok()?;
    let (week, day) = part("BYDAY")?.split_at_checked(part("BYDAY")?.len().checked_sub(2)?)?;
    let day = DAYS.iter().position(|own| *own == day)?;
    let week = match (week.trim_start_matches('+'), part("BYMONTHDAY")) {
        ("-1", None) => 5,
        (week @ ("1" | "2" | "3" | "4" | "5"), None) => week.parse().ok()?,
        // `BYMONTHDAY=8,9,10,11,12,13,14` with a day of the week is the second of its month.
        ("", Some(days)) => {
            let first: u8 = days.split(',').next()?.trim().parse().ok()?;
            let is_week = days.split(',').count() == 7 && first % 7 == 1;
            is_week.then_some(first / 7 + 1)?
        }
        _ => return None,
    };
    (1..=12).contains(&month).then(|| format!("M{month}.{week}.{day}"))
}
