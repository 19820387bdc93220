//! Maps errors of SQLite to problems.

use rusqlite::ErrorCode;
use stile_domain::records::problem::Problem;

/// Maps an error of SQLite to a problem. Logs an unexpected error with an incident number.
pub(crate) fn sqlite_problem(error: rusqlite::Error) -> Problem {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Problem::Busy,
        Some(ErrorCode::OperationInterrupted) => Problem::QueryTooBroad,
        Some(ErrorCode::DiskFull) => Problem::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Problem::Corrupt,
        code => {
            if matches!(
                error,
                rusqlite::Error::UserFunctionError(_)
                    | rusqlite::Error::FromSqlConversionFailure(..)
            ) {
                return Problem::Corrupt;
            }
            let incident = crate::new_incident();
            let extended = error.sqlite_error().map(|error| error.extended_code);
            tracing::error!(incident, ?code, ?extended, "unexpected error of the database");
            Problem::Internal { incident }
        }
    }
}
