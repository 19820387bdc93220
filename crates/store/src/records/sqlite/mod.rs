//! Records in SQLite: one file, one writer at a time, many readers of whole moments.
//!
//! The write-ahead log is synchronised at every commit, since the usual setting loses acknowledged
//! commits when the power fails. Each reader holds a connection for as long as it reads and gives
//! it back; there are [`MAX_READERS`] of them, so that memory is bounded whatever is asked at once.

#[cfg(test)]
mod blob_tests;
mod blobs;
mod changes;
#[cfg(test)]
mod damage;
mod empty;
mod functions;
mod index;
mod read;
mod redeclare;
mod schema;
mod search;
#[cfg(test)]
mod tests;
mod write;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::RecordsError;
use super::seal::{SealKey, Seals};
use crate::state::{StateDir, create_private, sync_folder};

pub use blobs::StoredBlob;
pub use empty::LastRecord;
pub(super) use read::{GrantRow, Range, Scan, Snapshot, StreamRow};
pub(super) use search::Postings;
pub use write::{
    IncomingRecord, StreamedField, TargetStream, TextSource, UpsertOutcome, WriteBatch,
    WriteRefusal,
};

const NAME: &str = "records.db";
/// How long one process waits for another to finish writing.
const BUSY: Duration = Duration::from_secs(10);
/// How long a reader waits for one of the connections.
const QUEUE: Duration = Duration::from_secs(10);
/// The most connections that read at once.
pub const MAX_READERS: usize = 8;
/// Bytes of a page: a record of usual size with its neighbours, and few pages for a piece of text.
const PAGE_BYTES: i64 = 8192;
/// What a reader keeps in memory, in KiB.
const READER_CACHE: i64 = 2048;
/// What the writer keeps in memory, in KiB: the inner pages of all indexes.
const WRITER_CACHE: i64 = 32 * 1024;
/// Pages of the log, 32 MiB, after which it is written into the database. A page that many batches
/// change is then written once for them all.
const LOG_PAGES: i64 = 4096;

/// A database without a lineage, which is a new one, an older version's or one made from a backup,
/// begins a history of its own: what it was when clients last asked for changes may be another
/// state under the same numbers.
const DRAW_LINEAGE: &str = "UPDATE history SET lineage = randomblob(16) WHERE lineage IS NULL";

/// A database in a file.
pub(super) struct Sqlite {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Readers,
    seals: Seals,
}

/// Connections to read with.
struct Readers {
    idle: Mutex<(Vec<Connection>, usize)>,
    given_back: Condvar,
}

impl Sqlite {
    pub(super) fn is_there(state: &StateDir) -> bool {
        state.path().join(NAME).exists()
    }

    pub(super) fn open(state: &StateDir, now: Instant) -> Result<Self, RecordsError> {
        let path = state.path().join(NAME);
        // SQLite gives the files beside it the mode of this one.
        match create_private(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed_io("make", &path, error));
            }
            _ => {}
        }
        // Turning on the write-ahead log takes the database for itself, and SQLite does not wait
        // for that however long its timeout is; so processes that start at once queue here.
        let queue = File::open(&path).map_err(|error| failed_io("open", &path, error))?;
        queue.lock().map_err(|error| failed_io("lock", &path, error))?;
        let mut writer = opened(&path, || open_to_write(&path))?;
        let standing = opened(&path, || schema::migrate(&mut writer))?;
        match standing {
            schema::Standing::Ours => {}
            schema::Standing::Foreign => return Err(RecordsError::Damaged { path }),
            schema::Standing::Newer => return Err(RecordsError::Newer { path }),
        }
        // Last, so that a database that is not ours stays as it was.
        opened(&path, || writer.pragma_update(None, "journal_mode", "WAL"))?;
        opened(&path, || writer.execute(DRAW_LINEAGE, []))?;
        let keys = opened(&path, || seal_keys(&mut writer, now))?.ok_or(RecordsError::Random)?;
        let seals = Seals::new(keys).map_err(|_| RecordsError::Random)?;
        let readers = Readers { idle: Mutex::new((Vec::new(), 0)), given_back: Condvar::new() };
        Ok(Self { path, writer: Mutex::new(writer), readers, seals })
    }

    /// What seals cursors.
    pub(crate) fn seals(&self) -> &Seals {
        &self.seals
    }

    /// Reads one moment.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(Snapshot<'_>, &Seals) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let reader = self.readers.take(&self.path)?;
        let connection = reader.connection()?;
        // From the first query on, the transaction sees one moment. It is never written in.
        connection.execute_batch("BEGIN").map_err(problem)?;
        let done = read(Snapshot::new(connection), &self.seals);
        connection.execute_batch("ROLLBACK").map_err(problem)?;
        reader.give_back();
        done
    }

    /// Writes all or nothing.
    pub(super) fn write<T>(
        &self,
        now: Instant,
        write: impl FnOnce(&mut WriteBatch<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let mut writer = lock(&self.writer);
        let transaction =
            writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(problem)?;
        let mut batch = WriteBatch::new(&transaction, now);
        let done = write(&mut batch)?;
        batch.forget_states()?;
        batch.drop_idle_blobs()?;
        transaction.commit().map_err(problem)?;
        Ok(done)
    }

    /// The path of another file in the same folder.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    pub(super) fn backup(&self, to: &Path) -> Result<(), RecordsError> {
        let file = create_private(to).map_err(|error| failed_io("make", to, error))?;
        let copied = self
            .copy_into(to)
            .and_then(|()| file.sync_all().map_err(|error| failed_io("write", to, error)));
        if copied.is_err() {
            // Half a backup is worse than none; what cannot be removed either was told of.
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
        // One reading transaction: the copy is of one moment, and without the pages that are free.
        // The connections of readers may write nothing, not even a copy.
        let copy = || -> rusqlite::Result<()> {
            Connection::open(&self.path)?.execute("VACUUM INTO ?1", params![text])?;
            let copied = Connection::open(to)?;
            // No file beside it; a copy that fails is removed.
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
        let reader = self.readers.take(&self.path)?;
        let check = "PRAGMA quick_check(1)";
        let said: String =
            reader.connection()?.query_row(check, [], |row| row.get(0)).map_err(problem)?;
        reader.give_back();
        if said == "ok" { Ok(()) } else { Err(Problem::Corrupt) }
    }
}

/// A connection that was taken. It goes back with [`Taken::give_back`]; one whose reading failed or
/// panicked is closed instead, and another may be opened.
struct Taken<'r> {
    readers: &'r Readers,
    connection: Option<Connection>,
}

