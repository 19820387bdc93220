//! `GET /v1/streams/{stream}/aggregate`: counts, sums and extremes over the records that the caller
//! may see.
//!
//! Every record that passes is looked at, and of each one field alone, so the answer is exact and
//! the same in whatever order records lie. What must be told apart is bounded
//! (`domain::records::aggregator`), and more than that is refused: by what the caller may see, so
//! that a refusal says nothing of anything else.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use stile_domain::records::aggregator::{
    AggregateMeasure, AggregateOverflow, Aggregator, Comparison, GroupKey, ValueGroup,
};
use stile_domain::records::declaration::{Aggregation, JsonType, TypeSet};
use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::StoredValue;
use stile_domain::records::zone::{Granularity, Zone};
use stile_store::records::{LongValueRef, RecordSource};

use super::Reading;
use super::fields;
use super::parameters::Parameters;
use super::render::{connection, digest_text, meta};
use super::sink::{ResponseSink, write_json_string};

/// Groups of an answer where the caller does not say.
pub const DEFAULT_GROUPS: u64 = 10;
/// How much is shown of a long text that a group is of, in scalar values.
const SHOWN_CHARS: u64 = 256;

/// What was asked, checked as far as no declaration is needed.
struct Asked<'p> {
    metric: &'p str,
    /// The field that is computed over, the parameter that names it, and what it must be declared
    /// for.
    over: Option<Over<'p>>,
    /// The field that is grouped by, if it is by time.
    time: Option<(Granularity, Zone)>,
}

struct Over<'p> {
    field: &'p str,
    param: &'static str,
    kind: Aggregation,
}

/// A text that is kept apart from its record, by its digest: one of the places where it lies.
type Longs = HashMap<[u8; 32], LongValueRef>;

/// Puts an aggregation.
///
/// # Errors
/// What the grant, the parameters or the database say against it; [`Problem::TooManyGroups`],
/// [`Problem::NumberTooLong`].
pub fn aggregate(
    reading: Reading<'_>,
    stream: &str,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let sources = reading.view.sources_of(stream, connection(parameters)?)?;
    let asked = Asked::of(parameters)?;
    let over = asked
        .over
        .as_ref()
        .map(|over| Ok((over, over.declared(reading, &sources)?)))
        .transpose()?;
    let conditions = fields::conditions(reading, &sources, parameters.conditions())?;
    out.write("{\"object\":\"aggregation\",\"stream\":");
    write_json_string(out, stream);
    let field = asked.over.as_ref().filter(|over| over.param == "field").map(|over| over.field);
    out.write(&format!(",\"metric\":\"{}\",\"field\":{}", asked.metric, json!(field)));
    match over {
        None => {
            let count = reading.view.count_matching(&sources, &conditions)?;
            out.write(&format!(",\"value\":{count},\"filtered_record_count\":{count}"));
            asked.put_grouping(out);
        }
        Some((over, declared)) => {
            let (tally, longs) =
                tally(reading, &sources, &conditions, (&asked, over, &declared), &*out)?;
            if over.param == "field" {
                put_value(over.kind, &declared, &tally, out);
            }
            out.write(&format!(",\"filtered_record_count\":{}", tally.records()));
            asked.put_grouping(out);
            if over.param != "field" {
                put_groups(reading, parameters, tally, &longs, out)?;
            }
        }
    }
    out.write(&format!(",\"meta\":{}}}", meta(parameters)));
    Ok(())
}

