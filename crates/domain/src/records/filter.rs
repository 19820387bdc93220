//! Conditions on fields: sent by a request, evaluated on each record.
//!
//! An exact condition compares a scalar as text: a string with itself, every other scalar in its
//! JSON spelling, and numbers by value. A range compares numbers with numbers and times with times.
//! A field that is absent, `null` or of another type is in no range. An exact condition holds of a
//! list if it holds of a member. All conditions of a request must hold.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::decimal::Decimal;
use super::declaration::RangeOperator;
use super::instant::Instant;
use super::list_members::each_member;
use super::stored_body::{BodyField, DamagedBody, RecordBody, StoredValue};
use crate::hash::ContentHash;

/// The bound of a range.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum RangeBound {
    /// A number in its original spelling.
    Number(String),
    /// A point in time.
    Time(Instant),
}

/// What a condition requires of a field's value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum FieldTest {
    /// The scalar equals this one.
    Is(String),
    /// The scalar equals one of these.
    IsAny(BTreeSet<String>),
    /// The scalar equals none of these, or there is none. No request asks so: a server leaves out
    /// records that it knows not to be in the range asked for.
    IsNone(BTreeSet<String>),
    /// The field has a value that is not `null`, or has none.
    Exists(bool),
    /// The scalar refers to one of these record keys, see [`referenced_key`].
    RefersToAny(BTreeSet<String>),
    /// The scalar lies on this side of the bound.
    Range(RangeOperator, RangeBound),
    /// Another condition on the field passes this value over.
    PassesOver(PassedOver),
}

/// Values that are there and that a condition does not compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum PassedOver {
    /// Values that are not numbers, where the condition is a range of numbers.
    NotNumbers,
    /// Values that are not times, where the condition is a range of times.
    NotTimes,
    /// Lists that are too long to be looked into, where the condition is an exact value.
    LongLists,
}

/// A requirement on a record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Condition {
    /// A field fulfils a test.
    Field {
        /// The name of the field.
        field: String,
        /// What the field's value must fulfil.
        test: FieldTest,
    },
    /// All conditions of at least one of these lists hold.
    AnyOf(Vec<Vec<Condition>>),
}

impl Condition {
    /// Creates a requirement on one field.
    pub fn on(field: &str, test: FieldTest) -> Self {
        Self::Field { field: field.to_owned(), test }
    }

