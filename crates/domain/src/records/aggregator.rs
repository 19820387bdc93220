//! Aggregates over the records of a stream: counts, sums, means, extremes and numbers of distinct
//! values, of all records or of each group of them.
//!
//! An [`Aggregator`] takes the fields of one record after another. The order of the records does
//! not change the result. A value counts only if it has a type that the field is declared with. A
//! field that is absent, null, an object or of another type counts as having no value. Of a list
//! that is declared as one each member counts: its record is in the group of each of them. Integers
//! and other numbers are one type here. A value that a record has and that does not count is left
//! out, and the aggregator says how many of a field are, with one of them as an example. So is a
//! member of a list that does not count, also where others of its list do.

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::decimal::{Decimal, DecimalSum};
use super::declaration::{JsonType, TypeSet};
use super::instant::{CalendarTime, Instant};
use super::list_members::each_member;
use super::stored_body::StoredValue;
use super::zone::{Granularity, TimeBucket, Zone};
use crate::hash::ContentHasher;

/// The names of the metrics, as `/v1` spells them.
pub const METRICS: [&str; 6] = ["count", "sum", "avg", "min", "max", "count_distinct"];
/// The names of the orders of groups, as `/v1` spells them.
pub const GROUP_ORDERS: [&str; 4] = ["value_desc", "value_asc", "key_asc", "key_desc"];

/// The most groups, and distinct values in all of them, that an aggregator tells apart.
pub const MAX_GROUPS: usize = 100_000;
/// The most bytes that those keys and distinct values have together.
pub const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;

/// What is computed of the records of each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The number of records.
    Count,
    /// The sum of the field's numbers.
    Sum,
    /// The arithmetic mean of the field's numbers.
    Mean,
    /// The least number or time.
    Least(Comparison),
    /// The greatest number or time.
    Greatest(Comparison),
    /// The number of distinct values.
    Distinct,
}

/// What the records of a group share.
#[derive(Clone, Debug)]
pub enum Grouping {
    /// The value of a field.
    ByValue,
    /// The span of time, or the part of a calendar, that the time in a field lies in.
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

/// The order of groups. Groups that tie are in the ascending order of their keys, and groups whose
/// records have no value that counts come last in an order by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOrder {
    /// The greatest value first.
    GreatestValue,
    /// The least value first.
    LeastValue,
    /// The least key first.
    LeastKey,
    /// The greatest key first, and keys without a value before it.
    GreatestKey,
}

impl GroupOrder {
    /// Returns the order with this name, see [`GROUP_ORDERS`].
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::GreatestValue, Self::LeastValue, Self::LeastKey, Self::GreatestKey];
        GROUP_ORDERS.iter().position(|known| *known == name).and_then(|at| all.get(at).copied())
    }
}

/// Why an aggregate cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateOverflow {
    /// There are more than [`MAX_GROUPS`] groups and distinct values, or more than
    /// [`MAX_GROUP_BYTES`] of them.
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
    /// A span of time or a part of a calendar.
    Time(TimeBucket),
    /// The group of the records without a value.
    None,
}

/// The records that share the values of all groupings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordGroup {
    /// The shared value of each grouping, in the order of the groupings.
    pub keys: Vec<GroupKey>,
    /// The number of records.
    pub count: u64,
    /// What was computed of the records.
    pub value: MeasuredValue,
}

/// What was computed of the records of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeasuredValue {
    /// A number of records or of values.
    Whole(u64),
    /// A number in JSON's spelling: a sum, a mean or an extreme.
    Number(String),
    /// A time in its original spelling.
    Time {
        /// The text of the field.
        written: String,
        /// The time that the text holds.
        at: Instant,
    },
    /// No record has a value that counts.
    None,
}

/// Groups in their order, from the beginning or after another group.
#[derive(Clone, Debug)]
pub struct GroupPage {
    /// The groups of the page.
    pub groups: Vec<RecordGroup>,
    /// The number of records in the groups after the page.
    pub others: u64,
    /// Whether more groups follow.
    pub has_more: bool,
}

/// Identifies a group by a digest of its keys.
pub type GroupId = [u8; 16];

