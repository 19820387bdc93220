//! The database of a person's records, and the only way to it.
//!
//! [`Records`] is an engine out of a closed list, today SQLite in one file of the state folder.
//! Reading is done through a [`RecordsView`]: one moment of the database as one caller may see it. It is
//! made from a permit, looks the caller's grant up in that same moment, and puts what the grant
//! excludes into every query. Writing is done through a [`WriteBatch`], which the owner alone may make:
//! all of it is stored, durably, or nothing.
//!
//! What a grant means is decided in `view` once for all engines; an engine answers plain questions.

mod grants;
pub(crate) mod seal;
mod search;
mod spool_file;
mod sqlite;
mod view;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use stile_domain::records::authority::{OwnerPermit, RecordsPermit};
use stile_domain::records::grant::Grant;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use crate::state::StateDir;

pub use grants::{GrantRecord, GrantStatus};
pub use search::{FieldMatch, RecordHit, RecordSearchPage, RecordSearchQuery};
pub use spool_file::SpoolFile;
pub use sqlite::{
    IncomingRecord, LastRecord, MAX_READERS, StoredBlob, StreamedField, TargetStream, TextSource,
    UpsertOutcome, WriteBatch, WriteRefusal,
};
pub use view::{
    Blob, LoadedRecord, LongValueRef, RecordChange, RecordPage, RecordQuery, RecordRow,
    RecordSource, RecordsView, SortOrder,
};

use grants::Standing;
use sqlite::Sqlite;

/// The database. Clones are one.
#[derive(Clone)]
pub struct Records {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    /// Grants that were parsed, with the text that they were parsed from.
    parsed: Mutex<HashMap<String, (String, Arc<Grant>)>>,
}

/// The engines there are.
enum Engine {
    Sqlite(Sqlite),
}

/// Why the database is not used as it is. The message says what the owner can do.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The file system refused.
    #[error("cannot {doing} {}: {error}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The database is not ours, or no longer one.
    #[error("{} is not a database of records, or is damaged; restore it from a backup (`stile backup` makes them), \
             or move it away and import again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The database is from the future.
    #[error("{} was made by a newer stile; use that version, or name another state folder with --state", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
    },
    /// The database failed.
    #[error("cannot {doing} the records: {error}")]
    Database {
        /// What was tried.
        doing: &'static str,
        /// What SQLite said.
        error: rusqlite::Error,
    },
    /// There is no randomness to make a key from.
    #[error("the system gives no random numbers, so no cursor can be sealed")]
    Random,
}

impl Records {
    /// Opens the database; makes it, or brings it to this version, where needed.
    ///
    /// # Errors
    /// [`RecordsError`] where it is damaged, another program's or a newer version's.
    pub fn open(state: &StateDir, now: Instant) -> Result<Self, RecordsError> {
        let engine = Engine::Sqlite(Sqlite::open(state, now)?);
        Ok(Self { inner: Arc::new(Inner { engine, parsed: Mutex::default() }) })
    }

    /// Whether there is a database to open, or one would be made.
    pub fn exists(state: &StateDir) -> bool {
        Sqlite::is_there(state)
    }

    /// Reads, in one moment of the database and as one caller may see it. Blocks.
    ///
    /// # Errors
    /// What the grant says against it, and what `read` does.
    pub fn read<T>(
        &self,
        permit: &RecordsPermit,
        now: Instant,
        read: impl FnOnce(&RecordsView<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let Engine::Sqlite(sqlite) = &self.inner.engine;
        let mut read = Some(read);
        for _ in 0..2 {
            let done = sqlite.read(|snapshot, seals| {
                match grants::standing(&snapshot, permit.caller(), now, &self.inner.parsed)? {
                    Standing::Unbound => Ok(None),
                    Standing::Settled(authority) => {
                        let view = RecordsView::new(snapshot, authority, seals, now);
                        read.take().map(|read| read(&view)).transpose()
                    }
                }
            })?;
            match done {
                Some(done) => return Ok(done),
                None => grants::bind(sqlite, permit.caller(), now)?,
            }
        }
        Err(Problem::GrantConsumed)
    }

    /// Seals state that a client is to bring back, as cursors are sealed.
    ///
    /// # Errors
    /// [`Problem::Internal`] where there is no randomness.
    pub fn seal(&self, plain: &[u8]) -> Result<String, Problem> {
        let Engine::Sqlite(sqlite) = &self.inner.engine;
        sqlite
            .seals()
            .seal(plain)
            .map_err(|_| Problem::Internal { incident: crate::new_incident() })
    }

    /// Opens what [`Records::seal`] made, with this or with another server of the same database.
    /// None for everything else.
    pub fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        let Engine::Sqlite(sqlite) = &self.inner.engine;
        sqlite.seals().open(text)
    }

    /// Writes: all that `write` does is stored, durably, or, where it fails, nothing. Blocks.
    ///
    /// # Errors
    /// What the database says against it, and what `write` does.
    pub fn write<T>(
        &self,
        permit: &OwnerPermit,
        write: impl FnOnce(&mut WriteBatch<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.write_at(permit, now(), write)
    }

    /// The same at a moment that the caller states.
    ///
    /// # Errors
    /// As [`Records::write`].
    pub fn write_at<T>(
        &self,
        _permit: &OwnerPermit,
        now: Instant,
        write: impl FnOnce(&mut WriteBatch<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let Engine::Sqlite(sqlite) = &self.inner.engine;
        sqlite.write(now, write)
    }

    /// Writes a consistent copy of the database to a new file, while others read and write. Blocks.
    ///
    /// # Errors
    /// [`RecordsError`]; there is then no such file.
    pub fn backup(&self, _permit: &OwnerPermit, to: &std::path::Path) -> Result<(), RecordsError> {
        let Engine::Sqlite(sqlite) = &self.inner.engine;
        sqlite.backup(to)
    }

    /// Whether every page and index of the database is sound, as far as SQLite can tell. Blocks,
    /// for long.
    ///
    /// # Errors
    /// [`Problem::Corrupt`].
    pub fn check(&self, _permit: &OwnerPermit) -> Result<(), Problem> {
        let Engine::Sqlite(sqlite) = &self.inner.engine;
        sqlite.check()
    }
}

/// The time, by which changes are kept and forgotten.
fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

fn parsed_grants(
    parsed: &Mutex<HashMap<String, (String, Arc<Grant>)>>,
    id: &str,
    terms: &str,
) -> Result<Arc<Grant>, Problem> {
    /// More grants than anybody has at once; beyond that the memory is given back.
    const MOST: usize = 1000;
    let mut parsed = parsed.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((text, grant)) = parsed.get(id)
        && text == terms
    {
        return Ok(Arc::clone(grant));
    }
    let grant = Arc::new(Grant::parse(terms).map_err(|_| Problem::GrantInvalid)?);
    if parsed.len() >= MOST {
        parsed.clear();
    }
    parsed.insert(id.to_owned(), (terms.to_owned(), Arc::clone(&grant)));
    Ok(grant)
}
