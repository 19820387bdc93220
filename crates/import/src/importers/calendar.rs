//! Imports a calendar (iCalendar): a record for each event, task and journal entry.
//!
//! What repeats is one record with its rule; an exception of a series is a record of its own, and
//! its time is among those on which the series is not. A date that cannot be read stays as it is
//! written.
//!
//! *Source*: RFC 5545, sections 3.6 (components) and 3.8 (properties).

use std::collections::HashMap;

use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;
use stile_domain::records::zone::Zone;

use super::calendar_zones::described_zones;
use super::compact_time::{self, written};
use super::content_lines::{Component, ContentLine, components, list};
use super::whole_file::{self, Keys, ReadRow, WholeRows};
use crate::importer::{Contents, ImportRow, Importer, Recognition, StreamDeclaration, file_bytes};
use crate::preset::{PresetDeclaration, PresetField};

/// Imports each entry of a calendar.
pub static IMPORTER: Importer = Importer {
    name: "calendar",
    description: "a calendar (iCalendar)",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning(bytes) if begins(bytes, b"BEGIN:VCALENDAR")),
        extensions: &["ics"],
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: |path, _| whole_file::open(path, |bytes| Ok(read_all(bytes))),
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

/// Returns whether a file begins with a line, in upper or lower case.
pub(super) fn begins(bytes: &[u8], line: &[u8]) -> bool {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii_start();
    bytes.get(..line.len()).is_some_and(|start| start.eq_ignore_ascii_case(line))
}

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "events",
    key: "id",
    time: "date",
    fields: &[
        ("id", PresetField::Name),
        ("type", PresetField::Name),
        ("date", PresetField::Date),
        ("start", PresetField::Time),
        ("end", PresetField::Time),
        ("end_date", PresetField::Date),
        ("all_day", PresetField::Flag),
        ("summary", PresetField::SearchedText),
        ("description", PresetField::SearchedText),
        ("location", PresetField::SearchedText),
        ("organizer", PresetField::Name),
        ("attendees", PresetField::Names),
        ("categories", PresetField::Names),
        ("status", PresetField::Name),
        ("rule", PresetField::Name),
        ("not_on", PresetField::List),
        ("also_on", PresetField::List),
        ("zone", PresetField::Name),
        ("calendar", PresetField::SearchedText),
        ("updated", PresetField::Time),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is a calendar, a record for each event, task and journal entry: `id` is its UID, with \
         the time of an exception of a series behind it",
        "`date` is the day on which an entry begins where it takes place; it orders the records and \
         is the time by which a grant counts",
        "`start` and `end` are the times of entries that are not whole days; `rule` says how an \
         entry repeats, `not_on` when it does not and `also_on` when it does besides",
        "`summary`, `description`, `location`, `attendees`, `categories` and `calendar`, the name \
         of the calendar, can be searched",
    ],
};

/// The components that become records.
const COMPONENTS: [(&str, &str); 3] =
    [("VEVENT", "event"), ("VTODO", "task"), ("VJOURNAL", "journal")];

/// Reads all entries of a calendar, and skips each line that has no name and value.
pub fn read(bytes: &[u8]) -> Vec<ReadRow> {
    read_all(bytes).rows
}

/// What calendars have beside entries that says nothing of its own.
const AROUND: [&str; 5] = ["VCALENDAR", "VTIMEZONE", "STANDARD", "DAYLIGHT", "VALARM"];

