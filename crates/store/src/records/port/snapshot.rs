//! [`Snapshot`]: the questions about one moment of the database.

use stile_domain::records::blob::BlobId;
use stile_domain::records::filter::Condition;
use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{ChangeRange, SyncPoint};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::BodyField;
use stile_domain::records::tokenizer::SearchTerm;

use super::field_values::ReadFieldValues;
use crate::records::model::{RecordRow, RecordSource, Scan};
use crate::records::rows::{
    BlobRows, ChangeRows, FieldRunRows, GrantRows, ListRows, PieceRows, RecordRows, StreamRows,
};

/// Takes the number of a record, with the fields that were asked for, as far as the record has
/// them. Returns whether to continue.
pub(in crate::records) type TakeFields<'t> =
    &'t mut dyn FnMut(i64, &[Option<BodyField<'_>>]) -> Result<bool, Problem>;

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

/// A term of a search, with the tags of the fields in which it counts.
pub(in crate::records) struct TaggedTerm<'q> {
    pub(in crate::records) term: &'q SearchTerm,
    pub(in crate::records) tags: Vec<i64>,
}

/// The pieces of one value of a record, and a term that is looked for in them.
pub(in crate::records) struct PieceQuery<'q> {
    pub(in crate::records) term: &'q SearchTerm,
    pub(in crate::records) tag: i64,
    pub(in crate::records) first: i64,
    pub(in crate::records) last: i64,
}

/// How an engine answers from its index of words.
pub(in crate::records) enum IndexAccess<'s> {
    /// It gives the list of a term part by part, at little cost for each.
    Lists(&'s dyn IndexLists),
    /// It answers a whole query, since each statement costs a round trip.
    Whole(&'s dyn IndexMatches),
}

/// Questions of a search.
pub(in crate::records) trait ReadIndex {
    /// Returns how the index answers.
    fn access(&self) -> IndexAccess<'_>;

    /// Returns for each value of a record the first piece with the term.
    fn first_pieces(&self, wanted: &[PieceQuery<'_>]) -> Result<Vec<Option<i64>>, Problem>;
}

/// An index that gives lists of terms.
pub(in crate::records) trait IndexLists {
    /// Returns the pieces in which a term begins, in the fields with these tags: at most `limit`,
    /// from the number `last` down. Fewer than `limit` means that no more follow.
    fn indexed_pieces(
        &self,
        term: &SearchTerm,
        tags: &[i64],
        last: i64,
        limit: i64,
    ) -> Result<Vec<i64>, Problem>;
}

/// An index that answers whole queries.
pub(in crate::records) trait IndexMatches {
    /// Returns what reads the records that have all required terms and none of the excluded ones.
    fn matches<'s>(
        &'s self,
        required: &[TaggedTerm<'s>],
        excluded: &[TaggedTerm<'s>],
    ) -> Box<dyn MatchReader + 's>;
}

/// Reads the records that match a query, hidden ones too.
pub(in crate::records) trait MatchReader {
    /// Returns matches that are not newer than `target`, the newest first: all of them, or those
    /// that are newer than `rest`. Each target is at most the `rest` of the answer before.
    fn next(&mut self, target: i64) -> Result<MatchedPart, Problem>;

    /// Returns those of some records that match. Both are sorted.
    fn among(&mut self, records: &[i64]) -> Result<Vec<i64>, Problem>;
}

/// Some matches of a query.
pub(in crate::records) struct MatchedPart {
    pub(in crate::records) records: Vec<i64>,
    /// The newest record that was not looked at. `None` if there is none.
    pub(in crate::records) rest: Option<i64>,
}

/// Questions about the log of changes.
pub(in crate::records) trait ReadChanges {
    /// Returns the numbers of the last change and the last record of this history.
    fn sync_point(&self, at: Instant) -> Result<SyncPoint, Problem>;

    /// Returns keys of a source that may have changed in a session, in order: keys with a line,
    /// whose change the caller perhaps cannot see, and keys of new visible records.
    fn changed_keys(
        &self,
        source: &RecordSource,
        session: &ChangeRange,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, Problem>;
}

/// Questions about the uses of blobs.
pub(in crate::records) trait ReadBlobUses {
    /// Returns the media type of a blob that comes next after `after`, among the types that visible
    /// records give in visible fields.
    fn media_type(
        &self,
        source: &RecordSource,
        id: &BlobId,
        after: Option<&str>,
    ) -> Result<Option<String>, Problem>;
}

/// One moment of the database.
///
/// A question about records takes a source, and the answer has only what the caller may see of the
/// source, unless the method says otherwise. A function that takes rows may ask further questions.
pub(in crate::records) trait Snapshot:
    ReadLists
    + ReadFields
    + ReadFieldValues
    + ReadIndex
    + ReadChanges
    + ReadBlobUses
    + StreamRows
    + RecordRows
    + ListRows
    + PieceRows
    + FieldRunRows
    + ChangeRows
    + BlobRows
    + GrantRows
{
}

impl<S> Snapshot for S where
    S: ReadLists
        + ReadFields
        + ReadFieldValues
        + ReadIndex
        + ReadChanges
        + ReadBlobUses
        + StreamRows
        + RecordRows
        + ListRows
        + PieceRows
        + FieldRunRows
        + ChangeRows
        + BlobRows
        + GrantRows
{
}
