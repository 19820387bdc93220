//! Records on PostgreSQL: any number of readers that each see one moment, and one writer at a time.
//!
//! A reader is a transaction that sees one moment and writes nothing. A writer holds the row of
//! `history` until it commits, on whichever server it runs. Connections come from two small pools,
//! so a server uses at most [`MAX_READERS`] and one. Whoever waits too long for a connection, or
//! whose connection is lost, gets [`Problem::Busy`] and can send the same request again.
//!
//! Conditions that need a record's fields are decided by the domain's code: a query walks an index
//! and returns a bounded number of rows with their bodies, and the next query continues after them.

mod blobs;
mod changes;
mod lists;
mod read;
mod search;
#[cfg(test)]
mod tests;
mod write;

use std::path::PathBuf;
use std::time::Duration;

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::model::RecordsError;
use super::port::{RowWriter, Snapshot};
use super::seal::{SealKey, Seals};
use crate::cancellation::Cancellation;
use crate::postgresql::{Database, DatabaseError, PgConnection, PgError, params};
use crate::read_limit::ReadLimit;
use crate::state::StateDir;

use read::PgSnapshot;
use write::PgWriter;

/// How long the check of a whole database may take.
const MAX_CHECK: Duration = Duration::from_secs(24 * 60 * 60);

/// The records in a database on PostgreSQL.
pub(super) struct Postgresql {
    database: Database,
    seals: Seals,
    /// The state folder of this server, for files that wait.
    folder: PathBuf,
}

impl Postgresql {
    /// Opens the records, and makes the first key that seals cursors.
    pub(super) fn open(
        state: &StateDir,
        database: &Database,
        now: Instant,
    ) -> Result<Self, RecordsError> {
        let connection = database.begin_write().map_err(DatabaseError::from)?;
        let keys = seal_keys(&connection, now).map_err(DatabaseError::from)?;
        connection.commit().map_err(DatabaseError::from)?;
        let seals = Seals::new(keys.ok_or(RecordsError::Random)?);
        let seals = seals.map_err(|_| RecordsError::Random)?;
        Ok(Self { database: database.clone(), seals, folder: state.path().to_owned() })
    }

    pub(super) fn seals(&self) -> &Seals {
        &self.seals
    }

    /// Reads one moment of the database, until `limit` is reached.
    pub(super) fn read_within<T>(
        &self,
        limit: &ReadLimit,
        read: impl FnOnce(&dyn Snapshot) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let connection = self.database.begin_read(limit)?;
        let done = read(&PgSnapshot::new(&connection));
        connection.end("ROLLBACK");
        done
    }

    /// Runs `write` in a transaction, which keeps all or nothing.
    pub(super) fn write<T>(
        &self,
        write: impl FnOnce(&dyn RowWriter) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let connection = self.database.begin_write()?;
        let done = PgWriter::begin(&connection).and_then(|writer| {
            let done = write(&writer)?;
            writer.finish()?;
            Ok(done)
        });
        match done {
            Err(problem) => {
                connection.end("ROLLBACK");
                Err(problem)
            }
            Ok(done) => {
                connection.commit()?;
                Ok(done)
            }
        }
    }

    /// Returns the path of another file in the state folder.
    pub(super) fn sibling(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Refuses: the server of PostgreSQL makes its own copies.
    pub(super) fn backup() -> Result<(), RecordsError> {
        Err(RecordsError::CopiedByServer)
    }

    /// Reads every row of every table, so that the database notices damaged pages.
    pub(super) fn check(&self) -> Result<(), Problem> {
        const TABLES: [&str; 12] = [
            "connections", "streams", "records", "pieces", "tags", "tokens", "grants", "seals",
            "blobs", "blob_pieces", "blob_uses", "changes",
        ];
        let limit = ReadLimit::new(MAX_CHECK, Cancellation::default());
        let connection = self.database.begin_long_read(&limit)?;
        let read = |table: &&str| {
            connection.rows(&format!("SELECT sum(length(t::text)) FROM {table} t"), &[]).map(drop)
        };
        let done = TABLES.iter().try_for_each(read);
        connection.end("ROLLBACK");
        Ok(done?)
    }
}

/// Returns the keys that seal cursors, the newest first, after making one if there is none. `None`
/// if the system gives no random bytes.
fn seal_keys(connection: &PgConnection, now: Instant) -> Result<Option<Vec<SealKey>>, PgError> {
    connection.rows("SELECT id FROM history FOR UPDATE", &[])?;
    let select = "SELECT id, secret FROM seals ORDER BY made DESC";
    if connection.one(select, &[])?.is_none() {
        let Ok(key) = SealKey::make() else { return Ok(None) };
        let insert = "INSERT INTO seals (id, secret, made) VALUES ($1, $2, $3)";
        connection.rows(insert, params![&key.id[..], &key.secret[..], now.0])?;
    }
    let rows = connection.rows(select, &[])?;
    let key = |row: &tokio_postgres::Row| -> Option<SealKey> {
        let id = row.try_get::<_, &[u8]>(0).ok()?.try_into().ok()?;
        Some(SealKey { id, secret: row.try_get::<_, &[u8]>(1).ok()?.try_into().ok()? })
    };
    Ok(Some(rows.iter().filter_map(key).collect()))
}
