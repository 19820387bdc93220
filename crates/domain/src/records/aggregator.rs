//! Aggregates over the values of one field: counts for each value or span of time, the number of
//! distinct values, the sum, the least and the greatest value.
//!
//! An [`Aggregator`] takes the field of one record after another. Neither the order of the records
//! nor their split over several aggregators changes the result. A value counts only if it has a
//! type that the field is declared with. A field that is absent, null, an array, an object or of
//! another type counts as having no value. Integers and other numbers are one type here.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::decimal::{Decimal, DecimalSum};
use super::declaration::{JsonType, TypeSet};
use super::instant::Instant;
use super::stored_body::StoredValue;
use super::zone::{BucketStart, Granularity, Zone};

/// The names of the metrics, as `/v1` spells them.
pub const METRICS: [&str; 5] = ["count", "sum", "min", "max", "count_distinct"];

/// The most distinct values that an aggregator tells apart.
pub const MAX_GROUPS: usize = 100_000;
/// The most bytes that those distinct values have together.
pub const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;

/// What an aggregator computes.
#[derive(Clone, Debug)]
pub enum AggregateMeasure {
    /// The number of records.
    Count,
    /// The sum of the field's numbers.
    Sum,
    /// The least number or time.
    Least(Comparison),
    /// The greatest number or time.
    Greatest(Comparison),
    /// The number of distinct values.
    Distinct,
    /// The number of records that have each value.
    ByValue,
    /// The number of records in each span of time.
    ByTime(Granularity, Zone),
}

/// How values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// As numbers, by their exact value. Other values are skipped.
    Numbers,
    /// As points in time. Texts that are not times are skipped.
    Times,
}

/// Why an aggregate cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateOverflow {
    /// The field has more than [`MAX_GROUPS`] distinct values, or more than [`MAX_GROUP_BYTES`] of
    /// them.
    Groups,
    /// A number has too many digits to be added exactly.
    Digits,
}

/// The value that the records of a group share.
///
/// Keys are ordered by type and then by value. The group without a value comes last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupKey {
    /// `true` or `false`.
    Bool(bool),
    /// A number in its canonical form, which equal numbers share.
    Number(String),
    /// A text that is kept in its record.
    Text(String),
    /// A text that is kept in pieces, identified by its digest.
    LongText {
        /// The SHA-256 of the text.
        digest: [u8; 32],
        /// The length of the text in Unicode scalar values.
        chars: u64,
    },
    /// A span of time, by its start.
    Time(BucketStart),
    /// The group of the records without a value.
    None,
}

/// The records that share a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueGroup {
    /// The value that these records share.
    pub key: GroupKey,
    /// The number of records.
    pub count: u64,
}

/// The least or greatest value so far, in its original spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Extreme {
    time: Option<Instant>,
    written: String,
}

/// A computation in progress.
#[derive(Clone, Debug)]
pub struct Aggregator {
    measure: AggregateMeasure,
    types: TypeSet,
    records: u64,
    sum: DecimalSum,
    extreme: Option<Extreme>,
    groups: HashMap<GroupKey, u64>,
    group_bytes: usize,
}

impl Aggregator {
    /// Begins a computation over a field that is declared with these types.
    pub fn new(measure: AggregateMeasure, types: TypeSet) -> Self {
        Self {
            measure,
            types,
            records: 0,
            sum: DecimalSum::default(),
            extreme: None,
            groups: HashMap::new(),
            group_bytes: 0,
        }
    }

    /// Adds the field of one more record; `None` for a record without the field.
    ///
    /// # Errors
    /// [`AggregateOverflow`]; the aggregator must not be used afterwards.
    pub fn add(&mut self, value: Option<StoredValue<'_>>) -> Result<(), AggregateOverflow> {
        self.records += 1;
        let value = value.filter(|value| self.fits(value));
        match &self.measure {
            AggregateMeasure::Count => Ok(()),
            AggregateMeasure::Sum => match value.and_then(number) {
                Some((number, _)) if !self.sum.add(number) => Err(AggregateOverflow::Digits),
                _ => Ok(()),
            },
            AggregateMeasure::Least(kind) | AggregateMeasure::Greatest(kind) => {
                let candidate = value.and_then(|value| Extreme::new(*kind, value));
                self.extreme(candidate);
                Ok(())
            }
            AggregateMeasure::Distinct => match key(value) {
                GroupKey::None => Ok(()),
                key => self.count(key, 1),
            },
            AggregateMeasure::ByValue => self.count(key(value), 1),
            AggregateMeasure::ByTime(granularity, zone) => {
                let time = value
                    .and_then(|value| value.time())
                    .and_then(|time| zone.start(time, *granularity));
                self.count(time.map_or(GroupKey::None, GroupKey::Time), 1)
            }
        }
    }

