//! One moment of the database, as one caller may see it.
//!
//! Here a grant becomes conditions of queries. A [`RecordSource`] is one connection's stream together
//! with what the caller may see of it; every question to the engine carries one, and there is no
//! other way to a record. Where a field is not granted the order of a list does not depend on it,
//! and where a record is hidden it does not exist.

mod blobs;
mod changes;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use stile_domain::records::filter::Condition;
use stile_domain::records::find::{Needle, NeedleFinder};
use stile_domain::records::grant::{Grant, StreamGrant, TimeConstraint};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::instant::Instant;
use stile_domain::records::pieces::{self, CharRange, PIECE_CHARS};
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::sealed_cursor::{Binding, ListCursor};
use stile_domain::records::stored_body::{BodyField, LongValue, RecordBody};

pub use blobs::Blob;
pub use changes::RecordChange;

use super::seal::Seals;
use super::sqlite::{Range, Scan, Snapshot};

mod values;

/// What a caller may see.
pub(super) enum Authority {
    /// Everything.
    Owner,
    /// What a grant names.
    Client { id: String, grant: Arc<Grant> },
}

/// One moment of the database, as one caller may see it.
pub struct RecordsView<'c> {
    pub(super) snapshot: Snapshot<'c>,
    authority: Authority,
    seals: &'c Seals,
    now: Instant,
}

/// One connection's stream, and what the caller may see of it.
#[derive(Clone, Debug)]
pub struct RecordSource {
    pub(super) row: i64,
    connection: SourceName,
    stream: SourceName,
    declaration: Arc<str>,
    revision: i64,
    pub(super) terms: Arc<IndexedFields>,
    pub(super) sight: Sight,
}

/// What a caller may see of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    /// What a grant names of it; none means all.
    share: Option<ShareOf>,
    /// These times.
    pub(super) time: Option<Time>,
}

/// One stream of a grant, without a copy of it.
#[derive(Clone, Debug)]
struct ShareOf {
    grant: Arc<Grant>,
    at: usize,
}

impl Sight {
    fn share(&self) -> Option<&StreamGrant> {
        self.share.as_ref().and_then(|share| share.grant.streams.get(share.at))
    }

    /// The fields that may be seen; none means all.
    pub(super) fn fields(&self) -> Option<&BTreeSet<String>> {
        self.share().map(|share| &share.fields)
    }

    /// The keys that may be seen; none means all.
    pub(super) fn keys(&self) -> Option<&BTreeSet<String>> {
        self.share()?.keys.as_ref()
    }
}

/// A time constraint as a query takes it.
#[derive(Clone, Debug)]
pub(super) struct Time {
    /// The field, unless it is the one that each record's time is kept for.
    pub(super) field: Option<String>,
    pub(super) since: Option<Instant>,
    pub(super) until: Option<Instant>,
    /// Whether lists are ordered by the same time, so that hidden records need not be walked over.
    pub(super) orders: bool,
}

/// In which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// The least first.
    Ascending,
    /// The greatest first.
    Descending,
}

/// Which records of some sources.
#[derive(Clone, Copy, Debug)]
pub struct RecordQuery<'q> {
    /// In which direction.
    pub order: SortOrder,
    /// After which place.
    pub after: Option<&'q ListCursor>,
    /// Under which conditions, all on fields that the caller may see.
    pub conditions: &'q [Condition],
    /// At most how many.
    pub limit: usize,
}

/// Some records of a list.
#[derive(Debug)]
pub struct RecordPage {
    /// They.
    pub rows: Vec<RecordRow>,
    /// Whether there are more.
    pub has_more: bool,
}

/// A record that the caller may see, without its fields.
#[derive(Clone, Debug)]
pub struct RecordRow {
    pub(super) record: i64,
    /// Which of the sources it is from.
    pub source: usize,
    /// Its key.
    pub key: String,
    /// When it was first ingested.
    pub emitted: Instant,
    pub(super) order: Option<Vec<u8>>,
}

