//! A copy of all records into a database that has not come to its end. Nobody opens the database
//! until then: the tenant of the one owner says so.

use super::connection::PgConnection;
use super::database::Database;
use super::error::{DatabaseError, PgError};
use crate::read_limit::ReadLimit;

impl Database {
    /// Refuses a database into which a copy of all records has not come to its end.
    pub(crate) fn refuse_if_half_copied(&self) -> Result<(), DatabaseError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let is_half_copied = is_half_copied(&connection);
        connection.end("ROLLBACK");
        if is_half_copied? { Err(DatabaseError::HalfCopied) } else { Ok(()) }
    }
}

/// Returns whether a copy of all records into the database has not come to its end.
pub(super) fn is_half_copied(connection: &PgConnection) -> Result<bool, PgError> {
    let text = "SELECT number FROM tenants WHERE subject IS NULL AND incomplete = 2";
    Ok(connection.one(text, &[])?.is_some())
}