    /// Adds everything that another aggregator of the same measure has seen.
    ///
    /// # Errors
    /// As [`Aggregator::add`].
    pub fn merge(&mut self, other: Self) -> Result<(), AggregateOverflow> {
        self.records += other.records;
        self.sum.merge(&other.sum);
        self.extreme(other.extreme);
        other.groups.into_iter().try_for_each(|(key, count)| self.count(key, count))
    }

    /// Returns the number of records added.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the sum in plain digits; `0` if no number was added.
    pub fn sum(&self) -> String {
        self.sum.digits()
    }

    /// Returns the least or the greatest value in its original spelling.
    ///
    /// Of equal values with different spellings, the spelling whose bytes sort first is returned.
    pub fn extreme_value(&self) -> Option<&str> {
        self.extreme.as_ref().map(|extreme| extreme.written.as_str())
    }

    /// Returns the number of distinct values.
    pub fn distinct(&self) -> u64 {
        self.groups.len() as u64
    }

    /// Returns at most `limit` groups in their order, and the number of records in the other
    /// groups.
    ///
    /// Groups by value are ordered by size, the largest first, and then by value. Groups by time
    /// are ordered by time.
    pub fn groups(self, limit: usize) -> (Vec<ValueGroup>, u64) {
        let mut groups: Vec<ValueGroup> =
            self.groups.into_iter().map(|(key, count)| ValueGroup { key, count }).collect();
        let by_time = matches!(self.measure, AggregateMeasure::ByTime(..));
        groups.sort_by(|a, b| {
            let largest = if by_time { Ordering::Equal } else { b.count.cmp(&a.count) };
            largest.then_with(|| a.key.cmp(&b.key))
        });
        let others = groups.iter().skip(limit).map(|group| group.count).sum();
        groups.truncate(limit);
        (groups, others)
    }

    fn fits(&self, value: &StoredValue<'_>) -> bool {
        match value {
            StoredValue::Null | StoredValue::Json(_) | StoredValue::LongJson(_) => false,
            StoredValue::Bool(_) => self.types.contains(JsonType::Boolean),
            StoredValue::Number(_) => {
                self.types.contains(JsonType::Number) || self.types.contains(JsonType::Integer)
            }
            StoredValue::Text(_) | StoredValue::LongText(_) => {
                self.types.contains(JsonType::String)
            }
        }
    }

    fn extreme(&mut self, candidate: Option<Extreme>) {
        let Some(candidate) = candidate else { return };
        let better = self.extreme.as_ref().is_none_or(|best| {
            let value = candidate.value_cmp(best);
            let value = if matches!(self.measure, AggregateMeasure::Greatest(_)) {
                value.reverse()
            } else {
                value
            };
            value.then_with(|| candidate.written.cmp(&best.written)).is_lt()
        });
        if better {
            self.extreme = Some(candidate);
        }
    }

    fn count(&mut self, key: GroupKey, count: u64) -> Result<(), AggregateOverflow> {
        if let Some(known) = self.groups.get_mut(&key) {
            *known += count;
            return Ok(());
        }
        self.group_bytes = self.group_bytes.saturating_add(key.bytes());
        self.groups.insert(key, count);
        // The group without a value does not count as a value.
        let values = self.groups.len() - usize::from(self.groups.contains_key(&GroupKey::None));
        if values > MAX_GROUPS || self.group_bytes > MAX_GROUP_BYTES {
            Err(AggregateOverflow::Groups)
        } else {
            Ok(())
        }
    }
}

