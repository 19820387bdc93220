//! The table with the progress of a copy of all records. Nobody opens the database while the table
//! is there.

use super::connection::PgConnection;
use super::database::Database;
use super::error::{DatabaseError, PgError};
use super::params::params;
use crate::read_limit::ReadLimit;
use crate::records::PROGRESS_TABLE;

impl Database {
    /// Refuses a database into which a copy of all records has not come to its end.
    pub(crate) fn refuse_if_half_copied(&self) -> Result<(), DatabaseError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let is_half_copied = is_half_copied(&connection);
        connection.end("ROLLBACK");
        if is_half_copied? { Err(DatabaseError::HalfCopied) } else { Ok(()) }
    }

    /// Makes the table with the progress of a copy of all records, which marks the database as
    /// half copied.
    pub(crate) fn make_copy_progress(&self) -> Result<(), PgError> {
        self.run(&format!(
            "CREATE TABLE IF NOT EXISTS {PROGRESS_TABLE} (tenant bigint NOT NULL, \
             name bytea NOT NULL, last bytea, done bigint NOT NULL, PRIMARY KEY (tenant, name))"
        ))
    }

    /// Drops the table with the progress of a copy that came to its end.
    pub(crate) fn drop_copy_progress(&self) -> Result<(), PgError> {
        self.run(&format!("DROP TABLE {PROGRESS_TABLE}"))
    }
}

/// Returns whether a copy of all records into the database has not come to its end.
pub(super) fn is_half_copied(connection: &PgConnection) -> Result<bool, PgError> {
    let row = connection.one("SELECT to_regclass($1)::text", params![PROGRESS_TABLE])?;
    let table: Option<Option<String>> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(table.flatten().is_some())
}
