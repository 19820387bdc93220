//! Records in SQLite: one file, one writer at a time, and readers that each see one moment.
//!
//! Every commit syncs the write-ahead log, since the usual setting loses acknowledged commits when
//! the power fails. A reader borrows one of [`MAX_READERS`] connections, so that memory is bounded
//! however many requests arrive at once.

#[cfg(test)]
mod blob_tests;
mod blobs;
mod changes;
#[cfg(test)]
mod damage;
mod field_values;
mod functions;
mod read;
mod schema;
mod search;
#[cfg(test)]
mod shared_rows;
#[cfg(test)]
pub(super) mod tests;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::model::{PROGRESS_TABLE, RecordsError};
use super::port::{RowWriter, Snapshot};
use crate::read_limit::{MAX_READERS, ReadLimit};
use crate::seal::{SealKey, Seals};
use crate::sql::{sqlite_problem, wait_for_disk};
use crate::state::{Migration, StateDir, create_private, lock_database, sync_folder};

use read::SqliteSnapshot;
pub(super) use schema::CREATION;
use schema::SCHEMA;
pub(super) use write::SqliteWriter;

pub(super) const NAME: &str = "records.db";
/// How long one process waits for another to finish writing.
const BUSY: Duration = Duration::from_secs(10);
/// How long a reader waits for a connection.
const QUEUE: Duration = Duration::from_secs(10);
/// How many steps of its machine SQLite takes until the limit of a read is checked: some tenths of
/// a millisecond.
const STEPS_PER_CHECK: i32 = 10_000;
/// The size of a page in bytes: a few records of usual size, and few pages for a piece of text.
const PAGE_BYTES: i64 = 8192;
/// The cache of a reader, in KiB.
const READER_CACHE: i64 = 2048;
/// The cache of the writer, in KiB: enough for the inner pages of all indexes.
const WRITER_CACHE: i64 = 32 * 1024;
/// The pages of the log, 32 MiB, after which SQLite writes it into the database. A page that many
/// batches change is then written once.
const LOG_PAGES: i64 = 4096;

/// The cache of the writer during a bulk load, in KiB: enough for all pages of the indexes of a
/// million records, which records without order touch all over.
const BULK_CACHE: i64 = 192 * 1024;
/// The pages of the log during a bulk load: 512 MiB.
const BULK_LOG_PAGES: i64 = 65_536;
/// The bytes of tokens that SQLite gathers in memory during a bulk load: enough for a batch, which
/// then adds one list of lists to the index. So fewer are merged.
const BULK_TOKENS: i64 = 64 << 20;
/// The same for a single write, as the schema sets it.
const TOKENS: i64 = 16 << 20;
/// The records of a batch of a bulk load. A batch writes each page of an index that it touches
/// once.
const BULK_BATCH: usize = 50_000;

/// Begins a new history in a database without a lineage: a new one, or one restored from a backup.
/// The state at a client's last sync may have had other contents under the same numbers.
const DRAW_LINEAGE: &str = "UPDATE history SET lineage = randomblob(16) WHERE lineage IS NULL";

/// The database in its file.
pub(super) struct Sqlite {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Readers,
    seals: Seals,
}

/// Connections that read: the idle ones, and the number of open ones.
struct Readers {
    idle: Mutex<(Vec<Connection>, usize)>,
    returned: Condvar,
}

impl Sqlite {
    pub(super) fn exists(state: &StateDir) -> bool {
        state.path().join(NAME).exists()
    }

    pub(super) fn open(state: &StateDir, now: Instant) -> Result<Self, RecordsError> {
        let path = state.path().join(NAME);
        let _queue =
            lock_database(&path).map_err(|(doing, error)| failed_io(doing, &path, error))?;
        let mut writer = opened(&path, || open_to_write(&path))?;
        opened(&path, || SCHEMA.copy_older(&writer, &path))?;
        migrate(&mut writer, &path)?;
        if opened(&path, || writer.table_exists(None, PROGRESS_TABLE))? {
            return Err(RecordsError::HalfCopied);
        }
        // Last, so that another program's database stays as it was.
        opened(&path, || writer.pragma_update(None, "journal_mode", "WAL"))?;
        if opened(&path, || lacks_lineage(&writer))? {
            opened(&path, || writer.execute(DRAW_LINEAGE, []))?;
        }
        let keys = opened(&path, || seal_keys(&mut writer, now))?.ok_or(RecordsError::Random)?;
        let seals = Seals::new(keys).map_err(|_| RecordsError::Random)?;
        let readers = Readers { idle: Mutex::new((Vec::new(), 0)), returned: Condvar::new() };
        Ok(Self { path, writer: Mutex::new(writer), readers, seals })
    }

    /// Opens a connection that reads a database, which [`Sqlite::open`] has opened before.
    pub(super) fn raw_reader(state: &StateDir) -> Result<Connection, RecordsError> {
        let path = state.path().join(NAME);
        opened(&path, || open_to_read(&path))
    }