impl Extreme {
    fn new(kind: Comparison, value: StoredValue<'_>) -> Option<Self> {
        match kind {
            Comparison::Numbers => {
                number(value).map(|(_, digits)| Self { time: None, written: digits.to_owned() })
            }
            Comparison::Times => match value {
                StoredValue::Text(text) => {
                    Some(Self { time: Some(Instant::parse(text)?), written: text.to_owned() })
                }
                _ => None,
            },
        }
    }

    fn value_cmp(&self, other: &Self) -> Ordering {
        match (self.time, other.time) {
            (Some(own), Some(other)) => own.cmp(&other),
            _ => Decimal::parse(&self.written).cmp(&Decimal::parse(&other.written)),
        }
    }
}

impl GroupKey {
    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Number(_) => 1,
            Self::Text(_) => 2,
            Self::LongText { .. } => 3,
            Self::Time(_) => 4,
            Self::None => 5,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Number(text) | Self::Text(text) => text.len(),
            _ => size_of::<Self>(),
        }
    }
}

impl PartialOrd for GroupKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GroupKey {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(own), Self::Bool(other)) => own.cmp(other),
            (Self::Number(own), Self::Number(other)) => {
                Decimal::parse(own).cmp(&Decimal::parse(other))
            }
            (Self::Text(own), Self::Text(other)) => own.cmp(other),
            (Self::LongText { digest: own, .. }, Self::LongText { digest: other, .. }) => {
                own.cmp(other)
            }
            (Self::Time(own), Self::Time(other)) => own.cmp(other),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn number(value: StoredValue<'_>) -> Option<(Decimal<'_>, &str)> {
    match value {
        StoredValue::Number(digits) => Some((Decimal::parse(digits)?, digits)),
        _ => None,
    }
}

