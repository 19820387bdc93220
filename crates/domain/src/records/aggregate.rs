//! What can be computed over the values of one field: counts for each value or span of time, how
//! many different values there are, the sum, the least and the greatest.
//!
//! A [`Tally`] takes the field of one record after another. Neither their order nor how they were
//! split over several tallies changes what it tells. A value is one of the types that the field is
//! declared with, or none at all: what is absent, null, an array, an object or of another type has
//! no value. Integers and other numbers are one type here.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::body::Held;
use super::decimal::{Decimal, Sum};
use super::declaration::{Type, Types};
use super::instant::Instant;
use super::zone::{Granularity, Start, Zone};

/// The names of the metrics, as `/v1` spells them.
pub const METRICS: [&str; 5] = ["count", "sum", "min", "max", "count_distinct"];

/// The most different values that are told apart.
pub const MAX_GROUPS: usize = 100_000;
/// The most bytes of different values that are told apart.
pub const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;

/// What is computed.
#[derive(Clone, Debug)]
pub enum Measure {
    /// How many records there are.
    Count,
    /// The sum of the field's numbers.
    Sum,
    /// The least of them.
    Least(Kind),
    /// The greatest of them.
    Greatest(Kind),
    /// How many different values there are.
    Distinct,
    /// How many records have each value.
    ByValue,
    /// How many records happened in each span of time.
    ByTime(Granularity, Zone),
}

/// What values compare as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers, by value.
    Numbers,
    /// Times, by instant.
    Times,
}

/// Why a tally cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// There are more different values than are told apart.
    Groups,
    /// A number has more digits than are added.
    Digits,
}

/// A value of which records are counted. Ordered by type and then by value; those without a value
/// come last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// `true` or `false`.
    Bool(bool),
    /// A number, in the one way in which equal ones are written.
    Number(String),
    /// A text.
    Text(String),
    /// A text that is kept apart from its record, by its digest.
    LongText {
        /// SHA-256.
        digest: [u8; 32],
        /// Its scalar values.
        chars: u64,
    },
    /// A span of time, by its beginning.
    Time(Start),
    /// No value.
    None,
}

/// How many records have a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The value.
    pub key: Key,
    /// How many.
    pub count: u64,
}

/// The least or greatest value so far, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Extreme {
    time: Option<Instant>,
    written: String,
}

/// A computation under way.
#[derive(Clone, Debug)]
pub struct Tally {
    measure: Measure,
    types: Types,
    records: u64,
    sum: Sum,
    extreme: Option<Extreme>,
    groups: HashMap<Key, u64>,
    group_bytes: usize,
}

impl Tally {
    /// A computation over a field that is declared with these types.
    pub fn new(measure: Measure, types: Types) -> Self {
        Self {
            measure,
            types,
            records: 0,
            sum: Sum::default(),
            extreme: None,
            groups: HashMap::new(),
            group_bytes: 0,
        }
    }

    /// Takes the field of one more record; none where the record has no such field.
    ///
    /// # Errors
    /// [`Overflow`]; the tally is of no use any more then.
    pub fn add(&mut self, held: Option<Held<'_>>) -> Result<(), Overflow> {
        self.records += 1;
        let held = held.filter(|held| self.fits(held));
        match &self.measure {
            Measure::Count => Ok(()),
            Measure::Sum => match held.and_then(number) {
                Some((number, _)) if !self.sum.add(number) => Err(Overflow::Digits),
                _ => Ok(()),
            },
            Measure::Least(kind) | Measure::Greatest(kind) => {
                let candidate = held.and_then(|held| Extreme::of(*kind, held));
                self.extreme(candidate);
                Ok(())
            }
            Measure::Distinct => match key(held) {
                Key::None => Ok(()),
                key => self.count(key, 1),
            },
            Measure::ByValue => self.count(key(held), 1),
            Measure::ByTime(granularity, zone) => {
                let time = held.and_then(time).and_then(|time| zone.start(time, *granularity));
                self.count(time.map_or(Key::None, Key::Time), 1)
            }
        }
    }

    /// Takes all that another tally of the same measure took.
    ///
    /// # Errors
    /// As [`Tally::add`].
    pub fn merge(&mut self, other: Self) -> Result<(), Overflow> {
        self.records += other.records;
        self.sum.merge(&other.sum);
        self.extreme(other.extreme);
        other.groups.into_iter().try_for_each(|(key, count)| self.count(key, count))
    }

    /// How many records were taken.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The sum, in plain digits: `0` where there was no number.
    pub fn sum(&self) -> String {
        self.sum.digits()
    }

    /// The least or the greatest value, as it was written. Of equal ones that are written
    /// differently it is the one whose bytes come first.
    pub fn extreme_value(&self) -> Option<&str> {
        self.extreme.as_ref().map(|extreme| extreme.written.as_str())
    }

