//! Transactions on the tables of tokens and sign-in, which are in the schema `stile_access`.

use super::connection::PgConnection;
use super::database::Database;
use super::error::PgError;
use crate::read_limit::ReadLimit;

/// How far a transaction that changes tables is apart from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    /// As if no other ran. Another transaction that reads what this one changes may be in the way,
    /// whosever rows it is about.
    FromAll,
    /// Each statement sees what was committed before it. The change itself locks the rows that it
    /// decides by.
    ByRows,
}

/// Begins a transaction. The statements are short, and a commit is on disk before it is
/// acknowledged.
const BEGIN: &str = "\
    SET LOCAL search_path = stile_access, pg_catalog; \
    SET LOCAL lock_timeout = 5000; \
    SET LOCAL statement_timeout = 10000; \
    SET LOCAL idle_in_transaction_session_timeout = 60000; \
    SELECT set_config('synchronous_commit', 'on', true) \
    WHERE current_setting('synchronous_commit') = 'off'";

impl Database {
    /// Reads the tables of tokens and sign-in.
    pub(crate) fn read_access<T, E: From<PgError>>(
        &self,
        read: impl FnOnce(&PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {BEGIN}");
        let connection = self.access().begin(&begin, &ReadLimit::none())?;
        let done = read(&connection);
        connection.end("ROLLBACK");
        done
    }

    /// Changes the tables of tokens and sign-in as if no other transaction ran, durably. If another
    /// one was in the way, the error says so, and nothing is changed.
    pub(crate) fn change_access<T, E: From<PgError>>(
        &self,
        change: impl FnOnce(&PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        self.change_access_apart(Apart::FromAll, change)
    }

    /// Changes the same tables, durably, so far apart from other transactions.
    pub(crate) fn change_access_apart<T, E: From<PgError>>(
        &self,
        apart: Apart,
        change: impl FnOnce(&PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let level = match apart {
            Apart::FromAll => "SERIALIZABLE",
            Apart::ByRows => "READ COMMITTED",
        };
        // Not `READ WRITE`, which would overrule `default_transaction_read_only`.
        let begin = format!("BEGIN ISOLATION LEVEL {level}; {BEGIN}");
        let connection = self.access_changes().begin(&begin, &ReadLimit::none())?;
        match change(&connection) {
            Ok(done) => {
                connection.commit()?;
                Ok(done)
            }
            Err(error) => {
                connection.end("ROLLBACK");
                Err(error)
            }
        }
    }
}
