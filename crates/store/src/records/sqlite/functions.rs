//! SQL functions that read the body of a record, so that a row that a grant or a condition excludes
//! never leaves the database.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error};
use stile_domain::records::filter::{self, Condition};
use stile_domain::records::instant::Instant;
use stile_domain::records::stored_body::RecordBody;

/// Adds `time_in(body, field)` and `passes(body, conditions)` to a connection. Conditions are JSON,
/// which a query parses once for all rows.
pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("time_in", 2, flags, |context| {
        let field = context.get_raw(1).as_str().map_err(failed)?;
        let time = filter::record_time(body(context)?, field).map_err(failed)?;
        Ok(time.map(|Instant(micros)| micros))
    })?;
    connection.create_scalar_function("passes", 2, flags, |context| {
        let conditions = context.get_or_create_aux(1, |value| {
            Ok::<_, Failed>(serde_json::from_str::<Vec<Condition>>(value.as_str()?)?)
        })?;
        filter::all_hold(&conditions, body(context)?).map_err(failed)
    })
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn body<'c>(context: &'c Context<'_>) -> rusqlite::Result<RecordBody<'c>> {
    context.get_raw(0).as_blob().map(RecordBody::new).map_err(failed)
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::UserFunctionError(Box::new(error))
}
