//! `stile records remove`, `removed`, `restore` and `purge`: takes records away, and brings them
//! back for 30 days.

use std::io::Write;

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::problem::Problem;
use stile_domain::unseen::shown;
use stile_records::removal::{Fate, RemovalPlan, RemovalRequest, Removed, RestoreError};
use stile_store::records::KeptRemoval;

use crate::cli::compose::{Owner, owner};
use crate::cli::failure::Failure;
use crate::cli::flags::{text, texts};
use crate::cli::invocation::Invocation;
use crate::cli::terminal::local_time::minute;
use crate::cli::terminal::table::{cell, table};
use crate::cli::terminal::{self, Colours, Meaning};

/// Runs one of the commands.
pub(super) fn run(name: &str, invocation: Invocation<'_>) -> Result<(), Failure> {
    let Invocation { matches, environment, output, colours } = invocation;
    let owner = owner::open(matches, environment)?;
    let id = || text(matches, "id").unwrap_or_default();
    match name {
        "remove" => remove(&owner, matches, output, colours),
        "removed" => list(&owner, matches, output, colours),
        "restore" => restore(&owner, id(), matches.get_flag("json"), output),
        "purge" => {
            let records = owner
                .services
                .purge_removal(&owner.caller, owner.now, id())
                .map_err(|error| not_found(error, id()))?;
            Ok(writeln!(output, "{records} records are gone for good")?)
        }
        _ => Ok(()),
    }
}

fn remove(
    owner: &Owner,
    matches: &ArgMatches,
    output: &mut dyn Write,
    colours: Colours,
) -> Result<(), Failure> {
    let request = request(matches)?;
    let missing = |problem| match problem {
        Problem::NotFound => Failure::Failed(absent(&request)),
        problem => Failure::from(problem),
    };
    let plan = owner.services.plan_removal(&owner.caller, owner.now, &request).map_err(missing)?;
    let is_json = matches.get_flag("json");
    if !matches.get_flag("yes") {
        if is_json {
            return Ok(terminal::write_json(output, &plan_json(&plan, &request))?);
        }
        write_plan(&plan, &request, output, colours)?;
        return Ok(writeln!(output, "Nothing was changed. Add --yes to do this.")?);
    }
    let removed =
        owner.services.carry_out_removal(&owner.caller, owner.now, &request).map_err(missing)?;
    if is_json {
        let Removed { removal, records, grants } = &removed;
        let removal = removal.as_ref().map(|removal| removal.as_str());
        let json = json!({ "removal": removal, "records": records, "ended_grants": grants });
        return Ok(terminal::write_json(output, &json)?);
    }
    write_plan(&plan, &request, output, colours)?;
    match &removed.removal {
        Some(id) => writeln!(
            output,
            "Done. `stile records restore {}` brings the records back within 30 days.",
            id.as_str()
        )?,
        None => writeln!(output, "Done. The records are gone for good.")?,
    }
    Ok(())
}

/// Reads what to remove from the arguments.
fn request(matches: &ArgMatches) -> Result<RemovalRequest, Failure> {
    let name = |flag: &str| {
        text(matches, flag)
            .map(|text| SourceName::parse(text).map_err(|bad| Failure::Usage(bad.to_string())))
            .transpose()
    };
    let connection = name("connection")?
        .ok_or_else(|| Failure::Usage("name the connection with --connection".to_owned()))?;
    let mut keys = texts(matches, "record");
    keys.sort_unstable();
    keys.dedup();
    let keys = keys
        .iter()
        .map(|key| RecordKey::parse(key).map_err(|bad| Failure::Usage(bad.to_string())))
        .collect::<Result<_, _>>()?;
    let fate = if matches.get_flag("purge") { Fate::Purged } else { Fate::Kept };
    Ok(RemovalRequest { connection, stream: name("stream")?, keys, fate })
}

