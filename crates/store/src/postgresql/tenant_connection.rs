//! A transaction on the rows of one tenant.
//!
//! [`TenantConnection`] gives every statement the number of the tenant as its first value, and
//! takes no statement but a [`TenantSql`], which uses that value or does not compile. That is the
//! first fence between the rows of different people. Row-level security is the second: each
//! transaction says whose it is, and the policies of the tables hide all other rows.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::Values;
use super::database::Database;
use super::error::PgError;
use super::pool::Borrowed;
use super::tenant::Tenant;
use super::tenant_sql::TenantSql;
use super::turns::Turn;
use crate::read_limit::ReadLimit;

/// A connection with an open transaction of one tenant.
pub(crate) struct TenantConnection<'d> {
    borrowed: Borrowed<'d>,
    tenant: i64,
    /// Only in a transaction that writes.
    turn: Option<Turn<'d>>,
}

impl Database {
    /// Begins a transaction that reads one moment of a tenant's rows, until `limit` is reached.
    pub(crate) fn read_of(
        &self,
        tenant: &Tenant,
        limit: &ReadLimit,
    ) -> Result<TenantConnection<'_>, PgError> {
        let borrowed = self.begin_read_with(limit, &naming(tenant))?;
        Ok(TenantConnection { borrowed, tenant: tenant.number(), turn: None })
    }

    /// Begins a transaction that reads a tenant's rows, whose statements may take as long as
    /// `limit` allows.
    pub(crate) fn long_read_of(
        &self,
        tenant: &Tenant,
        limit: &ReadLimit,
    ) -> Result<TenantConnection<'_>, PgError> {
        let borrowed = self.begin_long_read_with(limit, &naming(tenant))?;
        Ok(TenantConnection { borrowed, tenant: tenant.number(), turn: None })
    }

    /// Begins a transaction that writes a tenant's rows, after other ones of this server.
    pub(crate) fn write_of(&self, tenant: &Tenant) -> Result<TenantConnection<'_>, PgError> {
        let turn = Some(self.turns().wait(tenant.number())?);
        let borrowed = self.begin_write_with(&naming(tenant))?;
        Ok(TenantConnection { borrowed, tenant: tenant.number(), turn })
    }
}

/// Says for row-level security whose transaction this is.
fn naming(tenant: &Tenant) -> String {
    format!("SELECT set_config('stile.tenant', '{}', true)", tenant.number())
}

impl TenantConnection<'_> {
    /// Runs a statement and returns its rows. The values begin at `$2`.
    pub(crate) fn rows(&self, sql: &TenantSql, values: Values<'_>) -> Result<Vec<Row>, PgError> {
        self.borrowed.rows(sql.text(), &self.with_tenant(values))
    }

    /// Runs a statement and returns the number of rows that it changed. The values begin at `$2`.
    pub(crate) fn execute(&self, sql: &TenantSql, values: Values<'_>) -> Result<u64, PgError> {
        self.borrowed.execute(sql.text(), &self.with_tenant(values))
    }

    fn with_tenant<'v>(&'v self, values: Values<'v>) -> Vec<&'v (dyn ToSql + Sync)> {
        let mut all = Vec::with_capacity(values.len() + 1);
        all.push(&self.tenant as &(dyn ToSql + Sync));
        all.extend_from_slice(values);
        all
    }

    /// Runs a statement and returns its first row.
    pub(crate) fn one(&self, sql: &TenantSql, values: Values<'_>) -> Result<Option<Row>, PgError> {
        Ok(self.rows(sql, values)?.into_iter().next())
    }

    /// Begins a step, which can be undone alone.
    pub(crate) fn begin_step(&self) -> Result<(), PgError> {
        self.borrowed.batch("SAVEPOINT step")
    }

    /// Ends the step and keeps what it wrote.
    pub(crate) fn keep_step(&self) -> Result<(), PgError> {
        self.borrowed.batch("RELEASE step")
    }

    /// Ends the step and undoes what it wrote.
    pub(crate) fn undo_step(&self) -> Result<(), PgError> {
        self.borrowed.batch("ROLLBACK TO step; RELEASE step")
    }

    /// Ends the transaction without keeping what it wrote.
    pub(crate) fn roll_back(self) {
        self.borrowed.end("ROLLBACK");
    }

    /// Keeps what the transaction wrote, durably.
    ///
    /// # Errors
    /// The errors of [`Borrowed::commit`].
    pub(crate) fn commit(self) -> Result<(), PgError> {
        let Self { borrowed, turn, .. } = self;
        let done = borrowed.commit();
        drop(turn);
        done
    }
}
