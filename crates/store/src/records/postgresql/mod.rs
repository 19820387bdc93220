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
mod connection;
mod error;
mod lists;
mod params;
mod pool;
mod read;
mod schema;
mod search;
mod settings;
#[cfg(test)]
mod tests;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::model::RecordsError;
use super::port::{RowWriter, Snapshot};
use super::read_limit::{MAX_READERS, ReadLimit};
use super::seal::{SealKey, Seals};
use crate::cancellation::Cancellation;
use crate::state::StateDir;

use connection::PgConnection;
use error::PgError;
use params::params;
use pool::Pool;
use read::PgSnapshot;
use settings::Settings;
use write::PgWriter;

/// Begins a read: one moment, and nothing is written. The time limit is in milliseconds.
fn begin_read(milliseconds: u128) -> String {
    format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
         SET LOCAL search_path = stile, pg_catalog; \
         SET LOCAL statement_timeout = {milliseconds}; \
         SET LOCAL idle_in_transaction_session_timeout = 300000"
    )
}

/// Begins a write. A commit is on disk before it is acknowledged, whatever the server's default is.
const BEGIN_WRITE: &str = "\
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
    SET LOCAL search_path = stile, pg_catalog; \
    SET LOCAL lock_timeout = 10000; \
    SET LOCAL statement_timeout = 60000; \
    SET LOCAL idle_in_transaction_session_timeout = 300000; \
    SELECT set_config('synchronous_commit', 'on', true) \
    WHERE current_setting('synchronous_commit') = 'off'";

/// How long the check of a whole database may take.
const MAX_CHECK: Duration = Duration::from_secs(24 * 60 * 60);

/// The database on a server of PostgreSQL.
pub(super) struct Postgresql {
    readers: Pool,
    writer: Pool,
    seals: Seals,
    /// The state folder of this server, for files that wait.
    folder: PathBuf,
}

impl Postgresql {
    /// Connects to the database. Creates the tables, or migrates them to this version, if needed.
    pub(super) fn open(
        state: &StateDir,
        address: &str,
        now: Instant,
    ) -> Result<Self, RecordsError> {
        let settings = Arc::new(Settings::parse(address)?);
        let connection = opened(PgConnection::open(&settings))?;
        match opened(schema::migrate(&connection))? {
            schema::Migration::Done => {}
            schema::Migration::Foreign => {
                return Err(hosted("open", "the schema `stile` is another program's"));
            }
            schema::Migration::Newer => {
                return Err(hosted("open", "a newer stile made them; use that version"));
            }
        }
        let keys = opened(seal_keys(&connection, now))?.ok_or(RecordsError::Random)?;
        let seals = Seals::new(keys).map_err(|_| RecordsError::Random)?;
        let writer = Pool::new(settings.clone(), 1);
        writer.add(connection);
        let readers = Pool::new(settings, MAX_READERS);
        Ok(Self { readers, writer, seals, folder: state.path().to_owned() })
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
        let most = limit.time_left().unwrap_or(connection::MAX_WAIT);
        let begin = begin_read(most.as_millis().max(1));
        let connection = self.readers.begin(&begin, limit)?;
        let done = read(&PgSnapshot::new(&connection));
        connection.end("ROLLBACK");
        done
    }

    /// Runs `write` in a transaction, which keeps all or nothing.
    pub(super) fn write<T>(
        &self,
        write: impl FnOnce(&dyn RowWriter) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let connection = self.writer.begin(BEGIN_WRITE, &ReadLimit::none())?;
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
        Err(hosted("copy", "use pg_dump or the base backups of PostgreSQL"))
    }

    /// Reads every row of every table, so that the database notices damaged pages.
    pub(super) fn check(&self) -> Result<(), Problem> {
        const TABLES: [&str; 12] = [
            "connections", "streams", "records", "pieces", "tags", "tokens", "grants", "seals",
            "blobs", "blob_pieces", "blob_uses", "changes",
        ];
        let limit = ReadLimit::new(MAX_CHECK, Cancellation::default());
        let connection = self.readers.begin(&begin_read(0), &limit)?;
        let read = |table: &&str| {
            connection.rows(&format!("SELECT sum(length(t::text)) FROM {table} t"), &[]).map(drop)
        };
        let done = TABLES.iter().try_for_each(read);
        connection.end("ROLLBACK");
        Ok(done?)
    }
}

fn hosted(doing: &'static str, reason: &str) -> RecordsError {
    RecordsError::Hosted { doing, reason: reason.to_owned() }
}

fn opened<T>(result: Result<T, PgError>) -> Result<T, RecordsError> {
    result.map_err(|error| hosted("open", &error.to_string()))
}

/// Returns the keys that seal cursors, the newest first, after making one if there is none. `None`
/// if the system gives no random bytes.
fn seal_keys(connection: &PgConnection, now: Instant) -> Result<Option<Vec<SealKey>>, PgError> {
    connection.batch(BEGIN_WRITE)?;
    connection.rows("SELECT id FROM history FOR UPDATE", &[])?;
    let select = "SELECT id, secret FROM seals ORDER BY made DESC";
    if connection.one(select, &[])?.is_none() {
        let Ok(key) = SealKey::make() else { return Ok(None) };
        let insert = "INSERT INTO seals (id, secret, made) VALUES ($1, $2, $3)";
        connection.rows(insert, params![&key.id[..], &key.secret[..], now.0])?;
    }
    let rows = connection.rows(select, &[])?;
    connection.batch("COMMIT")?;
    let key = |row: &tokio_postgres::Row| -> Option<SealKey> {
        let id = row.try_get::<_, &[u8]>(0).ok()?.try_into().ok()?;
        Some(SealKey { id, secret: row.try_get::<_, &[u8]>(1).ok()?.try_into().ok()? })
    };
    Ok(Some(rows.iter().filter_map(key).collect()))
}
