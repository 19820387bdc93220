//! Anchors: how far each file of the journal had come at its last sync, kept outside of the file.
//!
//! A file alone cannot show that its end was cut off, or that all of it was written anew. The
//! database of anchors can. Each file has an anchor from before its first line, so a file without
//! one was not written by this program. Each anchor is bound to a key ([`AnchorKey`]), and so is
//! the number of anchors, so that none can be changed or taken out by whoever lacks the key. The
//! database is one of its own, so that its syncs never delay the lookup of a token.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};
use stile_domain::hash::ContentHash;
use stile_domain::journal_chain::JournalChain;

use super::anchor_key::AnchorKey;
use crate::sql::wait_for_disk;
use crate::state::lock_database;

/// The name of the database in the state folder.
pub(super) const NAME: &str = "journal.db";
/// How long one process waits for another to finish writing.
const BUSY: Duration = Duration::from_secs(10);
const VERSION: i64 = 2;
/// The version whose anchors were bound to no key.
const WITHOUT_KEY: i64 = 1;
const SCHEMA: &str = "
    CREATE TABLE anchors (
        file TEXT PRIMARY KEY NOT NULL,
        lines INTEGER NOT NULL,
        chain BLOB NOT NULL,
        -- 0 for a file that lines may be added to, 1 for one that was removed for its age, 2 for
        -- one that is finished.
        retired INTEGER NOT NULL DEFAULT 0,
        removed INTEGER NOT NULL DEFAULT 0,
        mac BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE ledger (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        files INTEGER NOT NULL,
        made_anew INTEGER NOT NULL,
        mac BLOB NOT NULL
    ) STRICT;
";
const SELECT: &str = "SELECT file, lines, chain, retired, removed, mac FROM anchors";

/// How far a file had come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    /// The name of the file.
    pub(super) file: String,
    /// The number of its lines.
    pub(super) lines: u64,
    /// The chain value of the last of them.
    pub(super) head: ContentHash,
    /// Whether lines may still be added to the file.
    pub(super) phase: FilePhase,
    /// How many of its lines the owner removed.
    pub(super) removed: u64,
}

impl Anchor {
    pub(super) fn new(file: &str, chain: &JournalChain) -> Self {
        let file = file.to_owned();
        Self { file, lines: chain.lines(), head: chain.head(), phase: FilePhase::Open, removed: 0 }
    }

    /// Returns the text that the code of the anchor binds. The name is last, since it alone can
    /// have any bytes.
    fn text(&self) -> String {
        let Self { file, lines, head, phase, removed } = self;
        let phase = match phase {
            FilePhase::Open => "false",
            FilePhase::Retired => "true",
            FilePhase::Finished => "finished",
        };
        format!("stile anchor 1\n{lines}\n{head}\n{phase}\n{removed}\n{file}")
    }
}

/// How far the life of a file has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilePhase {
    /// A process may add lines to the file.
    Open,
    /// The file was removed, since it was older than the owner keeps lines.
    Retired,
    /// The file has all its lines: no process adds any.
    Finished,
}

impl FilePhase {
    fn to_column(self) -> i64 {
        match self {
            Self::Open => 0,
            Self::Retired => 1,
            Self::Finished => 2,
        }
    }

    fn of_column(column: i64) -> Self {
        match column {
            0 => Self::Open,
            2 => Self::Finished,
            _ => Self::Retired,
        }
    }
}

/// How many anchors there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ledger {
    files: u64,
    /// Whether the database was made although there had been one before.
    made_anew: bool,
}

impl Ledger {
    fn text(self) -> String {
        format!("stile ledger 1\n{}\n{}", self.files, self.made_anew)
    }
}

/// The anchors as they are read.
#[derive(Debug, Default)]
pub(super) struct FoundAnchors {
    /// The anchors that are bound to the key.
    pub(super) anchors: Vec<Anchor>,
    /// The names of files whose anchors are not bound to the key.
    pub(super) forged: Vec<String>,
    /// What is wrong with the database as a whole.
    pub(super) fault: Option<AnchorsFault>,
}

/// What is wrong with the database of anchors as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnchorsFault {
    /// There was a database, and there is none.
    Missing,
    /// The key is missing.
    KeyMissing,
    /// There was a database, and a start found none and made another one.
    MadeAnew,
    /// Anchors were taken out, at least so many; 0 if their number cannot be known.
    TakenOut(u64),
}

/// The database of anchors, open to write.
pub(super) struct Anchors {
    connection: Connection,
    key: AnchorKey,
}