/// The fields of a record that the caller may see.
#[derive(Debug)]
pub struct LoadedRecord {
    record: i64,
    bytes: Vec<u8>,
}

/// A long value that the caller may see.
#[derive(Clone, Copy, Debug)]
pub struct LongValueRef {
    record: i64,
    slot: u16,
    /// Its size and digest.
    pub value: LongValue,
}

impl RecordRow {
    /// The record's number in the database. Numbers grow in the order of first ingest; a search
    /// cursor names one.
    pub fn number(&self) -> i64 {
        self.record
    }
}

impl RecordSource {
    /// The connection.
    pub fn connection(&self) -> &SourceName {
        &self.connection
    }

    /// The stream.
    pub fn stream(&self) -> &SourceName {
        &self.stream
    }

    /// What was declared of it, as JSON.
    pub fn declaration(&self) -> &Arc<str> {
        &self.declaration
    }

    /// The number that it has in places.
    pub fn id(&self) -> i64 {
        self.row
    }

    /// Names this declaration among all that the database ever had of this source.
    pub fn declaration_id(&self) -> (i64, i64) {
        (self.row, self.revision)
    }

    /// The fields that may be seen; none means all.
    pub fn fields(&self) -> Option<&BTreeSet<String>> {
        self.sight.fields()
    }

    /// The terms on which it is stored.
    pub fn terms(&self) -> &IndexedFields {
        &self.terms
    }

    /// The field that orders its lists, if it may be seen.
    pub fn ordered_by(&self) -> Option<&str> {
        let field = self.terms.cursor_field.as_deref()?;
        self.fields().is_none_or(|fields| fields.contains(field)).then_some(field)
    }
}

impl<'c> RecordsView<'c> {
    pub(super) fn new(
        snapshot: Snapshot<'c>,
        authority: Authority,
        seals: &'c Seals,
        now: Instant,
    ) -> Self {
        Self { snapshot, authority, seals, now }
    }

    /// When it is.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Who is looking, for binding a cursor to them: `owner` or the identifier of the grant.
    pub fn caller(&self) -> &str {
        match &self.authority {
            Authority::Owner => "owner",
            Authority::Client { id, .. } => id,
        }
    }

    /// The grant, where there is one.
    pub fn grant(&self) -> Option<&Grant> {
        match &self.authority {
            Authority::Owner => None,
            Authority::Client { grant, .. } => Some(grant),
        }
    }

    /// Every source, ordered by stream and connection.
    ///
    /// # Errors
    /// What the database says.
    pub fn sources(&self) -> Result<Vec<RecordSource>, Problem> {
        let mut sources = self.granted(self.snapshot.streams(None)?);
        sources.sort_by(|a, b| (&a.stream, &a.connection).cmp(&(&b.stream, &b.connection)));
        Ok(sources)
    }

    /// The sources of one stream, ordered by connection; there is at least one.
    ///
    /// # Errors
    /// [`Problem::StreamNotAllowed`] for a client, [`Problem::StreamNotFound`] for the owner.
    pub fn sources_of(
        &self,
        stream: &str,
        connection: Option<&str>,
    ) -> Result<Vec<RecordSource>, Problem> {
        let rows = self.snapshot.streams(Some(stream))?;
        let mut sources = self.granted(rows);
        sources.retain(|source| connection.is_none_or(|name| source.connection.as_str() == name));
        sources.sort_by(|a, b| a.connection.cmp(&b.connection));
        if sources.is_empty() {
            let (stream, connection) = (stream.to_owned(), connection.map(str::to_owned));
            return Err(match self.authority {
                Authority::Owner => Problem::StreamNotFound { stream, connection },
                Authority::Client { .. } => Problem::StreamNotAllowed { stream, connection },
            });
        }
        Ok(sources)
    }

