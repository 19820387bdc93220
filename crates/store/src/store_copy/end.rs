//! What a copy asks of its two ends, whichever engine each is.

use std::collections::{BTreeMap, BTreeSet};

use super::error::CopyError;
use super::table::{Cell, Checksum, Key, Row, Table, TableChecksum};
use crate::records::copying::{CopiedRecord, IndexedByStream};

/// The most rows that one query reads.
pub(super) const PAGE: usize = 64;

/// The one row of `history`, with the last numbers of records and of changes.
///
/// Every write changes the row: a record and a change have a number, and any other write moves the
/// time before which the log is forgotten. So two equal rows mean that nothing was written between,
/// unless the clock was set back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct History {
    pub(super) records: i64,
    pub(super) changes: i64,
    pub(super) lineage: Vec<u8>,
    pub(super) forgotten: i64,
}

impl History {
    fn cells(&self) -> Row {
        vec![
            Cell::Integer(self.records),
            Cell::Integer(self.changes),
            Cell::Bytes(self.lineage.clone()),
            Cell::Integer(self.forgotten),
        ]
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        Key(self.cells()).encode()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let Key(cells) = Key::decode(bytes)?;
        let [records, changes, lineage, forgotten] = cells.as_slice() else { return None };
        Some(Self {
            records: records.number()?,
            changes: changes.number()?,
            lineage: lineage.bytes()?.to_vec(),
            forgotten: forgotten.number()?,
        })
    }

    pub(super) fn checksum(&self) -> TableChecksum {
        let mut sum = Checksum::new();
        sum.add(&self.cells());
        sum.finish("history")
    }
}

/// How far the copy of a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The key of the last row that was copied; `None` if there is none yet.
    pub(super) last: Option<Key>,
    pub(super) is_done: bool,
}

/// How far a copy is. It is in the target, and changes in the same transaction as the rows.
#[derive(Clone, Debug)]
pub(super) struct CopyProgress {
    /// The history of the source when the copy began.
    pub(super) source: History,
    /// The tables that were begun. A table that is missing is emptied first.
    pub(super) marks: BTreeMap<String, Mark>,
}

impl CopyProgress {
    /// The name under which the history of the source is written down.
    pub(super) const SOURCE: &str = "(source)";
    /// The name under which the progress of the index is written down.
    pub(super) const INDEX: &str = "(index)";

    /// Reads what [`CopyTarget`] wrote: names, encoded keys, and whether each is complete.
    pub(super) fn parse(rows: Vec<(Vec<u8>, Option<Vec<u8>>, i64)>) -> Option<Self> {
        let mut source = None;
        let mut marks = BTreeMap::new();
        for (name, last, is_done) in rows {
            if name == Self::SOURCE.as_bytes() {
                source = Some(History::decode(&last?)?);
                continue;
            }
            let last = match last {
                None => None,
                Some(bytes) => Some(Key::decode(&bytes)?),
            };
            marks.insert(String::from_utf8(name).ok()?, Mark { last, is_done: is_done != 0 });
        }
        Some(Self { source: source?, marks })
    }
}

/// A move from one mark to the next. It fails if another process has moved the mark meanwhile.
pub(super) struct Advance<'a> {
    pub(super) name: &'static str,
    pub(super) from: &'a Mark,
    pub(super) to: &'a Mark,
}

/// Reads the tables of one end.
pub(super) trait TableReader {
    /// Returns rows after a key, in the order of keys: `limit` of them, or fewer at the end.
    fn rows_after(
        &self,
        table: &Table,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Row>, CopyError>;

    /// Returns the row of `history`. The lineage is empty in a database that has none yet.
    fn history(&self) -> Result<History, CopyError>;

    /// Returns the number of rows of a table.
    fn count(&self, table: &Table) -> Result<u64, CopyError>;
}

/// Fills the tables of the target. Each method is one transaction.
pub(super) trait CopyTarget: TableReader {
    /// Returns how far a copy is. `None` if no copy was begun.
    fn progress(&self) -> Result<Option<CopyProgress>, CopyError>;

    /// Begins a copy: writes down the history of the source. Refuses a target with rows in one of
    /// these tables.
    fn begin_empty(&mut self, source: &History, tables: &[&Table]) -> Result<(), CopyError> {
        for table in tables {
            if !self.rows_after(table, None, 1)?.is_empty() {
                return Err(CopyError::NotEmpty);
            }
        }
        self.begin(source, &BTreeSet::new())
    }

    /// Begins a copy, or another pass of it: writes down the history of the source, and forgets the
    /// marks with these names.
    fn begin(&mut self, source: &History, forget: &BTreeSet<&str>) -> Result<(), CopyError>;

    /// Begins a table, which must be empty. Fails if another process has begun it.
    fn begin_table(&mut self, name: &str) -> Result<(), CopyError>;

    /// Inserts rows and moves the mark of their table.
    fn put(&mut self, table: &Table, rows: &[Row], advance: &Advance<'_>) -> Result<(), CopyError>;

    /// Removes at most `limit` rows of a table that was not begun, and returns how many.
    fn remove_some(&mut self, table: &Table, limit: usize) -> Result<usize, CopyError>;

    /// Removes some of an index that was not begun, and returns whether there may be more.
    fn remove_some_index(&mut self, limit: usize) -> Result<bool, CopyError>;

    /// Writes the index of some records and moves the mark of the index.
    fn index(
        &mut self,
        streams: &IndexedByStream,
        records: &[CopiedRecord],
        advance: &Advance<'_>,
    ) -> Result<(), CopyError>;

    /// Writes the row of `history`, so that numbers and changes go on as at the source.
    fn put_history(&mut self, history: &History) -> Result<(), CopyError>;

    /// Ends the copy: the database may be opened from now on.
    fn finish(&mut self) -> Result<(), CopyError>;
}

/// Computes the checksum of a table.
pub(super) fn checksum(
    end: &dyn TableReader,
    table: &Table,
    on_rows: &mut dyn FnMut(u64),
) -> Result<TableChecksum, CopyError> {
    let mut sum = Checksum::new();
    let mut after: Option<Key> = None;
    loop {
        let rows = end.rows_after(table, after.as_ref(), PAGE)?;
        rows.iter().for_each(|row| sum.add(row));
        on_rows(rows.len() as u64);
        match rows.last() {
            Some(last) if rows.len() == PAGE => after = Some(table.key_of(last)),
            _ => return Ok(sum.finish(table.name)),
        }
    }
}
