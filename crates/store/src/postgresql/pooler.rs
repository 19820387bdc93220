//! Refuses a pooler of connections that forgets prepared statements, before anything is done.
//!
//! PgBouncer gives each transaction any of its connections if `pool_mode` is `transaction`. A
//! statement that was prepared in one transaction is then unknown in the next, unless PgBouncer is
//! 1.21 or newer and `max_prepared_statements` is above 0. Without this check a server would start,
//! and fail at its second request.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::connection::PgConnection;
use super::error::{DatabaseError, PgError};
use super::settings::Settings;
use crate::cancellation::Cancellation;
use crate::read_limit::ReadLimit;

/// How long each step may take. A pooler without a free connection makes its clients wait.
const STEP: Duration = Duration::from_secs(5);

/// Refuses the pooler that a connection leads to, if it leads to one that forgets prepared
/// statements. Returns another connection that was opened for the check.
///
/// # Errors
/// [`DatabaseError::ForgetfulPooler`]; the error of the database if it does not answer.
pub(super) fn check(
    settings: &Settings,
    connection: &PgConnection,
) -> Result<Option<PgConnection>, DatabaseError> {
    // If there is a pooler, one of its connections now has the statement. The other client begins a
    // transaction and keeps the pooler's connection that was used last, so the first client gets
    // another one.
    match prepared(connection) {
        // The pooler's connection has a statement of this name of another client.
        Err(error) if has_code(&error, &SqlState::DUPLICATE_PSTATEMENT) => {
            return Err(DatabaseError::ForgetfulPooler);
        }
        prepared => prepared?,
    }
    // A database that gives no second connection does not forget the first one's statements.
    let Ok(other) = PgConnection::open(settings) else { return Ok(None) };
    other.set_limit(step());
    match other.batch("BEGIN") {
        Ok(()) => {}
        // PgBouncer says so if its `pool_mode` is `statement`.
        Err(error) if has_code(&error, &SqlState::PROTOCOL_VIOLATION) => {
            return Err(DatabaseError::ForgetfulPooler);
        }
        Err(_) => return Ok(None),
    }
    connection.set_limit(step());
    let again = prepared(connection);
    connection.set_limit(ReadLimit::none());
    let ended = other.batch("ROLLBACK");
    other.set_limit(ReadLimit::none());
    match again {
        Ok(()) => Ok(ended.is_ok().then_some(other)),
        Err(_) => Err(DatabaseError::ForgetfulPooler),
    }
}

/// Runs a statement that is prepared the first time.
fn prepared(connection: &PgConnection) -> Result<(), PgError> {
    connection.rows("SELECT 'is this kept?'", &[]).map(drop)
}

fn has_code(error: &PgError, code: &SqlState) -> bool {
    matches!(error, PgError::Database(error) if error.code() == Some(code))
}

fn step() -> ReadLimit {
    ReadLimit::new(STEP, Cancellation::default())
}
