//! Warnings about values that a filter passes over: what is no number in a range of numbers, what
//! is no time in a range of times, and lists that are too long to be looked into.
//!
//! Of the records that match the filter otherwise, the warning says how many have such a value, and
//! nothing of the values.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use stile_domain::records::filter::{Condition, FieldTest, PassedOver, RangeBound};
use stile_domain::records::pieces::INLINE_BYTES;
use stile_domain::records::problem::Problem;
use stile_store::records::RecordSource;

use crate::context::ReadContext;

/// Counts the records that fulfil some conditions. Returns the number, and whether it is exact.
pub(crate) type CountRecords<'c> = &'c mut dyn FnMut(&[Condition]) -> Result<(u64, bool), Problem>;

/// Returns a warning for each field of which the conditions pass values over.
///
/// # Errors
/// The error of the database.
pub(crate) fn warnings(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    conditions: &[Condition],
    count: CountRecords<'_>,
) -> Result<Vec<Json>, Problem> {
    let mut found = BTreeSet::new();
    collect(context, sources, conditions, &mut found)?;
    let mut warnings = Vec::new();
    for (field, passed) in found {
        let (records, is_exact) = count(&instead(conditions, &field, passed))?;
        if records > 0 {
            warnings.push(warning(&field, passed, (records, is_exact)));
        }
    }
    Ok(warnings)
}

/// Adds the fields that conditions compare, each with the values that are passed over.
fn collect(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    conditions: &[Condition],
    found: &mut BTreeSet<(String, PassedOver)>,
) -> Result<(), Problem> {
    for condition in conditions {
        let (field, test) = match condition {
            Condition::Field { field, test } => (field, test),
            Condition::AnyOf(all) => {
                for conditions in all {
                    collect(context, sources, conditions, found)?;
                }
                continue;
            }
        };
        let passed = match test {
            FieldTest::Range(_, RangeBound::Number(_)) => PassedOver::NotNumbers,
            FieldTest::Range(_, RangeBound::Time(_)) => PassedOver::NotTimes,
            FieldTest::Is(_) | FieldTest::IsAny(_) if is_list(context, sources, field)? => {
                PassedOver::LongLists
            }
            _ => continue,
        };
        found.insert((field.clone(), passed));
    }
    Ok(())
}

fn is_list(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    field: &str,
) -> Result<bool, Problem> {
    for source in sources {
        let declaration = context.declarations.get(source)?;
        if declaration.field(field).is_some_and(|field| field.is_list()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns conditions that hold where a field has a value that these conditions pass over, and the
/// conditions on other fields hold. Alternatives with the field are left out.
fn instead(conditions: &[Condition], field: &str, passed: PassedOver) -> Vec<Condition> {
    let mut other: Vec<Condition> =
        conditions.iter().filter(|condition| !is_on(condition, field)).cloned().collect();
    other.push(Condition::on(field, FieldTest::PassesOver(passed)));
    other
}

fn is_on(condition: &Condition, field: &str) -> bool {
    match condition {
        Condition::Field { field: own, .. } => own == field,
        Condition::AnyOf(all) => all.iter().flatten().any(|condition| is_on(condition, field)),
    }
}

fn warning(field: &str, passed: PassedOver, (records, is_exact): (u64, bool)) -> Json {
    let number = if is_exact { records.to_string() } else { format!("at least {records}") };
    let message = match passed {
        PassedOver::NotNumbers => {
            format!("`{field}` is not a number in {number} record(s), which the filter passes over")
        }
        PassedOver::NotTimes => {
            format!("`{field}` is not a time in {number} record(s), which the filter passes over")
        }
        PassedOver::LongLists => format!(
            "`{field}` is longer than {INLINE_BYTES} bytes in {number} record(s), and a filter does \
             not look into such a list"
        ),
    };
    json!({
        "code": "values_passed_over", "param": "filter", "message": message,
        "detail": { "field": field, "records": records },
    })
}
