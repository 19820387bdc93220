//! Conditions on fields, as a reader sends them and a store asks them of each record.
//!
//! An exact condition compares a scalar as text: a string with itself, every other scalar as JSON
//! writes it, numbers by value. A range compares numbers with numbers and times with times; a field
//! that is absent, `null` or of another kind is in no range. All conditions must hold.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::body::{Body, Damaged, Entry, Held};
use super::decimal::Decimal;
use super::declaration::Operator;
use super::instant::Instant;
use crate::hash::ContentHash;

/// What a range is bounded by.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Bound {
    /// The digits of a number.
    Number(String),
    /// A time.
    Time(Instant),
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Test {
    /// The scalar is this one.
    Is(String),
    /// The scalar is this key: the text itself, or a number or boolean that is written so. Not
    /// `null`.
    Refers(String),
    /// The scalar lies on this side of a bound.
    Range(Operator, Bound),
}

/// A condition on a field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Condition {
    /// The field.
    pub field: String,
    /// What must hold.
    pub test: Test,
}

/// Whether all conditions hold of a record.
///
/// # Errors
/// [`Damaged`].
pub fn hold(conditions: &[Condition], body: Body<'_>) -> Result<bool, Damaged> {
    for condition in conditions {
        let Some(entry) = body.field(&condition.field)? else { return Ok(false) };
        if !condition.test.holds(&entry) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// When a field says that a record happened. None where it says no time.
///
/// # Errors
/// [`Damaged`].
pub fn time_of(body: Body<'_>, field: &str) -> Result<Option<Instant>, Damaged> {
    Ok(body.field(field)?.and_then(|entry| match entry.held {
        Held::Text(text) => Instant::parse(text),
        _ => None,
    }))
}

impl Test {
    fn holds(&self, entry: &Entry<'_>) -> bool {
        match self {
            Self::Is(wanted) => match entry.held {
                Held::Null => wanted == "null",
                Held::Bool(value) => wanted == if value { "true" } else { "false" },
                Held::Number(digits) => {
                    digits == wanted || compare_numbers(digits, wanted) == Some(Ordering::Equal)
                }
                Held::Text(text) => text == wanted,
                Held::LongText(long) => {
                    long.bytes == wanted.len() as u64
                        && ContentHash::digest(wanted.as_bytes()).as_bytes() == &long.digest
                }
                Held::Json(_) | Held::LongJson(_) => false,
            },
            Self::Refers(key) => match entry.held {
                Held::Number(text) | Held::Text(text) => text == key,
                Held::Bool(value) => key == if value { "true" } else { "false" },
                // No key is as long as a text that is kept apart.
                Held::Null | Held::Json(_) | Held::LongText(_) | Held::LongJson(_) => false,
            },
            Self::Range(op, bound) => {
                let order = match (bound, entry.held) {
                    (Bound::Number(bound), Held::Number(digits)) => compare_numbers(digits, bound),
                    (Bound::Time(bound), Held::Text(text)) => {
                        Instant::parse(text).map(|time| time.cmp(bound))
                    }
                    _ => None,
                };
                order.is_some_and(|order| op.admits(order))
            }
        }
    }
}

/// Compares JSON numbers by their exact values. None where one is none.
pub fn compare_numbers(a: &str, b: &str) -> Option<Ordering> {
    Some(Decimal::parse(a)?.cmp(&Decimal::parse(b)?))
}

/// Whether a text is a JSON number (RFC 8259, section 6).
pub fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
        }
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::body::{BodyWriter, Long};

    fn body(held: Held<'_>) -> Vec<u8> {
        let mut writer = BodyWriter::default();
        writer.push(&Entry { name: "f", slot: None, binary: false, held });
        writer.finish()
    }

    fn holds(held: Held<'_>, test: Test) -> bool {
        hold(&[Condition { field: "f".to_owned(), test }], Body::new(&body(held))).unwrap()
    }

    #[test]
    fn an_exact_condition_compares_scalars() {
        let is = |held, text: &str| holds(held, Test::Is(text.to_owned()));
        assert!(is(Held::Null, "null") && is(Held::Bool(true), "true") && is(Held::Text("x"), "x"));
        assert!(
            is(Held::Number("1.0"), "1")
                && is(Held::Number("12345678901234567890123"), "12345678901234567890123")
        );
        assert!(!is(Held::Number("9007199254740993"), "9007199254740992"));
        assert!(
            !is(Held::Number("9007199254740993"), "9007199254740992.0")
                && !is(Held::Number("1e400"), "1e401")
        );
        assert!(
            !is(Held::Text("x"), "X") && !is(Held::Json("[]"), "[]") && !is(Held::Text("1"), "1.0")
        );
        assert!(!is(Held::Number("1"), "inf") && !is(Held::Number("1"), " 1"));
        assert!(!is(Held::Number("1"), "+1") && !is(Held::Number("7"), "007"));
        let text = "y".repeat(2000);
        let digest = *ContentHash::digest(text.as_bytes()).as_bytes();
        assert!(is(Held::LongText(Long { chars: 2000, bytes: 2000, digest }), &text));
        assert!(!is(Held::LongText(Long { chars: 2000, bytes: 2000, digest }), &"z".repeat(2000)));
    }

    #[test]
    fn a_reference_is_the_key_as_it_is_written() {
        let refers = |held, key: &str| holds(held, Test::Refers(key.to_owned()));
        assert!(
            refers(Held::Text("5"), "5")
                && refers(Held::Number("5"), "5")
                && refers(Held::Bool(true), "true")
        );
        assert!(
            !refers(Held::Null, "null")
                && !refers(Held::Number("5.0"), "5")
                && !refers(Held::Json("[]"), "[]")
        );
    }

    #[test]
    fn a_range_compares_like_with_like() {
        let above = |held| holds(held, Test::Range(Operator::Gt, Bound::Number("10".to_owned())));
        assert!(above(Held::Number("10.5")) && above(Held::Number("1e2")));
        assert!(!above(Held::Number("10")) && !above(Held::Text("11")) && !above(Held::Null));
        let from =
            |text| holds(Held::Text(text), Test::Range(Operator::Gte, Bound::Time(Instant(0))));
        assert!(from("1970-01-01") && !from("1969-12-31T23:59:59Z") && !from("soon"));
        let conditions = [Condition { field: "g".to_owned(), test: Test::Is(String::new()) }];
        assert!(
            !hold(&conditions, Body::new(&body(Held::Null))).unwrap(),
            "an absent field is not empty"
        );
    }

    #[test]
    fn numbers_are_those_of_json() {
        for good in ["0", "-0", "10", "1.5", "1e5", "-1.25E-7", "1E+2"] {
            assert!(is_number(good), "{good}");
        }
        for bad in ["", "-", "01", "1.", ".5", "1e", "1e+", "+1", "0x1", "NaN", "inf", " 1", "1 "] {
            assert!(!is_number(bad), "{bad}");
        }
    }
}
