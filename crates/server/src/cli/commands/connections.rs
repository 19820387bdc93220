//! `stile connections`: lists the connections, from which records come.

use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::streams::NO_RECORDS;
use crate::cli::compose::owner;
use crate::cli::failure::Failure;
use crate::cli::invocation::Invocation;
use crate::cli::terminal;
use crate::cli::terminal::table::table;

/// Prints every connection with its streams and its number of records.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = owner::open(matches, environment)?;
    let mut connections: BTreeMap<String, (Vec<String>, u64)> = BTreeMap::new();
    for stream in owner.services.list_streams(&owner.caller, owner.now)? {
        let (streams, records) = connections.entry(stream.connection.to_string()).or_default();
        streams.push(stream.stream.to_string());
        *records += stream.records;
    }
    if matches.get_flag("json") {
        let rows = connections.into_iter().map(|(connection, (streams, records))| {
            json!({ "connection": connection, "streams": streams, "records": records })
        });
        terminal::write_json(output, &Value::from_iter(rows))?;
        return Ok(());
    }
    let is_empty = connections.is_empty();
    let rows = connections.into_iter().map(|(connection, (streams, records))| {
        [connection, records.to_string(), streams.join(", ")]
    });
    let table = table(colours, ["CONNECTION", "RECORDS", "STREAMS"], rows);
    output.write_all(terminal::list(table, is_empty, NO_RECORDS)?.as_bytes())?;
    Ok(())
}
