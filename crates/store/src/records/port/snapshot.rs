//! [`Snapshot`]: the questions about one moment of the database.

use std::collections::HashMap;

use stile_domain::records::blob::BlobId;
use stile_domain::records::filter::Condition;
use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{ChangeRange, SyncPoint};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::BodyField;
use stile_domain::records::tokenizer::SearchTerm;

use super::field_values::ReadFieldValues;
use crate::records::model::{GrantRow, RecordRow, RecordSource, Scan, StoredState, StreamRow};

/// Takes the number of a record, with the fields that were asked for, as far as the record has
/// them. Returns whether to continue.
pub(in crate::records) type TakeFields<'t> =
    &'t mut dyn FnMut(i64, &[Option<BodyField<'_>>]) -> Result<bool, Problem>;

/// Takes the number and the granted fields of a record.
pub(in crate::records) type TakeBytes<'t> = &'t mut dyn FnMut(i64, Vec<u8>);

/// Takes the index of a key and a state of the record with the key.
pub(in crate::records) type TakeState<'t> =
    &'t mut dyn FnMut(usize, StoredState) -> Result<(), Problem>;

/// Takes one piece of a text. Returns whether to continue.
pub(in crate::records) type TakeText<'t> = &'t mut dyn FnMut(&str) -> Result<bool, Problem>;

/// Questions about grants, streams and their searchable fields.
pub(in crate::records) trait ReadStreams {
    /// Returns one grant.
    fn grant(&self, id: &str) -> Result<Option<GrantRow>, Problem>;

    /// Returns all grants, ordered by identifier.
    fn grants(&self) -> Result<Vec<GrantRow>, Problem>;

    /// Returns the streams of one name, or all streams.
    fn streams(&self, name: Option<&str>) -> Result<Vec<StreamRow>, Problem>;

    /// Returns the tags of a stream's fields, even of fields that are no longer searchable.
    fn tags(&self, source: &RecordSource) -> Result<HashMap<String, i64>, Problem>;
}

/// Questions about single records and their texts.
pub(in crate::records) trait ReadRecords {
    /// Counts the visible records, and returns when the latest of them was first ingested.
    fn count(&self, source: &RecordSource) -> Result<(u64, Option<Instant>), Problem>;

    /// Finds the visible record with a key.
    fn find_by_key(&self, source: &RecordSource, key: &str) -> Result<Option<RecordRow>, Problem>;

    /// Finds a visible record by number.
    fn find_by_number(
        &self,
        source: &RecordSource,
        record: i64,
    ) -> Result<Option<RecordRow>, Problem>;

    /// Finds a record of a source by number, if the caller may see its time and the conditions
    /// hold. Does not check the key.
    fn find_in_time(
        &self,
        source: &RecordSource,
        record: i64,
        conditions: &[Condition],
    ) -> Result<Option<RecordRow>, Problem>;

    /// Finds a visible record of a source by number, if the conditions hold.
    fn find_with_conditions(
        &self,
        source: &RecordSource,
        record: i64,
        conditions: &[Condition],
    ) -> Result<Option<RecordRow>, Problem> {
        let row = self.find_in_time(source, record, conditions)?;
        let sees =
            |row: &RecordRow| source.visibility.keys().is_none_or(|keys| keys.contains(&row.key));
        Ok(row.filter(sees))
    }

    /// Returns all records of these sources after a number, hidden ones too, in the order of their
    /// numbers.
    fn in_ingest_order(
        &self,
        sources: &[RecordSource],
        after: i64,
        limit: usize,
    ) -> Result<Vec<RecordRow>, Problem>;

    /// Finds the visible records with some keys.
    fn find_by_keys(
        &self,
        source: &RecordSource,
        keys: &[String],
    ) -> Result<Vec<RecordRow>, Problem> {
        let rows = keys.iter().map(|key| self.find_by_key(source, key));
        rows.filter_map(Result::transpose).collect()
    }

    /// Returns the granted fields of a record that was found through the same source.
    fn body(&self, source: &RecordSource, record: i64) -> Result<Vec<u8>, Problem>;

    /// Passes the numbers and the granted fields of some records to `take`, in no particular order.
    /// Each record was found through the source beside it.
    fn bodies(&self, records: &[(&RecordSource, i64)], take: TakeBytes<'_>) -> Result<(), Problem> {
        records.iter().try_for_each(|(source, record)| {
            take(*record, self.body(source, *record)?);
            Ok(())
        })
    }

    /// Passes one piece of a long value to `take`.
    fn piece(&self, number: i64, take: &mut dyn FnMut(&str)) -> Result<(), Problem>;

    /// Passes the numbers and the texts of some pieces to `take`, in no particular order.
    fn some_pieces(&self, numbers: &[i64], take: &mut dyn FnMut(i64, &str)) -> Result<(), Problem> {
        numbers.iter().try_for_each(|number| self.piece(*number, &mut |text| take(*number, text)))
    }