/// The values of one field that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOutValues {
    /// The number of records with such a value.
    pub values: u64,
    /// One of the values: a text, or else its JSON. `None` if all are kept in pieces.
    pub example: Option<String>,
    /// The number of records with a list that is kept in pieces, where lists are declared.
    pub long_lists: u64,
    /// The number of records with a list some of whose members count and others do not.
    pub lists: u64,
    /// One of the members that do not count. `None` if all are lists or objects.
    pub member: Option<String>,
}

/// What an aggregator computes.
#[derive(Clone, Debug)]
pub struct AggregatePlan {
    /// What is computed of each group.
    pub metric: Metric,
    /// What groups are made by. Without a grouping all records are one group.
    pub groupings: Vec<Grouping>,
}

/// A computation in progress.
///
/// It reads the measured field first, unless it only counts, and then a field for each grouping.
#[derive(Clone, Debug)]
pub struct Aggregator {
    plan: AggregatePlan,
    /// The declared types of these fields, for each source.
    types: Vec<Vec<TypeSet>>,
    records: u64,
    groups: HashMap<Vec<GroupKey>, Tally>,
    /// The groups with a value, and the distinct values in all groups.
    distinct: usize,
    group_bytes: usize,
    left_out: Vec<LeftOutValues>,
}

/// What is known of one group so far.
#[derive(Clone, Debug)]
struct Tally {
    count: u64,
    measured: Measurement,
}

#[derive(Clone, Debug)]
enum Measurement {
    Count,
    Sum(DecimalSum),
    Mean(DecimalSum, u64),
    Extreme(Option<MeasuredValue>),
    Distinct(HashSet<GroupKey>),
}

impl AggregatePlan {
    /// Returns how many fields are measured: one, or none if records are counted.
    pub fn measured_fields(&self) -> usize {
        usize::from(self.metric != Metric::Count)
    }
}

impl Aggregator {
    /// Begins a computation. `types` has the declared types of the fields for each source.
    pub fn new(plan: AggregatePlan, types: Vec<Vec<TypeSet>>) -> Self {
        let fields = plan.measured_fields() + plan.groupings.len();
        Self {
            plan,
            types,
            records: 0,
            groups: HashMap::new(),
            distinct: 0,
            group_bytes: 0,
            left_out: vec![LeftOutValues::default(); fields],
        }
    }

