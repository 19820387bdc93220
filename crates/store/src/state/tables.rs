//! The tables of keys, tokens and sign-in, in either database: statements that both run.
//!
//! The statements are written once, in the part of SQL that SQLite and PostgreSQL share. Values
//! stand at `?1`, `?2` and so on. Both databases have the same tables and columns; PostgreSQL has
//! them in the schema `stile_access`.

use rusqlite::{Connection, ErrorCode};
use tokio_postgres::types::ToSql;

use crate::postgresql::{PgConnection, PgError, report_outage};
pub(super) use crate::sql::{Cell, Value, values};
use crate::sql::{Column, FromColumn, OtherType};

/// A row that a statement returned.
#[derive(Debug)]
pub(super) struct TableRow(Vec<Cell>);

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The error of SQLite.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The error of PostgreSQL, without values.
    #[error("{0}")]
    Postgresql(String),
    /// PostgreSQL cannot answer now. The same call may pass later.
    #[error("the database cannot answer now")]
    Busy,
    /// PostgreSQL takes no writes: it is a standby, or its settings say so.
    #[error(
        "the database takes no writes now (it is a standby, or `default_transaction_read_only` is \
         on); nothing was stored"
    )]
    TakesNoWrites,
    /// PostgreSQL did not say whether it kept a change.
    #[error("the database did not say whether it kept the change; look before you repeat it")]
    Unknown,
    /// Another transaction was in the way. The transaction can be run again.
    #[error("another transaction was in the way")]
    Conflict,
    /// A column has another type than this version writes.
    #[error("a column has another type")]
    OtherType,
}

impl TableError {
    /// Returns the code of an error of SQLite.
    pub(super) fn sqlite_code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code(),
            _ => None,
        }
    }
}

impl From<PgError> for TableError {
    fn from(error: PgError) -> Self {
        if error.is_conflict() {
            Self::Conflict
        } else if error.is_read_only() {
            Self::TakesNoWrites
        } else if error.passes() {
            if error.is_outage() {
                report_outage(&error);
            }
            Self::Busy
        } else if matches!(error, PgError::Unknown) {
            Self::Unknown
        } else {
            Self::Postgresql(error.to_string())
        }
    }
}

impl From<OtherType> for TableError {
    fn from(OtherType: OtherType) -> Self {
        Self::OtherType
    }
}

/// The tables within one transaction, or for one statement.
#[derive(Clone, Copy)]
pub(super) enum Tables<'c> {
    Sqlite(&'c Connection),
    Postgresql(&'c PgConnection),
}

impl Tables<'_> {
    /// Runs a statement and returns the number of rows that it changed.
    pub(super) fn execute(&self, text: &str, values: &[Value<'_>]) -> Result<usize, TableError> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(text)?;
                Ok(statement.execute(rusqlite::params_from_iter(values))?)
            }
            Self::Postgresql(connection) => {
                let values: Vec<_> =
                    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
                let changed = connection.execute(&numbered(text), &values)?;
                Ok(usize::try_from(changed).unwrap_or(usize::MAX))
            }
        }
    }

    /// Runs a statement and reads its rows.
    pub(super) fn rows<T>(
        &self,
        text: &str,
        values: &[Value<'_>],
        read: impl Fn(&TableRow) -> Result<T, TableError>,
    ) -> Result<Vec<T>, TableError> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(text)?;
                let columns = statement.column_count();
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    let cell = |at| -> Result<_, TableError> {
                        Ok(Column::of_sqlite(row.get_ref(at)?)?.to_cell())
                    };
                    found.push(read(&TableRow((0..columns).map(cell).collect::<Result<_, _>>()?))?);
                }
                Ok(found)
            }
            // A text of PostgreSQL never has U+0000, so no row has such a value.
            Self::Postgresql(_) if values.iter().any(has_zero) => Ok(Vec::new()),
            Self::Postgresql(connection) => {
                let values: Vec<_> =
                    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
                let rows = connection.rows(&numbered(text), &values)?;
                rows.iter().map(|row| read(&TableRow::of_postgresql(row)?)).collect()
            }
        }
    }

    /// Runs a statement and reads its first row; `None` if it returns none.
    pub(super) fn first<T>(
        &self,
        text: &str,
        values: &[Value<'_>],
        read: impl Fn(&TableRow) -> Result<T, TableError>,
    ) -> Result<Option<T>, TableError> {
        Ok(self.rows(text, values, read)?.into_iter().next())
    }
}

fn has_zero(value: &Value<'_>) -> bool {
    matches!(value, Value::Text(text) if text.contains('\0'))
}

/// Writes the places of values as PostgreSQL does.
fn numbered(text: &str) -> String {
    text.replace('?', "$")
}

impl TableRow {
    /// Returns all values of the row.
    pub(super) fn cells(&self) -> &[Cell] {
        &self.0
    }

    fn of_postgresql(row: &tokio_postgres::Row) -> Result<Self, PgError> {
        let cell = |at| Column::of_postgresql(row, at).map(Column::to_cell);
        (0..row.len()).map(cell).collect::<Result<_, _>>().map(Self)
    }

    /// Reads a column.
    pub(super) fn get<'r, T: FromColumn<'r>>(&'r self, at: usize) -> Result<T, TableError> {
        let column = self.0.get(at).map(Cell::as_column);
        column.and_then(T::from_column).ok_or(TableError::OtherType)
    }
}