impl<'p> Asked<'p> {
    fn of(parameters: &'p Parameters) -> Result<Self, Problem> {
        let text = |name: &str| parameters.text(name);
        let Some(metric) = text("metric") else {
            return Err(Problem::invalid(
                "metric",
                "send `metric`: count, sum, min, max or count_distinct",
            ));
        };
        let kind =
            [Aggregation::Sum, Aggregation::Min, Aggregation::Max, Aggregation::CountDistinct]
                .into_iter()
                .find(|kind| kind.name() == metric);
        let over = match (kind, text("field"), text("group_by"), text("group_by_time")) {
            (Some(_), None, ..) => {
                return Err(Problem::invalid(
                    "field",
                    format!("`metric={metric}` needs `field`: of which field"),
                ));
            }
            (None, Some(_), ..) => {
                let message = "`metric=count` counts records and takes no `field`; use `group_by` or `count_distinct`";
                return Err(Problem::invalid("field", message));
            }
            (_, _, Some(_), Some(_)) => {
                let message = "`group_by` and `group_by_time` exclude each other; send one of them";
                return Err(Problem::invalid("group_by_time", message));
            }
            (Some(_), _, Some(_), _) | (Some(_), _, _, Some(_)) => {
                let param = if text("group_by").is_some() { "group_by" } else { "group_by_time" };
                return Err(Problem::invalid(param, "only `metric=count` can be grouped"));
            }
            (Some(kind), Some(field), None, None) => Some(Over { field, param: "field", kind }),
            (None, None, Some(field), _) => {
                Some(Over { field, param: "group_by", kind: Aggregation::GroupBy })
            }
            (None, None, None, Some(field)) => {
                Some(Over { field, param: "group_by_time", kind: Aggregation::GroupByTime })
            }
            (None, None, None, None) => None,
        };
        let grouped = over.as_ref().is_some_and(|over| over.param != "field");
        if parameters.number("limit").is_some() && !grouped {
            return Err(Problem::invalid(
                "limit",
                "`limit` is of groups; send `group_by` or `group_by_time` too",
            ));
        }
        Ok(Self { metric, time: Self::time(parameters)?, over })
    }

    fn time(parameters: &Parameters) -> Result<Option<(Granularity, Zone)>, Problem> {
        let by_time = parameters.text("group_by_time").is_some();
        let given = |name: &'static str| match parameters.text(name) {
            Some(_) if !by_time => Err(Problem::invalid(
                name,
                format!("`{name}` is of `group_by_time`; send that too"),
            )),
            given => Ok(given),
        };
        let (granularity, zone) = (given("granularity")?, given("time_zone")?.unwrap_or("UTC"));
        if !by_time {
            return Ok(None);
        }
        let granularity = granularity.and_then(Granularity::named).ok_or_else(|| {
            let names = Granularity::NAMES.join(", ");
            Problem::invalid(
                "granularity",
                format!("`group_by_time` needs `granularity`, one of {names}"),
            )
        })?;
        let zone = Zone::named(zone).ok_or_else(|| {
            let message =
                "`time_zone` must be a name of the IANA time zone database such as Europe/Berlin";
            Problem::invalid("time_zone", message)
        })?;
        Ok(Some((granularity, zone)))
    }

    fn put_grouping(&self, out: &mut dyn ResponseSink) {
        let by = |param: &str| {
            self.over.as_ref().filter(|over| over.param == param).map(|over| over.field)
        };
        let granularity = self.time.as_ref().and_then(|(own, _)| {
            Granularity::ALL.into_iter().find_map(|(known, name)| (known == *own).then_some(name))
        });
        for (name, value) in [
            ("group_by", by("group_by")),
            ("group_by_time", by("group_by_time")),
            ("granularity", granularity),
            ("time_zone", self.time.as_ref().map(|(_, zone)| zone.name())),
        ] {
            let before = if name == "group_by" { ",\"approximate\":false" } else { "" };
            out.write(&format!("{before},\"{name}\":{}", json!(value)));
        }
    }

    fn measure(&self, over: &Over<'_>, kind: Comparison) -> AggregateMeasure {
        match (over.kind, &self.time) {
            (Aggregation::Sum, _) => AggregateMeasure::Sum,
            (Aggregation::Min, _) => AggregateMeasure::Least(kind),
            (Aggregation::Max, _) => AggregateMeasure::Greatest(kind),
            (Aggregation::CountDistinct, _) => AggregateMeasure::Distinct,
            (Aggregation::GroupByTime, Some((granularity, zone))) => {
                AggregateMeasure::ByTime(*granularity, zone.clone())
            }
            (Aggregation::GroupBy | Aggregation::GroupByTime, _) => AggregateMeasure::ByValue,
        }
    }
}

/// What a field is declared as in each source, and what its values compare as in all of them.
struct Declared {
    types: Vec<TypeSet>,
    kind: Comparison,
}

