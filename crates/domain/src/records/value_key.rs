//! Value keys: bytes under which the store finds the records that may fulfil a condition.
//!
//! Each value that a condition can hold of has a key. Keys of numbers and of times compare like the
//! values, so a range of values is a range of keys. A text that is a time has the key of that time,
//! and any other text has the key of its digest, since texts are compared for equality alone. All
//! lists and objects have one key, and a list has the keys of its members too. An absent field has
//! none.
//!
//! Different values may share a key. So a range of keys names candidates, and the condition itself
//! decides. It never holds of a value whose key is outside.

use std::collections::BTreeMap;

use super::decimal::{Decimal, ORDER_BYTES};
use super::declaration::{Declaration, RangeOperator};
use super::filter::{Condition, FieldTest, PassedOver, RangeBound};
use super::instant::Instant;
use super::list_members::each_member;
use super::stored_body::StoredValue;
use crate::hash::ContentHash;

/// The most fields of a stream that are found by value: the first of the declaration.
pub const MAX_VALUE_FIELDS: usize = 64;

const NULL: u8 = 1;
const BOOL: u8 = 2;
const NUMBER: u8 = 3;
const TIME: u8 = 4;
const TEXT: u8 = 5;
const JSON: u8 = 6;
/// The bytes of a digest that a key has.
const DIGEST_BYTES: usize = 11;

/// The length of the longest key in bytes: a kind, and a number or a digest.
const KEY_BYTES: usize = 1 + ORDER_BYTES;

/// The key of a value. Keys compare like their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueKey {
    /// The bytes of the key, and zeros.
    bytes: [u8; KEY_BYTES],
    length: u8,
}

impl ValueKey {
    fn new(kind: u8, value: &[u8]) -> Self {
        let mut bytes = [0; KEY_BYTES];
        for (byte, from) in bytes.iter_mut().zip(std::iter::once(&kind).chain(value)) {
            *byte = *from;
        }
        Self { bytes, length: (1 + value.len()).min(KEY_BYTES) as u8 }
    }

    /// Returns the bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&self.bytes)
    }
}

/// Keys from the first to the last, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The least key of the range.
    pub first: Vec<u8>,
    /// The greatest key of the range.
    pub last: Vec<u8>,
}

impl KeyRange {
    fn one(key: ValueKey) -> Self {
        Self { first: key.as_bytes().to_vec(), last: key.as_bytes().to_vec() }
    }

    /// Returns the keys of both ranges. `None` if there are none.
    fn intersection(&self, other: &Self) -> Option<Self> {
        let first = self.first.as_slice().max(&other.first);
        let last = self.last.as_slice().min(&other.last);
        (first <= last).then(|| Self { first: first.to_vec(), last: last.to_vec() })
    }
}

/// Passes the keys of a value to `take`. A key may come twice.
pub fn each_key(value: StoredValue<'_>, take: &mut dyn FnMut(ValueKey)) {
    take(value_key(value));
    if let StoredValue::Json(json) = value {
        each_member(json, &mut |member| {
            if let Some(member) = member {
                take(value_key(member));
            }
        });
    }
}

/// Returns the key of a value, without those of its members.
fn value_key(value: StoredValue<'_>) -> ValueKey {
    match value {
        StoredValue::Null => ValueKey::new(NULL, &[]),
        StoredValue::Bool(value) => bool_key(value),
        // The digits of a body are a number. Should they not be, they are compared as a text.
        StoredValue::Number(digits) => number_key(digits).unwrap_or_else(|| digest_key(digits)),
        StoredValue::Text(text) => match Instant::parse(text) {
            Some(time) => time_key(time),
            None => digest_key(text),
        },
        StoredValue::LongText(long) => key_of_digest(&long.digest),
        StoredValue::Json(_) | StoredValue::LongJson(_) => ValueKey::new(JSON, &[]),
    }
}

