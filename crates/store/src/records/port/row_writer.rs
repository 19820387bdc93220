//! [`RowWriter`]: the rows that one transaction writes, and what a write must know of them.

use std::collections::HashMap;

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::field_values::WriteFieldValues;
use crate::records::tagged_tokens::TaggedTokens;

/// A stream as it was declared.
pub(in crate::records) struct StreamDeclaration {
    pub(in crate::records) id: i64,
    /// The owner's declaration, as JSON.
    pub(in crate::records) declaration: String,
    /// The indexed fields, as JSON.
    pub(in crate::records) indexed: String,
}

/// A record that is about to be inserted.
pub(in crate::records) struct NewRecord<'a> {
    pub(in crate::records) stream: i64,
    pub(in crate::records) key: &'a str,
    pub(in crate::records) emitted: Instant,
    pub(in crate::records) order_key: Option<&'a [u8]>,
    /// The time of the record, in microseconds since 1970.
    pub(in crate::records) happened: Option<i64>,
    pub(in crate::records) body: &'a [u8],
}

/// A field of a record that names a blob.
pub(in crate::records) struct NewBlobUse<'a> {
    pub(in crate::records) digest: &'a [u8; 32],
    pub(in crate::records) media_type: &'a str,
    pub(in crate::records) record: i64,
    pub(in crate::records) field: &'a str,
}

/// A blob that was stored long ago.
pub(in crate::records) struct OldBlob {
    pub(in crate::records) blob: i64,
    pub(in crate::records) digest: [u8; 32],
    pub(in crate::records) bytes: i64,
}

/// A transaction that writes rows, all or nothing. After a failed write it must be abandoned.
pub(in crate::records) trait RowWriter: WriteFieldValues {
    /// Begins a step, which can be undone alone. Steps do not nest.
    fn begin_step(&self) -> Result<(), Problem>;
    /// Ends the step and keeps what it wrote.
    fn keep_step(&self) -> Result<(), Problem>;
    /// Ends the step and undoes what it wrote.
    fn undo_step(&self) -> Result<(), Problem>;

    /// Finds the stream of a connection.
    fn stream(&self, connection: &str, stream: &str) -> Result<Option<StreamDeclaration>, Problem>;
    /// Inserts a stream, and its connection if that is new. Returns the number of the stream.
    fn insert_stream(
        &self,
        connection: &str,
        stream: &str,
        declaration: &str,
        indexed: &str,
    ) -> Result<i64, Problem>;
    /// Replaces the declaration of a stream and counts the change.
    fn update_stream(&self, stream: i64, declaration: &str, indexed: &str) -> Result<(), Problem>;
    /// Gives a field of a stream a tag, unless the field has one.
    fn add_tag(&self, stream: i64, field: &str) -> Result<(), Problem>;
    /// Returns the tags of a stream's fields.
    fn tags(&self, stream: i64) -> Result<HashMap<String, i64>, Problem>;

