//! Which fields and conditions of a request its caller may name.
//!
//! A client is told of a field that it was not granted and of one that does not exist in the same
//! words, so that a declaration cannot be guessed. The owner is told which fields there are.

use std::collections::BTreeSet;

use stile_domain::records::decimal::is_number;
use stile_domain::records::declaration::{Declaration, DeclaredField, RangeOperator};
use stile_domain::records::filter::{Condition, FieldTest, RangeBound};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_store::records::RecordSource;

use super::Reading;
use super::parameters::Given;

/// The fields that were asked for, and those that the schema requires as far as they are granted.
/// None is all.
///
/// # Errors
/// [`Problem::FieldNotGranted`]; to the owner [`Problem::UnknownField`].
pub fn requested(
    reading: Reading<'_>,
    sources: &[RecordSource],
    names: Option<&[String]>,
) -> Result<Option<BTreeSet<String>>, Problem> {
    let Some(names) = names else { return Ok(None) };
    let mut wanted = BTreeSet::new();
    for name in names {
        known(reading, sources, name, "fields")?;
        wanted.insert(name.clone());
    }
    for source in sources {
        let declaration = reading.declarations.get(source)?;
        wanted.extend(declaration.required().iter().filter(|name| may_see(source, name)).cloned());
    }
    Ok(Some(wanted))
}

/// Whether a field may be seen.
pub fn may_see(source: &RecordSource, name: &str) -> bool {
    source.fields().is_none_or(|fields| fields.contains(name))
}

/// That a field may be named by this caller.
pub(super) fn known(
    reading: Reading<'_>,
    sources: &[RecordSource],
    name: &str,
    param: &str,
) -> Result<(), Problem> {
    let (field, param) = (name.to_owned(), param.to_owned());
    if !sources.iter().any(|source| may_see(source, name)) {
        return Err(Problem::FieldNotGranted { field, param });
    }
    if reading.view.grant().is_some() {
        return Ok(());
    }
    for source in sources {
        if reading.declarations.get(source)?.field(name).is_some() {
            return Ok(());
        }
    }
    Err(Problem::UnknownField { field, param })
}

/// The conditions that were sent, as the store asks them.
///
/// # Errors
/// As [`requested`]; [`Problem::InvalidRequest`] where the field is not declared for such a
/// condition, the value is of another kind, or the connections disagree.
pub fn conditions(
    reading: Reading<'_>,
    sources: &[RecordSource],
    given: &[Given],
) -> Result<Vec<Condition>, Problem> {
    given.iter().map(|given| condition(reading, sources, given)).collect()
}

fn condition(
    reading: Reading<'_>,
    sources: &[RecordSource],
    given: &Given,
) -> Result<Condition, Problem> {
    known(reading, sources, &given.field, &given.param)?;
    let mut agreed: Option<FieldTest> = None;
    for source in sources {
        let declaration = reading.declarations.get(source)?;
        let test = test(&declaration, given)?;
        if agreed.as_ref().is_some_and(|agreed| *agreed != test) {
            let message =
                format!("connections declare `{}` differently; send `connection_id`", given.field);
            return Err(Problem::invalid(&given.param, message));
        }
        agreed = Some(test);
    }
    let test = agreed.ok_or(Problem::NotFound)?;
    Ok(Condition { field: given.field.clone(), test })
}

fn test(declaration: &Declaration, given: &Given) -> Result<FieldTest, Problem> {
    let invalid = |message: String| Problem::invalid(&given.param, message);
    let name = &given.field;
    let field = declaration.field(name);
    let Some(operator) = given.operator else {
        if !field.is_some_and(|field| field.filterable) {
            return Err(invalid(format!(
                "`{name}` cannot be filtered by; `/v1/schema` says which fields can"
            )));
        }
        return Ok(FieldTest::Is(given.value.clone()));
    };
    let Some(field) = field.filter(|field| field.operators.contains(&operator)) else {
        return Err(invalid(format!(
            "`{name}` cannot be filtered by a range with {}; `/v1/schema` says which fields can",
            operator.name()
        )));
    };
    Ok(FieldTest::Range(operator, bound(field, given).map_err(invalid)?))
}

fn bound(field: &DeclaredField, given: &Given) -> Result<RangeBound, String> {
    let param = &given.param;
    if field.format.is_some() {
        let time = Instant::parse(&given.value);
        return time.map(RangeBound::Time).ok_or_else(|| {
            format!("`{param}` must be a date or a time such as 2026-01-31 or 2026-01-31T12:00:00Z")
        });
    }
    if is_number(&given.value) {
        Ok(RangeBound::Number(given.value.clone()))
    } else {
        Err(format!("`{param}` must be a number such as 12 or -0.5"))
    }
}

/// The comparisons that a field is declared for.
pub fn operators(field: &DeclaredField) -> Vec<&'static str> {
    field.operators.iter().copied().map(RangeOperator::name).collect()
}