    /// Adds the fields of one more record of a source, `None` for a field that the record lacks.
    ///
    /// # Errors
    /// [`AggregateOverflow`]; the aggregator must not be used afterwards.
    pub fn add(
        &mut self,
        source: usize,
        values: &[Option<StoredValue<'_>>],
    ) -> Result<(), AggregateOverflow> {
        self.records += 1;
        let types = self.types.get(source).map_or(&[][..], Vec::as_slice);
        let kind = |at: usize| types.get(at).copied().unwrap_or_default();
        let value = |at: usize| values.get(at).copied().flatten();
        let first = self.plan.measured_fields();
        let mut keys: Vec<Vec<GroupKey>> = vec![Vec::new()];
        for (grouping, at) in self.plan.groupings.iter().zip(first..) {
            let mut found = grouping.keys(kind(at), value(at));
            if let Some(left_out) = self.left_out.get_mut(at) {
                if found.is_left_out {
                    left_out.note(kind(at), value(at));
                }
                left_out.note_member(&found.misfits);
            }
            match (keys.as_mut_slice(), found.others.is_empty()) {
                ([only], true) => only.push(found.first),
                _ => {
                    found.others.push(found.first);
                    keys = combined(&keys, &found.others).ok_or(AggregateOverflow::Groups)?;
                }
            }
        }
        let metric = self.plan.metric;
        let measured =
            (metric == Metric::Distinct).then(|| Grouping::ByValue.keys(kind(0), value(0)));
        let number = value(0).filter(|value| fits(kind(0), value));
        let mut is_counted = first == 0;
        for keys in keys {
            let tally = match self.groups.entry(keys) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    // The group without a value does not count as a value.
                    let has_value = new.key().iter().any(|key| *key != GroupKey::None);
                    self.distinct += usize::from(has_value);
                    self.group_bytes += new.key().iter().map(GroupKey::bytes).sum::<usize>();
                    new.insert(Tally::new(metric))
                }
            };
            tally.count += 1;
            if let Measurement::Distinct(known) = &mut tally.measured {
                let keys = measured.iter().flat_map(|keys| keys.others.iter().chain([&keys.first]));
                for key in keys.filter(|key| **key != GroupKey::None) {
                    is_counted = true;
                    let bytes = key.bytes();
                    if known.insert(key.clone()) {
                        self.distinct += 1;
                        self.group_bytes += bytes;
                    }
                }
            } else if first > 0 {
                is_counted = tally.measured.add(metric, number)?;
            }
        }
        let is_left_out = !is_counted && !is_list_of_nothing(kind(0), value(0));
        if let Some(left_out) = self.left_out.first_mut() {
            if is_left_out {
                left_out.note(kind(0), value(0));
            }
            if let Some(measured) = &measured {
                left_out.note_member(&measured.misfits);
            }
        }
        match self.distinct > MAX_GROUPS || self.group_bytes > MAX_GROUP_BYTES {
            true => Err(AggregateOverflow::Groups),
            false => Ok(()),
        }
    }

    /// Returns the number of records added.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the values of each field that were left out: of the measured field first, then of
    /// the field of each grouping.
    pub fn left_out(&self) -> &[LeftOutValues] {
        &self.left_out
    }

    /// Returns the measure of all records together. For an aggregate without groups.
    pub fn value(&self) -> MeasuredValue {
        match self.groups.get(&[][..]) {
            Some(tally) => tally.value(),
            None => Tally::new(self.plan.metric).value(),
        }
    }

    /// Returns at most `limit` groups in an order, from behind the group `after`. `None` if that
    /// group has gone, so that a cursor to it leads nowhere.
    pub fn groups(
        self,
        order: GroupOrder,
        after: Option<GroupId>,
        limit: usize,
    ) -> Option<GroupPage> {
        let group = |(keys, tally): (Vec<GroupKey>, Tally)| RecordGroup {
            keys,
            count: tally.count,
            value: tally.value(),
        };
        let mut groups: Vec<RecordGroup> = self.groups.into_iter().map(group).collect();
        groups.sort_by(|a, b| a.cmp_in(b, order));
        if let Some(after) = after {
            let at = groups.iter().position(|group| group.id() == after)?;
            groups.drain(..=at);
        }
        let others = groups.iter().skip(limit).map(|group| group.count).sum();
        let has_more = groups.len() > limit;
        groups.truncate(limit);
        Some(GroupPage { groups, others, has_more })
    }
}

impl Tally {
    fn new(metric: Metric) -> Self {
        let measured = match metric {
            Metric::Count => Measurement::Count,
            Metric::Sum => Measurement::Sum(DecimalSum::default()),
            Metric::Mean => Measurement::Mean(DecimalSum::default(), 0),
            Metric::Least(_) | Metric::Greatest(_) => Measurement::Extreme(None),
            Metric::Distinct => Measurement::Distinct(HashSet::new()),
        };
        Self { count: 0, measured }
    }

    fn value(&self) -> MeasuredValue {
        match &self.measured {
            Measurement::Count => MeasuredValue::Whole(self.count),
            Measurement::Sum(sum) => MeasuredValue::Number(sum.digits()),
            Measurement::Mean(sum, numbers) => {
                sum.mean(*numbers).map_or(MeasuredValue::None, MeasuredValue::Number)
            }
            Measurement::Extreme(value) => value.clone().unwrap_or(MeasuredValue::None),
            Measurement::Distinct(values) => MeasuredValue::Whole(values.len() as u64),
        }
    }
}

impl Measurement {
    /// Adds a number or a time. Returns whether it counts.
    fn add(
        &mut self,
        metric: Metric,
        value: Option<StoredValue<'_>>,
    ) -> Result<bool, AggregateOverflow> {
        let is_counted = match self {
            Self::Count | Self::Distinct(_) => true,
            Self::Sum(sum) | Self::Mean(sum, _) => match value.and_then(number) {
                None => false,
                Some((number, _)) if sum.add(number) => true,
                Some(_) => return Err(AggregateOverflow::Digits),
            },
            Self::Extreme(best) => {
                let (kind, is_greatest) = match metric {
                    Metric::Least(kind) => (kind, false),
                    Metric::Greatest(kind) => (kind, true),
                    _ => return Ok(false),
                };
                let candidate = value.and_then(|value| MeasuredValue::of(kind, value));
                let is_counted = candidate.is_some();
                if candidate.as_ref().is_some_and(|own| own.precedes(best.as_ref(), is_greatest)) {
                    *best = candidate;
                }
                is_counted
            }
        };
        if let Self::Mean(_, numbers) = self {
            *numbers += u64::from(is_counted);
        }
        Ok(is_counted)
    }
}

