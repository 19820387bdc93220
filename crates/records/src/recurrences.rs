//! Records that repeat, in requests that ask by time.
//!
//! A calendar's record holds its first date and the rule by which it repeats. So a range of times
//! alone would find it in its first week and never again. Before a request is answered, the records
//! with a rule that match the rest of its filter are looked at, and those that repeat within the
//! range are let in. An answer says of each when that is, and what was not looked at.
//!
//! A stream has such records if it declares the fields that the importer of calendars declares.
//! Only fields that the caller may see are looked at.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value as Json, json};
use stile_domain::records::declaration::Declaration;
use stile_domain::records::filter::{Condition, FieldTest, RangeBound};
use stile_domain::records::instant::Instant;
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
const OTHERS: [&str; 3] = ["not_on", "also_on", "zone"];
/// How many records with a rule are looked at in a request.
const MOST_RULES: usize = 2000;
/// How many dates an answer says of a record.
const MOST_DATES: usize = 12;
const MICROS_A_DAY: i64 = 86_400_000_000;

/// The records that repeat within the times that a request asks for.
#[derive(Default)]
pub(crate) struct Recurrences {
    /// When each is there, by the index of its source and its key.
    dates: HashMap<(usize, String), Vec<String>>,
    /// How many records have a rule that is not read.
    unread: u64,
    /// Whether there were more records with a rule than are looked at.
    has_more: bool,
}

impl Recurrences {
    /// Changes conditions so that they hold of the records that repeat within the ranges, and
    /// returns these. Ranges within alternatives stay as they are.
    ///
    /// # Errors
    /// The error of the database.
    pub(crate) fn let_in(
        context: ReadContext<'_>,
        sources: &[RecordSource],
        conditions: &mut Vec<Condition>,
    ) -> Result<Self, Problem> {
        let mut found = Self::default();
        let is_range = |condition: &Condition| match condition {
            Condition::Field { field, test: FieldTest::Range(_, RangeBound::Time(_)) } => {
                TIMES.contains(&field.as_str())
            }
            _ => false,
        };
        let (ranges, mut others): (Vec<Condition>, Vec<Condition>) =
            conditions.iter().cloned().partition(is_range);
        if ranges.is_empty() {
            return Ok(found);
        }
        others.push(Condition::on(RULE, FieldTest::Exists(true)));
        let mut keys = BTreeSet::new();
        for (at, source) in sources.iter().enumerate() {
            if !may_see(source, RULE) || !repeats(&*context.declarations.get(source)?) {
                continue;
            }
            found.look_at(context, (at, source), (&ranges, &others), &mut keys)?;
        }
        if !keys.is_empty() {
            conditions.retain(|condition| !is_range(condition));
            let repeating = vec![
                Condition::on(KEY, FieldTest::IsAny(keys)),
                Condition::on(RULE, FieldTest::Exists(true)),
            ];
            conditions.push(Condition::AnyOf(vec![ranges, repeating]));
        }
        Ok(found)
    }

    /// Adds the records of a source that repeat within the ranges.
    fn look_at(
        &mut self,
        context: ReadContext<'_>,
        (at, source): (usize, &RecordSource),
        (ranges, others): (&[Condition], &[Condition]),
        keys: &mut BTreeSet<String>,
    ) -> Result<(), Problem> {
        let names: Vec<&str> = [KEY, RULE].into_iter().chain(TIMES).chain(OTHERS).collect();
        let mut looked_at = 0;
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
                self.unread += 1;
                return Ok(true);
            };
            let (series, is_known) = series(context, &value)?;
            let occurrences = series.as_ref().and_then(|series| within(series, ranges));
            match occurrences {
                Some((dates, _)) if dates.is_empty() => {}
                Some((dates, has_more)) => {
                    keys.insert(key.to_owned());
                    let mut dates: Vec<String> =
                        dates.into_iter().map(Occurrence::written).collect();
                    dates.extend(has_more.then(|| "and more".to_owned()));
                    self.dates.insert((at, key.to_owned()), dates);
                }
                None => self.unread += u64::from(is_known),
            }
            Ok(true)
        };
        context.view.field_values(source, others, &names, &mut take)
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
        if self.unread > 0 || self.has_more {
            let which = match self.has_more {
                true => {
                    format!("more than {MOST_RULES} records repeat, and some were not looked at")
                }
                false => format!(
                    "{} record(s) repeat by a `rule` that is not expanded, and may be in that time",
                    self.unread
                ),
            };
            warn(
                "recurrences_not_expanded",
                format!("{which}; list them with the filter {{\"rule\":{{\"exists\":true}}}}"),
            );
        }
        warnings
    }
}

/// Whether a stream declares what the records of a calendar have.
fn repeats(declaration: &Declaration) -> bool {
    let is_declared = |name: &&str| declaration.field(name).is_some();
    declaration.primary_key() == [KEY]
        && [RULE].iter().chain(&TIMES).chain(&OTHERS).all(is_declared)
}

/// Returns the occurrences of a series within ranges, and whether there are more.
fn within(series: &Series, ranges: &[Condition]) -> Option<(Vec<Occurrence>, bool)> {
    let (mut from, mut to) = (None, None);
    for condition in ranges {
        let Condition::Field { field, test: FieldTest::Range(operator, RangeBound::Time(bound)) } =
            condition
        else {
            continue;
        };
        let day = bound.0.div_euclid(MICROS_A_DAY);
        // The end of an occurrence is later than its day, and its day differs among zones.
        let is_upper = operator.admits(std::cmp::Ordering::Less);
        if is_upper {
            to = Some(to.map_or(day + 2, |to: i64| to.min(day + 2)));
        } else if matches!(field.as_str(), "date" | "start") {
            from = Some(from.map_or(day - 2, |from: i64| from.max(day - 2)));
        }
    }
    let is_wanted = |at: Occurrence| {
        ranges.iter().all(|condition| match condition {
            Condition::Field {
                field,
                test: FieldTest::Range(operator, RangeBound::Time(bound)),
            } => {
                let value: Option<Instant> = series.value(field, at);
                value.is_some_and(|value| operator.admits(value.cmp(bound)))
            }
            _ => true,
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