impl Readers {
    fn take(&self, path: &Path) -> Result<Taken<'_>, Problem> {
        let none_free =
            |(idle, open): &mut (Vec<Connection>, usize)| idle.is_empty() && *open >= MAX_READERS;
        let waiting = self.given_back.wait_timeout_while(lock(&self.idle), QUEUE, none_free);
        let (mut guard, waited) = waiting.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(Problem::Busy);
        }
        let mut taken = Taken { readers: self, connection: guard.0.pop() };
        if taken.connection.is_none() {
            guard.1 += 1;
            drop(guard);
            taken.connection = Some(open_to_read(path).map_err(problem)?);
        }
        Ok(taken)
    }
}

impl Taken<'_> {
    fn connection(&self) -> Result<&Connection, Problem> {
        self.connection.as_ref().ok_or(Problem::Busy)
    }

    fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            lock(&self.readers.idle).0.push(connection);
            self.readers.given_back.notify_one();
        }
        std::mem::forget(self);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        lock(&self.readers.idle).1 -= 1;
        self.readers.given_back.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed_io(doing: &'static str, path: &Path, error: io::Error) -> RecordsError {
    RecordsError::Io { doing, path: path.to_owned(), error }
}

fn opened<T>(path: &Path, open: impl FnOnce() -> rusqlite::Result<T>) -> Result<T, RecordsError> {
    open().map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            RecordsError::Damaged { path: path.to_owned() }
        }
        _ => RecordsError::Database { doing: "open", error },
    })
}

fn open_to_write(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // Of a new database alone; of one that is there it changes nothing.
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    // In WAL mode only FULL makes an answer durable before it is given.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    prepare(&connection)?;
    Ok(connection)
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
    // What is in the file decides nothing about what is run.
    connection.pragma_update(None, "trusted_schema", false)?;
    rusqlite::vtab::array::load_module(connection)?;
    functions::register(connection)
}

/// The keys of cursors, the newest first; the first is made here. None where there is no
/// randomness.
fn seal_keys(writer: &mut Connection, now: Instant) -> rusqlite::Result<Option<Vec<SealKey>>> {
    let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let count: i64 = transaction.query_row("SELECT count(*) FROM seals", [], |row| row.get(0))?;
    if count == 0 {
        let Ok(key) = SealKey::make() else { return Ok(None) };
        let insert = "INSERT INTO seals (id, secret, made) VALUES (?1, ?2, ?3)";
        transaction.execute(insert, params![key.id, key.secret, now.0])?;
    }
    let keys = transaction
        .prepare("SELECT id, secret FROM seals ORDER BY made DESC")?
        .query_map([], |row| Ok(SealKey { id: row.get(0)?, secret: row.get(1)? }))?
        .collect::<Result<_, _>>()?;
    transaction.commit()?;
    Ok(Some(keys))
}

/// What a caller is told of an error of the database. What nobody expected goes to the log under a
/// number.
pub(super) fn problem(error: rusqlite::Error) -> Problem {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Problem::Busy,
        Some(ErrorCode::DiskFull) => Problem::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Problem::Corrupt,
        code => {
            if matches!(
                error,
                rusqlite::Error::UserFunctionError(_)
                    | rusqlite::Error::FromSqlConversionFailure(..)
            ) {
                return Problem::Corrupt;
            }
            let incident = crate::new_incident();
            let extended = error.sqlite_error().map(|error| error.extended_code);
            tracing::error!(incident, ?code, ?extended, "unexpected error of the database");
            Problem::Internal { incident }
        }
    }
}