impl MeasuredValue {
    fn of(kind: Comparison, value: StoredValue<'_>) -> Option<Self> {
        match kind {
            Comparison::Numbers => number(value).map(|(_, digits)| Self::Number(digits.to_owned())),
            Comparison::Times => match value {
                StoredValue::Text(text) => {
                    Some(Self::Time { written: text.to_owned(), at: Instant::parse(text)? })
                }
                _ => None,
            },
        }
    }

    /// Whether this extreme takes the place of the best one so far. Of equal values with different
    /// spellings, the spelling whose bytes sort first wins.
    fn precedes(&self, best: Option<&Self>, is_greatest: bool) -> bool {
        let Some(best) = best else { return true };
        let value = self.value_cmp(best);
        let value = if is_greatest { value.reverse() } else { value };
        value.then_with(|| self.written().cmp(best.written())).is_lt()
    }

    fn written(&self) -> &str {
        match self {
            Self::Number(written) | Self::Time { written, .. } => written,
            Self::Whole(_) | Self::None => "",
        }
    }

    fn value_cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Whole(own), Self::Whole(other)) => own.cmp(other),
            (Self::Number(own), Self::Number(other)) => {
                Decimal::parse(own).cmp(&Decimal::parse(other))
            }
            (Self::Time { at: own, .. }, Self::Time { at: other, .. }) => own.cmp(other),
            _ => Ordering::Equal,
        }
    }
}

impl RecordGroup {
    fn cmp_in(&self, other: &Self, order: GroupOrder) -> Ordering {
        let is_none = |group: &Self| group.value == MeasuredValue::None;
        let value = self.value.value_cmp(&other.value);
        let by_value = match order {
            GroupOrder::LeastKey => return self.keys.cmp(&other.keys),
            GroupOrder::GreatestKey => return other.keys.cmp(&self.keys),
            GroupOrder::LeastValue => value,
            GroupOrder::GreatestValue => value.reverse(),
        };
        let none_last = is_none(self).cmp(&is_none(other));
        none_last.then(by_value).then_with(|| self.keys.cmp(&other.keys))
    }

    /// Identifies the group among all groups of its aggregation.
    pub fn id(&self) -> GroupId {
        let mut hasher = ContentHasher::default();
        for key in &self.keys {
            key.write_to(&mut |bytes| {
                hasher.update(&(bytes.len() as u64).to_be_bytes());
                hasher.update(bytes);
            });
        }
        let mut id = GroupId::default();
        id.iter_mut().zip(hasher.finish().as_bytes()).for_each(|(to, from)| *to = *from);
        id
    }
}

impl LeftOutValues {
    /// Counts a value that does not count. A record without a value leaves nothing out.
    fn note(&mut self, types: TypeSet, value: Option<StoredValue<'_>>) {
        let Some(value) = value.filter(|value| *value != StoredValue::Null) else { return };
        if types.contains(JsonType::Array) && matches!(value, StoredValue::LongJson(_)) {
            self.long_lists += 1;
            return;
        }
        self.values += 1;
        if !matches!(value, StoredValue::LongText(_) | StoredValue::LongJson(_)) {
            keep_least(&mut self.example, value.shown());
        }
    }

    /// Counts a list by its members that do not count, if others do.
    fn note_member(&mut self, misfits: &MisfitMembers) {
        if !misfits.are_of_a_list_that_counts {
            return;
        }
        self.lists += 1;
        if let Some(member) = &misfits.least {
            keep_least(&mut self.member, member.clone());
        }
    }
}

/// Keeps the lesser one of two examples, so that the order of the records does not decide.
fn keep_least(kept: &mut Option<String>, other: String) {
    if kept.as_ref().is_none_or(|known| other < *known) {
        *kept = Some(other);
    }
}