    /// Opens a connection that fills a database with the rows of another one. Creates the
    /// database if needed, with neither a lineage nor a key.
    pub(super) fn raw_writer(state: &StateDir) -> Result<Connection, RecordsError> {
        let path = state.path().join(NAME);
        let _queue =
            lock_database(&path).map_err(|(doing, error)| failed_io(doing, &path, error))?;
        let mut writer = opened(&path, || open_to_write(&path))?;
        migrate(&mut writer, &path)?;
        opened(&path, || writer.pragma_update(None, "journal_mode", "WAL"))?;
        Ok(writer)
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
        let mut reader = self.readers.borrow(&self.path)?;
        let connection = reader.connection_mut()?;
        // From the first query on, the transaction sees one moment. It never writes.
        connection.execute_batch("BEGIN").map_err(sqlite_problem)?;
        let limit = limit.clone();
        let is_reached = move || limit.is_reached();
        connection.progress_handler(STEPS_PER_CHECK, Some(is_reached)).map_err(sqlite_problem)?;
        let done = read(&SqliteSnapshot::new(connection));
        connection.progress_handler(0, None::<fn() -> bool>).map_err(sqlite_problem)?;
        connection.execute_batch("ROLLBACK").map_err(sqlite_problem)?;
        reader.give_back();
        done
    }

    /// Runs `write` in a transaction, which keeps all or nothing.
    pub(super) fn write<T>(
        &self,
        write: impl FnOnce(&dyn RowWriter) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let mut writer = lock(&self.writer);
        let transaction = writer
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sqlite_problem)?;
        let done = write(&SqliteWriter::new(&transaction))?;
        transaction.commit().map_err(sqlite_problem)?;
        Ok(done)
    }

    /// Gives the writer more memory. Returns how many records a batch should have.
    pub(super) fn begin_bulk_load(&self) -> Result<usize, Problem> {
        let writer = lock(&self.writer);
        resize(&writer, BULK_CACHE, BULK_LOG_PAGES).map_err(sqlite_problem)?;
        gather_tokens(&writer, BULK_TOKENS).map_err(sqlite_problem)?;
        Ok(BULK_BATCH)
    }

    /// Gives back the memory.
    pub(super) fn end_bulk_load(&self) -> Result<(), Problem> {
        let writer = lock(&self.writer);
        resize(&writer, WRITER_CACHE, LOG_PAGES).map_err(sqlite_problem)?;
        gather_tokens(&writer, TOKENS).map_err(sqlite_problem)
    }

    /// Returns the path of another file in the folder of the database.
    pub(super) fn sibling(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    pub(super) fn backup(&self, to: &Path) -> Result<(), RecordsError> {
        let file = create_private(to).map_err(|error| failed_io("make", to, error))?;
        let copied = self
            .copy_into(to)
            .and_then(|()| file.sync_all().map_err(|error| failed_io("write", to, error)));
        if copied.is_err() {
            // Half a backup is worse than none. The first error is the one to report.
            let _ = std::fs::remove_file(to);
            return copied;
        }
        let folder =
            to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync_folder(folder).map_err(|error| failed_io("write", to, error))
    }

    fn copy_into(&self, to: &Path) -> Result<(), RecordsError> {
        let text = to
            .to_str()
            .ok_or_else(|| failed_io("make", to, io::ErrorKind::InvalidFilename.into()))?;
        // The copy is of one moment and has no free pages. Connections of readers cannot make it,
        // since they may not write.
        let copy = || -> rusqlite::Result<()> {
            Connection::open(&self.path)?.execute("VACUUM INTO ?1", params![text])?;
            let copied = Connection::open(to)?;
            // No journal file: a copy that fails is removed.
            copied.pragma_update(None, "journal_mode", "MEMORY")?;
            copied.execute("UPDATE history SET lineage = NULL", []).map(drop)
        };
        copy().map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                RecordsError::Damaged { path: self.path.clone() }
            }
            _ => RecordsError::Database { doing: "copy", error },
        })
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        let reader = self.readers.borrow(&self.path)?;
        let check = "PRAGMA quick_check(1)";
        let result: String =
            reader.connection()?.query_row(check, [], |row| row.get(0)).map_err(sqlite_problem)?;
        reader.give_back();
        if result == "ok" { Ok(()) } else { Err(Problem::Corrupt) }
    }
}

/// A borrowed connection. [`Borrowed::give_back`] returns it. After a failure or a panic it is
/// closed instead, and another one may be opened.
struct Borrowed<'r> {
    readers: &'r Readers,
    connection: Option<Connection>,
}

