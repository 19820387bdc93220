//! What a copy from one engine to the other needs of the records: connections, and the index.
//!
//! A copy moves rows as they are. It cannot move the index of searches, which the engines keep in
//! different forms, so [`index_in_sqlite`] and [`index_on_postgresql`] make it anew.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, Transaction};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::model::{RecordsError, StreamDeclaration};
use super::port::RowWriter;
use super::postgresql::write_in;
use super::sqlite::{Sqlite, SqliteWriter};
use super::write::WriteBatch;
use crate::postgresql::TenantConnection;
use crate::state::StateDir;

/// The text that makes the tables in SQLite.
pub(crate) const CREATION: &str = super::sqlite::CREATION;

/// A record without its long values, which are in pieces.
pub(crate) struct CopiedRecord {
    pub(crate) record: i64,
    pub(crate) stream: i64,
    pub(crate) body: Vec<u8>,
}

/// The indexed fields of each stream, as JSON, by the number of the stream.
pub(crate) type IndexedByStream = HashMap<i64, String>;

/// Opens a connection that reads the records of a state folder, after bringing them up to date.
pub(crate) fn open_source(state: &StateDir, now: Instant) -> Result<Connection, RecordsError> {
    Sqlite::open(state, now)?;
    Sqlite::raw_reader(state)
}

/// Returns whether a state folder has records.
pub(crate) fn has_records(state: &StateDir) -> bool {
    Sqlite::exists(state)
}

/// Opens a connection that fills the records of a state folder, after creating them if needed.
pub(crate) fn open_target(state: &StateDir) -> Result<Connection, RecordsError> {
    Sqlite::raw_writer(state)
}

/// Writes the index of records that have none.
pub(crate) fn index_in_sqlite(
    transaction: &Transaction<'_>,
    streams: &IndexedByStream,
    records: &[CopiedRecord],
) -> Result<(), Problem> {
    index(&SqliteWriter::new(transaction), streams, records)
}

/// Writes the index of records that have none. The connection has a transaction that writes.
pub(crate) fn index_on_postgresql(
    connection: &TenantConnection<'_>,
    streams: &IndexedByStream,
    records: &[CopiedRecord],
) -> Result<(), Problem> {
    write_in(connection, |rows| index(rows, streams, records))
}

fn index(
    rows: &dyn RowWriter,
    streams: &IndexedByStream,
    records: &[CopiedRecord],
) -> Result<(), Problem> {
    // The time of a batch is for what it changes, and an index is not a change.
    let batch = WriteBatch::new(rows, Instant(0));
    let mut targets = HashMap::new();
    for CopiedRecord { record, stream, body } in records {
        let target = match targets.entry(*stream) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let indexed = streams.get(stream).ok_or(Problem::Corrupt)?.clone();
                let declaration = String::new();
                new.insert(batch.target_of(StreamDeclaration {
                    id: *stream,
                    declaration,
                    indexed,
                })?)
            }
        };
        batch.index_anew(target, *record, body)?;
    }
    Ok(())
}