    fn granted(&self, rows: Vec<super::sqlite::StreamRow>) -> Vec<RecordSource> {
        let sources = rows.into_iter().filter_map(|row| {
            let sight = match &self.authority {
                Authority::Owner => Sight::default(),
                Authority::Client { grant, .. } => {
                    let at = grant.streams.iter().position(|share| share.stream == row.stream)?;
                    let share = grant
                        .streams
                        .get(at)
                        .filter(|share| share.connections.contains(&row.connection))?;
                    let time =
                        share.time.as_ref().map(|time| Time::new(time, &row.terms, &share.fields));
                    Sight { share: Some(ShareOf { grant: Arc::clone(grant), at }), time }
                }
            };
            let super::sqlite::StreamRow { row, connection, stream, declaration, revision, terms } =
                row;
            Some(RecordSource { row, connection, stream, declaration, revision, terms, sight })
        });
        sources.collect()
    }

    /// How many records of a source the caller may see, and when the latest of them was first
    /// ingested.
    ///
    /// # Errors
    /// What the database says.
    pub fn count(&self, source: &RecordSource) -> Result<(u64, Option<Instant>), Problem> {
        self.snapshot.count(source)
    }

    /// One page of the records of some sources, in one order: by the value of the cursor field,
    /// then connection, then key; records without such a value come last in both directions, by
    /// connection and key.
    ///
    /// # Errors
    /// [`Problem::InvalidCursor`] where the place is of a record with a very long key that is gone,
    /// or the streams were ordered otherwise then; what the database says.
    pub fn list(
        &self,
        sources: &[RecordSource],
        query: RecordQuery<'_>,
    ) -> Result<RecordPage, Problem> {
        let wanted = query.limit.saturating_add(1);
        let after = query.after.map(|place| self.place(sources, place)).transpose()?;
        let mut rows = Vec::new();
        if after.as_ref().is_none_or(|after| after.order.is_some()) {
            self.gather(sources, query, Phase::Ordered, after.as_ref(), wanted, &mut rows)?;
        }
        if rows.len() < wanted {
            let after = after.as_ref().filter(|after| after.order.is_none());
            self.gather(sources, query, Phase::Unordered, after, wanted, &mut rows)?;
        }
        let has_more = rows.len() > query.limit;
        rows.truncate(query.limit);
        Ok(RecordPage { rows, has_more })
    }

