//! The database of the history: changes, versions, and what is held.
//!
//! One connection syncs at each commit. The other one does not, for what may be lost in a power
//! cut. The write-ahead log keeps both in order.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};
use stile_domain::history::past_change::Author;

use super::error::HistoryError;
use super::file_metadata::FileMetadata;
use super::objects::Place;
use super::{NewChange, Waiting};
use crate::now;
use crate::state::lock_database;

const NAME: &str = "history.db";
/// `Stih`: tells the database from those of other programs.
const APPLICATION: i32 = 0x5374_6968;
/// How long one process waits for another to finish writing.
const BUSY: Duration = Duration::from_secs(10);
/// Each item migrates the schema from the version that is its index.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE spaces (
        space INTEGER PRIMARY KEY,
        folder TEXT UNIQUE NOT NULL,
        path TEXT NOT NULL
    ) STRICT;
    CREATE TABLE changes (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        space INTEGER NOT NULL,
        call INTEGER NOT NULL,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        path TEXT NOT NULL,
        destination TEXT,
        before BLOB,
        size_before INTEGER NOT NULL,
        after BLOB,
        version INTEGER,
        tool TEXT NOT NULL,
        subject TEXT NOT NULL,
        client TEXT,
        token TEXT
    ) STRICT;
    CREATE INDEX changes_by_path ON changes (space, path);
    CREATE INDEX changes_by_destination ON changes (space, destination)
        WHERE destination IS NOT NULL;
    CREATE INDEX changes_by_version ON changes (version) WHERE version IS NOT NULL;
    CREATE TABLE versions (
        version INTEGER PRIMARY KEY,
        hash BLOB UNIQUE NOT NULL,
        size INTEGER NOT NULL,
        stored INTEGER NOT NULL,
        file TEXT
    ) STRICT;
    CREATE TABLE contents (
        version INTEGER PRIMARY KEY,
        bytes BLOB NOT NULL
    ) STRICT;
    CREATE TABLE held (
        name TEXT PRIMARY KEY NOT NULL,
        path TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    ALTER TABLE changes ADD COLUMN mode INTEGER;
    ALTER TABLE changes ADD COLUMN attributes TEXT;
",
    "
    CREATE TABLE settings (
        name TEXT PRIMARY KEY NOT NULL,
        value INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
",
];

/// The row of a change, without its number.
pub(super) struct ChangeRow {
    space: i64,
    /// The number of the call, if it made a change before.
    call: Option<i64>,
    at: i64,
    kind: &'static str,
    path: String,
    destination: Option<String>,
    before: Option<[u8; 32]>,
    size_before: i64,
    after: Option<[u8; 32]>,
    author: Author,
    mode: Option<u32>,
    attributes: Option<String>,
    held: Option<String>,
}

impl ChangeRow {
    pub(super) fn new(space: i64, change: &NewChange<'_>) -> Self {
        Self {
            space,
            call: change.call.number().map(|number| number.0),
            at: now().0,
            kind: change.kind.word(),
            path: change.path.as_str().to_owned(),
            destination: change.to.map(|path| path.as_str().to_owned()),
            before: change.before.map(|hash| *hash.as_bytes()),
            size_before: integer(change.size_before),
            after: change.after.map(|hash| *hash.as_bytes()),
            author: change.call.author().clone(),
            mode: change.metadata.map(|metadata| metadata.mode),
            attributes: change.metadata.and_then(FileMetadata::attribute_text),
            held: change.held.map(str::to_owned),
        }
    }
}

/// Opens the database in `folder`, and makes it on first use. Returns the connection that syncs and
/// the one that does not.
pub(super) fn open(folder: &Path) -> Result<(Connection, Connection), HistoryError> {
    let path = folder.join(NAME);
    let _queue = lock_database(&path).map_err(|(_, error)| error)?;
    let mut connection = connect(&path, "FULL")?;
    migrate(&mut connection)?;
    Ok((connection, connect(&path, "NORMAL")?))
}

fn connect(path: &Path, synchronous: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // Takes effect before the first table is made, and is ignored afterwards.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    // On macOS, a sync that does not wait for the disk is not durable.
    connection.pragma_update(None, "fullfsync", true)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection) -> Result<(), HistoryError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    let migrations = MIGRATIONS.get(version..).ok_or(HistoryError::Newer)?;
    for migration in migrations {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    Ok(transaction.commit()?)
}

/// Returns the number of a space, which is recognised by its folder.
pub(super) fn space(
    connection: &mut Connection,
    folder: &str,
    path: &str,
) -> Result<i64, HistoryError> {
    let store = "INSERT INTO spaces (folder, path) VALUES (?1, ?2) \
                 ON CONFLICT (folder) DO UPDATE SET path = ?2 RETURNING space";
    Ok(connection.query_row(store, [folder, path], |row| row.get(0))?)
}

/// Records all changes that wait in one transaction, and replies to each.
pub(super) fn record(connection: &mut Connection, waiting: &[Waiting]) {
    let recorded: rusqlite::Result<Vec<i64>> = (|| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let numbers: rusqlite::Result<Vec<i64>> =
            waiting.iter().map(|change| insert(&transaction, change)).collect();
        let numbers = numbers?;
        transaction.commit()?;
        Ok(numbers)
    })();
    match recorded {
        Ok(numbers) => {
            for (change, number) in waiting.iter().zip(numbers) {
                let _ = change.reply.send(Ok(number));
            }
        }
        Err(error) => {
            for version in waiting.iter().filter_map(|change| change.version.as_ref()) {
                version.is_used.set(false);
            }
            let code = |error: &rusqlite::Error| match error {
                rusqlite::Error::SqliteFailure(code, _) => {
                    rusqlite::Error::SqliteFailure(*code, None)
                }
                _ => rusqlite::Error::InvalidQuery,
            };
            for change in waiting {
                let _ = change.reply.send(Err(HistoryError::Database(code(&error))));
            }
        }
    }
}

