//! Records that repeat, in requests that ask by time.
//!
//! A calendar's record holds its first date and the rule by which it repeats. So a range of times
//! alone would find it in its first week and never again. Before a request is answered, the records
//! with a rule or further dates that match the rest of its filter are looked at, and those that
//! repeat within the range are let in. One whose first date is among those on which it is not is
//! not found by that date. A day that a date must equal is a range, too. An answer says of each
//! when that is, and what was not looked at.
//!
//! A stream has such records if it declares the fields that the importer of calendars declares.
//! Only fields that the caller may see are looked at.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value as Json, json};
use stile_domain::records::declaration::{Declaration, RangeOperator};
use stile_domain::records::filter::{Condition, FieldTest, RangeBound};
use stile_domain::records::instant::{CalendarTime, Instant};
use stile_domain::records::list_members::each_member;
use stile_domain::records::problem::Problem;
use stile_domain::records::recurrence::{Occurrence, Series, SeriesFields};
use stile_domain::records::stored_body::StoredValue;
use stile_store::records::{RecordSource, StoredField};

use crate::context::ReadContext;
use crate::field_selection::may_see;

/// The fields that a stream with records that repeat declares: the key, the rule, what a range can
/// compare, and the rest.
const KEY: &str = "id";
const RULE: &str = "rule";
const TIMES: [&str; 4] = ["date", "start", "end", "end_date"];
const OTHERS: [&str; 3] = [NOT_ON, ALSO_ON, "zone"];
/// The field with the dates on which a record that repeats is not.
const NOT_ON: &str = "not_on";
/// The field with further dates. A record can have some and no rule.
const ALSO_ON: &str = "also_on";
/// How many records with a rule are looked at in a request.
const MOST_RULES: usize = 2000;
/// How many dates an answer says of a record.
const MOST_DATES: usize = 12;

/// The records that repeat within the times that a request asks for.
#[derive(Default)]
pub(crate) struct Recurrences {
    /// When each is there, by the index of its source and its key.
    dates: HashMap<(usize, String), Vec<String>>,
    /// The records whose rule is not read, by the index of their source and their key.
    unread: HashSet<(usize, String)>,
    /// How many records have a rule, and no key that the caller may see.
    unnamed: u64,
    /// A rule that is not read.
    example: Option<String>,
    /// Whether there were more records with a rule than are looked at.
    has_more: bool,
}

impl Recurrences {
    /// Changes conditions so that they hold of the records that repeat within the ranges, and
    /// returns these. An alternative with a range gets another one beside it, of the records that
    /// repeat within that range and those around the alternatives.
    ///
    /// # Errors
    /// The error of the database.
    pub(crate) fn let_in(
        context: ReadContext<'_>,
        sources: &[RecordSource],
        conditions: &mut Vec<Condition>,
    ) -> Result<Self, Problem> {
        let mut found = Self::default();
        let (ranges, others) = divided(conditions);
        let mut changed = Vec::with_capacity(others.len());
        for (at, condition) in others.iter().enumerate() {
            let Condition::AnyOf(alternatives) = condition else {
                changed.push(condition.clone());
                continue;
            };
            let mut all = Vec::with_capacity(alternatives.len());
            for alternative in alternatives {
                let (own, mut repeating) = divided(alternative);
                if own.is_empty() {
                    all.push(alternative.clone());
                    continue;
                }
                let around = others.iter().enumerate().filter(|(other, _)| *other != at);
                let around = around.map(|(_, condition)| condition.clone());
                let rest = repeating.iter().cloned().chain(around).collect();
                let (keys, not) =
                    found.keys(context, sources, ([own, ranges.clone()].concat(), rest))?;
                all.push(alternative.iter().cloned().chain(none_of(not)).collect());
                if !keys.is_empty() {
                    repeating.extend(repeating_of(keys));
                    all.push(repeating);
                }
            }
            changed.push(Condition::AnyOf(all));
        }
        if !ranges.is_empty() {
            // What is known of a record from an alternative is narrower.
            let of_alternatives = std::mem::take(&mut found.dates);
            let (keys, not) = found.keys(context, sources, (ranges.clone(), changed.clone()))?;
            let plain = ranges.into_iter().chain(none_of(not)).collect();
            match keys.is_empty() {
                true => changed.extend::<Vec<_>>(plain),
                false => changed.push(Condition::AnyOf(vec![plain, repeating_of(keys).into()])),
            }
            found.dates.extend(of_alternatives);
        }
        *conditions = changed;
        Ok(found)
    }