/// The members of a list that do not count.
#[derive(Default)]
struct MisfitMembers {
    /// Whether there are any, and others of the list count.
    are_of_a_list_that_counts: bool,
    /// The least of those that are no list and no object.
    least: Option<String>,
}

/// The keys of the groups that a value is in, no two the same.
struct FoundKeys {
    first: GroupKey,
    others: Vec<GroupKey>,
    /// Whether there is a value, and it is in no group.
    is_left_out: bool,
    misfits: MisfitMembers,
}

/// Whether a value is a list in which there is nothing that could count.
fn is_list_of_nothing(types: TypeSet, value: Option<StoredValue<'_>>) -> bool {
    let Some(StoredValue::Json(json)) = value else { return false };
    let mut has_members = false;
    let is_list = types.contains(JsonType::Array) && json.starts_with('[');
    if is_list {
        each_member(json, &mut |member| has_members |= member != Some(StoredValue::Null));
    }
    is_list && !has_members
}

/// Returns each combination of some keys with one more. `None` if there are too many.
fn combined(before: &[Vec<GroupKey>], more: &[GroupKey]) -> Option<Vec<Vec<GroupKey>>> {
    if before.len().saturating_mul(more.len()) > MAX_GROUPS {
        return None;
    }
    let with = |keys: &Vec<GroupKey>, key: &GroupKey| {
        keys.iter().cloned().chain(std::iter::once(key.clone())).collect()
    };
    Some(before.iter().flat_map(|keys| more.iter().map(move |key| with(keys, key))).collect())
}

impl Grouping {
    /// Returns the keys of the groups that a value is in.
    fn keys(&self, types: TypeSet, value: Option<StoredValue<'_>>) -> FoundKeys {
        let json = match (self, value) {
            (Self::ByValue, Some(StoredValue::Json(json)))
                if types.contains(JsonType::Array) && json.starts_with('[') =>
            {
                json
            }
            _ => {
                let first = self.key(value.filter(|value| fits(types, value)));
                let is_left_out = first == GroupKey::None;
                let misfits = MisfitMembers::default();
                return FoundKeys { first, others: Vec::new(), is_left_out, misfits };
            }
        };
        let (mut found, mut has_others, mut least) = (BTreeSet::new(), false, None);
        each_member(json, &mut |member| match key(member.filter(|member| fits(types, member))) {
            GroupKey::None if member == Some(StoredValue::Null) => {}
            GroupKey::None => {
                has_others = true;
                if let Some(member) = member {
                    keep_least(&mut least, member.shown());
                }
            }
            key => drop(found.insert(key)),
        });
        let first = found.pop_first().unwrap_or(GroupKey::None);
        let is_counted = first != GroupKey::None;
        let are_of_a_list_that_counts = has_others && is_counted;
        let misfits = MisfitMembers { are_of_a_list_that_counts, least };
        let (others, is_left_out) = (found.into_iter().collect(), has_others && !is_counted);
        FoundKeys { first, others, is_left_out, misfits }
    }

    fn key(&self, value: Option<StoredValue<'_>>) -> GroupKey {
        match self {
            Self::ByValue => key(value),
            Self::ByTime(granularity, zone) => {
                let text = match value {
                    Some(StoredValue::Text(text)) => CalendarTime::parse(text),
                    _ => None,
                };
                let bucket = text.and_then(|time| zone.bucket(time, *granularity));
                bucket.map_or(GroupKey::None, GroupKey::Time)
            }
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

    /// Writes the parts of the key. Different keys have different parts.
    fn write_to(&self, write: &mut dyn FnMut(&[u8])) {
        write(&[self.rank()]);
        match self {
            Self::Bool(value) => write(&[u8::from(*value)]),
            Self::Number(text) | Self::Text(text) => write(text.as_bytes()),
            Self::LongText { digest, .. } => write(digest),
            Self::Time(TimeBucket::Span(start)) => write(start.to_rfc3339().as_bytes()),
            Self::Time(TimeBucket::Hour(part) | TimeBucket::Weekday(part)) => write(&[*part]),
            Self::None => {}
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

/// Whether a value has one of these types. Null has none.
fn fits(types: TypeSet, value: &StoredValue<'_>) -> bool {
    *value != StoredValue::Null && types.admit(*value)
}

#[cfg(test)]
mod tests;
