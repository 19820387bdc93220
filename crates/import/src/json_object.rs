//! Reads the members of a JSON object whose shape is not guaranteed: a member of another type than
//! expected counts as absent.

use stile_domain::records::instant::Instant;
use stile_domain::records::pieces;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};

/// The most characters of a title or a name that many rows repeat, such as the title of a
/// conversation.
pub(super) const MAX_NAME_CHARS: u64 = 1024;

/// Returns a title or a name, truncated to [`MAX_NAME_CHARS`].
pub(super) fn truncate_name(name: &str) -> &str {
    name.split_at(pieces::byte_offset(name, MAX_NAME_CHARS)).0
}

#[derive(Clone, Debug, Default)]
pub(super) struct JsonObject(pub(super) RecordFields);

impl JsonObject {
    /// Parses a value; `None` if it is not an object.
    pub(super) fn parse(value: &FieldValue) -> Option<Self> {
        match value {
            FieldValue::Json(json) => row::members(json).map(Self),
            _ => None,
        }
    }

    fn get(&self, name: &str) -> Option<&FieldValue> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<FieldValue> {
        let at = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Returns a member that is a text and not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            FieldValue::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Removes a member and returns it if it is a text and not empty.
    pub(super) fn take_text(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            FieldValue::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Returns a member that is a number or a text of seconds since 1970.
    pub(super) fn unix_time(&self, name: &str) -> Option<Instant> {
        match self.get(name)? {
            FieldValue::Number(digits) => parse_unix_time(digits),
            FieldValue::Text(text) => parse_unix_time(text),
            _ => None,
        }
    }

    /// Returns a member that is a whole number, or a text of its digits.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            FieldValue::Number(digits) => digits.parse().ok(),
            FieldValue::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns a member that is a number, or a text that is written as one.
    pub(super) fn number(&self, name: &str) -> Option<FieldValue> {
        let number = match self.get(name)? {
            number @ FieldValue::Number(_) => number.clone(),
            FieldValue::Text(text) => match row::parse(format!("{{\"n\":{text}}}").as_bytes()) {
                Ok(parsed) => parsed.fields.into_iter().next()?.1,
                Err(_) => return None,
            },
            _ => return None,
        };
        matches!(number, FieldValue::Number(_)).then_some(number)
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some(&FieldValue::Bool(true))
    }

    pub(super) fn object(&self, name: &str) -> Option<Self> {
        Self::parse(self.get(name)?)
    }

    /// Returns the items of a member that is an array; empty for any other member.
    pub(super) fn items(&self, name: &str) -> Vec<FieldValue> {
        match self.get(name) {
            Some(FieldValue::Json(json)) => row::items(json).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    pub(super) fn objects(&self, name: &str) -> Vec<Self> {
        self.items(name).iter().filter_map(Self::parse).collect()
    }
}

/// Parses seconds since 1970 in decimal digits, exact to the microsecond, and ignores later digits.
/// Parsing them as a float would lose microseconds.
fn parse_unix_time(text: &str) -> Option<Instant> {
    const DIGITS: usize = 6;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty()
        || !fraction.bytes().all(|byte| byte.is_ascii_digit())
        || whole.starts_with('+')
    {
        return None;
    }
    let micros: i64 = format!("{fraction:0<DIGITS$}").get(..DIGITS)?.parse().ok()?;
    let micros = if whole.starts_with('-') { -micros } else { micros };
    let instant = Instant(whole.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)?);
    (Instant::FIRST..=Instant::LAST).contains(&instant).then_some(instant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_to_the_microsecond() {
        let rfc3339 = |text: &str| parse_unix_time(text).map(Instant::to_rfc3339);
        for (text, expected) in [
            ("1700000000.000200", "2023-11-14T22:13:20.000200Z"),
            ("1700000000", "2023-11-14T22:13:20Z"),
            ("1700000000.1", "2023-11-14T22:13:20.100Z"),
            ("1700000000.9999999", "2023-11-14T22:13:20.999999Z"),
            ("0.000001", "1970-01-01T00:00:00.000001Z"),
            ("-1.5", "1969-12-31T23:59:58.500Z"),
            ("-0.5", "1969-12-31T23:59:59.500Z"),
        ] {
            assert_eq!(rfc3339(text).as_deref(), Some(expected), "{text}");
        }
        let invalid = "|.|1.|x|1e9|1.5e9|+1|1.-5|99999999999999999999|999999999999999";
        for text in invalid.split('|') {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }
}