impl Anchors {
    /// Opens the database of a state folder, and makes it with its key on first use. `unanchored`
    /// returns the chained files that an earlier version of the program may have left without an
    /// anchor.
    pub(super) fn open(
        state: &Path,
        unanchored: impl FnOnce() -> Vec<String>,
    ) -> rusqlite::Result<Self> {
        let path = state.join(NAME);
        let _queue = lock_database(&path).map_err(|(_, error)| cannot_open(error))?;
        let mut connection = connect(&path)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version = version(&transaction)?;
        let found = AnchorKey::find(state).map_err(cannot_open)?;
        let had_key = found.is_some();
        let found = match found {
            None if version == VERSION => AnchorKey::find_prepared(state).map_err(cannot_open)?,
            found => found,
        };
        let is_new = found.is_none();
        let key = match found {
            Some(key) => key,
            None => AnchorKey::prepare(state).map_err(cannot_open)?,
        };
        match version {
            0 => {
                transaction.execute_batch(SCHEMA)?;
                write_ledger(&transaction, &key, Ledger { files: 0, made_anew: had_key })?;
            }
            WITHOUT_KEY => bind_to_key(&transaction, &key, had_key, unanchored())?,
            VERSION => {}
            _ => return Err(cannot_open(std::io::Error::other("a newer version wrote it"))),
        }
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        if is_new {
            AnchorKey::keep_prepared(state).map_err(cannot_open)?;
        }
        Ok(Self { connection, key })
    }

    /// Reads all anchors. Makes no database and no key, and changes neither.
    pub(super) fn read_all(state: &Path) -> rusqlite::Result<FoundAnchors> {
        let path = state.join(NAME);
        let key = AnchorKey::find(state).map_err(cannot_open)?;
        if !path.exists() {
            let fault = key.map(|_| AnchorsFault::Missing);
            return Ok(FoundAnchors { fault, ..FoundAnchors::default() });
        }
        let connection = connect(&path)?;
        match (version(&connection)?, key) {
            (0, None) => Ok(FoundAnchors::default()),
            (0, Some(_)) => {
                Ok(FoundAnchors { fault: Some(AnchorsFault::Missing), ..FoundAnchors::default() })
            }
            (WITHOUT_KEY, key) => {
                let text = "SELECT file, lines, chain, retired, 0 FROM anchors ORDER BY file";
                let mut query = connection.prepare(text)?;
                let anchors = query.query_map([], anchor)?.collect::<rusqlite::Result<_>>()?;
                let fault = key.map(|_| AnchorsFault::MadeAnew);
                Ok(FoundAnchors { anchors, forged: Vec::new(), fault })
            }
            (VERSION, Some(key)) => read_bound(&connection, &key),
            (VERSION, None) => {
                let mut query = connection.prepare("SELECT file FROM anchors ORDER BY file")?;
                let files = query.query_map([], |row| row.get(0))?;
                let forged = files.collect::<rusqlite::Result<_>>()?;
                let fault = Some(AnchorsFault::KeyMissing);
                Ok(FoundAnchors { anchors: Vec::new(), forged, fault })
            }
            _ => Err(cannot_open(std::io::Error::other("a newer version wrote it"))),
        }
    }

    /// Records how far files have come, durably, and which of them are finished. An anchor that is
    /// not bound to the key stays as it is, so that it is found. So does that of a finished file.
    pub(super) fn record(&mut self, anchors: &[Anchor]) -> rusqlite::Result<()> {
        let key = &self.key;
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for new in anchors {
            match find(&transaction, key, &new.file)? {
                Found::None => {
                    write(&transaction, key, new)?;
                    if let Some(ledger) = read_ledger(&transaction, key)? {
                        let ledger = Ledger { files: ledger.files.saturating_add(1), ..ledger };
                        write_ledger(&transaction, key, ledger)?;
                    }
                }
                Found::Bound(Anchor { lines, phase: FilePhase::Open, removed, .. })
                    if lines < new.lines || new.phase != FilePhase::Open =>
                {
                    write(&transaction, key, &Anchor { removed, ..new.clone() })?;
                }
                Found::Bound(_) | Found::Forged => {}
            }
        }
        transaction.commit()
    }

    /// Records that a file is about to be removed because of its age. Returns whether the file has
    /// an anchor that is bound to the key; of any other nothing is recorded.
    pub(super) fn retire(&mut self, file: &str) -> rusqlite::Result<bool> {
        self.change(file, |known| Anchor { phase: FilePhase::Retired, ..known })
    }

    /// Returns the anchors of the files to which lines may still be added.
    pub(super) fn unfinished(&self) -> rusqlite::Result<Vec<Anchor>> {
        let mut query = self.connection.prepare(&format!("{SELECT} WHERE retired = 0"))?;
        let rows = query.query_map([], |row| Ok((anchor(row)?, row.get::<_, Vec<u8>>(5)?)))?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        let bound = rows.into_iter().filter(|(anchor, mac)| self.key.verifies(&anchor.text(), mac));
        Ok(bound.map(|(anchor, _)| anchor).collect())
    }

    /// Records that the owner removes lines of a file, of which `lines` are then removed in all.
    pub(super) fn set_removed(&mut self, file: &str, lines: u64) -> rusqlite::Result<()> {
        self.change(file, |known| Anchor { removed: known.removed.max(lines), ..known }).map(drop)
    }