/// Says that something to remove is not there.
fn absent(request: &RemovalRequest) -> String {
    if request.keys.is_empty() {
        return format!(
            "there is no connection `{}`; `stile connections` shows all. Nothing was changed",
            request.connection
        );
    }
    "the stream has no record with one of these keys; nothing was changed".to_owned()
}

fn write_plan(
    plan: &RemovalPlan,
    request: &RemovalRequest,
    output: &mut dyn Write,
    colours: Colours,
) -> Result<(), Failure> {
    let (verb, end) = (colours.paint("remove", Meaning::Bad), colours.paint("end", Meaning::Bad));
    for (stream, records) in &plan.streams {
        let what = match request.keys.is_empty() {
            true => format!("the stream `{stream}` of `{}`, {records} records", request.connection),
            false => format!("{records} records of `{stream}` of `{}`", request.connection),
        };
        writeln!(output, "{verb}  {what}")?;
    }
    for grant in &plan.grants {
        let client = cell(grant.grant.as_ref().map(|grant| grant.client.as_str()));
        let streams = grant.grant.iter().flat_map(|grant| &grant.streams);
        let streams: Vec<String> = streams.map(|it| it.stream.to_string()).collect();
        writeln!(
            output,
            "{end}     the grant {} of {client}, which shows {}",
            grant.id,
            streams.join(", ")
        )?;
    }
    Ok(())
}

fn plan_json(plan: &RemovalPlan, request: &RemovalRequest) -> Value {
    let streams = plan.streams.iter().map(|(stream, records)| {
        json!({ "connection": request.connection, "stream": stream, "records": records })
    });
    let ends = plan.grants.iter().map(|grant| grant.id.as_str());
    json!({
        "streams": Value::from_iter(streams),
        "whole_streams": request.keys.is_empty(),
        "kept": request.fate == Fate::Kept,
        "ended_grants": Value::from_iter(ends),
    })
}

fn list(
    owner: &Owner,
    matches: &ArgMatches,
    output: &mut dyn Write,
    colours: Colours,
) -> Result<(), Failure> {
    let kept = owner.services.removals(&owner.caller, owner.now)?;
    if matches.get_flag("json") {
        return Ok(terminal::write_json(output, &Value::from_iter(kept.iter().map(to_json)))?);
    }
    let rows = kept.iter().map(|kept| {
        let from = &kept.stream;
        [
            from.removal.as_str().to_owned(),
            from.connection.to_string(),
            from.stream.to_string(),
            kept.records.to_string(),
            minute(kept.ends()),
        ]
    });
    let headings = ["ID", "CONNECTION", "STREAM", "RECORDS", "KEPT UNTIL (UTC)"];
    let none = "There are no removed records that could be brought back.";
    let table = table(colours, headings, rows);
    Ok(output.write_all(terminal::list(table, kept.is_empty(), none)?.as_bytes())?)
}

fn to_json(kept: &KeptRemoval) -> Value {
    let from = &kept.stream;
    json!({
        "removal": from.removal,
        "connection": from.connection,
        "stream": from.stream,
        "records": kept.records,
        "whole_stream": from.is_whole,
        "kept_until": kept.ends().to_rfc3339(),
    })
}

fn restore(owner: &Owner, id: &str, is_json: bool, output: &mut dyn Write) -> Result<(), Failure> {
    let done = owner
        .services
        .restore_removal(&owner.caller, owner.now, id)
        .map_err(|error| not_found(error, id))?;
    if is_json {
        let json = json!({ "restored": done.restored, "still_removed": done.blocked });
        return Ok(terminal::write_json(output, &json)?);
    }
    writeln!(output, "restored {} records", done.restored)?;
    if done.blocked > 0 {
        writeln!(
            output,
            "{} stay removed, because their stream has other records with their keys",
            done.blocked
        )?;
    }
    Ok(())
}

fn not_found(error: RestoreError, id: &str) -> Failure {
    match error {
        RestoreError::Problem(problem) => Failure::from(problem),
        error => Failure::Failed(format!("{}: {error}", shown(id))),
    }
}
