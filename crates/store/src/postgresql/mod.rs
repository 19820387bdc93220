//! A database on PostgreSQL, which several servers share: how it is reached, and its tables.
//!
//! [`Database`] has two small pools of connections: one for transactions that read one moment and
//! write nothing, and one for transactions that write. Whoever waits too long for a connection, or
//! whose connection is lost, gets an error that passes, and can send the same request again. What the
//! tables mean is decided where they are used, in `records::postgresql` and in `state`.

mod connection;
mod error;
mod params;
mod pool;
mod schema;
mod settings;

use std::sync::Arc;

pub(crate) use connection::{MAX_WAIT, PgConnection, Values};
pub use error::DatabaseError;
pub(crate) use error::PgError;
pub(crate) use params::params;
pub(crate) use pool::Borrowed;
use pool::Pool;
use settings::Settings;

use crate::read_limit::{MAX_READERS, ReadLimit};

/// Begins a read: one moment, and nothing is written. The time limit is in milliseconds; 0 is none.
fn begin_read(milliseconds: u128) -> String {
    format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
         SET LOCAL search_path = stile, pg_catalog; \
         SET LOCAL statement_timeout = {milliseconds}; \
         SET LOCAL idle_in_transaction_session_timeout = 300000"
    )
}

/// Begins a write. A commit is on disk before it is acknowledged, whatever the server's default is.
pub(crate) const BEGIN_WRITE: &str = "\
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
    SET LOCAL search_path = stile, pg_catalog; \
    SET LOCAL lock_timeout = 10000; \
    SET LOCAL statement_timeout = 60000; \
    SET LOCAL idle_in_transaction_session_timeout = 300000; \
    SELECT set_config('synchronous_commit', 'on', true) \
    WHERE current_setting('synchronous_commit') = 'off'";

/// Begins a transaction on the tables of tokens and sign-in. The statements are short.
const BEGIN_ACCESS: &str = "\
    SET LOCAL search_path = stile_access, pg_catalog; \
    SET LOCAL lock_timeout = 5000; \
    SET LOCAL statement_timeout = 10000; \
    SET LOCAL idle_in_transaction_session_timeout = 60000; \
    SELECT set_config('synchronous_commit', 'on', true) \
    WHERE current_setting('synchronous_commit') = 'off'";

/// The number of connections of one process for tokens and sign-in. They are apart from those of
/// records, so that long reads do not keep a token from being looked up.
const MAX_ACCESS: usize = 4;

/// A database on PostgreSQL with the tables of this version. Clones share their connections.
///
/// Every use blocks. A thread that runs futures may use it only in a runtime of several threads.
#[derive(Clone)]
pub struct Database {
    pools: Arc<Pools>,
}

struct Pools {
    readers: Pool,
    writer: Pool,
    access: Pool,
}

impl Database {
    /// Connects to the database at an address such as `postgres://stile@db.example/stile`. Creates
    /// the tables, or migrates them to this version, if needed.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database cannot be reached, or its tables are another program's or a
    /// newer version's.
    pub fn open(address: &str) -> Result<Self, DatabaseError> {
        let settings = Arc::new(Settings::parse(address)?);
        let connection = PgConnection::open(&settings)?;
        match schema::migrate(&connection)? {
            schema::Migration::Done => {}
            schema::Migration::Foreign => return Err(DatabaseError::Foreign),
            schema::Migration::Newer => return Err(DatabaseError::Newer),
        }
        let writer = Pool::new(settings.clone(), 1);
        writer.add(connection);
        let readers = Pool::new(settings.clone(), MAX_READERS);
        let access = Pool::new(settings, MAX_ACCESS);
        Ok(Self { pools: Arc::new(Pools { readers, writer, access }) })
    }

    /// Borrows a connection and begins a transaction that reads one moment, until `limit` is
    /// reached.
    pub(crate) fn begin_read(&self, limit: &ReadLimit) -> Result<Borrowed<'_>, PgError> {
        let most = limit.time_left().unwrap_or(MAX_WAIT);
        self.pools.readers.begin(&begin_read(most.as_millis().max(1)), limit)
    }

    /// Borrows a connection and begins a transaction that reads, whose statements may take as long as
    /// `limit` allows.
    pub(crate) fn begin_long_read(&self, limit: &ReadLimit) -> Result<Borrowed<'_>, PgError> {
        self.pools.readers.begin(&begin_read(0), limit)
    }

    /// Borrows a connection and begins a transaction that writes.
    pub(crate) fn begin_write(&self) -> Result<Borrowed<'_>, PgError> {
        self.pools.writer.begin(BEGIN_WRITE, &ReadLimit::none())
    }

    /// Reads the tables of tokens and sign-in.
    pub(crate) fn read_access<T, E: From<PgError>>(
        &self,
        read: impl FnOnce(&PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {BEGIN_ACCESS}");
        let connection = self.pools.access.begin(&begin, &ReadLimit::none())?;
        let done = read(&connection);
        connection.end("ROLLBACK");
        done
    }

    /// Changes the tables of tokens and sign-in as if no other transaction ran, durably. If another
    /// one was in the way, the error says so, and nothing is changed.
    pub(crate) fn change_access<T, E: From<PgError>>(
        &self,
        change: impl FnOnce(&PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = format!("BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE; {BEGIN_ACCESS}");
        let connection = self.pools.access.begin(&begin, &ReadLimit::none())?;
        match change(&connection) {
            Ok(done) => {
                connection.commit()?;
                Ok(done)
            }
            Err(error) => {
                connection.end("ROLLBACK");
                Err(error)
            }
        }
    }
}
