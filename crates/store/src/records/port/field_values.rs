//! [`ReadFieldValues`] and [`WriteFieldValues`]: the index by value, which names records that may
//! fulfil conditions.

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::value_key::KeyRange;

use crate::records::field_index::{FieldIndex, FieldRuns, FieldValueRow};
use crate::records::model::{RecordRow, RecordSource};

/// Takes the number and the body of a record.
pub(in crate::records) type TakeRecord<'t> = &'t mut dyn FnMut(i64, &[u8]);

/// Questions about the index by value.
pub(in crate::records) trait ReadFieldValues {
    /// Returns the index of a stream. `None` if no writer has made one.
    fn field_runs(&self, source: &RecordSource) -> Result<Option<FieldRuns>, Problem>;

    /// Returns the records in some runs that have a value in one of these ranges, hidden ones too,
    /// in no particular order. `None` if there are more than `limit`.
    fn records_with_values(
        &self,
        runs: &[i64],
        field: i64,
        ranges: &[KeyRange],
        limit: usize,
    ) -> Result<Option<Vec<i64>>, Problem>;

    /// Returns the visible ones of some records of a source, if the conditions hold.
    fn visible_among(
        &self,
        source: &RecordSource,
        records: &[i64],
        conditions: &[Condition],
    ) -> Result<Vec<RecordRow>, Problem>;

    /// Returns the visible records of a source after a number, if the conditions hold.
    fn visible_after(
        &self,
        source: &RecordSource,
        after: i64,
        conditions: &[Condition],
    ) -> Result<Vec<RecordRow>, Problem>;
}

/// The rows of the index by value.
pub(in crate::records) trait WriteFieldValues {
    /// Returns the state of the index of a stream.
    fn field_index(&self, stream: i64) -> Result<Option<FieldIndex>, Problem>;
    /// Inserts or replaces the state of the index of a stream.
    fn put_field_index(&self, stream: i64, index: &FieldIndex) -> Result<(), Problem>;
    /// Returns a stream whose index has no state, or a tail of at least `tail` records.
    fn stream_behind(&self, tail: i64) -> Result<Option<i64>, Problem>;
    /// Returns the declaration of a stream.
    fn declaration(&self, stream: i64) -> Result<String, Problem>;
    /// Counts the records of a stream after a number.
    fn count_after(&self, stream: i64, after: i64) -> Result<i64, Problem>;
    /// Passes the numbers and bodies of the next records of a stream after a number to `take`, in
    /// order.
    fn bodies_after(
        &self,
        stream: i64,
        after: i64,
        limit: u32,
        take: TakeRecord<'_>,
    ) -> Result<(), Problem>;

    /// Returns the runs of a stream, in order, each with the number of its records.
    fn runs(&self, stream: i64) -> Result<Vec<(i64, i64)>, Problem>;
    /// Inserts a run, or sets the number of its records. Deletes the run if that is zero.
    fn set_run(&self, stream: i64, run: i64, records: i64) -> Result<(), Problem>;
    /// Deletes all runs of a stream with their rows.
    fn delete_runs(&self, stream: i64) -> Result<(), Problem>;
    /// Inserts rows that are sorted and new.
    fn insert_field_values(&self, rows: &[FieldValueRow]) -> Result<(), Problem>;
    /// Returns the rows of some runs and fields.
    fn field_value_rows(&self, fields: &[(i64, i64)]) -> Result<Vec<FieldValueRow>, Problem>;
    /// Inserts or replaces rows. Deletes a row that is left with no entry.
    fn put_field_values(&self, rows: &[FieldValueRow]) -> Result<(), Problem>;
}