    /// Adds the records of one phase, merged from all sources.
    fn gather(
        &self,
        sources: &[RecordSource],
        query: RecordQuery<'_>,
        phase: Phase,
        after: Option<&After>,
        wanted: usize,
        rows: &mut Vec<RecordRow>,
    ) -> Result<(), Problem> {
        let left = wanted - rows.len();
        let mut found = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            let by_order = source.ordered_by().is_some();
            let range = match phase {
                Phase::Ordered if !by_order => continue,
                Phase::Ordered => Range::Ordered,
                Phase::Unordered if by_order => Range::WithoutOrder,
                Phase::Unordered => Range::ByKey,
            };
            let after = match after.map(|after| after.for_source(at, query.order)) {
                None => None,
                Some(None) => continue,
                Some(Some(after)) => Some(after),
            };
            let scan = Scan {
                range,
                order: query.order,
                after,
                conditions: query.conditions,
                limit: left,
            };
            found.extend(
                self.snapshot
                    .scan(source, &scan)?
                    .into_iter()
                    .map(|row| RecordRow { source: at, ..row }),
            );
        }
        found.sort_by(|a, b| {
            let order =
                (&a.order, a.source, a.key.as_bytes()).cmp(&(&b.order, b.source, b.key.as_bytes()));
            if query.order == SortOrder::Descending { order.reverse() } else { order }
        });
        found.truncate(left);
        rows.append(&mut found);
        Ok(())
    }

    /// Where a cursor stands, with the whole key.
    fn place(&self, sources: &[RecordSource], place: &ListCursor) -> Result<After, Problem> {
        let stale = || Problem::InvalidCursor(CursorProblem::Stale);
        if place.ordering != ordering(sources) {
            return Err(stale());
        }
        let source =
            sources.iter().position(|source| source.row == place.stream).ok_or_else(stale)?;
        let key = if place.whole_key {
            String::from_utf8(place.key.clone()).map_err(|_| stale())?
        } else {
            // A client saw this record, so asking for it again tells nothing.
            let source = sources.get(source).ok_or_else(stale)?;
            let row = self.snapshot.find_by_number(source, place.record)?;
            row.filter(|row| row.key.as_bytes().starts_with(&place.key)).ok_or_else(stale)?.key
        };
        Ok(After { order: place.order.clone(), source, key })
    }

    /// The place after which a list goes on that ended with this record.
    pub fn position_of(&self, sources: &[RecordSource], row: &RecordRow) -> Option<ListCursor> {
        let source = sources.get(row.source)?;
        Some(ListCursor::new(
            ordering(sources),
            row.order.clone(),
            source.row,
            &row.key,
            row.record,
        ))
    }

    /// The records with this key, one a source at most.
    ///
    /// # Errors
    /// What the database says.
    pub fn find_by_key(
        &self,
        sources: &[RecordSource],
        key: &str,
    ) -> Result<Vec<RecordRow>, Problem> {
        let mut rows = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            rows.extend(
                self.snapshot.find(source, key)?.map(|row| RecordRow { source: at, ..row }),
            );
        }
        Ok(rows)
    }

    /// Records of some sources in the order in which they were first ingested, after one of them,
    /// for the owner alone: what was ingested before what says something of records that a grant
    /// hides.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`] for a client; what the database says.
    pub fn in_ingest_order(
        &self,
        sources: &[RecordSource],
        after: Option<&RecordRow>,
        limit: usize,
    ) -> Result<Vec<RecordRow>, Problem> {
        match self.authority {
            Authority::Owner => {
                self.snapshot.by_ingest(sources, after.map_or(0, |row| row.record), limit)
            }
            Authority::Client { .. } => {
                Err(Problem::InsufficientScope { message: "this is for the owner alone" })
            }
        }
    }

    /// The fields of a record that the caller may see.
    ///
    /// # Errors
    /// What the database says.
    pub fn load_fields(
        &self,
        sources: &[RecordSource],
        row: &RecordRow,
    ) -> Result<LoadedRecord, Problem> {
        let source = sources.get(row.source).ok_or(Problem::NotFound)?;
        let bytes = self.snapshot.body(source, row.record)?;
        Ok(LoadedRecord { record: row.record, bytes })
    }

    /// Some scalar values of a long value, from `start` up to but not including `end`. Reads the
    /// pieces that hold them and no other.
    ///
    /// # Errors
    /// What the database says.
    pub fn long_text(&self, value: LongValueRef, start: u64, end: u64) -> Result<String, Problem> {
        let end = end.min(value.value.chars);
        let mut text = String::new();
        if start >= end {
            return Ok(text);
        }
        for piece in start / PIECE_CHARS..=(end - 1) / PIECE_CHARS {
            let base = piece * PIECE_CHARS;
            self.snapshot.piece(value.number(piece)?, |held| {
                text.push_str(pieces::slice(held, start.saturating_sub(base), end - base));
            })?;
        }
        Ok(text)
    }

    /// All of a long value, piece by piece, until `take` says that it is enough.
    ///
    /// # Errors
    /// What the database says.
    pub fn long_pieces(
        &self,
        value: LongValueRef,
        mut take: impl FnMut(&str) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
        if value.value.chars == 0 {
            return Ok(());
        }
        let last = (value.value.chars - 1) / PIECE_CHARS;
        self.snapshot.pieces(value.number(0)?, value.number(last)?, &mut take)
    }

    /// The first place where a text occurs in a long value. Memory for one piece; stops at the
    /// place.
    ///
    /// # Errors
    /// What the database says.
    pub fn find_in_long(
        &self,
        value: LongValueRef,
        needle: &Needle,
    ) -> Result<Option<CharRange>, Problem> {
        let mut finder = NeedleFinder::new(needle);
        let mut found = None;
        self.long_pieces(value, |piece| {
            found = finder.feed(piece);
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// Makes a cursor.
    ///
    /// # Errors
    /// [`Problem::Internal`] where there is no randomness.
    pub fn seal(&self, plain: &[u8]) -> Result<String, Problem> {
        self.seals.seal(plain).map_err(|_| Problem::Internal { incident: crate::new_incident() })
    }

    /// Reads a cursor.
    ///
    /// # Errors
    /// [`CursorProblem::Malformed`].
    pub fn unseal(&self, cursor: &str) -> Result<Vec<u8>, Problem> {
        self.seals.open(cursor).ok_or(Problem::InvalidCursor(CursorProblem::Malformed))
    }
}

impl LoadedRecord {
    pub(super) fn new(record: i64, bytes: Vec<u8>) -> Self {
        Self { record, bytes }
    }

    /// The fields.
    pub fn body(&self) -> RecordBody<'_> {
        RecordBody::new(&self.bytes)
    }

    /// A long value of this record.
    pub fn long_value(&self, entry: &BodyField<'_>) -> Option<LongValueRef> {
        Some(LongValueRef { record: self.record, slot: entry.slot?, value: entry.value.long()? })
    }
}

impl LongValueRef {
    /// How many pieces it has.
    pub(super) fn count(&self) -> u64 {
        self.value.chars.div_ceil(PIECE_CHARS)
    }

    pub(super) fn number(&self, piece: u64) -> Result<i64, Problem> {
        pieces::number(self.record, self.slot, piece).ok_or(Problem::Corrupt)
    }
}

impl Time {
    fn new(constraint: &TimeConstraint, terms: &IndexedFields, granted: &BTreeSet<String>) -> Self {
        let TimeConstraint { field, since, until } = constraint;
        let kept = terms.time_field.as_ref() == Some(field);
        let orders = terms.cursor_is_time
            && terms.cursor_field.as_ref() == Some(field)
            && granted.contains(field);
        Self { field: (!kept).then(|| field.clone()), since: *since, until: *until, orders }
    }
}

/// What lists of these sources are ordered by, as far as the caller may know. A stream declared
/// anew may be ordered otherwise, and a list that went on there from a place in the old order would
/// pass over records unseen.
fn ordering(sources: &[RecordSource]) -> Binding {
    let orders: BTreeSet<[&str; 2]> = sources
        .iter()
        .map(|source| match source.ordered_by() {
            None => ["key", ""],
            Some(field) if source.terms.cursor_is_time => ["time", field],
            Some(field) => ["text", field],
        })
        .collect();
    Binding::new(orders.into_iter().flatten())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Records with a place in the order.
    Ordered,
    /// Those without.
    Unordered,
}

/// Where a list goes on.
struct After {
    order: Option<Vec<u8>>,
    source: usize,
    key: String,
}

/// Where the list of one source goes on.
#[derive(Clone, Copy, Debug)]
pub(super) enum AfterKey<'a> {
    /// After this value of the order and this key.
    Both(Option<&'a [u8]>, &'a str),
    /// After all records with this value of the order.
    Value(&'a [u8]),
    /// From the first record with this value of the order.
    AtValue(&'a [u8]),
    /// From the beginning.
    Beginning,
}

impl After {
    /// Where the list of a source goes on; none where it is at its end.
    fn for_source(&self, source: usize, order: SortOrder) -> Option<AfterKey<'_>> {
        let side = match order {
            SortOrder::Ascending => source.cmp(&self.source),
            SortOrder::Descending => self.source.cmp(&source),
        };
        match (side, self.order.as_deref()) {
            (Ordering::Equal, value) => Some(AfterKey::Both(value, &self.key)),
            // Of equal values, those of connections that come later in this direction are still to
            // come.
            (Ordering::Greater, Some(value)) => Some(AfterKey::AtValue(value)),
            (Ordering::Less, Some(value)) => Some(AfterKey::Value(value)),
            (Ordering::Greater, None) => Some(AfterKey::Beginning),
            (Ordering::Less, None) => None,
        }
    }
}