/// Reads the same, and counts what is neither an entry nor about one.
fn read_all(bytes: &[u8]) -> WholeRows {
    let (entries, others) = components(bytes, &COMPONENTS);
    let is_left_out = |line: &&ContentLine| {
        let value = line.value.trim();
        line.name == "BEGIN" && AROUND.iter().all(|name| !name.eq_ignore_ascii_case(value))
    };
    let left_out = others.iter().filter(is_left_out).count() as u64;
    let own = others.iter().find(|line| line.name == "X-WR-TIMEZONE");
    let zones = CalendarZones {
        own: own.and_then(|line| zone_named(line.value.trim())),
        described: described_zones(&others),
    };
    let named = others.iter().filter(|line| ["X-WR-CALNAME", "NAME"].contains(&line.name.as_str()));
    let mut names: Vec<String> = named.map(ContentLine::text).collect();
    names.retain(|name| !name.is_empty());
    names.dedup();
    // Of several calendars in one file, nothing says which one an entry is of.
    let name = names.pop().filter(|_| names.is_empty());
    let mut keys = Keys::default();
    let exceptions = exceptions(&entries);
    let mut row = |found: &Component| {
        found.row(|lines| {
            let mut row = entry(found.kind, lines, (&zones, &exceptions), &mut keys);
            let calendar = name.clone().map(FieldValue::Text);
            row.fields.extend(calendar.map(|name| ("calendar".to_owned(), name)));
            row
        })
    };
    WholeRows {
        rows: entries.iter().map(&mut row).collect(),
        left_out: (left_out > 0).then_some((LEFT_OUT, left_out)),
    }
}

const LEFT_OUT: &str = "parts of a calendar that are no event, task or journal entry, such as free \
    and busy times";

/// The times of the exceptions of each series, by its identifier.
type Exceptions = HashMap<String, Vec<ContentLine>>;

fn exceptions(entries: &[Component]) -> Exceptions {
    let mut all = Exceptions::new();
    for Component { lines, .. } in entries {
        let line = |name: &str| lines.iter().find(|line| line.name == name);
        if let (Some(uid), Some(time)) = (line("UID"), line("RECURRENCE-ID")) {
            all.entry(uid.value.trim().to_owned()).or_default().push(time.clone());
        }
    }
    all
}

/// The zones that a calendar names.
struct CalendarZones {
    /// Where the calendar is, for times in UTC.
    own: Option<Zone>,
    /// Those that it describes itself.
    described: HashMap<String, Zone>,
}

impl CalendarZones {
    /// Returns a zone by its name. The database knows the history of a zone, so it comes first.
    fn named(&self, name: &str) -> Option<Zone> {
        zone_named(name).or_else(|| self.described.get(name).cloned())
    }
}

/// The zones of Windows that most calendars name. *Source*: Unicode CLDR 48, `windowsZones.xml`.
const WINDOWS_ZONES: [(&str, &str); 20] = [
    ("W. Europe Standard Time", "Europe/Berlin"),
    ("Romance Standard Time", "Europe/Paris"),
    ("Central Europe Standard Time", "Europe/Budapest"),
    ("Central European Standard Time", "Europe/Warsaw"),
    ("GMT Standard Time", "Europe/London"),
    ("FLE Standard Time", "Europe/Kyiv"),
    ("E. Europe Standard Time", "Europe/Chisinau"),
    ("GTB Standard Time", "Europe/Bucharest"),
    ("Russian Standard Time", "Europe/Moscow"),
    ("Turkey Standard Time", "Europe/Istanbul"),
    ("Eastern Standard Time", "America/New_York"),
    ("Central Standard Time", "America/Chicago"),
    ("Mountain Standard Time", "America/Denver"),
    ("Pacific Standard Time", "America/Los_Angeles"),
    ("India Standard Time", "Asia/Kolkata"),
    ("China Standard Time", "Asia/Shanghai"),
    ("Tokyo Standard Time", "Asia/Tokyo"),
    ("Singapore Standard Time", "Asia/Singapore"),
    ("AUS Eastern Standard Time", "Australia/Sydney"),
    ("UTC", "Etc/UTC"),
];

/// Returns a zone by its name of the IANA database, also behind a path, or by its name of Windows.
fn zone_named(name: &str) -> Option<Zone> {
    let windows = WINDOWS_ZONES.iter().find(|(own, _)| *own == name).map(|(_, zone)| *zone);
    let mut starts = name.match_indices('/').map(|(at, _)| at + 1);
    let behind = || starts.find_map(|at| Zone::named(name.get(at..)?));
    windows.and_then(Zone::named).or_else(|| Zone::named(name)).or_else(behind)
}

/// A date or a time of an entry.
struct Moment {
    /// The day where the entry takes place.
    date: String,
    is_all_day: bool,
    /// The time; `None` for a whole day, and if the zone is not known.
    time: Option<String>,
    zone: Option<String>,
}

