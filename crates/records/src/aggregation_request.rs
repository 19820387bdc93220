//! What an aggregation asks for: the metric, the fields, the groups and their order.
//!
//! Parsed from the parameters first, and then compared with what each connection declares.

use stile_domain::records::aggregator::{
    AggregatePlan, Comparison, GroupOrder, Grouping, METRICS, Metric,
};
use stile_domain::records::declaration::{Aggregation, TypeSet};
use stile_domain::records::problem::Problem;
use stile_domain::records::request::AggregateRecords;
use stile_domain::records::request::aggregate_records::DEFAULT_GROUPS;
use stile_domain::records::zone::{Granularity, Zone};
use stile_store::records::RecordSource;

use crate::context::ReadContext;
use crate::field_selection;
use crate::list_response::has_record_cursors;

/// A field that an aggregation reads.
pub(crate) struct AggregatedField<'p> {
    pub(crate) name: &'p str,
    /// The parameter that names the field.
    pub(crate) param: &'static str,
    /// The aggregation that the field must be declared for.
    aggregation: Aggregation,
}

/// An aggregation, before it is compared with a declaration.
pub(crate) struct AggregationRequest<'p> {
    /// The name of the metric.
    pub(crate) metric: &'p str,
    /// The field that is measured; `None` if records are counted.
    pub(crate) measured: Option<AggregatedField<'p>>,
    /// The fields by whose values groups are made.
    pub(crate) by_value: Vec<AggregatedField<'p>>,
    /// The field by whose times groups are made.
    pub(crate) by_time: Option<(AggregatedField<'p>, Granularity, Zone)>,
    pub(crate) order: GroupOrder,
    /// The most groups of an answer.
    pub(crate) limit: u64,
    /// Whether each group has a cursor of its own.
    pub(crate) has_cursors: bool,
}

/// How the sources declare the fields of an aggregation.
pub(crate) struct DeclaredAggregation {
    pub(crate) plan: AggregatePlan,
    /// The types of each field, for each source.
    pub(crate) types: Vec<Vec<TypeSet>>,
}

impl<'p> AggregationRequest<'p> {
    pub(crate) fn parse(request: &'p AggregateRecords) -> Result<Self, Problem> {
        let Some(metric) = request.metric else {
            let message = format!("send `metric`: one of {}", METRICS.join(", "));
            return Problem::refuse("metric", message);
        };
        let by_value: Vec<AggregatedField<'p>> = request
            .group_by
            .iter()
            .map(|name| AggregatedField::new(name, "group_by", Aggregation::GroupBy))
            .collect();
        let by_time = parse_time(request)?;
        if by_value.is_empty() && by_time.is_none() {
            let sent = [
                ("limit", request.limit.is_some()),
                ("order", request.order.is_some()),
                ("cursor", request.cursor.is_some()),
            ];
            if let Some((name, _)) = sent.into_iter().find(|(_, is_sent)| *is_sent) {
                let message =
                    format!("`{name}` is of groups; send `group_by` or `group_by_time` too");
                return Problem::refuse(name, message);
            }
        }
        let default_order =
            if by_time.is_some() { GroupOrder::LeastKey } else { GroupOrder::GreatestValue };
        let order = request.order.and_then(GroupOrder::named).unwrap_or(default_order);
        let limit = request.limit.unwrap_or(DEFAULT_GROUPS);
        let measured = parse_measured(request, metric)?;
        let has_cursors = has_record_cursors(request.cursors);
        Ok(Self { metric, measured, by_value, by_time, order, limit, has_cursors })
    }

