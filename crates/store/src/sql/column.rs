//! The columns of a row that a statement returned, from either database.

use rusqlite::types::ValueRef;
use stile_domain::records::problem::Problem;
use tokio_postgres::types::Type;

use super::sqlite_error::sqlite_problem;
use super::value::Value;
use crate::postgresql::PgError;

/// A column has another type than this version writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherType;

impl From<OtherType> for Problem {
    fn from(OtherType: OtherType) -> Self {
        Self::Corrupt
    }
}

/// A row that a statement returned.
#[derive(Clone, Copy)]
pub(crate) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgresql(&'r tokio_postgres::Row),
}

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column<'r> {
    Null,
    Integer(i64),
    Text(&'r str),
    Bytes(&'r [u8]),
}

/// A value of a row, kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A type that a column is read as.
pub(crate) trait FromColumn<'r>: Sized {
    /// Returns `None` for a column of another type.
    fn from_column(column: Column<'r>) -> Option<Self>;
}

impl<'r> Row<'r> {
    /// Reads a column.
    pub(crate) fn get<T: FromColumn<'r>>(&self, at: usize) -> Result<T, Problem> {
        let column = match self {
            Self::Sqlite(row) => Column::of_sqlite(row.get_ref(at).map_err(sqlite_problem)?)?,
            Self::Postgresql(row) => Column::of_postgresql(row, at)?,
        };
        T::from_column(column).ok_or(Problem::Corrupt)
    }
}

impl<'r> Column<'r> {
    pub(crate) fn of_sqlite(value: ValueRef<'r>) -> Result<Self, OtherType> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Text(text) => Self::Text(std::str::from_utf8(text).map_err(|_| OtherType)?),
            ValueRef::Blob(bytes) => Self::Bytes(bytes),
            ValueRef::Real(_) => return Err(OtherType),
        })
    }

    pub(crate) fn of_postgresql(row: &'r tokio_postgres::Row, at: usize) -> Result<Self, PgError> {
        let kind = row.columns().get(at).map(tokio_postgres::Column::type_);
        Ok(match kind {
            Some(&Type::BOOL) => {
                let value: Option<bool> = row.try_get(at)?;
                value.map_or(Self::Null, |value| Self::Integer(value.into()))
            }
            Some(&Type::BYTEA) => row.try_get::<_, Option<_>>(at)?.map_or(Self::Null, Self::Bytes),
            Some(&Type::INT8) => row.try_get::<_, Option<_>>(at)?.map_or(Self::Null, Self::Integer),
            Some(&Type::INT4) => {
                let value: Option<i32> = row.try_get(at)?;
                value.map_or(Self::Null, |value| Self::Integer(value.into()))
            }
            _ => row.try_get::<_, Option<_>>(at)?.map_or(Self::Null, Self::Text),
        })
    }

    /// Returns a copy that outlives the row.
    pub(crate) fn to_cell(self) -> Cell {
        match self {
            Self::Null => Cell::Null,
            Self::Integer(number) => Cell::Integer(number),
            Self::Text(text) => Cell::Text(text.to_owned()),
            Self::Bytes(bytes) => Cell::Bytes(bytes.to_vec()),
        }
    }
}

impl Cell {
    /// Returns the value as a column of a row.
    pub(crate) fn as_column(&self) -> Column<'_> {
        match self {
            Self::Null => Column::Null,
            Self::Integer(number) => Column::Integer(*number),
            Self::Text(text) => Column::Text(text),
            Self::Bytes(bytes) => Column::Bytes(bytes),
        }
    }

    /// Returns the value for a statement.
    pub(crate) fn as_value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

impl<'r> FromColumn<'r> for i64 {
    fn from_column(column: Column<'r>) -> Option<Self> {
        match column {
            Column::Integer(number) => Some(number),
            _ => None,
        }
    }
}

impl<'r> FromColumn<'r> for u32 {
    fn from_column(column: Column<'r>) -> Option<Self> {
        i64::from_column(column).and_then(|number| number.try_into().ok())
    }
}

impl<'r> FromColumn<'r> for bool {
    fn from_column(column: Column<'r>) -> Option<Self> {
        i64::from_column(column).map(|number| number != 0)
    }
}

impl<'r> FromColumn<'r> for &'r [u8] {
    fn from_column(column: Column<'r>) -> Option<Self> {
        match column {
            Column::Bytes(bytes) => Some(bytes),
            Column::Text(text) => Some(text.as_bytes()),
            _ => None,
        }
    }
}

impl<'r> FromColumn<'r> for &'r str {
    fn from_column(column: Column<'r>) -> Option<Self> {
        match column {
            Column::Text(text) => Some(text),
            // Texts of records are bytes on PostgreSQL.
            Column::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

impl<'r> FromColumn<'r> for String {
    fn from_column(column: Column<'r>) -> Option<Self> {
        <&str>::from_column(column).map(str::to_owned)
    }
}

impl<'r> FromColumn<'r> for Vec<u8> {
    fn from_column(column: Column<'r>) -> Option<Self> {
        <&[u8]>::from_column(column).map(<[u8]>::to_vec)
    }
}

impl<'r> FromColumn<'r> for [u8; 32] {
    fn from_column(column: Column<'r>) -> Option<Self> {
        <&[u8]>::from_column(column)?.try_into().ok()
    }
}

impl<'r, T: FromColumn<'r>> FromColumn<'r> for Option<T> {
    fn from_column(column: Column<'r>) -> Option<Self> {
        match column {
            Column::Null => Some(None),
            column => T::from_column(column).map(Some),
        }
    }
}