/// Returns the keys of all values that fulfil the conditions on each field.
///
/// A record can fulfil all conditions only if a key of each of these fields is in one of the
/// field's ranges. Ranges of one field do not overlap. A condition that holds of values without a
/// key narrows nothing.
pub fn key_ranges(conditions: &[Condition]) -> BTreeMap<&str, Vec<KeyRange>> {
    let mut fields: BTreeMap<&str, (Compares, Vec<KeyRange>)> = BTreeMap::new();
    let mut narrow = |field, (kind, ranges): (Compares, Vec<KeyRange>)| {
        let narrowed = match fields.get(field) {
            None => (kind, ranges),
            // Two members of one list may fulfil two conditions.
            Some((Compares::Members, before)) if kind == Compares::Members => {
                if before.len() <= ranges.len() {
                    return;
                }
                (kind, ranges)
            }
            Some((_, before)) => {
                let all = before.iter().flat_map(|a| ranges.iter().map(|b| a.intersection(b)));
                (Compares::Scalars, all.flatten().collect())
            }
        };
        fields.insert(field, narrowed);
    };
    for condition in conditions {
        match condition {
            Condition::Field { field, test } => {
                if let Some(ranges) = ranges_of(test) {
                    let kind = match test {
                        FieldTest::Is(_) | FieldTest::IsAny(_) => Compares::Members,
                        _ => Compares::Scalars,
                    };
                    narrow(field.as_str(), (kind, ranges));
                }
            }
            Condition::AnyOf(all) => {
                for (field, ranges) in ranges_of_any(all) {
                    narrow(field, (Compares::Members, ranges));
                }
            }
        }
    }
    fields.into_iter().map(|(field, (_, ranges))| (field, ranges)).collect()
}

/// What a condition looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compares {
    /// The value of the field alone.
    Scalars,
    /// The members of a list too.
    Members,
}

/// Returns the ranges of those fields that each list of conditions has some of.
fn ranges_of_any(all: &[Vec<Condition>]) -> BTreeMap<&str, Vec<KeyRange>> {
    let mut each = all.iter().map(|conditions| key_ranges(conditions));
    let mut fields = each.next().unwrap_or_default();
    for other in each {
        fields.retain(|field, _| other.contains_key(field));
        for (field, ranges) in &mut fields {
            ranges.extend(other.get(field).into_iter().flatten().cloned());
        }
    }
    fields.into_iter().map(|(field, ranges)| (field, without_overlaps(ranges))).collect()
}