fn key(value: Option<StoredValue<'_>>) -> GroupKey {
    match value {
        Some(StoredValue::Bool(value)) => GroupKey::Bool(value),
        Some(StoredValue::Number(digits)) => Decimal::parse(digits)
            .map_or(GroupKey::None, |number| GroupKey::Number(number.canonical())),
        Some(StoredValue::Text(text)) => GroupKey::Text(text.to_owned()),
        Some(StoredValue::LongText(long)) => {
            GroupKey::LongText { digest: long.digest, chars: long.chars }
        }
        None | Some(StoredValue::Null | StoredValue::Json(_) | StoredValue::LongJson(_)) => {
            GroupKey::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StoredValue::{Bool, Json, LongText, Null, Number, Text};
    use super::*;
    use crate::records::stored_body::LongValue;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = StoredValue<'static>> {
        let digits = [
            "1", "1.0", "-0", "0", "10e-1", "9007199254740993", "9007199254740992.0", "-2.50",
            "-2.5",
        ];
        let texts = [
            "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2025-12-31",
            "soon", "", "1",
        ];
        let long = |byte| LongText(LongValue { chars: 9, bytes: 9, digest: [byte; 32] });
        prop_oneof![
            proptest::sample::select(digits.to_vec()).prop_map(Number),
            proptest::sample::select(texts.to_vec()).prop_map(Text),
            proptest::sample::select(vec![
                Null,
                Bool(true),
                Bool(false),
                Json("[]"),
                long(1),
                long(2)
            ]),
        ]
    }

    fn measures() -> Vec<AggregateMeasure> {
        use AggregateMeasure::{ByTime, ByValue, Count, Distinct, Greatest, Least, Sum};
        let zone = Zone::named("Europe/Berlin").unwrap();
        vec![
            Count,
            Sum,
            Least(Comparison::Numbers),
            Greatest(Comparison::Numbers),
            Least(Comparison::Times),
            Greatest(Comparison::Times),
            Distinct,
            ByValue,
            ByTime(Granularity::Day, zone),
        ]
    }

    fn tally(measure: &AggregateMeasure, values: &[Option<StoredValue<'_>>]) -> Aggregator {
        let mut tally = Aggregator::new(measure.clone(), TypeSet::ANY);
        values.iter().for_each(|value| tally.add(*value).unwrap());
        tally
    }

    fn summary(tally: Aggregator) -> String {
        let (sum, extreme) = (tally.sum(), tally.extreme_value().map(str::to_owned));
        format!("{} {sum} {extreme:?} {} {:?}", tally.records(), tally.distinct(), tally.groups(3))
    }

    proptest! {
        #[test]
        fn neither_the_order_nor_the_split_of_the_records_changes_the_result(
            values in proptest::collection::vec(proptest::option::weighted(0.9, value()), 0..14),
            shuffled in any::<prop::sample::Index>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let length = values.len().max(1);
            let mut turned = values.clone();
            turned.rotate_left(shuffled.index(length).min(values.len()));
            turned.reverse();
            let (one, other) = turned.split_at(cut.index(length).min(values.len()));
            for measure in measures() {
                let all = summary(tally(&measure, &values));
                prop_assert_eq!(&summary(tally(&measure, &turned)), &all);
                let mut merged = tally(&measure, one);
                merged.merge(tally(&measure, other)).unwrap();
                prop_assert_eq!(&summary(merged), &all);
            }
        }
    }

    #[test]
    fn equal_values_form_one_group_and_missing_values_come_last() {
        let values = [
            Some(Number("1.0")),
            Some(Text("1")),
            None,
            Some(Number("1")),
            Some(Null),
            Some(Json("[1]")),
            Some(Bool(false)),
            Some(Number("-0")),
        ];
        let (groups, others) = tally(&AggregateMeasure::ByValue, &values).groups(4);
        let counts: Vec<(GroupKey, u64)> =
            groups.into_iter().map(|group| (group.key, group.count)).collect();
        let number = |digits: &str| GroupKey::Number(digits.to_owned());
        assert_eq!(
            counts,
            [(GroupKey::None, 3), (number("1"), 2), (GroupKey::Bool(false), 1), (number("0"), 1)]
        );
        assert_eq!(others, 1);
        assert_eq!(tally(&AggregateMeasure::Distinct, &values).distinct(), 4);
    }

    #[test]
    fn the_first_spelling_of_equal_values_wins_and_other_types_are_ignored() {
        let numbers =
            [Some(Number("2.0")), Some(Number("2")), Some(Text("9")), Some(Number("1e0"))];
        let extreme = |measure| tally(&measure, &numbers).extreme_value().map(str::to_owned);
        assert_eq!(extreme(AggregateMeasure::Greatest(Comparison::Numbers)).as_deref(), Some("2"));
        assert_eq!(extreme(AggregateMeasure::Least(Comparison::Numbers)).as_deref(), Some("1e0"));
        assert_eq!(extreme(AggregateMeasure::Least(Comparison::Times)), None);
        let mut only =
            Aggregator::new(AggregateMeasure::ByValue, [JsonType::Integer].into_iter().collect());
        numbers.iter().for_each(|value| only.add(*value).unwrap());
        assert_eq!(only.groups(10).0.last().map(|group| group.key.clone()), Some(GroupKey::None));
    }

    #[test]
    fn too_many_distinct_values_are_refused_when_added_and_when_merged() {
        let mut tally = Aggregator::new(AggregateMeasure::Distinct, TypeSet::ANY);
        let mut other = tally.clone();
        for at in 0..MAX_GROUPS {
            let digits = at.to_string();
            tally.add(Some(Number(&digits))).unwrap();
        }
        tally.add(Some(Number("7.0"))).unwrap();
        other.add(Some(Number("-1"))).unwrap();
        assert_eq!(tally.clone().merge(other), Err(AggregateOverflow::Groups));
        assert_eq!(tally.add(Some(Text("x"))), Err(AggregateOverflow::Groups));
        let mut long = Aggregator::new(AggregateMeasure::ByValue, TypeSet::ANY);
        let text = "x".repeat(1019);
        let texts = (0..20_000).map(|at| format!("{at:05}{text}"));
        let refused =
            texts.map(|text| long.add(Some(Text(&text)))).position(|added| added.is_err());
        assert_eq!(refused, Some(MAX_GROUP_BYTES / 1024));
        let mut sum = Aggregator::new(AggregateMeasure::Sum, TypeSet::ANY);
        assert_eq!(sum.add(Some(Number("1e315"))), Err(AggregateOverflow::Digits));
    }
}