    /// How many different values there were.
    pub fn distinct(&self) -> u64 {
        self.groups.len() as u64
    }

    /// The groups in their order, at most so many, and how many records are in the others. By value
    /// the largest come first, and of equal ones the least values; spans of time come in their
    /// order.
    pub fn groups(self, limit: usize) -> (Vec<Group>, u64) {
        let mut groups: Vec<Group> =
            self.groups.into_iter().map(|(key, count)| Group { key, count }).collect();
        let by_time = matches!(self.measure, Measure::ByTime(..));
        groups.sort_by(|a, b| {
            let largest = if by_time { Ordering::Equal } else { b.count.cmp(&a.count) };
            largest.then_with(|| a.key.cmp(&b.key))
        });
        let others = groups.iter().skip(limit).map(|group| group.count).sum();
        groups.truncate(limit);
        (groups, others)
    }

    fn fits(&self, held: &Held<'_>) -> bool {
        match held {
            Held::Null | Held::Json(_) | Held::LongJson(_) => false,
            Held::Bool(_) => self.types.contains(Type::Boolean),
            Held::Number(_) => {
                self.types.contains(Type::Number) || self.types.contains(Type::Integer)
            }
            Held::Text(_) | Held::LongText(_) => self.types.contains(Type::String),
        }
    }

    fn extreme(&mut self, candidate: Option<Extreme>) {
        let Some(candidate) = candidate else { return };
        let better = self.extreme.as_ref().is_none_or(|best| {
            let value = candidate.value_cmp(best);
            let value =
                if matches!(self.measure, Measure::Greatest(_)) { value.reverse() } else { value };
            value.then_with(|| candidate.written.cmp(&best.written)).is_lt()
        });
        if better {
            self.extreme = Some(candidate);
        }
    }

    fn count(&mut self, key: Key, count: u64) -> Result<(), Overflow> {
        if let Some(known) = self.groups.get_mut(&key) {
            *known += count;
            return Ok(());
        }
        self.group_bytes = self.group_bytes.saturating_add(key.bytes());
        self.groups.insert(key, count);
        // Those without a value are no value.
        let values = self.groups.len() - usize::from(self.groups.contains_key(&Key::None));
        if values > MAX_GROUPS || self.group_bytes > MAX_GROUP_BYTES {
            Err(Overflow::Groups)
        } else {
            Ok(())
        }
    }
}

