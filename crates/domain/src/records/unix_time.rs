//! Numbers that are times: seconds, milliseconds or microseconds since 1970.
//!
//! A field holds such times if its name is that of a time and all its values lie between 1990 and
//! 2100 in one of these units. An import then writes them as RFC 3339 does, and the declaration
//! remembers the unit, so that the next file is read the same way.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::declaration::Declaration;
use super::instant::Instant;
use super::value::{FieldValue, RecordFields};

/// The member of a declaration that says how files of the stream are read.
const MEMBER: &str = "import";
/// The member within it that names the fields, each with its unit.
const UNITS: &str = "unix_times";
/// The years in which such times lie, in seconds since 1970: from 1990 until 2100.
const YEARS: std::ops::Range<i64> = 631_152_000..4_102_444_800;
/// Parts of the names of times. They are compared without case.
const PARTS: [&str; 14] = [
    "time", "date", "stamp", "created", "updated", "modified", "added", "sent", "visited",
    "expires", "started", "ended", "received", "since",
];

/// What is counted since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnixUnit {
    /// Seconds, with a fraction or not.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

impl UnixUnit {
    /// Every unit, the longest first.
    pub const ALL: [Self; 3] = [Self::Seconds, Self::Milliseconds, Self::Microseconds];

    /// Returns the unit of a time between 1990 and 2100; `None` for another number.
    pub fn of(digits: &str) -> Option<Self> {
        let whole: i64 = digits.split('.').next()?.parse().ok()?;
        let unit = Self::ALL.into_iter().find(|unit| YEARS.contains(&(whole / unit.per_second())));
        unit.filter(|unit| unit.instant(digits).is_some())
    }

    /// Returns the name, as a declaration has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
        }
    }

    fn per_second(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Milliseconds => 1_000,
            Self::Microseconds => 1_000_000,
        }
    }

    /// Returns the time that a number says, exact to the microsecond. `None` for a text of another
    /// form, and beyond the years that times have.
    pub fn instant(self, digits: &str) -> Option<Instant> {
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        if !is_plain(whole) || !is_plain(fraction) {
            return None;
        }
        let micros_of_one = 1_000_000 / self.per_second();
        let places = match self {
            Self::Seconds => 6,
            Self::Milliseconds => 3,
            Self::Microseconds => 0,
        };
        let part: i64 = match places {
            0 => 0,
            _ => format!("{fraction:0<places$}").get(..places)?.parse().ok()?,
        };
        let whole = whole.parse::<i64>().ok()?.checked_mul(micros_of_one)?;
        let instant = Instant(whole.checked_add(part)?);
        (Instant::FIRST..=Instant::LAST).contains(&instant).then_some(instant)
    }
}

/// Returns whether a name is that of a time, as `sent_at`, `ts` and `dateCreated` are.
pub fn is_name_of_time(name: &str) -> bool {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    let is_short = words.iter().any(|word| matches!(*word, "at" | "ts" | "when" | "on"));
    is_short || name.ends_with("At") || PARTS.iter().any(|part| lower.contains(part))
}

/// The fields of a stream that hold such times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnixTimes(BTreeMap<String, UnixUnit>);

impl UnixTimes {
    /// Reads what is remembered in a declaration. A unit that is not known is ignored.
    pub fn remembered(declaration: &Declaration) -> Self {
        let units = declaration.member(MEMBER).and_then(|member| member.get(UNITS));
        let unit = |(field, unit): (&String, &Json)| {
            let unit = UnixUnit::ALL.into_iter().find(|own| unit == own.name())?;
            Some((field.clone(), unit))
        };
        let units = units.and_then(Json::as_object).into_iter().flatten();
        Self(units.filter_map(unit).collect())
    }

    /// Writes the times of a row as RFC 3339 does. Other values of these fields stay.
    pub fn apply(&self, fields: &mut RecordFields) {
        if self.0.is_empty() {
            return;
        }
        for (name, value) in fields {
            let Some(unit) = self.0.get(name) else { continue };
            let time = match value {
                FieldValue::Number(digits) => unit.instant(digits),
                FieldValue::Text(digits) => unit.instant(digits),
                _ => None,
            };
            // Zero stands for no time.
            if let Some(time) = time.filter(|time| time.0 != 0) {
                *value = FieldValue::Text(time.to_rfc3339());
            }
        }
    }
}

/// Adds fields with their units to a declaration in JSON.
pub(super) fn remember(declaration: &mut Json, units: &[(&str, UnixUnit)]) {
    let Some(members) = declaration.as_object_mut().filter(|_| !units.is_empty()) else { return };
    let units: Map<String, Json> =
        units.iter().map(|(field, unit)| ((*field).to_owned(), unit.name().into())).collect();
    let member = members.entry(MEMBER).or_insert_with(|| Map::new().into());
    if let Some(member) = member.as_object_mut() {
        member.insert(UNITS.to_owned(), units.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_has_the_unit_in_which_it_is_a_time_of_our_years() {
        for (digits, unit, time) in [
            ("1700000000", UnixUnit::Seconds, "2023-11-14T22:13:20Z"),
            ("1700000000.1", UnixUnit::Seconds, "2023-11-14T22:13:20.100Z"),
            ("1700000000123", UnixUnit::Milliseconds, "2023-11-14T22:13:20.123Z"),
            ("1700000000123456", UnixUnit::Microseconds, "2023-11-14T22:13:20.123456Z"),
        ] {
            assert_eq!(UnixUnit::of(digits), Some(unit), "{digits}");
            assert_eq!(unit.instant(digits).unwrap().to_rfc3339(), time);
        }
        for digits in ["", "0", "12", "-1700000000", "1e9", "2026", "99999999999999999999", "1.x"] {
            assert_eq!(UnixUnit::of(digits), None, "{digits}");
        }
    }

    #[test]
    fn names_of_times_are_known_and_others_are_not() {
        for name in ["sent_at", "ts", "dateCreated", "timestamp_ms", "createdAt", "date_unixtime"] {
            assert!(is_name_of_time(name), "{name}");
        }
        for name in ["id", "amount", "phone", "category", "latitude", "status", "format"] {
            assert!(!is_name_of_time(name), "{name}");
        }
    }

    #[test]
    fn times_are_written_by_the_remembered_unit_and_other_values_stay() {
        let mut json = json!({ "schema": { "type": "object", "properties": {} } });
        remember(&mut json, &[("at", UnixUnit::Milliseconds)]);
        let times = UnixTimes::remembered(&Declaration::parse(&json).unwrap());
        let mut fields: RecordFields = vec![
            ("at".to_owned(), FieldValue::Number("1700000000123".into())),
            ("n".to_owned(), FieldValue::Number("1700000000123".into())),
        ];
        times.apply(&mut fields);
        assert_eq!(fields[0].1, FieldValue::Text("2023-11-14T22:13:20.123Z".to_owned()));
        assert_eq!(fields[1].1, FieldValue::Number("1700000000123".into()));
        for other in [FieldValue::Number("0".into()), FieldValue::Text("soon".to_owned())] {
            let mut fields = vec![("at".to_owned(), other.clone())];
            times.apply(&mut fields);
            assert_eq!(fields[0].1, other);
        }
    }
}
