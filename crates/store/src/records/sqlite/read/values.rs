//! All records of a source at once: how many there are, and one field of each.

use rusqlite::params_from_iter;
use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, RecordBody};

use super::super::super::view::RecordSource;
use super::super::problem;
use super::{Snapshot, Where};

/// Takes the number of a record and one field of it, if it has that, and says whether to go on.
pub(in super::super::super) type Take<'t> =
    &'t mut dyn FnMut(i64, Option<BodyField<'_>>) -> Result<bool, Problem>;

impl Snapshot<'_> {
    /// How many records the caller may see that meet the conditions. No body is read without a
    /// condition on one.
    pub(in super::super::super) fn matching(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
    ) -> Result<u64, Problem> {
        let mut seen = Where::seen(source)?;
        seen.passing(conditions)?;
        let mut query =
            self.prepare(&format!("SELECT count(*) FROM records WHERE {}", seen.text))?;
        let count: i64 =
            query.query_row(params_from_iter(&seen.values), |row| row.get(0)).map_err(problem)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// One field of every such record, in no order. A field that the caller may not see is one that
    /// no record has. Nothing is copied out of the database's own memory.
    pub(in super::super::super) fn values(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
        field: &str,
        take: Take<'_>,
    ) -> Result<(), Problem> {
        let mut seen = Where::seen(source)?;
        seen.passing(conditions)?;
        let shown = source.sight.fields().is_none_or(|fields| fields.contains(field));
        let mut query =
            self.prepare(&format!("SELECT id, body FROM records WHERE {}", seen.text))?;
        let mut rows = query.query(params_from_iter(&seen.values)).map_err(problem)?;
        while let Some(row) = rows.next().map_err(problem)? {
            let body = row.get_ref(1).map_err(problem)?.as_blob().map_err(|_| Problem::Corrupt)?;
            let entry = if shown {
                RecordBody::new(body).field(field).map_err(|_| Problem::Corrupt)?
            } else {
                None
            };
            if !take(row.get(0).map_err(problem)?, entry)? {
                break;
            }
        }
        Ok(())
    }
}