/// Returns a number as the database keeps it.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn insert(transaction: &Connection, waiting: &Waiting) -> rusqlite::Result<i64> {
    let Waiting { row, version, .. } = waiting;
    let version = match version {
        None => None,
        Some(stored) => {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO versions (hash, size, stored, file) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (hash) DO NOTHING",
            )?;
            let file = match &stored.place {
                Place::Database(_) => None,
                Place::File(name) => Some(name),
            };
            let row =
                params![stored.hash.as_bytes(), integer(stored.size), integer(stored.stored), file];
            let is_new = insert.execute(row)? > 0;
            stored.is_used.set(is_new);
            let mut find =
                transaction.prepare_cached("SELECT version FROM versions WHERE hash = ?1")?;
            let version: i64 = find.query_row([stored.hash.as_bytes()], |row| row.get(0))?;
            if let (true, Place::Database(bytes)) = (is_new, &stored.place) {
                transaction
                    .prepare_cached("INSERT INTO contents (version, bytes) VALUES (?1, ?2)")?
                    .execute(params![version, bytes])?;
            }
            Some(version)
        }
    };
    let mut insert = transaction.prepare_cached(
        "INSERT INTO changes (space, call, at, kind, path, destination, before, size_before, \
         after, version, tool, subject, client, token, mode, attributes) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    insert.execute(params![
        row.space,
        row.call.unwrap_or(0),
        row.at,
        row.kind,
        row.path,
        row.destination,
        row.before,
        row.size_before,
        row.after,
        version,
        row.author.tool,
        row.author.subject,
        row.author.client,
        row.author.token,
        row.mode,
        row.attributes,
    ])?;
    let number = transaction.last_insert_rowid();
    if row.call.is_none() {
        transaction
            .prepare_cached("UPDATE changes SET call = number WHERE number = ?1")?
            .execute([number])?;
    }
    if let Some(held) = &row.held {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO held (name, path) VALUES (?1, ?2)")?
            .execute(params![held, row.path])?;
    }
    Ok(number)
}
