//! The tables of a database in SQLite: how they are made, and changed by a later version.
//!
//! Before a change of its tables, a database is copied beside itself: the copy of the schema with
//! the number 3 is `NAME.schema-3`. A person who goes back to an older version puts the copy in the
//! place of the database. The copies are never removed.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior, params};

use super::private::create_private;

/// The tables of one of our databases, and what tells it from other programs' databases.
pub(crate) struct SqliteSchema {
    /// The number in the header of the file.
    pub(crate) application: i32,
    /// Makes all tables. Their schema has the number 1.
    pub(crate) creation: &'static str,
    /// Each item changes the schema of the number that is its index and one more. Items are never
    /// edited; a change of the schema adds one.
    pub(crate) changes: &'static [&'static str],
}

/// The result of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Migration {
    /// The database has the schema of this version.
    Done,
    /// The database is another program's.
    Foreign,
    /// A newer version of Stile made the database.
    Newer,
}

impl SqliteSchema {
    /// Copies a database of ours whose schema has an older number, unless there is such a copy. The
    /// caller holds the lock of the database.
    ///
    /// # Errors
    /// The error of SQLite, also if the disk is full. The database must then not be migrated.
    pub(crate) fn copy_older(&self, connection: &Connection, path: &Path) -> rusqlite::Result<()> {
        let version = number(connection, "user_version")?;
        let is_ours = number(connection, "application_id")? == i64::from(self.application);
        if !is_ours || !(1..=self.changes.len() as i64).contains(&version) {
            return Ok(());
        }
        let copy = with_end(path, &format!(".schema-{version}"));
        if copy.exists() {
            return Ok(());
        }
        // A copy that a crash cut off has another name.
        let part = with_end(&copy, ".part");
        let _ = std::fs::remove_file(&part);
        let failed =
            |error: std::io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        create_private(&part).map_err(failed)?;
        connection.execute("VACUUM INTO ?1", params![part.to_string_lossy()])?;
        std::fs::rename(&part, &copy).map_err(failed)
    }

    /// Makes the tables of a new database, or makes those changes that an older one does not have.
    ///
    /// A database that has all tables is only read, so that nobody who opens it waits for one who
    /// writes.
    pub(crate) fn migrate(&self, connection: &mut Connection) -> rusqlite::Result<Migration> {
        let newest = 1 + self.changes.len() as i64;
        if number(connection, "user_version")? == newest
            && number(connection, "application_id")? == i64::from(self.application)
        {
            return Ok(Migration::Done);
        }
        // Only one writer from here on, so that two first runs do not both create the tables.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version = number(&transaction, "user_version")?;
        let tables: i64 =
            transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let is_new = version == 0 && tables == 0;
        if !is_new && number(&transaction, "application_id")? != i64::from(self.application) {
            return Ok(Migration::Foreign);
        }
        if is_new {
            transaction.execute_batch(self.creation)?;
            transaction.pragma_update(None, "application_id", self.application)?;
        }
        let made = usize::try_from(version.max(1) - 1).unwrap_or(usize::MAX);
        let Some(pending) = self.changes.get(made..) else { return Ok(Migration::Newer) };
        pending.iter().try_for_each(|change| transaction.execute_batch(change))?;
        if version != newest {
            transaction.pragma_update(None, "user_version", newest)?;
        }
        transaction.commit()?;
        Ok(Migration::Done)
    }
}

fn number(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATION: &str = "CREATE TABLE notes (text TEXT NOT NULL) STRICT";
    const NOW: SqliteSchema = SqliteSchema { application: 77, creation: CREATION, changes: &[] };
    const LATER: SqliteSchema = SqliteSchema {
        changes: &["ALTER TABLE notes ADD COLUMN size INTEGER", "UPDATE notes SET size = 3"],
        ..NOW
    };

    fn note(connection: &Connection) -> (String, i64) {
        let text = "SELECT text, size FROM notes";
        connection.query_row(text, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    }

    #[test]
    fn a_later_version_changes_the_tables_once_and_leaves_a_copy_of_those_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.db");
        let mut connection = Connection::open(&path).unwrap();
        assert_eq!(NOW.migrate(&mut connection).unwrap(), Migration::Done);
        connection.execute("INSERT INTO notes VALUES ('old')", []).unwrap();
        NOW.copy_older(&connection, &path).unwrap();
        let copy = folder.path().join("notes.db.schema-1");
        assert!(!copy.exists(), "nothing is older");
        for _ in 0..2 {
            LATER.copy_older(&connection, &path).unwrap();
            assert_eq!(LATER.migrate(&mut connection).unwrap(), Migration::Done);
            assert_eq!(note(&connection), ("old".to_owned(), 3));
            connection.execute("UPDATE notes SET size = 3", []).unwrap();
        }
        assert_eq!(NOW.migrate(&mut connection).unwrap(), Migration::Newer);
        let older = Connection::open(&copy).unwrap();
        assert_eq!(number(&older, "user_version").unwrap(), 1);
        assert_eq!(number(&older, "application_id").unwrap(), 77);
        assert!(older.prepare("SELECT size FROM notes").is_err());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_new_database_gets_the_changes_too() {
        let mut connection = Connection::open_in_memory().unwrap();
        assert_eq!(LATER.migrate(&mut connection).unwrap(), Migration::Done);
        assert!(connection.prepare("SELECT size FROM notes").is_ok());
        assert_eq!(number(&connection, "user_version").unwrap(), 3);
    }

    #[test]
    fn a_change_that_fails_leaves_the_tables_as_they_were() {
        let mut connection = Connection::open_in_memory().unwrap();
        NOW.migrate(&mut connection).unwrap();
        let changes = &["ALTER TABLE notes ADD COLUMN size INTEGER", "UPDATE nothing SET a = 1"];
        let broken = SqliteSchema { changes, ..NOW };
        assert!(broken.migrate(&mut connection).is_err());
        assert!(connection.prepare("SELECT size FROM notes").is_err());
        assert_eq!(number(&connection, "user_version").unwrap(), 1);
    }
}
