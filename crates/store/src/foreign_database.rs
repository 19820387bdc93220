//! Reads a SQLite database of another program, such as the history of a browser, and changes
//! nothing.
//!
//! The file is opened as one that nobody changes. So no lock is taken, no file is made beside it,
//! and a write-ahead log beside it is not read: [`unread_log`] says whether there is one. The
//! program that the file belongs to may hold it open, so people copy it first.
//!
//! *Source*: "Uniform Resource Identifiers" of the SQLite documentation (`immutable`).

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

/// The bytes with which every database of SQLite begins.
pub const MAGIC: &[u8] = b"SQLite format 3\0";

/// Why a database in a zip file is not read, and what to do.
pub const IN_ARCHIVE: &str = "a database in an archive is not read: unpack it, and import it alone";

/// A database of another program.
pub struct ForeignDatabase(Connection);

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value, or bytes.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A text. Bytes that are not UTF-8 are replaced.
    Text(String),
}

impl ForeignDatabase {
    /// Opens a file, to read it.
    ///
    /// # Errors
    /// The error of the system; [`ErrorKind::InvalidData`] for a file that is no database.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut name = String::from("file:");
        for &byte in path.canonicalize()?.as_os_str().as_encoded_bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                    name.push(char::from(byte));
                }
                _ => name.push_str(&format!("%{byte:02X}")),
            }
        }
        name.push_str("?immutable=1");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(name, flags).map_err(damaged)?;
        // The content of the file must not decide which functions run.
        connection.pragma_update(None, "trusted_schema", false).map_err(damaged)?;
        let page = connection.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0));
        let page = u64::from(page.map_err(damaged)?.max(1));
        // SQLite reads what is cut off a page as zeros, and leaves rows out without a word.
        if path.metadata()?.len() % page != 0 {
            return Err(unreadable("its last page is not whole"));
        }
        Ok(Self(connection))
    }

    /// Returns whether the database has these columns in a table of this name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if the database is damaged.
    pub fn has_table(&self, table: &str, columns: &[&str]) -> io::Result<bool> {
        let kind = "SELECT count(*) FROM sqlite_schema WHERE name = ?1 AND type = 'table'";
        let tables: i64 = self.0.query_row(kind, [table], |row| row.get(0)).map_err(damaged)?;
        let found = |column: &&str| {
            let query = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
            self.0.query_row(query, [table, column], |row| row.get::<_, i64>(0)).map(|it| it > 0)
        };
        let found: Vec<bool> =
            columns.iter().map(found).collect::<Result<_, _>>().map_err(damaged)?;
        Ok(tables > 0 && found.into_iter().all(|found| found))
    }

    /// Returns how many tables the database has.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if the database is damaged.
    pub fn tables(&self) -> io::Result<i64> {
        self.number("SELECT count(*) FROM sqlite_schema WHERE type = 'table'")
    }

    /// Returns the rows of a query whose parameters are the last number before them, and how many.
    /// Their first column is the number by which they are in order.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if the database is damaged, or lacks what the query names.
    pub fn rows(&self, query: &str, after: i64, most: i64) -> io::Result<Vec<Vec<Cell>>> {
        let mut statement = self.0.prepare_cached(query).map_err(damaged)?;
        let columns = statement.column_count();
        let cells = |row: &Row<'_>| (0..columns).map(|column| cell(row, column)).collect();
        let rows = statement.query_map([after, most], cells).map_err(damaged)?;
        let rows: Vec<Vec<Cell>> = rows.collect::<Result<_, _>>().map_err(damaged)?;
        // Where numbers go back, reading on after the last one would never end.
        let mut last = after;
        for row in &rows {
            match row.first() {
                Some(Cell::Integer(number)) if *number > last => last = *number,
                _ => return Err(unreadable("its rows are out of order")),
            }
        }
        Ok(rows)
    }

    /// Returns the only number that a query answers with.
    ///
    /// # Errors
    /// As [`Self::rows`].
    pub fn number(&self, query: &str) -> io::Result<i64> {
        self.0.query_row(query, [], |row| row.get(0)).map_err(damaged)
    }
}