    fn holds(&self, body: RecordBody<'_>) -> Result<bool, DamagedBody> {
        match self {
            Self::Field { field, test } => Ok(test.holds(body.field(field)?.as_ref())),
            Self::AnyOf(all) => {
                for conditions in all {
                    if all_hold(conditions, body)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

/// Whether a record fulfils all conditions.
pub fn all_hold(conditions: &[Condition], body: RecordBody<'_>) -> Result<bool, DamagedBody> {
    for condition in conditions {
        if !condition.holds(body)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the time in a field of a record; `None` if the field holds no time.
pub fn record_time(body: RecordBody<'_>, field: &str) -> Result<Option<Instant>, DamagedBody> {
    Ok(body.field(field)?.and_then(|entry| entry.value.time()))
}

impl FieldTest {
    /// Whether the test holds of a field, `None` if the record lacks it.
    fn holds(&self, entry: Option<&BodyField<'_>>) -> bool {
        let value = entry.map(|entry| entry.value);
        if let Self::Exists(wanted) = self {
            return value.is_some_and(|value| value != StoredValue::Null) == *wanted;
        }
        if let Self::IsNone(unwanted) = self {
            let is_any = |value| unwanted.iter().any(|unwanted| equals(value, unwanted));
            return !value.is_some_and(is_any);
        }
        value.is_some_and(|value| self.holds_of(value))
    }

    fn holds_of(&self, value: StoredValue<'_>) -> bool {
        match self {
            Self::Exists(_) | Self::IsNone(_) => false,
            Self::Is(wanted) => equals(value, wanted),
            Self::IsAny(wanted) => wanted.iter().any(|wanted| equals(value, wanted)),
            Self::PassesOver(passed) => passed.covers(value),
            Self::RefersToAny(keys) => referenced_key(value).is_some_and(|key| keys.contains(key)),
            Self::Range(op, bound) => {
                let order = match (bound, value) {
                    (RangeBound::Number(bound), StoredValue::Number(digits)) => {
                        compare_numbers(digits, bound)
                    }
                    (RangeBound::Time(bound), value) => value.time().map(|time| time.cmp(bound)),
                    _ => None,
                };
                order.is_some_and(|order| op.admits(order))
            }
        }
    }
}

impl PassedOver {
    /// Whether a value is among them. `null` is no value.
    pub fn covers(self, value: StoredValue<'_>) -> bool {
        match self {
            _ if value == StoredValue::Null => false,
            Self::NotNumbers => !matches!(value, StoredValue::Number(_)),
            Self::NotTimes => value.time().is_none(),
            Self::LongLists => matches!(value, StoredValue::LongJson(_)),
        }
    }
}

/// Whether a scalar, or a member of a list, is written like `wanted`, or is the same number.
fn equals(value: StoredValue<'_>, wanted: &str) -> bool {
    match value {
        StoredValue::Null => wanted == "null",
        StoredValue::Bool(value) => wanted == if value { "true" } else { "false" },
        StoredValue::Number(digits) => {
            digits == wanted || compare_numbers(digits, wanted) == Some(Ordering::Equal)
        }
        StoredValue::Text(text) => text == wanted,
        StoredValue::LongText(long) => {
            long.bytes == wanted.len() as u64
                && ContentHash::digest(wanted.as_bytes()).as_bytes() == &long.digest
        }
        StoredValue::Json(json) => {
            let mut is_found = false;
            each_member(json, &mut |member| {
                is_found |= member.is_some_and(|member| equals(member, wanted));
            });
            is_found
        }
        StoredValue::LongJson(_) => false,
    }
}

/// Returns the record key that a scalar refers to: a text, or a number or boolean as it is spelled.
/// `null` is never a key.
pub fn referenced_key(value: StoredValue<'_>) -> Option<&str> {
    match value {
        StoredValue::Number(text) | StoredValue::Text(text) => Some(text),
        StoredValue::Bool(value) => Some(if value { "true" } else { "false" }),
        // No key is as long as a text that is kept in pieces.
        StoredValue::Null
        | StoredValue::Json(_)
        | StoredValue::LongText(_)
        | StoredValue::LongJson(_) => None,
    }
}

/// Compares two JSON numbers by their exact values; returns `None` if a text is not a number.
pub fn compare_numbers(a: &str, b: &str) -> Option<Ordering> {
    Some(Decimal::parse(a)?.cmp(&Decimal::parse(b)?))
}

#[cfg(test)]
mod tests {
    use super::StoredValue::{Bool, Json, LongText, Null, Number, Text};
    use super::*;
    use crate::records::stored_body::{BodyWriter, LongValue};

    fn body(value: StoredValue<'_>) -> Vec<u8> {
        let mut writer = BodyWriter::default();
        writer.push(&BodyField { name: "f", slot: None, binary: false, value });
        writer.finish()
    }

    fn holds(value: StoredValue<'_>, test: FieldTest) -> bool {
        all_hold(&[Condition::on("f", test)], RecordBody::new(&body(value))).unwrap()
    }

    #[test]
    fn an_exact_condition_compares_scalars_by_value() {
        let is = |value, text: &str| holds(value, FieldTest::Is(text.to_owned()));
        assert!(is(Null, "null") && is(Bool(true), "true") && is(Text("x"), "x"));
        assert!(
            is(Number("1.0"), "1")
                && is(Number("12345678901234567890123"), "12345678901234567890123")
        );
        assert!(!is(Number("9007199254740993"), "9007199254740992"));
        assert!(
            !is(Number("9007199254740993"), "9007199254740992.0") && !is(Number("1e400"), "1e401")
        );
        assert!(!is(Text("x"), "X") && !is(Json("[]"), "[]") && !is(Text("1"), "1.0"));
        assert!(!is(Number("1"), "inf") && !is(Number("1"), " 1"));
        assert!(!is(Number("1"), "+1") && !is(Number("7"), "007"));
        let text = "y".repeat(2000);
        let digest = *ContentHash::digest(text.as_bytes()).as_bytes();
        assert!(is(LongText(LongValue { chars: 2000, bytes: 2000, digest }), &text));
        assert!(!is(LongText(LongValue { chars: 2000, bytes: 2000, digest }), &"z".repeat(2000)));
    }

    #[test]
    fn a_field_exists_if_it_has_a_value() {
        assert!(
            holds(Text(""), FieldTest::Exists(true)) && holds(Json("[]"), FieldTest::Exists(true))
        );
        assert!(!holds(Null, FieldTest::Exists(true)) && holds(Null, FieldTest::Exists(false)));
        let absent = |wanted| {
            let condition = Condition::on("g", FieldTest::Exists(wanted));
            all_hold(&[condition], RecordBody::new(&body(Null))).unwrap()
        };
        assert!(absent(false) && !absent(true));
        let none = FieldTest::IsNone(["x".to_owned(), "1".to_owned()].into());
        assert!(holds(Text("y"), none.clone()) && holds(Null, none.clone()));
        assert!(!holds(Text("x"), none.clone()) && !holds(Number("1.0"), none));
        let any = FieldTest::IsAny(["x".to_owned(), "1".to_owned()].into());
        assert!(holds(Text("x"), any.clone()) && holds(Number("1.0"), any.clone()));
        assert!(!holds(Text("y"), any.clone()) && !holds(Null, any));
    }

    #[test]
    fn a_reference_matches_the_spelling_of_the_key() {
        let refers =
            |value, key: &str| holds(value, FieldTest::RefersToAny([key.to_owned()].into()));
        assert!(refers(Text("5"), "5") && refers(Number("5"), "5") && refers(Bool(true), "true"));
        assert!(!refers(Null, "null") && !refers(Number("5.0"), "5") && !refers(Json("[]"), "[]"));
    }

    #[test]
    fn a_range_compares_numbers_with_numbers_and_times_with_times() {
        let above = |value| {
            holds(value, FieldTest::Range(RangeOperator::Gt, RangeBound::Number("10".to_owned())))
        };
        assert!(above(Number("10.5")) && above(Number("1e2")));
        assert!(!above(Number("10")) && !above(Text("11")) && !above(Null));
        let from = |text| {
            holds(Text(text), FieldTest::Range(RangeOperator::Gte, RangeBound::Time(Instant(0))))
        };
        assert!(from("1970-01-01") && !from("1969-12-31T23:59:59Z") && !from("soon"));
        let conditions = [Condition::on("g", FieldTest::Is(String::new()))];
        assert!(
            !all_hold(&conditions, RecordBody::new(&body(Null))).unwrap(),
            "an absent field is not empty"
        );
    }

    #[test]
    fn an_exact_condition_holds_of_a_member_of_a_list() {
        let is = |json, text: &str| holds(Json(json), FieldTest::Is(text.to_owned()));
        let list = r#"["herb","a\"b",7.0,true,["nested"],{"k":"v"}]"#;
        assert!(is(list, "herb") && is(list, "a\"b") && is(list, "7") && is(list, "true"));
        assert!(!is(list, "nested") && !is(list, "v") && !is(list, "her") && !is("[]", ""));
        let any = FieldTest::IsAny(["x".to_owned(), "herb".to_owned()].into());
        assert!(holds(Json(list), any) && !is(r#"{"herb":"herb"}"#, "herb"));
    }

    #[test]
    fn one_of_several_lists_of_conditions_is_enough() {
        let any = |all: &[&[&str]]| {
            let is = |text: &&str| Condition::on("f", FieldTest::Is((*text).to_owned()));
            let all = all.iter().map(|some| some.iter().map(is).collect()).collect();
            all_hold(&[Condition::AnyOf(all)], RecordBody::new(&body(Text("x")))).unwrap()
        };
        assert!(any(&[&["y"], &["x"]]) && any(&[&["x", "x"]]));
        assert!(!any(&[&["y"], &["x", "y"]]) && !any(&[]));
    }

    #[test]
    fn what_a_condition_passes_over_is_there_and_of_another_kind() {
        let over = |passed, value| holds(value, FieldTest::PassesOver(passed));
        assert!(
            over(PassedOver::NotNumbers, Text("1")) && over(PassedOver::NotNumbers, Json("[1]"))
        );
        assert!(!over(PassedOver::NotNumbers, Number("1")) && !over(PassedOver::NotNumbers, Null));
        assert!(
            over(PassedOver::NotTimes, Text("soon")) && over(PassedOver::NotTimes, Number("1"))
        );
        assert!(!over(PassedOver::NotTimes, Text("2026-01-01")));
        assert!(
            !over(PassedOver::LongLists, Json("[]")) && !over(PassedOver::LongLists, Text("x"))
        );
    }
}