    /// Counts the records with a rule among those that the conditions let in. Each is in an answer
    /// once, whatever it is grouped by.
    ///
    /// # Errors
    /// The error of the database.
    pub(crate) fn counted_once(
        context: ReadContext<'_>,
        sources: &[RecordSource],
        conditions: &[Condition],
        field: &str,
    ) -> Result<Vec<Json>, Problem> {
        if !TIMES.contains(&field) {
            return Ok(Vec::new());
        }
        let mut conditions = conditions.to_vec();
        conditions.push(Condition::on(RULE, FieldTest::Exists(true)));
        let mut count = 0;
        for source in sources {
            if may_see(source, RULE) && repeats(&*context.declarations.get(source)?) {
                context.view.field_values(source, &conditions, &[KEY], &mut |_| {
                    count += 1;
                    Ok(count <= MOST_RULES)
                })?;
            }
        }
        let more = if count > MOST_RULES { "more than " } else { "" };
        let count = count.min(MOST_RULES);
        let message = format!(
            "{more}{count} record(s) repeat by their `rule`; each counts once, with its first `{field}`"
        );
        let warning = json!({ "code": "recurrences_counted_once", "param": "group_by_time", "message": message });
        Ok((count > 0).then_some(warning).into_iter().collect())
    }

    /// Returns the keys of the records that repeat within ranges, among those of which the other
    /// conditions hold, and the keys of those that do not, though their first date may.
    fn keys(
        &mut self,
        context: ReadContext<'_>,
        sources: &[RecordSource],
        (ranges, mut others): (Vec<Condition>, Vec<Condition>),
    ) -> Result<(BTreeSet<String>, BTreeSet<String>), Problem> {
        others.push(has_further_dates());
        let mut keys = (BTreeSet::new(), BTreeSet::new());
        for (at, source) in sources.iter().enumerate() {
            if may_see(source, RULE) && repeats(&*context.declarations.get(source)?) {
                self.look_at(
                    context,
                    (at, source),
                    (&ranges, &others),
                    (&mut keys.0, &mut keys.1),
                )?;
            }
        }
        Ok(keys)
    }

    /// Adds the records of a source that repeat within the ranges.
    fn look_at(
        &mut self,
        context: ReadContext<'_>,
        (at, source): (usize, &RecordSource),
        (ranges, others): (&[Condition], &[Condition]),
        (keys, not): (&mut BTreeSet<String>, &mut BTreeSet<String>),
    ) -> Result<(), Problem> {
        let names: Vec<&str> = [KEY, RULE].into_iter().chain(TIMES).chain(OTHERS).collect();
        let (mut looked_at, mut unnamed) = (0, 0);
        let mut take = |fields: &[Option<StoredField<'_>>]| {
            looked_at += 1;
            if looked_at > MOST_RULES {
                self.has_more = true;
                return Ok(false);
            }
            let value = |name: &str| {
                let place = names.iter().position(|own| *own == name)?;
                fields.get(place).copied().flatten().filter(|_| may_see(source, name))
            };
            let Some(StoredValue::Text(key)) = value(KEY).map(|(value, _)| value) else {
                // A grant without the key's field cannot be asked for the record by its key.
                unnamed += 1;
                return Ok(true);
            };
            let (series, is_known) = series(context, &value)?;
            let occurrences = series.as_ref().and_then(|series| within(series, ranges));
            match occurrences {
                Some((dates, _)) if dates.is_empty() => {
                    let later = series.filter(Series::begins_later);
                    not.extend(later.map(|_| key.to_owned()));
                }
                Some((dates, has_more)) => {
                    keys.insert(key.to_owned());
                    let mut dates: Vec<String> =
                        dates.into_iter().map(Occurrence::written).collect();
                    dates.extend(has_more.then(|| "and more".to_owned()));
                    // Several alternatives can let one record in.
                    let known = self.dates.entry((at, key.to_owned())).or_default();
                    known.extend(dates);
                    known.sort_unstable();
                    known.dedup();
                }
                None if is_known => {
                    if let Some((StoredValue::Text(rule), _)) = value(RULE) {
                        self.example.get_or_insert_with(|| rule.chars().take(60).collect());
                    }
                    self.unread.insert((at, key.to_owned()));
                }
                None => {}
            }
            Ok(true)
        };
        context.view.field_values(source, others, &names, &mut take)?;
        self.unnamed = self.unnamed.max(unnamed);
        Ok(())
    }

