//! The fields and the conditions that a caller may name.
//!
//! A client gets the same error for a field that it was not granted and for a field that does not
//! exist, so that it cannot guess a declaration. The owner gets an error of its own for the latter.

use std::collections::{BTreeMap, BTreeSet};

use stile_domain::records::decimal::is_number;
use stile_domain::records::declaration::{Declaration, DeclaredField, RangeOperator};
use stile_domain::records::filter::{Condition, FieldTest, RangeBound};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::parameters::{FilterComparison, FilterParameter};
use stile_store::records::RecordSource;

use crate::context::ReadContext;

/// Returns the requested fields and those required fields that the caller may see; `None` for all.
///
/// # Errors
/// [`Problem::FieldNotGranted`]; for the owner [`Problem::UnknownField`].
pub(crate) fn requested(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    names: Option<&[String]>,
) -> Result<Option<BTreeSet<String>>, Problem> {
    let Some(names) = names else { return Ok(None) };
    let mut fields = BTreeSet::new();
    for name in names {
        check_nameable(context, sources, name, "fields")?;
        fields.insert(name.clone());
    }
    for source in sources {
        let declaration = context.declarations.get(source)?;
        fields.extend(declaration.required().iter().filter(|name| may_see(source, name)).cloned());
    }
    Ok(Some(fields))
}

pub(crate) fn may_see(source: &RecordSource, name: &str) -> bool {
    source.fields().is_none_or(|fields| fields.contains(name))
}

/// Refuses a field that this caller may not name.
pub(crate) fn check_nameable(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    name: &str,
    param: &str,
) -> Result<(), Problem> {
    let (field, param) = (name.to_owned(), param.to_owned());
    if !sources.iter().any(|source| may_see(source, name)) {
        return Err(Problem::FieldNotGranted { field, param });
    }
    if context.view.grant().is_some() {
        return Ok(());
    }
    for source in sources {
        if context.declarations.get(source)?.field(name).is_some() {
            return Ok(());
        }
    }
    Err(Problem::UnknownField { field, param })
}

/// Turns the conditions of a request into conditions that the store evaluates.
///
/// # Errors
/// As [`requested`]; [`Problem::InvalidRequest`] if the field is not declared for the comparison,
/// if the value has another type, or if the connections declare the field differently.
pub(crate) fn conditions(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    filters: &[FilterParameter],
) -> Result<Vec<Condition>, Problem> {
    let (mut conditions, mut alternatives) = (Vec::new(), BTreeMap::<usize, Vec<Condition>>::new());
    for filter in filters {
        let condition = condition(context, sources, filter)?;
        match filter.alternative {
            None => conditions.push(condition),
            Some(number) => alternatives.entry(number).or_default().push(condition),
        }
    }
    if !alternatives.is_empty() {
        conditions.push(Condition::AnyOf(alternatives.into_values().collect()));
    }
    Ok(conditions)
}

fn condition(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    filter: &FilterParameter,
) -> Result<Condition, Problem> {
    check_nameable(context, sources, &filter.field, &filter.param())?;
    let mut agreed: Option<FieldTest> = None;
    for source in sources {
        let declaration = context.declarations.get(source)?;
        let test = field_test(&declaration, filter)?;
        if agreed.as_ref().is_some_and(|agreed| *agreed != test) {
            let message =
                format!("connections declare `{}` differently; send `connection_id`", filter.field);
            return Problem::refuse(&filter.param(), message);
        }
        agreed = Some(test);
    }
    let test = agreed.ok_or(Problem::NotFound)?;
    Ok(Condition::on(&filter.field, test))
}

fn field_test(declaration: &Declaration, filter: &FilterParameter) -> Result<FieldTest, Problem> {
    let invalid = |message: String| Problem::invalid(&filter.param(), message);
    let name = &filter.field;
    let field = declaration.field(name);
    let FilterComparison::Range(operator, bound) = &filter.comparison else {
        if !field.is_some_and(|field| field.filterable) {
            return Err(invalid(format!(
                "`{name}` cannot be filtered by; the schema says which fields can"
            )));
        }
        return Ok(match &filter.comparison {
            FilterComparison::In(values) => FieldTest::IsAny(values.iter().cloned().collect()),
            FilterComparison::Exists(wanted) => FieldTest::Exists(*wanted),
            FilterComparison::Is(value) | FilterComparison::Range(_, value) => {
                FieldTest::Is(value.clone())
            }
        });
    };
    let Some(field) = field.filter(|field| field.operators.contains(operator)) else {
        return Err(invalid(format!(
            "`{name}` cannot be filtered by a range with {}; the schema says which fields can",
            operator.name()
        )));
    };
    Ok(FieldTest::Range(*operator, range_bound(field, &filter.param(), bound).map_err(invalid)?))
}

fn range_bound(field: &DeclaredField, param: &str, bound: &str) -> Result<RangeBound, String> {
    if field.format.is_some() {
        let time = Instant::parse(bound);
        return time.map(RangeBound::Time).ok_or_else(|| {
            format!("`{param}` must be a date or a time such as 2026-01-31 or 2026-01-31T12:00:00Z")
        });
    }
    if is_number(bound) {
        Ok(RangeBound::Number(bound.to_owned()))
    } else {
        Err(format!("`{param}` must be a number such as 12 or -0.5"))
    }
}

/// Returns the names of the range comparisons that a field is declared for.
pub(crate) fn operator_names(field: &DeclaredField) -> Vec<&'static str> {
    field.operators.iter().copied().map(RangeOperator::name).collect()
}
