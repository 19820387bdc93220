//! Conditions on rows, which code puts together.

use super::value::Value;
use crate::postgresql::{TenantSql, tenant_sql};

/// The conditions of a query, and the values of their question marks. They do not name the tenant:
/// whoever runs a query on PostgreSQL adds it.
pub(crate) struct Conditions {
    text: String,
    values: Vec<Owned>,
}

/// A value that a condition owns.
pub(crate) enum Owned {
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
    Integers(Vec<i64>),
    ManyBytes(Vec<Vec<u8>>),
    /// Texts, which only SQLite compares as such.
    Texts(Vec<String>),
}

/// Makes a value that a condition owns.
macro_rules! owned {
    ($($from:ty => $variant:ident),* $(,)?) => {
        $(impl From<$from> for Owned {
            fn from(value: $from) -> Self {
                Self::$variant(value)
            }
        })*
    };
}

owned! {
    i64 => Integer,
    String => Text,
    Vec<u8> => Bytes,
    Vec<i64> => Integers,
    Vec<Vec<u8>> => ManyBytes,
    Vec<String> => Texts,
}

impl Owned {
    fn as_value(&self) -> Value<'_> {
        match self {
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Integers(numbers) => Value::Integers(numbers),
            Self::ManyBytes(many) => Value::ManyBytes(many),
            Self::Texts(texts) => Value::Texts(texts),
        }
    }
}

impl Conditions {
    /// Begins with a condition that has one value.
    pub(crate) fn new(text: &str, value: impl Into<Owned>) -> Self {
        Self { text: text.to_owned(), values: vec![value.into()] }
    }

    /// Adds a condition with one value, which stands at the question mark.
    pub(crate) fn and(&mut self, text: &str, value: impl Into<Owned>) {
        self.values.push(value.into());
        self.end(text);
    }

    /// Puts a value before all others, for a question mark of what the query selects.
    pub(crate) fn put_first(&mut self, value: impl Into<Owned>) {
        self.values.insert(0, value.into());
    }

    /// Adds a text and the conditions of another query at the end.
    pub(crate) fn append(&mut self, text: &str, other: Self) {
        self.end(text);
        self.end(&other.text);
        self.values.extend(other.values);
    }

    /// Adds a text without a value at the end.
    pub(crate) fn end(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn values(&self) -> Vec<Value<'_>> {
        self.values.iter().map(Owned::as_value).collect()
    }

    /// Returns a query of one tenant's rows, whose question marks have no numbers yet.
    pub(crate) fn of_tenant(&self, select: &str) -> TenantSql {
        tenant_sql!(" WHERE tenant = $1 AND ").with_head(select).with_tail(&self.text)
    }
}
