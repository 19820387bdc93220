//! One moment of the database.

use std::cell::RefCell;
use std::collections::HashMap;

use stile_domain::records::problem::Problem;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::postgresql::{PgError, TenantConnection, TenantSql, Values};
use crate::records::rows::Rows;
use crate::sql::Door;

/// The bytes of bodies that are kept until they are asked for.
const MOST_KEPT: usize = 8 << 20;

/// One moment of the database.
pub(super) struct PgSnapshot<'c> {
    connection: &'c TenantConnection<'c>,
    /// The bodies of the records of a page, which were read together with their rows.
    bodies: RefCell<(HashMap<i64, Vec<u8>>, usize)>,
}

impl<'c> PgSnapshot<'c> {
    pub(super) fn new(connection: &'c TenantConnection<'c>) -> Self {
        Self { connection, bodies: RefCell::default() }
    }

    /// Keeps the body of a record until it is asked for.
    pub(super) fn keep_body(&self, record: i64, body: &[u8]) {
        let mut kept = self.bodies.borrow_mut();
        if kept.1 + body.len() > MOST_KEPT {
            *kept = (HashMap::new(), 0);
        }
        kept.1 += body.len();
        kept.0.insert(record, body.to_vec());
    }

    pub(super) fn rows(&self, sql: &TenantSql, values: Values<'_>) -> Result<Vec<Row>, Problem> {
        Ok(self.connection.rows(sql, values)?)
    }
}

impl Rows for PgSnapshot<'_> {
    fn door(&self) -> Door<'_> {
        Door::Postgresql(self.connection)
    }

    fn body_read_along(&self, record: i64) -> Option<Vec<u8>> {
        let mut kept = self.bodies.borrow_mut();
        let body = kept.0.remove(&record)?;
        kept.1 = kept.1.saturating_sub(body.len());
        Some(body)
    }
}

/// Reads a column.
pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, Problem> {
    Ok(row.try_get(at).map_err(PgError::from)?)
}