fn cell(row: &Row<'_>, column: usize) -> rusqlite::Result<Cell> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null | ValueRef::Blob(_) => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(bytes) => Cell::Text(String::from_utf8_lossy(bytes).into_owned()),
    })
}

/// Returns the write-ahead log beside a database, if there is one with changes in it.
pub fn unread_log(path: &Path) -> Option<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    let log = PathBuf::from(name);
    log.metadata().is_ok_and(|found| found.len() > 0).then_some(log)
}

fn damaged(error: rusqlite::Error) -> io::Error {
    unreadable(error)
}

fn unreadable(why: impl std::fmt::Display) -> io::Error {
    let message = format!(
        "the database cannot be read ({why}): it is damaged, or was copied while its program \
         wrote to it. Close that program, such as the browser, copy the file again, and import the \
         copy"
    );
    io::Error::new(ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_cut_or_overwritten_is_refused_and_read_to_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("places.sqlite");
        let made = Connection::open(&path).unwrap();
        made.execute_batch(
            "CREATE TABLE v (id INTEGER PRIMARY KEY, title TEXT); WITH RECURSIVE n (i) AS (SELECT 1 \
             UNION ALL SELECT i + 1 FROM n WHERE i < 900) INSERT INTO v SELECT i, 'a title' FROM n",
        )
        .unwrap();
        drop(made);
        let whole = std::fs::read(&path).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let database = ForeignDatabase::open(&path)?;
            let (mut found, mut last) = (0, 0);
            loop {
                let query = "SELECT id, title FROM v WHERE id > ?1 ORDER BY id LIMIT ?2";
                let rows = database.rows(query, last, 100)?;
                let Some(Cell::Integer(number)) = rows.last().and_then(|row| row.first()) else {
                    return Ok::<usize, io::Error>(found);
                };
                (found, last) = (found + rows.len(), *number);
            }
        };
        assert_eq!(read(&whole).unwrap(), 900);
        for cut in [100, 500, 3_000] {
            let error = read(&whole[..whole.len() - cut]).unwrap_err().to_string();
            assert!(error.contains("not whole"), "{error}");
        }
        for zeroed in [500, 3_000] {
            let mut bytes = whole.clone();
            let from = bytes.len() - zeroed;
            bytes[from..].fill(0);
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.contains("import the copy"), "{error}");
        }
    }

    #[test]
    fn a_database_is_read_and_nothing_is_made_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a %3f ü.db");
        let made = Connection::open(&path).unwrap();
        made.pragma_update(None, "journal_mode", "wal").unwrap();
        made.execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b);
             INSERT INTO t (a, b) VALUES ('x', 1.5), (x'ff', 2), (CAST(x'61ff' AS TEXT), NULL);
             CREATE VIEW v AS SELECT * FROM t;",
        )
        .unwrap();
        drop(made);
        let before = std::fs::read(&path).unwrap();
        let database = ForeignDatabase::open(&path).unwrap();
        assert!(database.has_table("t", &["a", "b"]).unwrap());
        assert!(!database.has_table("t", &["a", "c"]).unwrap());
        assert!(!database.has_table("v", &["a"]).unwrap());
        let query = "SELECT id, a, b FROM t WHERE id > ?1 ORDER BY id LIMIT ?2";
        let text = |text: &str| Cell::Text(text.to_owned());
        assert_eq!(
            database.rows(query, 1, 5).unwrap(),
            [
                vec![Cell::Integer(2), Cell::Null, Cell::Integer(2)],
                vec![Cell::Integer(3), text("a\u{fffd}"), Cell::Null],
            ]
        );
        assert_eq!(database.rows(query, 0, 1).unwrap()[0][2], Cell::Real(1.5));
        assert_eq!(database.number("SELECT count(*) FROM t").unwrap(), 3);
        drop(database);
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(unread_log(&path), None);
    }

    #[test]
    fn what_is_no_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        std::fs::write(&path, [MAGIC, &[0xff; 600]].concat()).unwrap();
        let failed = ForeignDatabase::open(&path).and_then(|it| it.has_table("t", &["a"]));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
