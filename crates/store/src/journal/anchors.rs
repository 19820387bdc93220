//! Anchors: how far each file of the journal had come at its last sync, kept outside of the file.
//!
//! A file alone cannot show that its end was cut off, or that all of it was written anew. The
//! database of anchors can, as long as nobody changes both. It is a database of its own, so that
//! its syncs never delay the lookup of a token.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Row, TransactionBehavior, params};
use stile_domain::hash::ContentHash;
use stile_domain::journal_chain::JournalChain;

use crate::state::lock_database;

/// The name of the database in the state folder.
pub(super) const NAME: &str = "journal.db";
/// How long one process waits for another to finish writing.
const BUSY: Duration = Duration::from_secs(10);
const VERSION: i64 = 1;
const SCHEMA: &str = "
    CREATE TABLE anchors (
        file TEXT PRIMARY KEY NOT NULL,
        lines INTEGER NOT NULL,
        chain BLOB NOT NULL,
        retired INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID;
";

/// How far a file had come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    /// The name of the file.
    pub(super) file: String,
    /// The number of its lines.
    pub(super) lines: u64,
    /// The chain value of the last of them.
    pub(super) head: ContentHash,
    /// Whether the file was removed because it was older than the owner keeps lines.
    pub(super) retired: bool,
}

impl Anchor {
    pub(super) fn new(file: &str, chain: &JournalChain) -> Self {
        Self { file: file.to_owned(), lines: chain.lines(), head: chain.head(), retired: false }
    }
}

/// The database of anchors.
pub(super) struct Anchors {
    connection: Connection,
}

impl Anchors {
    /// Opens the database of a state folder, and makes it on first use.
    pub(super) fn open(state: &Path) -> rusqlite::Result<Self> {
        let path = state.join(NAME);
        let _queue = lock_database(&path).map_err(|(_, error)| cannot_open(error))?;
        let mut connection = Connection::open(&path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 =
            transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match version {
            0 => {
                transaction.execute_batch(SCHEMA)?;
                transaction.pragma_update(None, "user_version", VERSION)?;
            }
            VERSION => {}
            _ => return Err(cannot_open(std::io::Error::other("a newer version wrote it"))),
        }
        transaction.commit()?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        Ok(Self { connection })
    }

    /// Returns all anchors. Makes no database.
    pub(super) fn read_all(state: &Path) -> rusqlite::Result<Vec<Anchor>> {
        let path: PathBuf = state.join(NAME);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let anchors = Self::open(state)?;
        let mut query = anchors
            .connection
            .prepare("SELECT file, lines, chain, retired FROM anchors ORDER BY file")?;
        query.query_map([], anchor)?.collect()
    }

    /// Records how far files have come, durably.
    pub(super) fn record(&mut self, anchors: &[Anchor]) -> rusqlite::Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut upsert = transaction.prepare_cached(
                "INSERT INTO anchors (file, lines, chain) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (file) DO UPDATE SET lines = ?2, chain = ?3 WHERE lines < ?2",
            )?;
            for Anchor { file, lines, head, .. } in anchors {
                let lines = i64::try_from(*lines).unwrap_or(i64::MAX);
                upsert.execute(params![file, lines, head.as_bytes()])?;
            }
        }
        transaction.commit()
    }

    /// Records that a file is about to be removed because of its age.
    pub(super) fn retire(&self, file: &str) -> rusqlite::Result<()> {
        let update = "UPDATE anchors SET retired = 1 WHERE file = ?1";
        self.connection.execute(update, [file]).map(drop)
    }
}

fn anchor(row: &Row<'_>) -> rusqlite::Result<Anchor> {
    let head: [u8; 32] = row.get(2)?;
    Ok(Anchor {
        file: row.get(0)?,
        lines: row.get::<_, i64>(1)?.try_into().unwrap_or(0),
        head: ContentHash::from_bytes(head),
        retired: row.get(3)?,
    })
}

fn cannot_open(error: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}
