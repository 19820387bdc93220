//! One moment of the database.

use rusqlite::{CachedStatement, Connection};
use stile_domain::records::problem::Problem;

use crate::records::rows::Rows;
use crate::sql::{Door, sqlite_problem};

mod scan;
mod values;

/// One moment of the database.
pub(in crate::records) struct SqliteSnapshot<'c> {
    connection: &'c Connection,
}

impl<'c> SqliteSnapshot<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection }
    }

    pub(super) fn prepare(&self, text: &str) -> Result<CachedStatement<'c>, Problem> {
        self.connection.prepare_cached(text).map_err(sqlite_problem)
    }
}

impl Rows for SqliteSnapshot<'_> {
    fn door(&self) -> Door<'_> {
        Door::Sqlite(self.connection)
    }
}