impl Moment {
    /// Reads a date or a time; `None` for what is neither.
    fn of(line: &ContentLine, zones: &CalendarZones) -> Option<Self> {
        let calendar_zone = zones.own.as_ref();
        let (date, rest) = compact_time::date(line.value.trim())?;
        let zone = line.parameter("TZID").map(str::to_owned);
        let Some(clock) = rest.strip_prefix('T') else {
            return Some(Self { date, is_all_day: true, time: None, zone });
        };
        let (clock, rest) = compact_time::clock(clock)?;
        let local = format!("{date}T{clock}");
        let time = match (rest == "Z", zone.as_deref()) {
            (true, _) => Instant::parse(&format!("{local}Z")),
            (false, Some(name)) => zones.named(name).and_then(|zone| zone.instant_of(&local)),
            // Without a zone, the clock of the entry is that of the calendar, and else taken for
            // UTC, as in all imports.
            (false, None) => calendar_zone
                .and_then(|zone| zone.instant_of(&local))
                .or_else(|| Instant::parse(&local)),
        };
        let is_zone_known = zone.as_deref().is_none_or(|name| zones.named(name).is_some());
        if is_zone_known && time.is_none() {
            return None;
        }
        let in_zone = |time: Instant| {
            let date = calendar_zone.and_then(|zone| zone.local_date(time))?;
            Instant::parse(&date).map(|_| date)
        };
        let date = time.filter(|_| rest == "Z").and_then(in_zone).unwrap_or(date);
        // A time in a zone that is not known would be hours off, so there is none.
        Some(Self { date, is_all_day: false, time: time.and_then(written), zone })
    }
}

fn entry(
    kind: &'static str,
    lines: &[ContentLine],
    (zones, exceptions): (&CalendarZones, &Exceptions),
    keys: &mut Keys,
) -> ImportRow {
    let line = |name: &str| lines.iter().find(|line| line.name == name);
    let text = |name: &str| {
        line(name).map(ContentLine::text).filter(|text| !text.is_empty()).map(FieldValue::Text)
    };
    let all = |name: &str, of: &dyn Fn(&ContentLine) -> Vec<String>| {
        list(lines.iter().filter(|line| line.name == name).flat_map(of).collect())
    };
    let begin_line = line("DTSTART").or_else(|| line("DUE"));
    let end_line = line("DTEND").or_else(|| line("DUE"));
    let begins = begin_line.and_then(|line| Moment::of(line, zones));
    let ends = end_line.and_then(|line| Moment::of(line, zones));
    let is_all_day = begins.as_ref().is_some_and(|begins| begins.is_all_day);
    let date = begins.as_ref().map(|begins| begins.date.clone());
    let date = date.or_else(|| written_value(begin_line));
    let unread_end = written_value(end_line).filter(|_| ends.is_none());
    let lasts = line("DURATION").and_then(|line| duration(line.value.trim()));
    let (end, end_date) = match (ends, &begins, lasts) {
        (Some(Moment { date, is_all_day: true, .. }), ..) => (None, Some(date)),
        (Some(Moment { time, .. }), ..) => (time, None),
        (None, Some(Moment { is_all_day: true, date, .. }), Some(seconds)) => {
            (None, later(date, seconds).and_then(|end| end.get(..10).map(str::to_owned)))
        }
        (None, Some(Moment { time: Some(start), .. }), Some(seconds)) => {
            (later(start, seconds), None)
        }
        _ => (None, None),
    };
    let end = end.or(unread_end);
    let days_of = |line: &ContentLine| -> Vec<String> {
        let each = line.value.split(',').map(|value| {
            let mut line = line.clone();
            line.value = value.trim().to_owned();
            line
        });
        let day = |line: ContentLine| match Moment::of(&line, zones) {
            Some(moment) => moment.time.unwrap_or(moment.date),
            None => line.value,
        };
        each.map(day).collect()
    };
    let days = |name: &str| all(name, &days_of);
    let uid = line("UID").map(|line| line.value.trim()).filter(|_| line("RECURRENCE-ID").is_none());
    let own_exceptions = uid.and_then(|uid| exceptions.get(uid)).into_iter().flatten();
    let not_on = lines.iter().filter(|line| line.name == "EXDATE").chain(own_exceptions);
    let not_on = list(not_on.flat_map(days_of).collect());
    let (start, zone) = begins.map_or((None, None), |begins| (begins.time, begins.zone));
    let updated = line("LAST-MODIFIED").and_then(|line| Moment::of(line, zones)?.time);
    let own = |text: Option<String>| text.map(FieldValue::Text);
    let fields = [
        ("id", Some(FieldValue::Text(id(lines, keys)))),
        ("type", Some(FieldValue::Text(kind.to_owned()))),
        ("date", own(date)),
        ("start", own(start)),
        ("end", own(end)),
        ("end_date", own(end_date)),
        ("all_day", Some(FieldValue::Bool(is_all_day))),
        ("summary", text("SUMMARY")),
        ("description", text("DESCRIPTION")),
        ("location", text("LOCATION")),
        ("organizer", line("ORGANIZER").map(person).map(FieldValue::Text)),
        ("attendees", all("ATTENDEE", &|line| vec![person(line)])),
        ("categories", all("CATEGORIES", &|line| line.parts(','))),
        ("status", text("STATUS")),
        ("rule", rules(lines)),
        ("not_on", not_on),
        ("also_on", days("RDATE")),
        ("zone", own(zone)),
        ("updated", own(updated)),
    ];
    ImportRow::from_message(fields, Vec::new())
}