impl Extreme {
    fn of(kind: Kind, held: Held<'_>) -> Option<Self> {
        match kind {
            Kind::Numbers => {
                number(held).map(|(_, digits)| Self { time: None, written: digits.to_owned() })
            }
            Kind::Times => match held {
                Held::Text(text) => {
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

impl Key {
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

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
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

fn number(held: Held<'_>) -> Option<(Decimal<'_>, &str)> {
    match held {
        Held::Number(digits) => Some((Decimal::parse(digits)?, digits)),
        _ => None,
    }
}

fn time(held: Held<'_>) -> Option<Instant> {
    match held {
        Held::Text(text) => Instant::parse(text),
        _ => None,
    }
}

fn key(held: Option<Held<'_>>) -> Key {
    match held {
        Some(Held::Bool(value)) => Key::Bool(value),
        Some(Held::Number(digits)) => {
            Decimal::parse(digits).map_or(Key::None, |number| Key::Number(number.canonical()))
        }
        Some(Held::Text(text)) => Key::Text(text.to_owned()),
        Some(Held::LongText(long)) => Key::LongText { digest: long.digest, chars: long.chars },
        None | Some(Held::Null | Held::Json(_) | Held::LongJson(_)) => Key::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::body::Long;
    use proptest::prelude::*;

    fn held() -> impl Strategy<Value = Held<'static>> {
        let digits = [
            "1",
            "1.0",
            "-0",
            "0",
            "10e-1",
            "9007199254740993",
            "9007199254740992.0",
            "-2.50",
            "-2.5",
        ];
        let texts = [
            "2026-01-01",
            "2026-01-01T00:00:00Z",
            "2026-01-01T01:00:00+01:00",
            "2025-12-31",
            "soon",
            "",
            "1",
        ];
        let long = |byte| Held::LongText(Long { chars: 9, bytes: 9, digest: [byte; 32] });
        prop_oneof![
            proptest::sample::select(digits.to_vec()).prop_map(Held::Number),
            proptest::sample::select(texts.to_vec()).prop_map(Held::Text),
            proptest::sample::select(vec![
                Held::Null,
                Held::Bool(true),
                Held::Bool(false),
                Held::Json("[]"),
                long(1),
                long(2)
            ]),
        ]
    }

    fn measures() -> Vec<Measure> {
        use Measure::{ByTime, ByValue, Count, Distinct, Greatest, Least, Sum};
        let zone = Zone::named("Europe/Berlin").unwrap();
        vec![
            Count,
            Sum,
            Least(Kind::Numbers),
            Greatest(Kind::Numbers),
            Least(Kind::Times),
            Greatest(Kind::Times),
            Distinct,
            ByValue,
            ByTime(Granularity::Day, zone),
        ]
    }

    fn tally(measure: &Measure, values: &[Option<Held<'_>>]) -> Tally {
        let mut tally = Tally::new(measure.clone(), Types::ANY);
        values.iter().for_each(|held| tally.add(*held).unwrap());
        tally
    }

    fn told(tally: Tally) -> String {
        let (sum, extreme) = (tally.sum(), tally.extreme_value().map(str::to_owned));
        format!("{} {sum} {extreme:?} {} {:?}", tally.records(), tally.distinct(), tally.groups(3))
    }

    proptest! {
        #[test]
        fn neither_order_nor_parts_change_what_is_told(
            values in proptest::collection::vec(proptest::option::weighted(0.9, held()), 0..14),
            shuffled in any::<prop::sample::Index>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let length = values.len().max(1);
            let mut turned = values.clone();
            turned.rotate_left(shuffled.index(length).min(values.len()));
            turned.reverse();
            let (one, other) = turned.split_at(cut.index(length).min(values.len()));
            for measure in measures() {
                let all = told(tally(&measure, &values));
                prop_assert_eq!(&told(tally(&measure, &turned)), &all);
                let mut merged = tally(&measure, one);
                merged.merge(tally(&measure, other)).unwrap();
                prop_assert_eq!(&told(merged), &all);
            }
        }
    }

    #[test]
    fn equal_values_are_one_group_and_what_is_none_comes_last() {
        let values = [
            Some(Held::Number("1.0")),
            Some(Held::Text("1")),
            None,
            Some(Held::Number("1")),
            Some(Held::Null),
            Some(Held::Json("[1]")),
            Some(Held::Bool(false)),
            Some(Held::Number("-0")),
        ];
        let (groups, others) = tally(&Measure::ByValue, &values).groups(4);
        let told: Vec<(Key, u64)> =
            groups.into_iter().map(|group| (group.key, group.count)).collect();
        let number = |digits: &str| Key::Number(digits.to_owned());
        assert_eq!(
            told,
            [(Key::None, 3), (number("1"), 2), (Key::Bool(false), 1), (number("0"), 1)]
        );
        assert_eq!(others, 1);
        assert_eq!(tally(&Measure::Distinct, &values).distinct(), 4);
    }

    #[test]
    fn of_equal_values_the_least_writing_is_told_and_other_types_are_not_there() {
        let numbers = [
            Some(Held::Number("2.0")),
            Some(Held::Number("2")),
            Some(Held::Text("9")),
            Some(Held::Number("1e0")),
        ];
        let extreme = |measure| tally(&measure, &numbers).extreme_value().map(str::to_owned);
        assert_eq!(extreme(Measure::Greatest(Kind::Numbers)).as_deref(), Some("2"));
        assert_eq!(extreme(Measure::Least(Kind::Numbers)).as_deref(), Some("1e0"));
        assert_eq!(extreme(Measure::Least(Kind::Times)), None);
        let mut only = Tally::new(Measure::ByValue, [Type::Integer].into_iter().collect());
        numbers.iter().for_each(|held| only.add(*held).unwrap());
        assert_eq!(only.groups(10).0.last().map(|group| group.key.clone()), Some(Key::None));
    }

    #[test]
    fn too_many_values_are_refused_wherever_they_come_from() {
        let mut tally = Tally::new(Measure::Distinct, Types::ANY);
        let mut other = tally.clone();
        for at in 0..MAX_GROUPS {
            let digits = at.to_string();
            tally.add(Some(Held::Number(&digits))).unwrap();
        }
        tally.add(Some(Held::Number("7.0"))).unwrap();
        other.add(Some(Held::Number("-1"))).unwrap();
        assert_eq!(tally.clone().merge(other), Err(Overflow::Groups));
        assert_eq!(tally.add(Some(Held::Text("x"))), Err(Overflow::Groups));
        let mut long = Tally::new(Measure::ByValue, Types::ANY);
        let text = "x".repeat(1019);
        let texts = (0..20_000).map(|at| format!("{at:05}{text}"));
        let refused =
            texts.map(|text| long.add(Some(Held::Text(&text)))).position(|added| added.is_err());
        assert_eq!(refused, Some(MAX_GROUP_BYTES / 1024));
        let mut sum = Tally::new(Measure::Sum, Types::ANY);
        assert_eq!(sum.add(Some(Held::Number("1e315"))), Err(Overflow::Digits));
    }
}
