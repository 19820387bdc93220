//! Statements that both databases run: what stands once for SQLite and PostgreSQL.
//!
//! A [`Door`] is the way into one database, within one transaction. It takes a [`Statement`], which
//! names its tenant or does not compile: PostgreSQL runs it as it is, and SQLite without the
//! tenant. A query whose conditions code puts together is made of [`Conditions`]. Values are
//! [`Value`]s, and a returned [`Row`] is read the same way from either database.

mod column;
mod conditions;
mod sqlite_error;
mod statement;
mod value;

use rusqlite::{CachedStatement, Connection};
use stile_domain::records::problem::Problem;
use tokio_postgres::types::ToSql;

pub(crate) use column::{Cell, Column, FromColumn, OtherType, Row};
pub(crate) use conditions::{Conditions, Owned};
pub(crate) use sqlite_error::sqlite_problem;
pub(crate) use statement::{Statement, statement};
pub(crate) use value::{AsValue, Value, values};

use crate::postgresql::{TenantConnection, TenantSql};

/// Makes a connection to SQLite wait for the disk: `synchronous` is SQLite's word for how often. On
/// macOS only a full sync waits until the disk has written what it keeps in its own cache.
pub(crate) fn wait_for_disk(
    connection: &Connection,
    synchronous: &'static str,
) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", synchronous)?;
    if cfg!(target_os = "macos") {
        connection.pragma_update(None, "fullfsync", true)?;
    }
    Ok(())
}

/// Takes a row. Returns whether to continue.
type TakeRow<'t> = &'t mut dyn FnMut(&Row<'_>) -> Result<bool, Problem>;

/// One transaction on the rows of one person.
#[derive(Clone, Copy)]
pub(crate) enum Door<'c> {
    Sqlite(&'c Connection),
    Postgresql(&'c TenantConnection<'c>),
}

impl Door<'_> {
    /// Runs a statement and returns the number of rows that it changed.
    pub(crate) fn execute(&self, sql: &Statement, values: &[Value<'_>]) -> Result<u64, Problem> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = prepared(connection, sql.alone(), 2, values)?;
                let changed = statement.raw_execute().map_err(sqlite_problem)?;
                Ok(u64::try_from(changed).unwrap_or(u64::MAX))
            }
            Self::Postgresql(connection) => {
                Ok(connection.execute(&sql.of_tenant, &on_postgresql(values))?)
            }
        }
    }

    /// Runs a statement and passes its rows to `take`, until it returns `false`.
    pub(crate) fn each(
        &self,
        sql: &Statement,
        values: &[Value<'_>],
        take: TakeRow<'_>,
    ) -> Result<(), Problem> {
        match self {
            Self::Sqlite(connection) => {
                each_of_sqlite(prepared(connection, sql.alone(), 2, values)?, take)
            }
            Self::Postgresql(connection) => {
                each_of_postgresql(connection, &sql.of_tenant, values, take)
            }
        }
    }

    /// Runs a query that begins with `select`, and passes its rows to `take`, until it returns
    /// `false`.
    pub(crate) fn each_where(
        &self,
        select: &str,
        conditions: &Conditions,
        take: TakeRow<'_>,
    ) -> Result<(), Problem> {
        let values = conditions.values();
        match self {
            Self::Sqlite(connection) => {
                let text = format!("{select} WHERE {}", conditions.text());
                each_of_sqlite(prepared(connection, &text, 1, &values)?, take)
            }
            Self::Postgresql(connection) => {
                let sql = conditions.of_tenant(select).with_numbered_places();
                each_of_postgresql(connection, &sql, &values, take)
            }
        }
    }

    /// Runs a statement and reads all its rows.
    pub(crate) fn all<T>(
        &self,
        sql: &Statement,
        values: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let mut all = Vec::new();
        self.each(sql, values, &mut |row| {
            all.push(read(row)?);
            Ok(true)
        })?;
        Ok(all)
    }

    /// Runs a statement and reads its first row; `None` if it returns none.
    pub(crate) fn first<T>(
        &self,
        sql: &Statement,
        values: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        let mut first = None;
        self.each(sql, values, &mut |row| {
            first = Some(read(row)?);
            Ok(false)
        })?;
        Ok(first)
    }

    /// Runs a statement and returns the number in its first row; `None` if there is none.
    pub(crate) fn number(
        &self,
        sql: &Statement,
        values: &[Value<'_>],
    ) -> Result<Option<i64>, Problem> {
        let number = self.first(sql, values, |row| row.get::<Option<i64>>(0))?;
        Ok(number.flatten())
    }

    /// Returns the condition that a column is one of the values of a list.
    pub(crate) fn is_one_of(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "IN rarray(?)",
            Self::Postgresql(_) => "= ANY(?)",
        }
    }
}

/// Prepares a statement and sets its values, of which the first has the number `first`.
fn prepared<'c>(
    connection: &'c Connection,
    text: &str,
    first: usize,
    values: &[Value<'_>],
) -> Result<CachedStatement<'c>, Problem> {
    let mut statement = connection.prepare_cached(text).map_err(sqlite_problem)?;
    for (place, value) in (first..).zip(values) {
        statement.raw_bind_parameter(place, value).map_err(sqlite_problem)?;
    }
    Ok(statement)
}

fn each_of_sqlite(mut statement: CachedStatement<'_>, take: TakeRow<'_>) -> Result<(), Problem> {
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(sqlite_problem)? {
        if !take(&Row::Sqlite(row))? {
            break;
        }
    }
    Ok(())
}

fn each_of_postgresql(
    connection: &TenantConnection<'_>,
    sql: &TenantSql,
    values: &[Value<'_>],
    take: TakeRow<'_>,
) -> Result<(), Problem> {
    for row in &connection.rows(sql, &on_postgresql(values))? {
        if !take(&Row::Postgresql(row))? {
            break;
        }
    }
    Ok(())
}

fn on_postgresql<'v>(values: &'v [Value<'v>]) -> Vec<&'v (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}