    /// Passes the pieces with these numbers to `take`, in order, until it returns `false`.
    fn pieces(&self, first: i64, last: i64, take: TakeText<'_>) -> Result<(), Problem>;
}

/// The records that a scan found before it stopped.
pub(in crate::records) struct ScannedPart {
    pub(in crate::records) rows: Vec<RecordRow>,
    /// The record after which the scan continues. `None` if it has found enough, or no record
    /// follows.
    pub(in crate::records) stopped_after: Option<RecordRow>,
}

/// Questions about the records of a source in the order of lists.
pub(in crate::records) trait ReadLists {
    /// Returns the next records of a source in the order of lists: `limit` of them, or more if they
    /// come at no cost. Fewer than `limit` means that no more follow.
    fn scan(&self, source: &RecordSource, scan: &Scan<'_>) -> Result<Vec<RecordRow>, Problem>;

    /// Scans as [`ReadLists::scan`] does, and stops after about `most` records of the source.
    fn scan_some(
        &self,
        source: &RecordSource,
        scan: &Scan<'_>,
        most: usize,
    ) -> Result<ScannedPart, Problem>;
}

/// Questions about all records of a source, and some fields of each.
pub(in crate::records) trait ReadFields {
    /// Counts the visible records of which the conditions hold. Reads no body without a condition.
    fn count_matching(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
    ) -> Result<u64, Problem>;

    /// Passes some fields of each such record to `take`, in no particular order of the records. No
    /// record has a field that the caller may not see.
    fn field_values(
        &self,
        source: &RecordSource,
        conditions: &[Condition],
        fields: &[&str],
        take: TakeFields<'_>,
    ) -> Result<(), Problem>;
}

/// Questions of a search.
pub(in crate::records) trait ReadIndex {
    /// Returns the newest record of all streams that is not newer than `target`, and its stream.
    fn newest_record(&self, target: i64) -> Result<Option<(i64, i64)>, Problem>;

    /// Returns the stream of a record, hidden or not.
    fn stream_of(&self, record: i64) -> Result<Option<i64>, Problem>;

    /// Returns records with the numbers of their streams, hidden ones too.
    fn rows_of(&self, records: &[i64]) -> Result<Vec<(i64, RecordRow)>, Problem>;

    /// Returns the numbers of the visible records of a source, in order. `None` if there are more
    /// than `limit`.
    fn visible_records(
        &self,
        source: &RecordSource,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem>;

    /// Returns the numbers of the visible records of a source without an order key, in order.
    /// `None` if there are more than `limit`.
    fn unordered_records(
        &self,
        source: &RecordSource,
        limit: i64,
    ) -> Result<Option<Vec<i64>>, Problem>;

    /// Returns the pieces in which a term begins, in the fields with these tags: at most `limit`,
    /// from the number `last` down. Fewer than `limit` means that no more follow.
    fn indexed_pieces(
        &self,
        term: &SearchTerm,
        tags: &[i64],
        last: i64,
        limit: i64,
    ) -> Result<Vec<i64>, Problem>;

    /// Returns the first piece with a term, among the pieces of one value of a record.
    fn first_piece(
        &self,
        term: &SearchTerm,
        tag: i64,
        first: i64,
        last: i64,
    ) -> Result<Option<i64>, Problem>;
}

/// Questions about the log of changes.
pub(in crate::records) trait ReadChanges {
    /// Returns the numbers of the last change and the last record of this history.
    fn sync_point(&self, at: Instant) -> Result<SyncPoint, Problem>;

    /// Returns the time since which the log is complete.
    fn log_start(&self) -> Result<Instant, Problem>;

    /// Returns keys of a source that may have changed in a session, in order: keys with a line,
    /// whose change the caller perhaps cannot see, and keys of new visible records.
    fn changed_keys(
        &self,
        source: &RecordSource,
        session: &ChangeRange,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, Problem>;

    /// Passes the states of a key after a sync point to `take`, the oldest first and the present
    /// one last.
    fn states(
        &self,
        source: &RecordSource,
        key: &str,
        since: &SyncPoint,
        take: &mut dyn FnMut(StoredState) -> Result<(), Problem>,
    ) -> Result<(), Problem>;

    /// Passes the states of some keys to `take`, key by key in the given order, which is ascending.
    fn states_of_keys(
        &self,
        source: &RecordSource,
        keys: &[String],
        since: &SyncPoint,
        take: TakeState<'_>,
    ) -> Result<(), Problem> {
        keys.iter()
            .enumerate()
            .try_for_each(|(at, key)| self.states(source, key, since, &mut |state| take(at, state)))
    }
}

/// Questions about blobs.
pub(in crate::records) trait ReadBlobs {
    /// Returns the media type of a blob that comes next after `after`, among the types that visible
    /// records give in visible fields.
    fn media_type(
        &self,
        source: &RecordSource,
        id: &BlobId,
        after: Option<&str>,
    ) -> Result<Option<String>, Problem>;

    /// Returns the number and the size of a stored blob.
    fn blob(&self, id: &BlobId) -> Result<Option<(i64, u64)>, Problem>;

    /// Passes one piece of a blob to `take`.
    fn blob_piece(&self, blob: i64, piece: u64, take: &mut dyn FnMut(&[u8]))
    -> Result<(), Problem>;

    /// Returns whether a field of a record names a blob.
    fn names_blobs(&self, record: i64, field: &str) -> Result<bool, Problem>;

    /// Returns all blobs that the fields of a record name, in order.
    fn blobs_of(&self, record: i64) -> Result<Vec<BlobId>, Problem>;
}

/// One moment of the database.
///
/// A question about records takes a source, and the answer has only what the caller may see of the
/// source, unless the method says otherwise. A function that takes rows may ask further questions.
pub(in crate::records) trait Snapshot:
    ReadStreams
    + ReadRecords
    + ReadLists
    + ReadFields
    + ReadFieldValues
    + ReadIndex
    + ReadChanges
    + ReadBlobs
{
}

impl<S> Snapshot for S where
    S: ReadStreams
        + ReadRecords
        + ReadLists
        + ReadFields
        + ReadFieldValues
        + ReadIndex
        + ReadChanges
        + ReadBlobs
{
}