impl Over<'_> {
    /// That the caller may name the field, and that every connection declares it for this.
    fn declared(
        &self,
        reading: Reading<'_>,
        sources: &[RecordSource],
    ) -> Result<Declared, Problem> {
        let Self { field, param, kind } = self;
        fields::known(reading, sources, field, param)?;
        let (mut types, mut kinds) = (Vec::new(), Vec::new());
        for source in sources {
            let declaration = reading.declarations.get(source)?;
            if let Some(field) =
                declaration.field(field).filter(|field| field.aggregations.contains(kind))
            {
                types.push(field.types);
                kinds.push(if field.format.is_some() {
                    Comparison::Times
                } else {
                    Comparison::Numbers
                });
            }
        }
        let name = kind.name();
        let compares = matches!(kind, Aggregation::Min | Aggregation::Max);
        match kinds.first() {
            None => {
                let message = format!(
                    "`{field}` is not declared for `{name}`; `/v1/schema` says which fields are"
                );
                Err(Problem::invalid(param, message))
            }
            Some(first)
                if types.len() < sources.len()
                    || compares && kinds.iter().any(|other| other != first) =>
            {
                let message = format!(
                    "connections declare `{field}` differently for `{name}`; send `connection_id`"
                );
                Err(Problem::invalid(param, message))
            }
            Some(first) => Ok(Declared { types, kind: *first }),
        }
    }
}

/// Looks at the field of every record.
fn tally(
    reading: Reading<'_>,
    sources: &[RecordSource],
    conditions: &[Condition],
    (asked, over, declared): (&Asked<'_>, &Over<'_>, &Declared),
    out: &dyn ResponseSink,
) -> Result<(Aggregator, Longs), Problem> {
    let measure = asked.measure(over, declared.kind);
    let refused = |overflow| match overflow {
        AggregateOverflow::Groups => Problem::TooManyGroups { param: over.param },
        AggregateOverflow::Digits => Problem::NumberTooLong,
    };
    let mut all = Aggregator::new(measure.clone(), TypeSet::default());
    let mut longs = Longs::new();
    for (source, types) in sources.iter().zip(&declared.types) {
        let mut tally = Aggregator::new(measure.clone(), *types);
        reading.view.field_values(source, conditions, over.field, |held, long| {
            tally.add(held).map_err(refused)?;
            let is_group = over.kind == Aggregation::GroupBy && types.contains(JsonType::String);
            if let (Some(StoredValue::LongText(_)), Some(long), true) = (held, long, is_group) {
                longs.entry(long.value.digest).or_insert(long);
            }
            Ok(!out.is_closed())
        })?;
        all.merge(tally).map_err(refused)?;
    }
    Ok((all, longs))
}

fn put_value(
    kind: Aggregation,
    declared: &Declared,
    tally: &Aggregator,
    out: &mut dyn ResponseSink,
) {
    out.write(",\"value\":");
    match (kind, tally.extreme_value()) {
        (Aggregation::Sum, _) => out.write(&tally.sum()),
        (Aggregation::CountDistinct, _) => out.write(&tally.distinct().to_string()),
        (_, None) => out.write("null"),
        (_, Some(digits)) if declared.kind == Comparison::Numbers => out.write(digits),
        (_, Some(time)) => write_json_string(out, time),
    }
}

fn put_groups(
    reading: Reading<'_>,
    parameters: &Parameters,
    tally: Aggregator,
    longs: &Longs,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let limit = parameters.number("limit").unwrap_or(DEFAULT_GROUPS);
    let (groups, others) = tally.groups(usize::try_from(limit).unwrap_or(usize::MAX));
    out.write(",\"groups\":[");
    for (at, ValueGroup { key, count }) in groups.iter().enumerate() {
        out.write(if at > 0 { ",{\"key\":" } else { "{\"key\":" });
        let mut preview = Json::Null;
        match key {
            GroupKey::Bool(value) => out.write(if *value { "true" } else { "false" }),
            GroupKey::Number(digits) => out.write(digits),
            GroupKey::Text(text) => write_json_string(out, text),
            GroupKey::Time(start) => write_json_string(out, &start.to_rfc3339()),
            GroupKey::None => out.write("null"),
            GroupKey::LongText { digest, chars } => {
                let long = longs.get(digest).ok_or(Problem::Corrupt)?;
                write_json_string(out, &reading.view.long_text(*long, 0, SHOWN_CHARS)?);
                let shown = SHOWN_CHARS.min(*chars);
                preview = json!({ "shown_chars": shown, "size_chars": chars, "digest": digest_text(digest) });
            }
        }
        if !preview.is_null() {
            out.write(&format!(",\"key_preview\":{preview}"));
        }
        out.write(&format!(",\"count\":{count}}}"));
    }
    out.write(&format!("],\"limit\":{limit},\"other_count\":{others}"));
    Ok(())
}
