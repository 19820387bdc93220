//! One moment of the database, as one caller may see it.
//!
//! Here a grant becomes conditions of queries. A [`RecordSource`] is one connection's stream
//! together with what the caller may see of it. Every question to the engine carries a source, and
//! there is no other way to a record. The order of a list never depends on a field that is not
//! granted, and a hidden record looks like a record that does not exist.

pub(super) mod blobs;
pub(super) mod changes;
mod kept_ahead;
mod list_walk;
mod matching_rows;
mod read_ahead;
mod references;
mod removals;
mod values;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use stile_domain::records::filter::Condition;
use stile_domain::records::find::{Needle, NeedleFinder};
use stile_domain::records::grant::{Grant, TimeConstraint};
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::instant::Instant;
use stile_domain::records::pieces::{self, CharRange, PIECE_CHARS};
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::sealed_cursor::{Binding, ListCursor};
use stile_domain::records::stored_body::{BodyField, LongValue, RecordBody, StoredValue};

use super::grants::Authority;
use super::model::{
    GrantedStream, RecordRow, RecordSource, SortOrder, StreamRow, TimeFilter, Visibility,
};
use super::port::Snapshot;
use super::rows::TakeText;
use crate::seal::Seals;
use kept_ahead::ReadAhead;
pub(super) use list_walk::{ListPosition, ListWalk};

/// One moment of the database, as one caller may see it. Every method can fail with the error of
/// the database.
pub struct RecordsView<'c> {
    pub(super) snapshot: &'c dyn Snapshot,
    authority: Authority,
    seals: &'c Seals,
    now: Instant,
    ahead: RefCell<ReadAhead>,
}

/// Which records of some sources to list.
#[derive(Clone, Copy, Debug)]
pub struct RecordQuery<'q> {
    /// The direction of the list.
    pub order: SortOrder,
    /// The position to continue after. `None` starts at the beginning.
    pub after: Option<&'q ListCursor>,
    /// Conditions that all hold of each record, on fields that the caller may see.
    pub conditions: &'q [Condition],
    /// The maximum number of records.
    pub limit: usize,
}

/// One page of a list of records.
#[derive(Debug)]
pub struct RecordPage {
    /// The records of the page, in order.
    pub rows: Vec<RecordRow>,
    /// Whether more records follow.
    pub has_more: bool,
}

/// The fields of a record that the caller may see.
#[derive(Debug)]
pub struct LoadedRecord {
    record: i64,
    bytes: Arc<[u8]>,
}

/// A reference to a long value that the caller may see.
#[derive(Clone, Copy, Debug)]
pub struct LongValueRef {
    record: i64,
    slot: u16,
    /// Whether the value is a list or an object.
    pub(super) is_json: bool,
    /// The size and the digest of the value.
    pub value: LongValue,
}

/// A field of a record: the value, and a reference to it if it is long.
pub type StoredField<'b> = (StoredValue<'b>, Option<LongValueRef>);