/// Joins ranges that have keys in common.
fn without_overlaps(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.sort_unstable_by(|a, b| a.first.cmp(&b.first));
    let mut joined: Vec<KeyRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.first <= last.last => {
                last.last = range.last.max(std::mem::take(&mut last.last));
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// Returns the fields of a declaration that are found by value, of those that requests may filter
/// by.
pub fn value_fields(declaration: &Declaration) -> Vec<String> {
    let fields = declaration.fields().iter();
    let allowed = fields.filter(|field| field.filterable || field.is_range_filterable());
    allowed.take(MAX_VALUE_FIELDS).map(|field| field.name.clone()).collect()
}

/// Returns the ranges of a test. `None` if the test may hold of a value without a key.
fn ranges_of(test: &FieldTest) -> Option<Vec<KeyRange>> {
    let mut keys = Vec::new();
    let mut add_equal = |wanted: &String| {
        keys.extend((wanted == "null").then(|| ValueKey::new(NULL, &[])));
        add_keys_of(wanted, &mut keys);
    };
    match test {
        FieldTest::Exists(_) | FieldTest::IsNone(_) => return None,
        FieldTest::PassesOver(passed) => return Some(ranges_passed_over(*passed)),
        FieldTest::Is(wanted) => add_equal(wanted),
        FieldTest::IsAny(wanted) => wanted.iter().for_each(add_equal),
        FieldTest::RefersToAny(wanted) => {
            wanted.iter().for_each(|wanted| add_keys_of(wanted, &mut keys));
        }
        FieldTest::Range(operator, RangeBound::Number(bound)) => {
            // No number compares with a bound that is not one.
            let Some(bound) = number_key(bound) else { return Some(Vec::new()) };
            return Some(vec![side(*operator, NUMBER, bound)]);
        }
        FieldTest::Range(operator, RangeBound::Time(bound)) => {
            return Some(vec![side(*operator, TIME, time_key(*bound))]);
        }
    }
    keys.sort_unstable();
    keys.dedup();
    Some(keys.into_iter().map(KeyRange::one).collect())
}

/// Returns the keys of values that a condition passes over.
fn ranges_passed_over(passed: PassedOver) -> Vec<KeyRange> {
    let kinds = |first: u8, after: u8| KeyRange { first: vec![first], last: vec![after] };
    match passed {
        PassedOver::NotNumbers => vec![kinds(BOOL, NUMBER), kinds(TIME, JSON + 1)],
        PassedOver::NotTimes => vec![kinds(BOOL, TIME), kinds(TEXT, JSON + 1)],
        PassedOver::LongLists => vec![kinds(JSON, JSON)],
    }
}

/// Adds the keys of every value but `null` that is written like `wanted`.
fn add_keys_of(wanted: &str, keys: &mut Vec<ValueKey>) {
    keys.extend((wanted == "true").then(|| bool_key(true)));
    keys.extend((wanted == "false").then(|| bool_key(false)));
    keys.extend(number_key(wanted));
    keys.extend(Instant::parse(wanted).map(time_key));
    // A text of any length may be kept in pieces, and is then no time.
    keys.push(digest_key(wanted));
}

/// Returns the keys of one kind on a side of a bound. They include the bound, which may share its
/// key with other values.
fn side(operator: RangeOperator, kind: u8, bound: ValueKey) -> KeyRange {
    let bound = bound.as_bytes().to_vec();
    match operator {
        RangeOperator::Gte | RangeOperator::Gt => {
            // No key of this kind is greater than the first key of the next.
            KeyRange { first: bound, last: vec![kind + 1] }
        }
        RangeOperator::Lte | RangeOperator::Lt => KeyRange { first: vec![kind], last: bound },
    }
}

fn bool_key(value: bool) -> ValueKey {
    ValueKey::new(BOOL, &[u8::from(value)])
}

fn number_key(digits: &str) -> Option<ValueKey> {
    Some(ValueKey::new(NUMBER, &Decimal::parse(digits)?.order_bytes()))
}

fn time_key(Instant(micros): Instant) -> ValueKey {
    // With the sign bit flipped, negative numbers sort first.
    ValueKey::new(TIME, &(micros as u64 ^ 1 << 63).to_be_bytes())
}

fn digest_key(text: &str) -> ValueKey {
    key_of_digest(ContentHash::digest(text.as_bytes()).as_bytes())
}

fn key_of_digest(digest: &[u8; 32]) -> ValueKey {
    ValueKey::new(TEXT, digest.get(..DIGEST_BYTES).unwrap_or(digest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::records::filter::all_hold;
    use crate::records::stored_body::{BodyField, BodyWriter, LongValue, RecordBody};

    /// Texts that are close to each other in some way: spellings of one number or one time, values
    /// of other types, and texts with a common beginning.
    const TEXTS: [&str; 32] = [
        "", "null", "true", "false", "True", "0", "-0.0", "0e7", "1", "1.0", "10e-1", "01", " 1",
        "-1", "-1.5", "1e400", "1e401", "-1e400", "1e-400", "1e70000", "9e69999",
        "12345678901234567890", "12345678901234567891", "12345678901234567890.0001", "2026-01-01",
        "2026-01-01T00:00:00Z", "2026-01-01T01:00+01:00", "2026-01-01T00:00:00.000001Z",
        "1969-12-31", "[]", "word", "Word",
    ];

    #[derive(Clone, Debug)]
    enum Value {
        Null,
        Bool(bool),
        Number(String),
        Text(String),
        LongText(String),
        Json(String),
    }

    impl Value {
        fn stored(&self) -> StoredValue<'_> {
            match self {
                Self::Null => StoredValue::Null,
                Self::Bool(value) => StoredValue::Bool(*value),
                Self::Number(digits) => StoredValue::Number(digits),
                Self::Text(text) => StoredValue::Text(text),
                Self::LongText(text) => StoredValue::LongText(LongValue {
                    chars: text.chars().count() as u64,
                    bytes: text.len() as u64,
                    digest: *ContentHash::digest(text.as_bytes()).as_bytes(),
                }),
                Self::Json(json) => StoredValue::Json(json),
            }
        }
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => select(TEXTS.to_vec()).prop_map(str::to_owned),
            1 => "-?[0-9]{1,20}(\\.[0-9]{1,3})?([eE]-?[0-9]{1,5})?",
            1 => "20[0-9]{2}-0[1-9]-[12][0-9]([T ][01][0-9]:[0-5][0-9](Z|[+-]0[0-9]:00)?)?",
            1 => ".{0,80}",
        ]
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            text().prop_map(Value::Number),
            text().prop_map(Value::Text),
            text().prop_map(Value::LongText),
            text().prop_map(Value::Json),
            proptest::collection::vec(text(), 0..3)
                .prop_map(|texts| Value::Json(serde_json::json!(texts).to_string())),
        ]
    }

    fn test() -> impl Strategy<Value = FieldTest> {
        let operator = || select(RangeOperator::ALL.to_vec());
        let micros = text().prop_map(|text| Instant::parse(&text).unwrap_or(Instant(1)));
        prop_oneof![
            text().prop_map(FieldTest::Is),
            any::<bool>().prop_map(FieldTest::Exists),
            proptest::collection::btree_set(text(), 0..4).prop_map(FieldTest::IsAny),
            proptest::collection::btree_set(text(), 0..4).prop_map(FieldTest::RefersToAny),
            (operator(), text()).prop_map(|(operator, bound)| FieldTest::Range(
                operator,
                RangeBound::Number(bound)
            )),
            (operator(), micros)
                .prop_map(|(operator, bound)| FieldTest::Range(operator, RangeBound::Time(bound))),
            select(vec![PassedOver::NotNumbers, PassedOver::NotTimes, PassedOver::LongLists])
                .prop_map(FieldTest::PassesOver),
        ]
    }

    fn condition() -> impl Strategy<Value = Condition> {
        let list = || proptest::collection::vec(test(), 0..3);
        let on = |test| Condition::on("f", test);
        let all = move |tests: Vec<FieldTest>| tests.into_iter().map(on).collect();
        prop_oneof![
            4 => test().prop_map(on),
            1 => proptest::collection::vec(list(), 0..3).prop_map(move |lists| {
                Condition::AnyOf(lists.into_iter().map(all).collect())
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn every_value_that_fulfils_the_conditions_has_its_key_in_their_ranges(
            value in value(),
            conditions in proptest::collection::vec(condition(), 1..4),
        ) {
            let mut body = BodyWriter::default();
            body.push(&BodyField { name: "f", slot: None, binary: false, value: value.stored() });
            let body = body.finish();
            // Where every condition may hold of a value without a key, there are no ranges.
            if all_hold(&conditions, RecordBody::new(&body)).unwrap()
                && let Some(ranges) = key_ranges(&conditions).remove("f")
            {
                let mut keys = Vec::new();
                each_key(value.stored(), &mut |key| keys.push(key));
                let is_in = |key: &[u8], range: &KeyRange| {
                    range.first.as_slice() <= key && key <= range.last.as_slice()
                };
                let found = keys.iter().map(|key| {
                    ranges.iter().filter(|range| is_in(key.as_bytes(), range)).count()
                });
                let found: Vec<usize> = found.collect();
                prop_assert!(found.iter().all(|count| *count <= 1), "ranges overlap: {:?}", ranges);
                prop_assert!(found.contains(&1), "{:?} in {:?}", keys, ranges);
            }
        }

        #[test]
        fn keys_compare_like_numbers_and_times(a in text(), b in text()) {
            if let (Some(one), Some(other)) = (Decimal::parse(&a), Decimal::parse(&b)) {
                let (key, other_key) = (number_key(&a).unwrap(), number_key(&b).unwrap());
                prop_assert!(key == other_key || key.cmp(&other_key) == one.cmp(&other));
                prop_assert!(one != other || key == other_key);
            }
            if let (Some(one), Some(other)) = (Instant::parse(&a), Instant::parse(&b)) {
                prop_assert_eq!(time_key(one).cmp(&time_key(other)), one.cmp(&other));
            }
        }
    }

    #[test]
    fn a_condition_of_few_values_has_few_keys() {
        let condition = |test| [Condition::on("f", test)];
        let ranges = |test| key_ranges(&condition(test)).remove("f").unwrap();
        assert_eq!(ranges(FieldTest::Is("no such word".to_owned())).len(), 1);
        assert_eq!(ranges(FieldTest::Is("5".to_owned())).len(), 2, "a number, and a text");
        let bound = |operator, bound: &str| {
            FieldTest::Range(operator, RangeBound::Number(bound.to_owned()))
        };
        let between =
            [condition(bound(RangeOperator::Gte, "5")), condition(bound(RangeOperator::Lt, "6"))]
                .concat();
        let found = key_ranges(&between).remove("f").unwrap();
        let key = |digits| number_key(digits).unwrap().as_bytes().to_vec();
        assert_eq!(found, [KeyRange { first: key("5"), last: key("6") }]);
        let never =
            [condition(bound(RangeOperator::Gt, "7")), condition(bound(RangeOperator::Lt, "6"))]
                .concat();
        assert_eq!(key_ranges(&never).remove("f").unwrap(), []);
        assert_eq!(ranges(bound(RangeOperator::Gt, "word")), []);
    }
}
