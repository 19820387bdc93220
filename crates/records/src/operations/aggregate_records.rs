//! `GET /v1/streams/{stream}/aggregate`: counts, sums and extremes over the records that the caller
//! may see.
//!
//! The operation reads one field of every matching record, so the value is exact and does not
//! depend on the order of the records. The number of groups and distinct values has a bound, see
//! [`stile_domain::records::aggregator`]. Only records that the caller may see count against that
//! bound, so that its error reveals nothing of others.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use stile_domain::records::aggregator::{
    AggregateMeasure, AggregateOverflow, Aggregator, Comparison, GroupKey, METRICS, ValueGroup,
};
use stile_domain::records::declaration::{Aggregation, JsonType, TypeSet};
use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::ReadOperation;
use stile_domain::records::stored_body::StoredValue;
use stile_domain::records::zone::{Granularity, Zone};
use stile_store::records::{LongValueRef, RecordSource};

use crate::connections::requested_connection;
use crate::context::ReadContext;
use crate::field_selection;
use crate::field_text::format_digest;
use crate::list_response::MAX_LIMIT;
use crate::operation_declaration::{OperationDeclaration, ResponseDeclaration};
use crate::parameters::{AboveMax, Parameter, ParameterType, Parameters};
use crate::request_target::RequestTarget;
use crate::response_meta::response_meta;
use crate::response_sink::{ResponseSink, write_json_string};
use crate::shared_parameters::{CONNECTION, CONNECTION_ALIAS, FIELD_NAME, FILTER, number};

/// The number of groups of an answer if the request does not say.
const DEFAULT_GROUPS: u64 = 10;
/// How much of a long text an answer has as the key of a group, in scalar values.
const MAX_KEY_CHARS: u64 = 256;

const _: () = assert!(DEFAULT_GROUPS == 10);

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "An exact count, sum, minimum, maximum or grouping over all records that the caller may see.",
    parameters: &[
        Parameter::required(
            "metric",
            ParameterType::OneOf(&METRICS),
            "What to compute. Only `count` can be grouped.",
        ),
        Parameter::optional("field", FIELD_NAME, "The field to aggregate; not with `count`."),
        Parameter::optional("group_by", FIELD_NAME, "A count for each value of this field."),
        Parameter::optional(
            "group_by_time",
            FIELD_NAME,
            "A count for each span of time, by the time in this field. Needs `granularity`.",
        ),
        Parameter::optional(
            "granularity",
            ParameterType::OneOf(&Granularity::NAMES),
            "The length of a span of time. Weeks begin on Monday.",
        ),
        Parameter::optional(
            "time_zone",
            ParameterType::Text { max_bytes: 64 },
            "The time zone in which days begin: a name of the IANA time zone database; the default is UTC.",
        ),
        Parameter::optional(
            "limit",
            number(1, MAX_LIMIT, AboveMax::Clamped),
            "At most this many groups; the default is 10. `other_count` has the number of records in all other groups.",
        ),
        FILTER,
        CONNECTION,
        CONNECTION_ALIAS,
    ],
    response: ResponseDeclaration::json(
        "aggregation",
        &["object", "stream", "metric", "field", "filtered_record_count", "approximate", "meta"],
    ),
    ..OperationDeclaration::read(
        ReadOperation::Aggregate.id(),
        ReadOperation::Aggregate.path(),
        aggregate_records,
    )
};

/// The aggregation that a request asks for, before it is compared with a declaration.
struct RequestedAggregation<'p> {
    metric: &'p str,
    /// The field to read; `None` for the number of records alone.
    field: Option<AggregatedField<'p>>,
    /// The spans of time to group by.
    time: Option<(Granularity, Zone)>,
}

struct AggregatedField<'p> {
    name: &'p str,
    /// The parameter that names the field.
    param: &'static str,
    /// The aggregation that the field must be declared for.
    aggregation: Aggregation,
}

impl AggregatedField<'_> {
    fn is_grouped_by(&self) -> bool {
        self.param != "field"
    }
}

/// Where one occurrence of each long text is, by the digest of the text.
type LongTexts = HashMap<[u8; 32], LongValueRef>;