impl Readers {
    fn borrow(&self, path: &Path) -> Result<Borrowed<'_>, Problem> {
        let none_free =
            |(idle, open): &mut (Vec<Connection>, usize)| idle.is_empty() && *open >= MAX_READERS;
        let waiting = self.returned.wait_timeout_while(lock(&self.idle), QUEUE, none_free);
        let (mut guard, waited) = waiting.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(Problem::Busy);
        }
        let mut borrowed = Borrowed { readers: self, connection: guard.0.pop() };
        if borrowed.connection.is_none() {
            guard.1 += 1;
            drop(guard);
            borrowed.connection = Some(open_to_read(path).map_err(sqlite_problem)?);
        }
        Ok(borrowed)
    }
}

impl Borrowed<'_> {
    fn connection_mut(&mut self) -> Result<&mut Connection, Problem> {
        self.connection.as_mut().ok_or(Problem::Busy)
    }

    fn connection(&self) -> Result<&Connection, Problem> {
        self.connection.as_ref().ok_or(Problem::Busy)
    }

    fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            lock(&self.readers.idle).0.push(connection);
            self.readers.returned.notify_one();
        }
        std::mem::forget(self);
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        lock(&self.readers.idle).1 -= 1;
        self.readers.returned.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed_io(doing: &'static str, path: &Path, error: io::Error) -> RecordsError {
    RecordsError::Io { doing, path: path.to_owned(), error }
}

fn migrate(writer: &mut Connection, path: &Path) -> Result<(), RecordsError> {
    match opened(path, || SCHEMA.migrate(writer))? {
        Migration::Done => Ok(()),
        Migration::Foreign => Err(RecordsError::Damaged { path: path.to_owned() }),
        Migration::Newer => Err(RecordsError::Newer { path: path.to_owned() }),
    }
}

fn opened<T>(path: &Path, open: impl FnOnce() -> rusqlite::Result<T>) -> Result<T, RecordsError> {
    open().map_err(|error| match (error.sqlite_error_code(), &error) {
        (Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt), _)
        // The file holds a value of another type than the column has.
        | (
            None,
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..),
        ) => RecordsError::Damaged { path: path.to_owned() },
        (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => RecordsError::Busy,
        _ => RecordsError::Database { doing: "open", error },
    })
}

fn open_to_write(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // Takes effect in a new database only.
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    // In WAL mode only FULL makes a commit durable before it is acknowledged.
    wait_for_disk(&connection, "FULL")?;
    resize(&connection, WRITER_CACHE, LOG_PAGES)?;
    prepare(&connection)?;
    Ok(connection)
}

/// Sets the cache of a writer, in KiB, and the pages of its log.
fn resize(writer: &Connection, cache: i64, log_pages: i64) -> rusqlite::Result<()> {
    writer.pragma_update(None, "cache_size", -cache)?;
    writer.pragma_update(None, "wal_autocheckpoint", log_pages)
}

/// Sets how many bytes of tokens are gathered in memory. The database keeps the number, so after a
/// bulk load that was killed it stays until the next one ends. No other write has so many tokens.
fn gather_tokens(writer: &Connection, bytes: i64) -> rusqlite::Result<()> {
    let text = "INSERT INTO tokens (tokens, rank) VALUES ('hashsize', ?1)";
    writer.execute(text, [bytes]).map(drop)
}

fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE)?;
    prepare(&connection)?;
    Ok(connection)
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(64);
    // The content of the file must not decide which functions run.
    connection.pragma_update(None, "trusted_schema", false)?;
    rusqlite::vtab::array::load_module(connection)?;
    functions::register(connection)
}

fn lacks_lineage(connection: &Connection) -> rusqlite::Result<bool> {
    let text = "SELECT EXISTS (SELECT 1 FROM history WHERE lineage IS NULL)";
    connection.query_row(text, [], |row| row.get(0))
}

/// Returns the keys that seal cursors, the newest first, after making one if there is none. `None`
/// if the system gives no random bytes.
fn seal_keys(writer: &mut Connection, now: Instant) -> rusqlite::Result<Option<Vec<SealKey>>> {
    // A reader need not wait for an import, so the keys are looked for before a lock is taken.
    let known = stored_seal_keys(writer)?;
    if !known.is_empty() {
        return Ok(Some(known));
    }
    let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if stored_seal_keys(&transaction)?.is_empty() {
        let Ok(key) = SealKey::make() else { return Ok(None) };
        let insert = "INSERT INTO seals (id, secret, made) VALUES (?1, ?2, ?3)";
        transaction.execute(insert, params![key.id, key.secret, now.0])?;
    }
    let keys = stored_seal_keys(&transaction)?;
    transaction.commit()?;
    Ok(Some(keys))
}

fn stored_seal_keys(connection: &Connection) -> rusqlite::Result<Vec<SealKey>> {
    connection
        .prepare("SELECT id, secret FROM seals ORDER BY made DESC")?
        .query_map([], |row| Ok(SealKey { id: row.get(0)?, secret: row.get(1)? }))?
        .collect()
}