/// Returns the rules by which an entry repeats, a line each. Most have one.
fn rules(lines: &[ContentLine]) -> Option<FieldValue> {
    let rules = lines.iter().filter(|line| line.name == "RRULE").map(ContentLine::text);
    let rules: Vec<String> = rules.filter(|rule| !rule.is_empty()).collect();
    (!rules.is_empty()).then(|| FieldValue::Text(rules.join("\n")))
}

/// Returns the value of a line as it is written.
fn written_value(line: Option<&ContentLine>) -> Option<String> {
    line.map(|line| line.value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Returns a time or a date so many seconds later, as RFC 3339 writes it.
fn later(time: &str, seconds: i64) -> Option<String> {
    let Instant(micros) = Instant::parse(time)?;
    written(Instant(micros.checked_add(seconds.checked_mul(1_000_000)?)?))
}

/// Returns how many seconds a text such as `P1DT2H` says.
///
/// *Source*: RFC 5545, section 3.3.6.
fn duration(text: &str) -> Option<i64> {
    let rest = text.trim_start_matches('+').strip_prefix('P')?;
    let (mut seconds, mut number) = (0_i64, String::new());
    for letter in rest.chars() {
        let unit: i64 = match letter {
            digit if digit.is_ascii_digit() => {
                number.push(digit);
                continue;
            }
            'T' if number.is_empty() => continue,
            'W' => 604_800,
            'D' => 86_400,
            'H' => 3600,
            'M' => 60,
            'S' => 1,
            _ => return None,
        };
        let count: i64 = std::mem::take(&mut number).parse().ok()?;
        seconds = seconds.checked_add(count.checked_mul(unit)?)?;
    }
    number.is_empty().then_some(seconds)
}

/// Returns the name and the address of a person.
fn person(line: &ContentLine) -> String {
    let value = line.text();
    let is_address = value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("mailto:"));
    let address = if is_address { value.get(7..).unwrap_or_default() } else { value.as_str() };
    match line.parameter("CN").filter(|name| !name.is_empty() && *name != address) {
        Some(name) => format!("{name} <{address}>"),
        None => address.to_owned(),
    }
}

/// Returns the key of an entry. One without an identifier, or with one that an earlier entry of the
/// file has, gets the digest of what it says.
fn id(lines: &[ContentLine], keys: &mut Keys) -> String {
    let value = |name: &str| {
        lines.iter().find(|line| line.name == name).map(|line| line.value.trim().to_owned())
    };
    let uid = value("UID").filter(|uid| !uid.is_empty() && uid.len() <= MAX_ID_BYTES);
    let digest = || {
        let whole = |line: &ContentLine| format!("{}:{}\n", line.name, line.value);
        let whole: String = lines.iter().map(whole).collect();
        format!("sha256:{}", ContentHash::digest(whole.as_bytes()))
    };
    let id = match (uid, value("RECURRENCE-ID")) {
        (Some(uid), Some(exception)) => format!("{uid}/{exception}"),
        (Some(uid), None) => uid,
        (None, _) => digest(),
    };
    keys.take(id)
}

/// The longest identifier that becomes a key, in bytes. The rest of a key's 512 bytes is for the
/// time of an exception.
const MAX_ID_BYTES: usize = 420;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stile_domain::records::row;
    use stile_records::operations::Operation;

    use super::*;
    use crate::report::BadRowPolicy;
    use crate::rig::{recognised, rig};

    fn entries(text: &str) -> Vec<Value> {
        let rows = read(text.as_bytes());
        let fields = |(_, row): ReadRow| row::to_json(&row.unwrap().fields);
        rows.into_iter().map(|row| serde_json::from_str(&fields(row)).unwrap()).collect()
    }

    #[test]
    fn what_repeats_is_found_by_each_of_its_dates_and_a_bad_date_is_kept() {
        let rig = rig();
        let event = |uid: &str, lines: &str| {
            format!(
                "BEGIN:VEVENT\r\nUID:{uid}\r\nSUMMARY:{uid} practice\r\n{lines}\r\nEND:VEVENT\r\n"
            )
        };
        let calendar = [
            event(
                "choir",
                "DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=WEEKLY\r\nEXDATE;VALUE=DATE:20260216",
            ),
            event("run", "DTSTART;TZID=Europe/Zurich:20260105T070000\r\nRRULE:FREQ=DAILY;COUNT=3"),
            event("odd", "DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=HOURLY"),
            event("once", "DTSTART;VALUE=DATE:20260210"),
            event("bad", "DTSTART:2026XX"),
            event("leap", "DTSTART;VALUE=DATE:19900229"),
            event(
                "late",
                "DTSTART;VALUE=DATE:20260112\r\nRRULE:FREQ=WEEKLY;COUNT=2\r\n\
                 EXDATE;VALUE=DATE:20260112",
            ),
            event("days", "DTSTART;VALUE=DATE:20260110\r\nRDATE;VALUE=DATE:20260401,20260403"),
            event(
                "rules",
                "DTSTART;VALUE=DATE:20260106\r\nRRULE:FREQ=MONTHLY;BYMONTHDAY=8\r\n\
                 RRULE:FREQ=MONTHLY;BYMONTHDAY=3",
            ),
        ];
        let calendar = format!("BEGIN:VCALENDAR\r\n{}END:VCALENDAR\r\n", calendar.concat());
        let path = rig.write("a.ics", calendar);
        let report = rig.import(&[recognised(&path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        let misfit = &report.misfits["date"];
        assert_eq!((misfit.rows, misfit.example.as_str()), (2, "2026XX"));
        let week = |from: &str, to: &str| {
            let pairs = [("filter[date][gte]", from), ("filter[date][lt]", to), ("order", "asc")];
            rig.get(Operation::ListRecords, "s", "", &pairs)
        };
        let ids = |list: &Value| -> Vec<(String, Value)> {
            let rows = list["data"].as_array().unwrap().iter();
            rows.map(|row| (row["id"].as_str().unwrap().to_owned(), row["occurs_on"].clone()))
                .collect()
        };
        let second = week("2026-02-09", "2026-02-16");
        let choir = ("choir".to_owned(), json!(["2026-02-09"]));
        assert_eq!(ids(&second), [choir, ("once".to_owned(), Value::Null)]);
        let said = second["meta"]["warnings"].to_string();
        assert!(said.contains("1 record(s) repeat by their `rule` in the time"), "{said}");
        assert!(said.contains("1 record(s) repeat by a `rule` that is not expanded"), "{said}");
        assert_eq!(ids(&week("2026-02-16", "2026-02-17")), [], "it is not on that day");
        let april = [
            ("days".to_owned(), json!(["2026-04-01", "2026-04-03"])),
            ("rules".to_owned(), json!(["2026-04-03"])),
        ];
        let mut found = ids(&week("2026-04-01", "2026-04-04"));
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        assert_eq!(found, april, "dates without a rule, and a second rule");
        let on =
            |day: &str| ids(&rig.get(Operation::ListRecords, "s", "", &[("filter[date]", day)]));
        assert_eq!(on("2026-02-09"), [("choir".to_owned(), json!(["2026-02-09"]))], "on a day");
        assert_eq!(on("2026-02-16"), [], "it is not on that day");
        assert_eq!(on("2026-01-12"), [("choir".to_owned(), json!(["2026-01-12"]))], "the first");
        let first = ids(&week("2026-01-12", "2026-01-13"));
        assert_eq!(first, [("choir".to_owned(), json!(["2026-01-12"]))], "the first in a range");
        assert_eq!(on("2026-02-10"), [("once".to_owned(), Value::Null)]);
        let first = week("2026-01-07", "2026-01-08");
        let run = json!(["2026-01-07T06:00:00Z"]);
        assert_eq!(ids(&first), [("run".to_owned(), run)]);
        let search = rig.get(
            Operation::Search,
            "",
            "",
            &[
                ("q", "choir"),
                ("streams", "s"),
                ("filter[date][gte]", "2026-02-09"),
                ("filter[date][lt]", "2026-02-16"),
            ],
        );
        assert_eq!(search["data"][0]["record_key"], "choir", "{search}");
    }

    #[test]
    fn what_repeats_is_found_within_alternatives_and_a_group_says_that_it_counts_once() {
        let rig = rig();
        let event = |uid: &str, lines: &str| {
            format!("BEGIN:VEVENT\r\nUID:{uid}\r\nSUMMARY:{uid}\r\n{lines}\r\nEND:VEVENT\r\n")
        };
        let calendar = [
            event("choir", "DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=WEEKLY"),
            event("odd", "DTSTART;VALUE=DATE:20260105\r\nRRULE:FREQ=HOURLY"),
            event("once", "DTSTART;VALUE=DATE:20260210"),
            event("other", "DTSTART;VALUE=DATE:20260301"),
        ];
        let calendar = format!("BEGIN:VCALENDAR\r\n{}END:VCALENDAR\r\n", calendar.concat());
        let path = rig.write("a.ics", calendar);
        rig.import(&[recognised(&path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        let list = |pairs: &[(&str, &str)]| {
            let answer = rig.get(Operation::ListRecords, "s", "", pairs);
            let rows = answer["data"].as_array().unwrap().iter();
            let ids: Vec<String> = rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect();
            let dates = answer["data"][0]["occurs_on"].clone();
            (ids, dates, answer["meta"]["warnings"].to_string())
        };
        let either = [
            ("or[0][date][gte]", "2026-02-09"),
            ("or[0][date][lt]", "2026-02-16"),
            ("or[1][date][gte]", "2026-02-23"),
            ("or[1][date][lt]", "2026-02-24"),
            ("order", "asc"),
        ];
        let (ids, dates, said) = list(&either);
        assert_eq!(ids, ["choir", "once"]);
        assert_eq!(dates, json!(["2026-02-09", "2026-02-23"]));
        assert!(
            said.contains(
                "1 record(s) repeat by a `rule` that is not expanded, such as `FREQ=HOURLY`"
            ),
            "{said}"
        );
        // A range around the alternatives holds of the same date.
        let within = [&either[..], &[("filter[date][gte]", "2026-02-20")]].concat();
        let (ids, dates, _) = list(&within);
        assert_eq!((ids, dates), (vec!["choir".to_owned()], json!(["2026-02-23"])));
        let none = [&either[..], &[("filter[date][gte]", "2026-03-01")]].concat();
        assert_eq!(list(&none).0, [""; 0]);
        let by_title =
            [("or[0][summary]", "once"), ("or[1][date]", "2026-03-01"), ("order", "asc")];
        assert_eq!(list(&by_title).0, ["once", "other"]);
        let groups = rig.get(
            Operation::AggregateRecords,
            "s",
            "",
            &[("metric", "count"), ("group_by_time", "date"), ("granularity", "month")],
        );
        let said = groups["meta"]["warnings"].to_string();
        assert!(said.contains("2 record(s) repeat by their `rule`; each counts once"), "{said}");
    }

    #[test]
    fn an_entry_has_its_day_where_it_takes_place() {
        let found = entries(
            "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART;TZID=Europe/Zurich:20260701T003000\r\n\
             DTEND;TZID=Europe/Zurich:20260701T013000\r\nSUMMARY:Late\\, but\r\n  here\r\n\
             ORGANIZER;CN=Ann:mailto:ann@example.org\r\nATTENDEE:mailto:bob@example.org\r\n\
             RRULE:FREQ=WEEKLY\r\nBEGIN:VALARM\r\nSUMMARY:no\r\nEND:VALARM\r\nEND:VEVENT\r\n\
             BEGIN:VEVENT\r\nUID:1\r\nRECURRENCE-ID;TZID=Europe/Zurich:20260708T003000\r\nDTSTART:20260708T100000Z\r\nEND:VEVENT\r\n\
             BEGIN:VEVENT\r\nUID:2\r\nDTSTART;VALUE=DATE:20260301\r\nDTEND;VALUE=DATE:20260303\r\nEND:VEVENT\r\n\
             BEGIN:VTODO\r\nUID:3\r\nDUE:20260401T120000\r\nCATEGORIES:home,garden\r\nEND:VTODO\r\n\
             BEGIN:VTIMEZONE\r\nEND:VTIMEZONE\r\nEND:VCALENDAR\r\n",
        );
        assert_eq!(
            found,
            [
                json!({
                    "id": "1", "type": "event", "date": "2026-07-01",
                    "start": "2026-06-30T22:30:00Z", "end": "2026-06-30T23:30:00Z", "all_day": false,
                    "summary": "Late, but here", "organizer": "Ann <ann@example.org>",
                    "attendees": ["bob@example.org"], "rule": "FREQ=WEEKLY", "not_on": ["2026-07-07T22:30:00Z"], "zone": "Europe/Zurich",
                }),
                json!({
                    "id": "1/20260708T003000", "type": "event", "date": "2026-07-08",
                    "start": "2026-07-08T10:00:00Z", "all_day": false,
                }),
                json!({
                    "id": "2", "type": "event", "date": "2026-03-01", "end_date": "2026-03-03",
                    "all_day": true,
                }),
                json!({
                    "id": "3", "type": "task", "date": "2026-04-01", "start": "2026-04-01T12:00:00Z",
                    "end": "2026-04-01T12:00:00Z", "all_day": false, "categories": ["home", "garden"],
                }),
            ]
        );
    }

    #[test]
    fn an_entry_says_how_long_it_lasts_and_on_which_days_it_is_not() {
        let found = entries(
            "BEGIN:VCALENDAR\nX-WR-TIMEZONE:Europe/Zurich\nBEGIN:VEVENT\nUID:1\n\
             DTSTART:20260105T100000Z\nDURATION:P1DT1H30M\nRRULE:FREQ=WEEKLY\n\
             EXDATE:20260112T100000Z,20260119T100000Z\nRDATE;VALUE=DATE:20260301\nEND:VEVENT\n\
             BEGIN:VEVENT\nUID:2\nDTSTART;VALUE=DATE:20260301\nDURATION:P3D\nEND:VEVENT\n\
             BEGIN:VEVENT\nUID:3\nDTSTART:20260701T120000\nDURATION:-PT5X\nEND:VEVENT\n",
        );
        assert_eq!(found[0]["end"], "2026-01-06T11:30:00Z");
        assert_eq!(found[0]["not_on"], json!(["2026-01-12T10:00:00Z", "2026-01-19T10:00:00Z"]));
        assert_eq!(found[0]["also_on"], json!(["2026-03-01"]));
        assert_eq!(found[1]["end_date"], "2026-03-04");
        // A time without a zone is that of the calendar.
        assert_eq!(
            (&found[2]["start"], found[2].get("end")),
            (&json!("2026-07-01T10:00:00Z"), None)
        );
    }

    #[test]
    fn a_zone_that_the_calendar_describes_is_known() {
        let zone = |rules: &str| {
            let found = entries(&format!(
                "BEGIN:VCALENDAR\r\nBEGIN:VTIMEZONE\r\nTZID:Customized Time Zone\r\n{rules}\
                 END:VTIMEZONE\r\nBEGIN:VEVENT\r\nUID:1\r\n\
                 DTSTART;TZID=\"Customized Time Zone\":20260701T100000\r\nEND:VEVENT\r\n\
                 BEGIN:VEVENT\r\nUID:2\r\n\
                 DTSTART;TZID=Customized Time Zone:20260101T100000\r\nEND:VEVENT\r\n\
                 END:VCALENDAR\r\n"
            ));
            (found[0]["start"].clone(), found[1]["start"].clone())
        };
        let part = |name: &str, offset: &str, rule: &str| {
            format!(
                "BEGIN:{name}\r\nDTSTART:16010101T020000\r\nTZOFFSETFROM:+0000\r\n\
                 TZOFFSETTO:{offset}\r\n{rule}END:{name}\r\n"
            )
        };
        let europe = part("STANDARD", "+0100", "RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10\r\n")
            + &part("DAYLIGHT", "+0200", "RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3\r\n");
        assert_eq!(zone(&europe), (json!("2026-07-01T08:00:00Z"), json!("2026-01-01T09:00:00Z")));
        let fixed = part("STANDARD", "-0930", "");
        assert_eq!(zone(&fixed), (json!("2026-07-01T19:30:00Z"), json!("2026-01-01T19:30:00Z")));
        let named = "X-LIC-LOCATION:Asia/Tokyo\r\n";
        assert_eq!(zone(named), (json!("2026-07-01T01:00:00Z"), json!("2026-01-01T01:00:00Z")));
        let ended = part("STANDARD", "+0100", "RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10\r\n")
            + &part(
                "DAYLIGHT",
                "+0200",
                "RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3;UNTIL=20100101T000000Z\r\n",
            );
        assert_eq!(zone(&ended), (Value::Null, Value::Null), "it has a history");
    }

    #[test]
    fn zones_are_known_by_their_names_of_windows_and_behind_a_path() {
        let start = |line: &str| {
            let text = format!(
                "BEGIN:VCALENDAR\nX-WR-TIMEZONE:America/New_York\nBEGIN:VEVENT\n{line}\nEND:VEVENT\n"
            );
            let entry = entries(&text).remove(0);
            (entry["date"].clone(), entry["start"].clone())
        };
        for zone in ["W. Europe Standard Time", "/freeassociation.sourceforge.net/Europe/Berlin"] {
            let (_, at) = start(&format!("DTSTART;TZID=\"{zone}\":20260715T100000"));
            assert_eq!(at, "2026-07-15T08:00:00Z", "{zone}");
        }
        let unknown = start("DTSTART;TZID=Nowhere:20260715T100000");
        assert_eq!(unknown, (json!("2026-07-15"), Value::Null));
        // The day of a time in UTC is that of the calendar.
        let evening = start("DTSTART:20260716T010000Z");
        assert_eq!(evening, (json!("2026-07-15"), json!("2026-07-16T01:00:00Z")));
    }

    #[test]
    fn an_entry_that_is_cut_or_has_no_sense_loses_nothing_else() {
        let text = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20269999\nSUMMARY:x\nEND:VEVENT\nBEGIN:VEVENT\n";
        let rows = read(text.as_bytes());
        assert!(rows[0].1.is_ok());
        assert_eq!(rows[1].1.as_ref().unwrap_err().code, "cut_off");
        let busy = "BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nBEGIN:STANDARD\nEND:STANDARD\nEND:VTIMEZONE\n\
            BEGIN:VFREEBUSY\nUID:a\nEND:VFREEBUSY\nEND:VCALENDAR\n";
        let found = read_all(busy.as_bytes());
        assert_eq!((found.rows.len(), found.left_out), (0, Some((LEFT_OUT, 1))));
        assert!(begins(b"\xef\xbb\xbfbegin:vcalendar\n", b"BEGIN:VCALENDAR"));
    }
}