    /// Returns when a record repeats within the times asked for.
    pub(crate) fn of(&self, source: usize, key: &str) -> Option<&[String]> {
        self.dates.get(&(source, key.to_owned())).map(Vec::as_slice)
    }

    /// Returns warnings about records that repeat: that they are among those of the answer, and
    /// which were not looked at.
    pub(crate) fn warnings(&self) -> Vec<Json> {
        let mut warnings = Vec::new();
        let mut warn = |code: &str, message: String| {
            warnings.push(json!({ "code": code, "param": "filter", "message": message }));
        };
        if !self.dates.is_empty() {
            let count = self.dates.len();
            warn(
                "recurrences_found",
                format!(
                    "{count} record(s) repeat by their `rule` in the time asked for; `occurs_on` in a \
                     list says when, and `date` is the first date"
                ),
            );
        }
        let unread = self.unread.len() as u64 + self.unnamed;
        if unread > 0 || self.has_more {
            let which = match self.has_more {
                true => {
                    format!("more than {MOST_RULES} records repeat, and some were not looked at")
                }
                false => {
                    let such = self.example.as_deref().map(|rule| format!(", such as `{rule}`,"));
                    format!(
                        "{unread} record(s) repeat by a `rule` that is not expanded{} and may be in \
                         that time",
                        such.unwrap_or_else(|| ",".to_owned())
                    )
                }
            };
            warn(
                "recurrences_not_expanded",
                format!("{which}; list them with the filter {{\"rule\":{{\"exists\":true}}}}"),
            );
        }
        warnings
    }
}

/// What a condition on one of the times of a calendar asks for.
enum AskedTime {
    Range(RangeOperator, Instant),
    /// One of these days.
    Days(Vec<Instant>),
}

impl AskedTime {
    /// Returns the field and what is asked of it; `None` for other conditions.
    fn of(condition: &Condition) -> Option<(&str, Self)> {
        let Condition::Field { field, test } = condition else { return None };
        let day = |text: &String| match CalendarTime::parse(text)? {
            CalendarTime::Date(day) => Some(Instant::from_day(day)),
            CalendarTime::Moment(_) => None,
        };
        let days = |texts: Option<Vec<Instant>>| {
            texts.filter(|_| matches!(field.as_str(), "date" | "end_date")).map(Self::Days)
        };
        let asked = match test {
            FieldTest::Range(operator, RangeBound::Time(bound)) => {
                Some(Self::Range(*operator, *bound))
            }
            FieldTest::Is(text) => days(day(text).map(|day| vec![day])),
            FieldTest::IsAny(texts) => days(texts.iter().map(day).collect()),
            _ => None,
        };
        asked.filter(|_| TIMES.contains(&field.as_str())).map(|asked| (field.as_str(), asked))
    }

    fn admits(&self, value: Instant) -> bool {
        match self {
            Self::Range(operator, bound) => operator.admits(value.cmp(bound)),
            Self::Days(days) => days.contains(&value),
        }
    }

    /// Returns the first and the last day that it admits, as far as it has any.
    fn ends(&self) -> (Option<i64>, Option<i64>) {
        match self {
            Self::Range(operator, bound) if operator.admits(Ordering::Less) => {
                (None, Some(bound.day()))
            }
            Self::Range(_, bound) => (Some(bound.day()), None),
            Self::Days(days) => {
                let days = || days.iter().map(|own| own.day());
                (days().min(), days().max())
            }
        }
    }
}

