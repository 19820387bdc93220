//! [`RowWriter`]: the rows that one transaction writes, and what a write must know of them.

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::field_values::WriteFieldValues;
use crate::records::rows::{
    WriteBlobRows, WriteChangeRows, WriteFieldRunRows, WriteGrantRows, WriteRecordRows,
    WriteStreamRows,
};
use crate::records::tagged_tokens::TaggedTokens;

/// A record that is about to be inserted.
pub(in crate::records) struct NewRecord<'a> {
    pub(in crate::records) stream: i64,
    pub(in crate::records) key: &'a str,
    pub(in crate::records) emitted: Instant,
    pub(in crate::records) state: RecordContent<'a>,
}

/// What changes when a record is replaced.
#[derive(Clone, Copy)]
pub(in crate::records) struct RecordContent<'a> {
    pub(in crate::records) order_key: Option<&'a [u8]>,
    /// The time of the record, in microseconds since 1970.
    pub(in crate::records) happened: Option<i64>,
    pub(in crate::records) body: &'a [u8],
}

impl<'a> RecordContent<'a> {
    /// Makes the content of a record with a body. What else a row has of the body is added here.
    pub(in crate::records) fn new(
        order_key: Option<&'a [u8]>,
        happened: Option<i64>,
        body: &'a [u8],
    ) -> Self {
        Self { order_key, happened, body }
    }
}

/// A field of a record that names a blob.
pub(in crate::records) struct NewBlobUse<'a> {
    pub(in crate::records) digest: &'a [u8; 32],
    pub(in crate::records) media_type: &'a str,
    pub(in crate::records) record: i64,
    pub(in crate::records) field: &'a str,
}

/// A transaction that writes rows, all or nothing. After a failed write it must be abandoned.
pub(in crate::records) trait RowWriter:
    WriteFieldValues
    + WriteStreamRows
    + WriteRecordRows
    + WriteFieldRunRows
    + WriteChangeRows
    + WriteBlobRows
    + WriteGrantRows
{
    /// Begins a step, which can be undone alone. Steps do not nest.
    fn begin_step(&self) -> Result<(), Problem>;
    /// Ends the step and keeps what it wrote.
    fn keep_step(&self) -> Result<(), Problem>;
    /// Ends the step and undoes what it wrote.
    fn undo_step(&self) -> Result<(), Problem>;

    /// Returns the number and the body of the record with a key.
    fn record_by_key(&self, stream: i64, key: &str) -> Result<Option<(i64, Vec<u8>)>, Problem>;
    /// Returns whether a record has this key.
    fn contains_key(&self, stream: i64, key: &str) -> Result<bool, Problem>;
    /// Inserts a record and returns its number, the greatest of all so far.
    fn insert_record(&self, record: &NewRecord<'_>) -> Result<i64, Problem>;
    /// Inserts a record, unless the stream has one with this key, which may use up a number.
    fn insert_if_new(&self, record: &NewRecord<'_>) -> Result<Option<i64>, Problem> {
        if self.contains_key(record.stream, record.key)? {
            return Ok(None);
        }
        self.insert_record(record).map(Some)
    }
    /// Replaces the state of a record.
    fn update_record(&self, record: i64, state: &RecordContent<'_>) -> Result<(), Problem>;
    /// Deletes the row of a record alone.
    fn delete_record(&self, record: i64) -> Result<(), Problem>;
    /// Returns the whole body of a record.
    fn body(&self, record: i64) -> Result<Vec<u8>, Problem>;
    /// Inserts a piece of a long value.
    fn insert_piece(&self, number: i64, text: &str) -> Result<(), Problem>;
    /// Deletes a piece.
    fn delete_piece(&self, number: i64) -> Result<(), Problem>;
    /// Returns the text of a piece.
    fn piece_text(&self, number: i64) -> Result<String, Problem>;
    /// Inserts the tokens of a piece, or those of all short texts of a record, under the number of
    /// the first of them.
    fn insert_tokens(&self, number: i64, tokens: &TaggedTokens) -> Result<(), Problem>;
    /// Deletes the tokens under the number of a piece, if there are any.
    fn delete_tokens(&self, number: i64) -> Result<(), Problem>;

    /// Adds a line to the log of changes: the body that a record had, in digested form.
    fn insert_change(&self, record: i64, at: Instant, body: &[u8]) -> Result<(), Problem>;
    /// Notes that lines before `oldest` may be gone. Begins another history if lines up to a time
    /// after `newest` were noted as gone, which happens if the clock was set back.
    fn note_forgotten(&self, oldest: Instant, newest: Instant) -> Result<(), Problem>;

    /// Adds a use of a blob, unless there is the same already.
    fn add_blob_use(&self, new: &NewBlobUse<'_>) -> Result<(), Problem>;
    /// Returns whether a record is known to use no blob. `false` if nobody has looked.
    fn uses_no_blob(&self, _record: i64) -> bool {
        false
    }
}