    /// Returns the number and the body of the record with a key.
    fn record_by_key(&self, stream: i64, key: &str) -> Result<Option<(i64, Vec<u8>)>, Problem>;
    /// Returns whether a record has this key.
    fn contains_key(&self, stream: i64, key: &str) -> Result<bool, Problem>;
    /// Returns whether the stream has a record.
    fn has_records(&self, stream: i64) -> Result<bool, Problem>;
    /// Inserts a record and returns its number, the greatest of all so far.
    fn insert_record(&self, record: &NewRecord<'_>) -> Result<i64, Problem>;
    /// Inserts a record, unless the stream has one with this key, which may use up a number.
    fn insert_if_new(&self, record: &NewRecord<'_>) -> Result<Option<i64>, Problem> {
        if self.contains_key(record.stream, record.key)? {
            return Ok(None);
        }
        self.insert_record(record).map(Some)
    }
    /// Replaces the order key, the time and the body of a record.
    fn update_record(
        &self,
        record: i64,
        order_key: Option<&[u8]>,
        happened: Option<i64>,
        body: &[u8],
    ) -> Result<(), Problem>;
    /// Deletes the row of a record alone.
    fn delete_record(&self, record: i64) -> Result<(), Problem>;
    /// Returns the whole body of a record.
    fn body(&self, record: i64) -> Result<Vec<u8>, Problem>;
    /// Returns the last record of a stream.
    fn last_record(&self, stream: i64) -> Result<Option<i64>, Problem>;
    /// Returns some records of a stream, none of them newer than `last`.
    fn records_up_to(&self, stream: i64, last: i64, limit: i64) -> Result<Vec<i64>, Problem>;
    /// Returns the numbers and keys of the next records after a key, in the order of keys. An empty
    /// key is before all others.
    fn keys_after(
        &self,
        stream: i64,
        after: &[u8],
        limit: i64,
    ) -> Result<Vec<(i64, Vec<u8>)>, Problem>;

    /// Inserts a piece of a long value.
    fn insert_piece(&self, number: i64, text: &str) -> Result<(), Problem>;
    /// Gives a piece another number.
    fn renumber_piece(&self, from: i64, to: i64) -> Result<(), Problem>;
    /// Deletes a piece.
    fn delete_piece(&self, number: i64) -> Result<(), Problem>;
    /// Returns the text of a piece.
    fn piece_text(&self, number: i64) -> Result<String, Problem>;
    /// Returns whether all short texts of a record share one row of tokens, under the number of the
    /// first of them, because rows are expensive. Otherwise each has its own.
    fn shares_token_rows(&self) -> bool;
    /// Inserts the tokens of a piece, or those of short texts that share a row.
    fn insert_tokens(&self, number: i64, tokens: &TaggedTokens) -> Result<(), Problem>;
    /// Deletes the tokens under the number of a piece, if there are any.
    fn delete_tokens(&self, number: i64) -> Result<(), Problem>;

    /// Adds a line to the log of changes: the body that a record had, in digested form.
    fn insert_change(&self, record: i64, at: Instant, body: &[u8]) -> Result<(), Problem>;
    /// Notes that lines before `oldest` may be gone. Begins another history if lines up to a time
    /// after `newest` were noted as gone, which happens if the clock was set back.
    fn note_forgotten(&self, oldest: Instant, newest: Instant) -> Result<(), Problem>;
    /// Deletes some lines from before a time.
    fn delete_changes(&self, before: Instant, limit: i64) -> Result<(), Problem>;

    /// Returns a number for the next blob.
    fn next_blob(&self) -> Result<i64, Problem>;
    /// Returns the number of the blob with a digest.
    fn blob(&self, digest: &[u8; 32]) -> Result<Option<i64>, Problem>;
    /// Inserts a blob.
    fn insert_blob(&self, blob: i64, digest: &[u8; 32], bytes: u64) -> Result<(), Problem>;
    /// Inserts one piece of a blob.
    fn insert_blob_piece(&self, number: i64, bytes: &[u8]) -> Result<(), Problem>;
    /// Deletes the pieces with the numbers from `first` up to but not including `end`.
    fn delete_blob_pieces(&self, first: i64, end: i64) -> Result<(), Problem>;
    /// Deletes the row of a blob alone.
    fn delete_blob(&self, blob: i64) -> Result<(), Problem>;
    /// Sets when a blob was last put. `None` means long ago.
    fn set_blob_put(&self, blob: i64, put: Option<Instant>) -> Result<(), Problem>;
    /// Adds a use of a blob, unless there is the same already.
    fn add_blob_use(&self, new: &NewBlobUse<'_>) -> Result<(), Problem>;
    /// Deletes all uses by a record.
    fn delete_blob_uses(&self, record: i64) -> Result<(), Problem>;
    /// Returns the digests of the blobs that a record uses.
    fn blobs_used_by(&self, record: i64) -> Result<Vec<[u8; 32]>, Problem>;
    /// Returns whether any record uses a blob.
    fn is_blob_used(&self, digest: &[u8; 32]) -> Result<bool, Problem>;
    /// Returns the number of the blob with a digest, if it was put at a time, before, or long ago.
    fn blob_put_by(&self, digest: &[u8; 32], put: Instant) -> Result<Option<i64>, Problem>;
    /// Sets the time of some blobs that were put after `latest` to `now`.
    fn correct_blob_times(&self, latest: Instant, now: Instant, limit: i64) -> Result<(), Problem>;
    /// Returns some blobs that were put at a time or before, the oldest first.
    fn old_blobs(&self, put: Instant, limit: i64) -> Result<Vec<OldBlob>, Problem>;

    /// Inserts a grant.
    fn insert_grant(&self, id: &str, json: &str) -> Result<(), Problem>;
    /// Binds a grant to a token, unless it is bound.
    fn bind_grant(&self, id: &str, token: &str) -> Result<(), Problem>;
    /// Revokes a grant. Returns `None` for an unknown one, and the time of an earlier revocation.
    fn revoke_grant(&self, id: &str, now: Instant) -> Result<Option<Option<Instant>>, Problem>;
}
