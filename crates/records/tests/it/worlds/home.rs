//! Where a test keeps its databases: in SQLite, or on a real server of PostgreSQL.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stile_domain::records::instant::Instant;
use stile_store::postgresql::Database;
use stile_store::records::Records;
use stile_store::state::StateDir;
use stile_testkit::postgres::{PostgresServer, TestDatabase};

/// The engine of a test's databases.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    Sqlite,
    Postgresql(Arc<PostgresServer>),
}

/// A database and its state folder, which are removed when dropped.
pub(crate) struct TestRecords {
    folder: tempfile::TempDir,
    database: Option<TestDatabase>,
}

impl Home {
    /// Returns the server of PostgreSQL. `None`, after a line about it, if there is none.
    pub(crate) fn on_postgresql(test: &str) -> Option<Self> {
        PostgresServer::shared(test).map(Self::Postgresql)
    }

    /// Returns SQLite, and PostgreSQL unless there is none.
    pub(crate) fn all(test: &str) -> Vec<Self> {
        std::iter::once(Self::Sqlite).chain(Self::on_postgresql(test)).collect()
    }

    /// Makes a place for a new database.
    pub(crate) fn place(&self) -> TestRecords {
        let database = match self {
            Self::Sqlite => None,
            Self::Postgresql(server) => Some(server.database()),
        };
        TestRecords { folder: folder(), database }
    }
}

/// A folder in memory, where there is such a thing.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = if Path::new("/dev/shm").is_dir() {
        tempfile::tempdir_in("/dev/shm")
    } else {
        tempfile::tempdir()
    };
    folder.unwrap()
}

impl TestRecords {
    /// The file of a database of SQLite.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("state").join("records.db")
    }

    /// Opens the database, after making it if needed.
    pub(crate) fn open(&self, now: Instant) -> Records {
        let state = StateDir::open(&self.folder.path().join("state")).unwrap();
        match &self.database {
            None => Records::open(&state, now).unwrap(),
            Some(database) => {
                let database = Database::open(&database.address()).unwrap();
                Records::open_at(&state, &database, now).unwrap()
            }
        }
    }

    /// Stores a grant as it is, also one that the program would not make.
    pub(crate) fn keep_grant(
        &self,
        id: &str,
        terms: &str,
        revoked: Option<i64>,
        bound: Option<&str>,
    ) {
        let Some(database) = &self.database else {
            let text =
                "INSERT OR REPLACE INTO grants (id, terms, revoked, bound) VALUES (?1, ?2, ?3, ?4)";
            let values = rusqlite::params![id, terms, revoked, bound];
            rusqlite::Connection::open(self.file()).unwrap().execute(text, values).unwrap();
            return;
        };
        let revoked = revoked.map_or_else(|| "NULL".to_owned(), |revoked| revoked.to_string());
        database.run(&format!(
            "INSERT INTO stile.grants (id, terms, revoked, bound) VALUES ({}, {}, {revoked}, {}) \
             ON CONFLICT (id) DO UPDATE \
             SET terms = excluded.terms, revoked = excluded.revoked, bound = excluded.bound;",
            literal(Some(id)),
            literal(Some(terms)),
            literal(bound)
        ));
    }
}

/// Writes a text as bytes in SQL.
fn literal(text: Option<&str>) -> String {
    let Some(text) = text else { return "NULL".to_owned() };
    let mut hex = String::new();
    text.bytes().for_each(|byte| write!(hex, "{byte:02x}").unwrap());
    format!("decode('{hex}', 'hex')")
}