/// Divides conditions into those on the times of a calendar, and others.
fn divided(conditions: &[Condition]) -> (Vec<Condition>, Vec<Condition>) {
    conditions.iter().cloned().partition(|condition| AskedTime::of(condition).is_some())
}

/// Returns the conditions of the records that have these keys and a rule.
fn repeating_of(keys: BTreeSet<String>) -> [Condition; 2] {
    [Condition::on(KEY, FieldTest::IsAny(keys)), has_further_dates()]
}

/// Returns the condition of the records that do not have one of these keys and dates on which they
/// are not; `None` if there is no such key.
fn none_of(keys: BTreeSet<String>) -> Option<Condition> {
    let is_other = |keys| vec![Condition::on(KEY, FieldTest::IsNone(keys))];
    let has_all = vec![Condition::on(NOT_ON, FieldTest::Exists(false))];
    (!keys.is_empty()).then(|| Condition::AnyOf(vec![is_other(keys), has_all]))
}

/// Returns the condition of the records that have a rule, or further dates without one.
fn has_further_dates() -> Condition {
    let exists = |field: &str| vec![Condition::on(field, FieldTest::Exists(true))];
    Condition::AnyOf(vec![exists(RULE), exists(ALSO_ON)])
}

/// Whether a stream declares what the records of a calendar have.
fn repeats(declaration: &Declaration) -> bool {
    let is_declared = |name: &&str| declaration.field(name).is_some();
    declaration.primary_key() == [KEY]
        && [RULE].iter().chain(&TIMES).chain(&OTHERS).all(is_declared)
}

/// Returns the occurrences of a series within ranges, and whether there are more.
fn within(series: &Series, ranges: &[Condition]) -> Option<(Vec<Occurrence>, bool)> {
    let asked: Vec<_> = ranges.iter().filter_map(AskedTime::of).collect();
    let (mut from, mut to) = (None, None);
    for (field, asked) in &asked {
        // The end of an occurrence is later than its day, and its day differs among zones.
        let (first, last) = asked.ends();
        if let Some(day) = last {
            to = Some(to.map_or(day + 2, |to: i64| to.min(day + 2)));
        }
        if let Some(day) = first.filter(|_| matches!(*field, "date" | "start")) {
            from = Some(from.map_or(day - 2, |from: i64| from.max(day - 2)));
        }
    }
    let is_wanted = |at: Occurrence| {
        asked.iter().all(|(field, asked)| {
            let value: Option<Instant> = series.value(field, at);
            value.is_some_and(|value| asked.admits(value))
        })
    };
    series.occurrences((from, to), MOST_DATES, &is_wanted)
}

/// Reads what a record says about when it takes place. Returns whether it has a rule, too.
fn series<'v>(
    context: ReadContext<'_>,
    value: &dyn Fn(&str) -> Option<StoredField<'v>>,
) -> Result<(Option<Series>, bool), Problem> {
    let text = |name: &str| match value(name) {
        Some((StoredValue::Text(text), _)) => Some(text.to_owned()),
        _ => None,
    };
    let list = |name: &str| -> Result<Vec<String>, Problem> {
        let mut members = Vec::new();
        let mut add = |json: &str| {
            each_member(json, &mut |member| {
                if let Some(StoredValue::Text(text)) = member {
                    members.push(text.to_owned());
                }
            });
        };
        match value(name) {
            Some((StoredValue::Json(json), _)) => add(json),
            Some((StoredValue::LongJson(_), Some(long))) => {
                add(&context.view.long_text(long, 0, long.value.chars)?);
            }
            _ => {}
        }
        Ok(members)
    };
    let [date, start, end, end_date] = TIMES.map(text);
    let (not_on, also_on) = (list("not_on")?, list("also_on")?);
    let (rule, zone) = (text(RULE), text("zone"));
    let has_rule = rule.is_some();
    let fields = SeriesFields { date, start, end, end_date, rule, zone, not_on, also_on };
    Ok((Series::of(&fields), has_rule))
}
