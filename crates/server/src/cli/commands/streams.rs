//! `stile streams`: lists the streams of each connection.

use serde_json::{Value, json};
use stile_domain::records::instant::Instant;
use stile_records::administration::DeclaredStream;

use crate::cli::compose::owner;
use crate::cli::failure::Failure;
use crate::cli::invocation::Invocation;
use crate::cli::terminal;
use crate::cli::terminal::table::{cell, table};

/// What is said where there are no records, and what stores some.
pub(super) const NO_RECORDS: &str =
    "There are no records yet. `stile import FILE --connection NAME` stores those of an export.";

pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = owner::open(matches, environment)?;
    let streams = owner.services.list_streams(&owner.caller, owner.now)?;
    if matches.get_flag("json") {
        terminal::write_json(output, &Value::from_iter(streams.iter().map(to_json)))?;
        return Ok(());
    }
    let headings = ["CONNECTION", "STREAM", "RECORDS", "FIELDS", "ORDERED BY", "TIME"];
    let rows = streams.iter().map(|stream| {
        [
            stream.connection.to_string(),
            stream.stream.to_string(),
            stream.records.to_string(),
            stream.declaration.fields().len().to_string(),
            cell(stream.declaration.cursor_field()),
            cell(stream.declaration.consent_time_field()),
        ]
    });
    let table = table(colours, headings, rows);
    output.write_all(terminal::list(table, streams.is_empty(), NO_RECORDS)?.as_bytes())?;
    Ok(())
}

fn to_json(stream: &DeclaredStream) -> Value {
    let fields: Vec<&str> =
        stream.declaration.fields().iter().map(|field| field.name.as_str()).collect();
    json!({
        "connection": stream.connection,
        "stream": stream.stream,
        "records": stream.records,
        "fields": fields,
        "primary_key": stream.declaration.primary_key(),
        "ordered_by": stream.declaration.cursor_field(),
        "time_field": stream.declaration.consent_time_field(),
        "last_ingested": stream.latest.map(Instant::to_rfc3339),
    })
}
