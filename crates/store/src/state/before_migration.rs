//! Copies a database beside itself before a new version changes its tables.
//!
//! The copy of the schema with the number 3 is `NAME.schema-3`. A person who goes back to an older
//! version puts the copy in the place of the database. The copies are never removed.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::private::create_private;

/// Copies a database whose schema has the number `version`, unless there is such a copy.
///
/// # Errors
/// The error of SQLite, also if the disk is full. The database must then not be migrated.
pub(crate) fn copy_before_migration(
    connection: &Connection,
    path: &Path,
    version: i64,
) -> rusqlite::Result<()> {
    let copy = with_end(path, &format!(".schema-{version}"));
    if copy.exists() {
        return Ok(());
    }
    // A copy that a crash cut off has another name.
    let part = with_end(&copy, ".part");
    let _ = std::fs::remove_file(&part);
    let failed = |error: std::io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    create_private(&part).map_err(failed)?;
    connection.execute("VACUUM INTO ?1", params![part.to_string_lossy()])?;
    std::fs::rename(&part, &copy).map_err(failed)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}