/// Answers with [`Problem::TooManyGroups`] or [`Problem::NumberTooLong`] if the values exceed the
/// bounds of the aggregator.
fn aggregate_records(
    context: ReadContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let sources = context.view.sources_of(&target.stream, requested_connection(parameters)?)?;
    let requested = RequestedAggregation::parse(parameters)?;
    let declared =
        requested.field.as_ref().map(|field| field.declared(context, &sources)).transpose()?;
    let conditions = field_selection::conditions(context, &sources, parameters.conditions())?;
    out.write("{\"object\":\"aggregation\",\"stream\":");
    write_json_string(out, &target.stream);
    let measured = requested.field.as_ref().filter(|field| !field.is_grouped_by());
    let measured = json!(measured.map(|field| field.name));
    out.write(&format!(",\"metric\":\"{}\",\"field\":{measured}", requested.metric));
    match (&requested.field, declared) {
        (Some(field), Some(declared)) => {
            let read = (&requested, field, &declared);
            let (values, long_texts) = aggregate(context, &sources, &conditions, read, &*out)?;
            if !field.is_grouped_by() {
                write_value(field.aggregation, &declared, &values, out);
            }
            out.write(&format!(",\"filtered_record_count\":{}", values.records()));
            requested.write_grouping(out);
            if field.is_grouped_by() {
                write_groups(context, parameters, values, &long_texts, out)?;
            }
        }
        _ => {
            let count = context.view.count_matching(&sources, &conditions)?;
            out.write(&format!(",\"value\":{count},\"filtered_record_count\":{count}"));
            requested.write_grouping(out);
        }
    }
    out.write(&format!(",\"meta\":{}}}", response_meta(parameters)));
    Ok(())
}

impl<'p> RequestedAggregation<'p> {
    fn parse(parameters: &'p Parameters) -> Result<Self, Problem> {
        let text = |name: &str| parameters.text(name);
        let Some(metric) = text("metric") else {
            return Problem::refuse(
                "metric",
                "send `metric`: count, sum, min, max or count_distinct",
            );
        };
        let aggregation =
            [Aggregation::Sum, Aggregation::Min, Aggregation::Max, Aggregation::CountDistinct]
                .into_iter()
                .find(|aggregation| aggregation.name() == metric);
        let field = match (aggregation, text("field"), text("group_by"), text("group_by_time")) {
            (Some(_), None, ..) => {
                return Problem::refuse(
                    "field",
                    format!("`metric={metric}` needs `field`: of which field"),
                );
            }
            (None, Some(_), ..) => {
                let message = "`metric=count` counts records and takes no `field`; use `group_by` or `count_distinct`";
                return Problem::refuse("field", message);
            }
            (_, _, Some(_), Some(_)) => {
                let message = "`group_by` and `group_by_time` exclude each other; send one of them";
                return Problem::refuse("group_by_time", message);
            }
            (Some(_), _, Some(_), _) | (Some(_), _, _, Some(_)) => {
                let param = if text("group_by").is_some() { "group_by" } else { "group_by_time" };
                return Problem::refuse(param, "only `metric=count` can be grouped");
            }
            (Some(aggregation), Some(field), None, None) => {
                Some(AggregatedField { name: field, param: "field", aggregation })
            }
            (None, None, Some(field), _) => Some(AggregatedField {
                name: field,
                param: "group_by",
                aggregation: Aggregation::GroupBy,
            }),
            (None, None, None, Some(field)) => Some(AggregatedField {
                name: field,
                param: "group_by_time",
                aggregation: Aggregation::GroupByTime,
            }),
            (None, None, None, None) => None,
        };
        let grouped = field.as_ref().is_some_and(AggregatedField::is_grouped_by);
        if parameters.number("limit").is_some() && !grouped {
            return Problem::refuse(
                "limit",
                "`limit` is of groups; send `group_by` or `group_by_time` too",
            );
        }
        Ok(Self { metric, time: Self::parse_time(parameters)?, field })
    }

    fn parse_time(parameters: &Parameters) -> Result<Option<(Granularity, Zone)>, Problem> {
        let by_time = parameters.text("group_by_time").is_some();
        let sent = |name: &'static str| match parameters.text(name) {
            Some(_) if !by_time => {
                Problem::refuse(name, format!("`{name}` is of `group_by_time`; send that too"))
            }
            value => Ok(value),
        };
        let (granularity, zone) = (sent("granularity")?, sent("time_zone")?.unwrap_or("UTC"));
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

