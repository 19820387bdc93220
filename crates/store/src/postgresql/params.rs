//! The values of a statement, written as a list.

/// Makes the values of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &(dyn tokio_postgres::types::ToSql + Sync)),*]
    };
}

pub(crate) use params;
