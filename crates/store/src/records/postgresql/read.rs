//! One moment of the database.

use stile_domain::records::problem::Problem;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::postgresql::{PgError, TenantConnection, TenantSql, Values};
use crate::records::rows::Rows;
use crate::sql::Door;

/// One moment of the database.
pub(super) struct PgSnapshot<'c> {
    connection: &'c TenantConnection<'c>,
}

impl<'c> PgSnapshot<'c> {
    pub(super) fn new(connection: &'c TenantConnection<'c>) -> Self {
        Self { connection }
    }

    pub(super) fn rows(&self, sql: &TenantSql, values: Values<'_>) -> Result<Vec<Row>, Problem> {
        Ok(self.connection.rows(sql, values)?)
    }
}

impl Rows for PgSnapshot<'_> {
    fn door(&self) -> Door<'_> {
        Door::Postgresql(self.connection)
    }
}

/// Reads a column.
pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, Problem> {
    Ok(row.try_get(at).map_err(PgError::from)?)
}

/// Reads a column that holds a text.
pub(super) fn text_of(row: &Row, at: usize) -> Result<&str, Problem> {
    std::str::from_utf8(column(row, at)?).map_err(|_| Problem::Corrupt)
}