    fn write_grouping(&self, out: &mut dyn ResponseSink) {
        let by = |param: &str| {
            self.field.as_ref().filter(|field| field.param == param).map(|field| field.name)
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

    fn measure(&self, aggregation: Aggregation, comparison: Comparison) -> AggregateMeasure {
        match (aggregation, &self.time) {
            (Aggregation::Sum, _) => AggregateMeasure::Sum,
            (Aggregation::Min, _) => AggregateMeasure::Least(comparison),
            (Aggregation::Max, _) => AggregateMeasure::Greatest(comparison),
            (Aggregation::CountDistinct, _) => AggregateMeasure::Distinct,
            (Aggregation::GroupByTime, Some((granularity, zone))) => {
                AggregateMeasure::ByTime(*granularity, zone.clone())
            }
            (Aggregation::GroupBy | Aggregation::GroupByTime, _) => AggregateMeasure::ByValue,
        }
    }
}

/// How the sources declare a field.
struct DeclaredTypes {
    /// The types in each source.
    types: Vec<TypeSet>,
    /// How values compare, the same in all sources.
    comparison: Comparison,
}

impl AggregatedField<'_> {
    /// Returns the types of the field, if the caller may name it and every connection declares it
    /// for the aggregation.
    fn declared(
        &self,
        context: ReadContext<'_>,
        sources: &[RecordSource],
    ) -> Result<DeclaredTypes, Problem> {
        let Self { name: field, param, aggregation } = self;
        field_selection::check_nameable(context, sources, field, param)?;
        let (mut types, mut comparisons) = (Vec::new(), Vec::new());
        for source in sources {
            let declaration = context.declarations.get(source)?;
            if let Some(field) =
                declaration.field(field).filter(|field| field.aggregations.contains(aggregation))
            {
                types.push(field.types);
                comparisons.push(if field.format.is_some() {
                    Comparison::Times
                } else {
                    Comparison::Numbers
                });
            }
        }
        let name = aggregation.name();
        let compares = matches!(aggregation, Aggregation::Min | Aggregation::Max);
        match comparisons.first() {
            None => {
                let message = format!(
                    "`{field}` is not declared for `{name}`; the schema says which fields are"
                );
                Problem::refuse(param, message)
            }
            Some(first)
                if types.len() < sources.len()
                    || compares && comparisons.iter().any(|other| other != first) =>
            {
                let message = format!(
                    "connections declare `{field}` differently for `{name}`; send `connection_id`"
                );
                Problem::refuse(param, message)
            }
            Some(first) => Ok(DeclaredTypes { types, comparison: *first }),
        }
    }
}

/// Aggregates the field of every matching record.
fn aggregate(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    conditions: &[Condition],
    (requested, field, declared): (&RequestedAggregation<'_>, &AggregatedField<'_>, &DeclaredTypes),
    out: &dyn ResponseSink,
) -> Result<(Aggregator, LongTexts), Problem> {
    let measure = requested.measure(field.aggregation, declared.comparison);
    let problem = |overflow| match overflow {
        AggregateOverflow::Groups => Problem::TooManyGroups { param: field.param },
        AggregateOverflow::Digits => Problem::NumberTooLong,
    };
    let mut all = Aggregator::new(measure.clone(), TypeSet::default());
    let mut long_texts = LongTexts::new();
    for (source, types) in sources.iter().zip(&declared.types) {
        let mut values = Aggregator::new(measure.clone(), *types);
        let is_group =
            field.aggregation == Aggregation::GroupBy && types.contains(JsonType::String);
        context.view.field_values(source, conditions, field.name, |value, long| {
            values.add(value).map_err(problem)?;
            if let (Some(StoredValue::LongText(_)), Some(long), true) = (value, long, is_group) {
                long_texts.entry(long.value.digest).or_insert(long);
            }
            Ok(!out.is_closed())
        })?;
        all.merge(values).map_err(problem)?;
    }
    Ok((all, long_texts))
}

fn write_value(
    aggregation: Aggregation,
    declared: &DeclaredTypes,
    values: &Aggregator,
    out: &mut dyn ResponseSink,
) {
    out.write(",\"value\":");
    match (aggregation, values.extreme_value()) {
        (Aggregation::Sum, _) => out.write(&values.sum()),
        (Aggregation::CountDistinct, _) => out.write(&values.distinct().to_string()),
        (_, None) => out.write("null"),
        (_, Some(digits)) if declared.comparison == Comparison::Numbers => out.write(digits),
        (_, Some(time)) => write_json_string(out, time),
    }
}

fn write_groups(
    context: ReadContext<'_>,
    parameters: &Parameters,
    values: Aggregator,
    long_texts: &LongTexts,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let limit = parameters.number("limit").unwrap_or(DEFAULT_GROUPS);
    let (groups, others) = values.groups(usize::try_from(limit).unwrap_or(usize::MAX));
    out.write(",\"groups\":[");
    for (index, ValueGroup { key, count }) in groups.iter().enumerate() {
        out.write(if index > 0 { ",{\"key\":" } else { "{\"key\":" });
        let mut preview = Json::Null;
        match key {
            GroupKey::Bool(value) => out.write(if *value { "true" } else { "false" }),
            GroupKey::Number(digits) => out.write(digits),
            GroupKey::Text(text) => write_json_string(out, text),
            GroupKey::Time(start) => write_json_string(out, &start.to_rfc3339()),
            GroupKey::None => out.write("null"),
            GroupKey::LongText { digest, chars } => {
                let long = long_texts.get(digest).ok_or(Problem::Corrupt)?;
                write_json_string(out, &context.view.long_text(*long, 0, MAX_KEY_CHARS)?);
                let shown = MAX_KEY_CHARS.min(*chars);
                preview = json!({ "shown_chars": shown, "size_chars": chars, "digest": format_digest(digest) });
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