    /// Returns the fields that are read, in the order in which an aggregator takes them.
    pub(crate) fn fields(&self) -> Vec<&AggregatedField<'p>> {
        let by_time = self.by_time.as_ref().map(|(field, ..)| field);
        self.measured.iter().chain(&self.by_value).chain(by_time).collect()
    }

    pub(crate) fn is_grouped(&self) -> bool {
        !self.by_value.is_empty() || self.by_time.is_some()
    }

    /// Compares the request with the declarations of the sources.
    ///
    /// # Errors
    /// [`Problem::FieldNotGranted`], [`Problem::UnknownField`], and [`Problem::InvalidRequest`] for
    /// a field that a connection does not declare for the aggregation.
    pub(crate) fn declared(
        &self,
        context: ReadContext<'_>,
        sources: &[RecordSource],
    ) -> Result<DeclaredAggregation, Problem> {
        let mut types = vec![Vec::new(); sources.len()];
        let mut comparison = Comparison::Numbers;
        for field in self.fields() {
            let declared = field.declared(context, sources)?;
            if field.param == "field" {
                comparison = declared.comparison;
            }
            types.iter_mut().zip(declared.types).for_each(|(all, own)| all.push(own));
        }
        let metric = match self.metric {
            "sum" => Metric::Sum,
            "avg" => Metric::Mean,
            "min" => Metric::Least(comparison),
            "max" => Metric::Greatest(comparison),
            "count_distinct" => Metric::Distinct,
            _ => Metric::Count,
        };
        let by_time = self.by_time.as_ref();
        let by_time = by_time.map(|(_, part, zone)| Grouping::ByTime(*part, zone.clone()));
        let by_value = self.by_value.iter().map(|_| Grouping::ByValue);
        let plan = AggregatePlan { metric, groupings: by_value.chain(by_time).collect() };
        Ok(DeclaredAggregation { plan, types })
    }
}

fn parse_measured<'p>(
    request: &'p AggregateRecords,
    metric: &str,
) -> Result<Option<AggregatedField<'p>>, Problem> {
    let aggregation = match metric {
        "sum" | "avg" => Aggregation::Sum,
        "min" => Aggregation::Min,
        "max" => Aggregation::Max,
        "count_distinct" => Aggregation::CountDistinct,
        _ => {
            return match &request.field {
                None => Ok(None),
                Some(_) => Problem::refuse(
                    "field",
                    "`metric=count` counts records and takes no `field`; use `group_by` or `count_distinct`",
                ),
            };
        }
    };
    match &request.field {
        Some(name) => Ok(Some(AggregatedField::new(name, "field", aggregation))),
        None => {
            Problem::refuse("field", format!("`metric={metric}` needs `field`: of which field"))
        }
    }
}

fn parse_time(
    request: &AggregateRecords,
) -> Result<Option<(AggregatedField<'_>, Granularity, Zone)>, Problem> {
    let Some(field) = &request.group_by_time else {
        let sent = [
            ("granularity", request.granularity.is_some()),
            ("time_zone", request.time_zone.is_some()),
        ];
        return match sent.into_iter().find(|(_, is_sent)| *is_sent) {
            None => Ok(None),
            Some((name, _)) => {
                Problem::refuse(name, format!("`{name}` is of `group_by_time`; send that too"))
            }
        };
    };
    let zone = request.time_zone.as_deref().unwrap_or("UTC");
    let granularity = request.granularity.and_then(Granularity::named).ok_or_else(|| {
        let names = Granularity::NAMES.join(", ");
        let message = format!("`group_by_time` needs `granularity`, one of {names}");
        Problem::invalid("granularity", message)
    })?;
    let zone = Zone::named(zone).ok_or_else(|| {
        let message =
            "`time_zone` must be a name of the IANA time zone database such as Europe/Berlin";
        Problem::invalid("time_zone", message)
    })?;
    let field = AggregatedField::new(field, "group_by_time", Aggregation::GroupByTime);
    Ok(Some((field, granularity, zone)))
}

/// How the sources declare a field.
struct DeclaredTypes {
    /// The types in each source.
    types: Vec<TypeSet>,
    /// How values compare, the same in all sources.
    comparison: Comparison,
}

impl<'p> AggregatedField<'p> {
    fn new(name: &'p str, param: &'static str, aggregation: Aggregation) -> Self {
        Self { name, param, aggregation }
    }

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
                // A text alone counts like a list of it.
                types.push(field.types.iter().chain(field.members.iter()).collect());
                comparisons.push(match field.format {
                    Some(_) => Comparison::Times,
                    None => Comparison::Numbers,
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