    /// Changes an anchor that is bound to the key. Returns whether there is one.
    fn change(&mut self, file: &str, to: impl FnOnce(Anchor) -> Anchor) -> rusqlite::Result<bool> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let Found::Bound(known) = find(&transaction, &self.key, file)? else { return Ok(false) };
        write(&transaction, &self.key, &to(known))?;
        transaction.commit()?;
        Ok(true)
    }
}

/// What the database has of a file.
enum Found {
    None,
    Bound(Anchor),
    Forged,
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    wait_for_disk(&connection, "FULL")?;
    Ok(connection)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Binds the anchors of an earlier version to a key, and gives `unanchored` files one each.
/// `had_key` says that an anchor of this version had been there before.
fn bind_to_key(
    transaction: &Transaction<'_>,
    key: &AnchorKey,
    had_key: bool,
    unanchored: Vec<String>,
) -> rusqlite::Result<()> {
    let text = "SELECT file, lines, chain, retired, 0 FROM anchors";
    let mut anchors: Vec<Anchor> =
        transaction.prepare(text)?.query_map([], anchor)?.collect::<rusqlite::Result<_>>()?;
    for file in unanchored {
        if !anchors.iter().any(|known| known.file == file) {
            anchors.push(Anchor::new(&file, &JournalChain::of_file(&file)));
        }
    }
    transaction.execute_batch("DROP TABLE anchors;")?;
    transaction.execute_batch(SCHEMA)?;
    for anchor in &anchors {
        write(transaction, key, anchor)?;
    }
    write_ledger(transaction, key, Ledger { files: anchors.len() as u64, made_anew: had_key })
}

fn read_bound(connection: &Connection, key: &AnchorKey) -> rusqlite::Result<FoundAnchors> {
    let mut found = FoundAnchors::default();
    let mut query = connection.prepare(&format!("{SELECT} ORDER BY file"))?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (anchor, mac): (Anchor, Vec<u8>) = (anchor(row)?, row.get(5)?);
        if key.verifies(&anchor.text(), &mac) {
            found.anchors.push(anchor);
        } else {
            found.forged.push(anchor.file);
        }
    }
    let there = (found.anchors.len() + found.forged.len()) as u64;
    found.fault = match read_ledger(connection, key)? {
        Some(Ledger { made_anew: true, .. }) => Some(AnchorsFault::MadeAnew),
        Some(Ledger { files, .. }) if files > there => Some(AnchorsFault::TakenOut(files - there)),
        Some(_) => None,
        None => Some(AnchorsFault::TakenOut(0)),
    };
    Ok(found)
}

fn find(connection: &Connection, key: &AnchorKey, file: &str) -> rusqlite::Result<Found> {
    let text = format!("{SELECT} WHERE file = ?1");
    let row = connection
        .prepare_cached(&text)?
        .query_row([file], |row| Ok((anchor(row)?, row.get::<_, Vec<u8>>(5)?)))
        .optional()?;
    Ok(match row {
        None => Found::None,
        Some((anchor, mac)) if key.verifies(&anchor.text(), &mac) => Found::Bound(anchor),
        Some(_) => Found::Forged,
    })
}

fn write(connection: &Connection, key: &AnchorKey, anchor: &Anchor) -> rusqlite::Result<()> {
    let Anchor { file, lines, head, phase, removed } = anchor;
    let (lines, phase, removed) = (to_column(*lines), phase.to_column(), to_column(*removed));
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO anchors (file, lines, chain, retired, removed, mac) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![file, lines, head.as_bytes(), phase, removed, key.mac(&anchor.text())])
        .map(drop)
}

/// Reads the number of anchors; `None` if it is missing or not bound to the key.
fn read_ledger(connection: &Connection, key: &AnchorKey) -> rusqlite::Result<Option<Ledger>> {
    let text = "SELECT files, made_anew, mac FROM ledger WHERE one = 1";
    let row = connection.query_row(text, [], |row| {
        let ledger = Ledger { files: from_column(row.get(0)?), made_anew: row.get(1)? };
        Ok((ledger, row.get::<_, Vec<u8>>(2)?))
    });
    Ok(row
        .optional()?
        .and_then(|(ledger, mac)| key.verifies(&ledger.text(), &mac).then_some(ledger)))
}

fn write_ledger(connection: &Connection, key: &AnchorKey, ledger: Ledger) -> rusqlite::Result<()> {
    connection
        .execute(
            "INSERT OR REPLACE INTO ledger (one, files, made_anew, mac) VALUES (1, ?1, ?2, ?3)",
            params![to_column(ledger.files), ledger.made_anew, key.mac(&ledger.text())],
        )
        .map(drop)
}

fn anchor(row: &Row<'_>) -> rusqlite::Result<Anchor> {
    let head: [u8; 32] = row.get(2)?;
    Ok(Anchor {
        file: row.get(0)?,
        lines: from_column(row.get(1)?),
        head: ContentHash::from_bytes(head),
        phase: FilePhase::of_column(row.get(3)?),
        removed: from_column(row.get(4)?),
    })
}

fn to_column(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn from_column(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

fn cannot_open(error: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}