/// Takes fields of a record, `None` for a field that it lacks. Returns whether to continue.
pub type TakeValues<'t> = &'t mut dyn FnMut(&[Option<StoredField<'_>>]) -> Result<bool, Problem>;

impl<'c> RecordsView<'c> {
    pub(super) fn new(
        snapshot: &'c dyn Snapshot,
        authority: Authority,
        seals: &'c Seals,
        now: Instant,
    ) -> Self {
        Self { snapshot, authority, seals, now, ahead: RefCell::default() }
    }

    /// The time of the request, which decides what has expired.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The caller that cursors are bound to: `owner`, or the identifier of the grant.
    pub fn caller(&self) -> &str {
        match &self.authority {
            Authority::Owner => "owner",
            Authority::Client { id, .. } => id,
        }
    }

    /// The caller's grant. `None` for the owner.
    pub fn grant(&self) -> Option<&Grant> {
        match &self.authority {
            Authority::Owner => None,
            Authority::Client { grant, .. } => Some(grant),
        }
    }

    /// Returns all sources, ordered by stream and connection.
    pub fn sources(&self) -> Result<Vec<RecordSource>, Problem> {
        let mut sources = self.granted(self.snapshot.streams(None)?);
        sources.sort_by(|a, b| (&a.stream, &a.connection).cmp(&(&b.stream, &b.connection)));
        Ok(sources)
    }

    /// Returns the sources of one stream, at least one, ordered by connection.
    ///
    /// # Errors
    /// If there is no source: [`Problem::StreamNotAllowed`] for a client, and
    /// [`Problem::StreamNotFound`] for the owner.
    pub fn sources_of(
        &self,
        stream: &str,
        connection: Option<&str>,
    ) -> Result<Vec<RecordSource>, Problem> {
        self.sources_among(self.snapshot.streams(Some(stream))?, stream, connection)
    }

    /// Returns the sources of one stream that changes are listed of: those of
    /// [`RecordsView::sources_of`], and those that were removed, whose records count as deleted.
    ///
    /// # Errors
    /// The errors of [`RecordsView::sources_of`].
    pub fn changed_sources_of(
        &self,
        stream: &str,
        connection: Option<&str>,
    ) -> Result<Vec<RecordSource>, Problem> {
        let mut rows = self.snapshot.streams(Some(stream))?;
        rows.extend(self.snapshot.removed_streams(stream)?);
        self.sources_among(rows, stream, connection)
    }

    fn sources_among(
        &self,
        rows: Vec<StreamRow>,
        stream: &str,
        connection: Option<&str>,
    ) -> Result<Vec<RecordSource>, Problem> {
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

    /// Makes sources of the streams that the caller may see.
    fn granted(&self, rows: Vec<StreamRow>) -> Vec<RecordSource> {
        let sources = rows.into_iter().filter_map(|row| {
            let visibility = match &self.authority {
                Authority::Owner => Visibility::default(),
                Authority::Client { grant, .. } => {
                    let index = grant.streams.iter().position(|it| it.stream == row.stream)?;
                    let granted = grant
                        .streams
                        .get(index)
                        .filter(|granted| granted.connections.contains(&row.connection))?;
                    let time = granted
                        .time
                        .as_ref()
                        .map(|time| TimeFilter::new(time, &row.indexed, &granted.fields));
                    let granted = Some(GrantedStream { grant: Arc::clone(grant), index });
                    Visibility { granted, time }
                }
            };
            let StreamRow { id, connection, stream, declaration, revision, indexed } = row;
            Some(RecordSource {
                id,
                connection,
                stream,
                declaration,
                revision,
                indexed,
                visibility,
            })
        });
        sources.collect()
    }

    /// Counts the records of a source that the caller may see, and returns when the latest of them
    /// was first ingested.
    pub fn count(&self, source: &RecordSource) -> Result<(u64, Option<Instant>), Problem> {
        let counted = self.snapshot.counts(std::slice::from_ref(source))?;
        counted.into_iter().next().ok_or(Problem::NotFound)
    }

    /// Does the same for some sources, in their order.
    pub fn counts(&self, sources: &[RecordSource]) -> Result<Vec<(u64, Option<Instant>)>, Problem> {
        self.snapshot.counts(sources)
    }

    /// Returns one page of the records of some sources, ordered by the value of the cursor field,
    /// then connection, then key. Records without such a value come last in both directions,
    /// ordered by connection and key.
    ///
    /// # Errors
    /// [`Problem::InvalidCursor`] if the streams were ordered in another way when the cursor was
    /// made, or if the cursor is at a removed record with a very long key; the error of the
    /// database.
    pub fn list(
        &self,
        sources: &[RecordSource],
        query: RecordQuery<'_>,
    ) -> Result<RecordPage, Problem> {
        let after = query.after.map(|cursor| self.list_position(sources, cursor)).transpose()?;
        let wanted = query.limit.saturating_add(1);
        let RecordQuery { order, conditions, .. } = query;
        let mut walk = ListWalk::new(self.snapshot, sources, conditions, order, after, wanted);
        let mut rows = Vec::new();
        while rows.len() < wanted
            && let Some(row) = walk.next()?
        {
            rows.push(row);
        }
        let has_more = rows.len() > query.limit;
        rows.truncate(query.limit);
        Ok(RecordPage { rows, has_more })
    }

    /// Returns whether the caller may see at least one record. Looks for one record in one source
    /// after the other.
    pub fn shows_any_record(&self) -> Result<bool, Problem> {
        for source in self.sources()? {
            let query = RecordQuery {
                order: SortOrder::Descending,
                after: None,
                conditions: &[],
                limit: 1,
            };
            if !self.list(&[source], query)?.rows.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the position of a cursor, with the whole key.
    pub(super) fn list_position(
        &self,
        sources: &[RecordSource],
        cursor: &ListCursor,
    ) -> Result<ListPosition, Problem> {
        let stale = || Problem::InvalidCursor(CursorProblem::Stale);
        if cursor.ordering != ordering(sources) {
            return Err(stale());
        }
        let source =
            sources.iter().position(|source| source.id == cursor.stream).ok_or_else(stale)?;
        let key = if cursor.whole_key {
            String::from_utf8(cursor.key.clone()).map_err(|_| stale())?
        } else {
            // A client saw this record before, so looking it up reveals nothing.
            let row = self
                .snapshot
                .find_by_number(sources.get(source).ok_or_else(stale)?, cursor.record)?;
            row.filter(|row| row.key.as_bytes().starts_with(&cursor.key)).ok_or_else(stale)?.key
        };
        Ok(ListPosition { order_key: cursor.order.clone(), source, key })
    }

    /// Returns the cursor that continues a list after `row`.
    pub fn position_of(&self, sources: &[RecordSource], row: &RecordRow) -> Option<ListCursor> {
        let source = sources.get(row.source)?.id;
        let order_key = row.order_key.clone();
        Some(ListCursor::new(ordering(sources), order_key, source, &row.key, row.number))
    }

    /// Finds the records with this key, at most one in each source.
    pub fn find_by_key(
        &self,
        sources: &[RecordSource],
        key: &str,
    ) -> Result<Vec<RecordRow>, Problem> {
        let mut rows = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            let row = self.snapshot.find_by_key(source, key)?;
            rows.extend(row.map(|row| RecordRow { source: at, ..row }));
        }
        Ok(rows)
    }

    /// Finds the records with some keys, at most one for each key and source, in no particular
    /// order.
    pub fn find_by_keys(
        &self,
        sources: &[RecordSource],
        keys: &[String],
    ) -> Result<Vec<RecordRow>, Problem> {
        let mut rows = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            let found = self.snapshot.find_by_keys(source, keys)?;
            rows.extend(found.into_iter().map(|row| RecordRow { source: at, ..row }));
        }
        Ok(rows)
    }

    /// Returns records of some sources in the order of first ingest, after one of them. Only for
    /// the owner: the order reveals something about records that a grant hides.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`] for a client; the error of the database.
    pub fn in_ingest_order(
        &self,
        sources: &[RecordSource],
        after: Option<&RecordRow>,
        limit: usize,
    ) -> Result<Vec<RecordRow>, Problem> {
        self.require_owner()?;
        self.snapshot.in_ingest_order(sources, after.map_or(0, |row| row.number), limit)
    }

    pub(super) fn require_owner(&self) -> Result<(), Problem> {
        match self.authority {
            Authority::Owner => Ok(()),
            Authority::Client { .. } => {
                Err(Problem::InsufficientScope { message: "this is for the owner alone" })
            }
        }
    }

    /// Loads the fields of a record that the caller may see.
    pub fn load_fields(
        &self,
        sources: &[RecordSource],
        row: &RecordRow,
    ) -> Result<LoadedRecord, Problem> {
        let source = sources.get(row.source).ok_or(Problem::NotFound)?;
        self.load_number(source, row.number)
    }

    pub(super) fn load_number(
        &self,
        source: &RecordSource,
        record: i64,
    ) -> Result<LoadedRecord, Problem> {
        let ahead = self.ahead.borrow().body(record);
        let bytes = match ahead {
            Some(bytes) => bytes,
            None => self.snapshot.granted_body(source, record)?.into(),
        };
        Ok(LoadedRecord { record, bytes })
    }

    /// Reads Unicode scalars `start..end` of a long value. Reads only the pieces that hold them.
    pub fn long_text(&self, value: LongValueRef, start: u64, end: u64) -> Result<String, Problem> {
        let end = end.min(value.value.chars);
        let mut text = String::new();
        if start >= end {
            return Ok(text);
        }
        for piece in start / PIECE_CHARS..=(end - 1) / PIECE_CHARS {
            let base = piece * PIECE_CHARS;
            let mut take = |held: &str| {
                text.push_str(pieces::slice(held, start.saturating_sub(base), end - base));
            };
            let number = value.piece_number(piece)?;
            let ahead = self.ahead.borrow().piece(number);
            match ahead {
                Some(held) => take(&held),
                None => self.snapshot.piece(number, &mut take)?,
            }
        }
        Ok(text)
    }

    /// Reads a long value piece by piece, until `take` returns `false`.
    pub fn long_pieces(
        &self,
        value: LongValueRef,
        mut take: impl FnMut(&str) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
        if value.value.chars == 0 {
            return Ok(());
        }
        let last = value.piece_number((value.value.chars - 1) / PIECE_CHARS)?;
        self.each_piece(value.piece_number(0)?, last, &mut take)
    }

    /// Passes the pieces with these numbers to `take`, in order, until it returns `false`. Those
    /// that were read ahead are not read again.
    pub(in crate::records) fn each_piece(
        &self,
        mut first: i64,
        last: i64,
        take: TakeText<'_>,
    ) -> Result<(), Problem> {
        while let Some(held) = {
            let ahead = self.ahead.borrow();
            ahead.piece(first)
        } {
            if !take(&held)? || first >= last {
                return Ok(());
            }
            first += 1;
        }
        self.snapshot.pieces(first, last, take)
    }

    /// Finds the first occurrence of a text in a long value. Holds one piece in memory, and stops
    /// at the occurrence.
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

    /// Seals a cursor for a client.
    ///
    /// # Errors
    /// [`Problem::Internal`] if the system gives no random bytes.
    pub fn seal(&self, plain: &[u8]) -> Result<String, Problem> {
        self.seals.seal_for_client(plain)
    }

    /// Opens a sealed cursor.
    ///
    /// # Errors
    /// [`CursorProblem::Malformed`] for a text that this database did not seal.
    pub fn unseal(&self, cursor: &str) -> Result<Vec<u8>, Problem> {
        self.seals.open(cursor).ok_or(Problem::InvalidCursor(CursorProblem::Malformed))
    }
}

impl LoadedRecord {
    /// Returns the fields, to be read one after the other.
    pub fn body(&self) -> RecordBody<'_> {
        RecordBody::new(&self.bytes)
    }

    /// Returns a reference to a long value of this record. `None` for a short value.
    pub fn long_value(&self, entry: &BodyField<'_>) -> Option<LongValueRef> {
        LongValueRef::new(self.record, entry)
    }
}

impl LongValueRef {
    /// Refers to the value of a field, if it is kept in pieces.
    pub(super) fn new(record: i64, entry: &BodyField<'_>) -> Option<Self> {
        let is_json = matches!(entry.value, StoredValue::LongJson(_));
        Some(Self { record, slot: entry.slot?, is_json, value: entry.value.long()? })
    }

    pub(super) fn piece_count(&self) -> u64 {
        self.value.chars.div_ceil(PIECE_CHARS)
    }

    pub(super) fn piece_number(&self, piece: u64) -> Result<i64, Problem> {
        pieces::number(self.record, self.slot, piece).ok_or(Problem::Corrupt)
    }
}

impl TimeFilter {
    fn new(
        constraint: &TimeConstraint,
        indexed: &IndexedFields,
        granted: &BTreeSet<String>,
    ) -> Self {
        let field = constraint.field();
        let is_indexed = indexed.time_field.as_ref() == Some(field);
        let orders_lists = indexed.cursor_is_time
            && indexed.cursor_field.as_ref() == Some(field)
            && granted.contains(field);
        let field = (!is_indexed).then(|| field.clone());
        Self { field, visible: constraint.visible(), orders_lists }
    }
}

/// Returns what lists of these sources are ordered by, as far as the caller may know. A list that
/// continued in another order than it began in would skip records, so cursors are bound to this.
fn ordering(sources: &[RecordSource]) -> Binding {
    let orders: BTreeSet<[&str; 2]> = sources
        .iter()
        .map(|source| match source.ordered_by() {
            None => ["key", ""],
            Some(field) if source.indexed.cursor_is_time => ["time", field],
            Some(field) => ["text", field],
        })
        .collect();
    Binding::new(orders.into_iter().flatten())
}
