//! The tables of keys, tokens and sign-in, in either database: statements that both run.
//!
//! The statements are written once, in the part of SQL that SQLite and PostgreSQL share. Values
//! stand at `?1`, `?2` and so on. Both databases have the same tables and columns; PostgreSQL has
//! them in the schema `stile_access`.

use bytes::BytesMut;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::postgresql::{PgConnection, PgError, report_outage};

/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'v> {
    Null,
    Integer(i64),
    Text(&'v str),
    Bytes(&'v [u8]),
}

impl Value<'_> {
    fn has_zero(&self) -> bool {
        matches!(self, Self::Text(text) if text.contains('\0'))
    }
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

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
        } else if error.passes() {
            report_outage(&error);
            Self::Busy
        } else {
            Self::Postgresql(error.to_string())
        }
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
                    let cell = |at| Cell::of_sqlite(row.get_ref(at)?);
                    found.push(read(&TableRow((0..columns).map(cell).collect::<Result<_, _>>()?))?);
                }
                Ok(found)
            }
            // A text of PostgreSQL never has U+0000, so no row has such a value.
            Self::Postgresql(_) if values.iter().any(Value::has_zero) => Ok(Vec::new()),
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

/// Writes the places of values as PostgreSQL does.
fn numbered(text: &str) -> String {
    text.replace('?', "$")
}

impl Cell {
    /// Returns the value for a statement.
    pub(super) fn as_value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }

    fn of_sqlite(value: ValueRef<'_>) -> Result<Self, TableError> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Text(text) => {
                Self::Text(std::str::from_utf8(text).map_err(|_| TableError::OtherType)?.to_owned())
            }
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_vec()),
            ValueRef::Real(_) => return Err(TableError::OtherType),
        })
    }

    fn of_postgresql(row: &tokio_postgres::Row, at: usize) -> Result<Self, PgError> {
        let kind = row.columns().get(at).map(tokio_postgres::Column::type_);
        Ok(match kind {
            Some(&Type::BOOL) => {
                let value: Option<bool> = row.try_get(at)?;
                value.map_or(Self::Null, |value| Self::Integer(value.into()))
            }
            Some(&Type::BYTEA) => {
                row.try_get::<_, Option<Vec<u8>>>(at)?.map_or(Self::Null, Self::Bytes)
            }
            Some(&Type::INT8) => {
                row.try_get::<_, Option<i64>>(at)?.map_or(Self::Null, Self::Integer)
            }
            _ => row.try_get::<_, Option<String>>(at)?.map_or(Self::Null, Self::Text),
        })
    }
}

impl TableRow {
    /// Returns all values of the row.
    pub(super) fn cells(&self) -> &[Cell] {
        &self.0
    }

    fn of_postgresql(row: &tokio_postgres::Row) -> Result<Self, PgError> {
        (0..row.len()).map(|at| Cell::of_postgresql(row, at)).collect::<Result<_, _>>().map(Self)
    }

    /// Reads a column.
    pub(super) fn get<T: FromCell>(&self, at: usize) -> Result<T, TableError> {
        self.0.get(at).and_then(T::from_cell).ok_or(TableError::OtherType)
    }
}

/// A type that a column is read as.
pub(super) trait FromCell: Sized {
    /// Returns `None` for a cell of another type.
    fn from_cell(cell: &Cell) -> Option<Self>;
}

impl FromCell for i64 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

impl FromCell for u32 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).and_then(|number| number.try_into().ok())
    }
}

impl FromCell for bool {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl FromCell for String {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromCell for Vec<u8> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Bytes(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }
}

impl FromCell for [u8; 32] {
    fn from_cell(cell: &Cell) -> Option<Self> {
        Vec::from_cell(cell)?.try_into().ok()
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            cell => T::from_cell(cell).map(Some),
        }
    }
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) => number.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::BYTEA].contains(kind)
    }

    to_sql_checked!();
}

/// A type that a value of a statement is made from.
pub(super) trait AsValue {
    fn as_value(&self) -> Value<'_>;
}

impl AsValue for i64 {
    fn as_value(&self) -> Value<'_> {
        Value::Integer(*self)
    }
}

impl AsValue for u32 {
    fn as_value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl AsValue for bool {
    fn as_value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl AsValue for str {
    fn as_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl AsValue for String {
    fn as_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl AsValue for [u8] {
    fn as_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl AsValue for [u8; 32] {
    fn as_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl AsValue for Vec<u8> {
    fn as_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<T: AsValue + ?Sized> AsValue for &T {
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

impl<T: AsValue> AsValue for Option<T> {
    fn as_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, AsValue::as_value)
    }
}

/// Makes the values of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$(crate::state::tables::AsValue::as_value(&$value)),*]
    };
}

pub(super) use values;
