//! The values of a statement, for both databases.

use std::rc::Rc;

use bytes::BytesMut;
use rusqlite::types::{ToSqlOutput, Value as SqliteValue, ValueRef};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// A value of a statement. A text is one in SQLite, and may be the bytes of its UTF-8 on
/// PostgreSQL.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'v> {
    Null,
    Integer(i64),
    Text(&'v str),
    Bytes(&'v [u8]),
    /// Integers that a column is compared with.
    Integers(&'v [i64]),
    /// Bytes that a column is compared with.
    ManyBytes(&'v [Vec<u8>]),
    /// Texts that a column is compared with.
    Texts(&'v [String]),
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Integers(numbers) => {
                return Ok(list(numbers.iter().copied().map(SqliteValue::Integer)));
            }
            Self::ManyBytes(many) => {
                return Ok(list(many.iter().cloned().map(SqliteValue::Blob)));
            }
            Self::Texts(texts) => {
                return Ok(list(texts.iter().cloned().map(SqliteValue::Text)));
            }
        }))
    }
}

/// Makes a list that the function `rarray` reads.
fn list<'v>(values: impl Iterator<Item = SqliteValue>) -> ToSqlOutput<'v> {
    ToSqlOutput::from_rc(Rc::new(values.collect::<Vec<_>>()), c"rarray")
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
            Self::Integers(numbers) => numbers.to_sql(kind, out),
            Self::ManyBytes(many) => many.to_sql(kind, out),
            Self::Texts(texts) => texts.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::BYTEA, Type::INT8_ARRAY, Type::BYTEA_ARRAY].contains(kind)
    }

    to_sql_checked!();
}

/// A type that a value of a statement is made from.
pub(crate) trait AsValue {
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

impl AsValue for [i64] {
    fn as_value(&self) -> Value<'_> {
        Value::Integers(self)
    }
}

impl AsValue for Vec<i64> {
    fn as_value(&self) -> Value<'_> {
        Value::Integers(self)
    }
}

impl AsValue for Vec<Vec<u8>> {
    fn as_value(&self) -> Value<'_> {
        Value::ManyBytes(self)
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
        &[$($crate::sql::AsValue::as_value(&$value)),*]
    };
}

pub(crate) use values;
