//! `stile import` of an export that holds several kinds of data: each part into a stream of its
//! own.

use std::collections::BTreeSet;
use std::io::Write;

use clap::ArgMatches;
use stile_domain::records::identifiers::SourceName;
use stile_import::collections::{DividedExport, ExportPart, notion};
use stile_import::importer::ImportTarget;

use super::rejected::RejectedRows;
use super::report::{print_declared, print_misfits};
use super::{ImportCommand, NOTHING_STORED, print_report, some_rejected};
use crate::cli::compose::Owner;
use crate::cli::failure::Failure;
use crate::cli::flags;
use crate::cli::terminal;
use crate::config::Environment;

/// How many reasons are repeated if nothing of an export is imported.
const REASONS: usize = 3;

/// Imports the parts of an export, one after the other. A part that fails does not keep the others
/// from being imported, unless nothing is to be stored then.
pub(super) fn run(
    matches: &ArgMatches,
    environment: Environment<'_>,
    export: DividedExport,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let connection = flags::name(matches, "connection")?;
    for flag in ["key", "rows"] {
        if !flags::texts(matches, flag).is_empty() {
            return Err(Failure::Usage(format!(
                "--{flag} cannot be used with {}: it is for the rows of one stream",
                export.collection.description
            )));
        }
    }
    let DividedExport { collection, parts, skipped, unnamed } = export;
    for next in &unnamed {
        let otherwise = match collection.parts_belong_together {
            true => ". Rows whose pages are in another part are stored again with the whole export",
            false => ", or import it next",
        };
        terminal::print_to_stderr(&format!(
            "{next} looks like a further part of the export, and was not named: name all parts \
             together{otherwise}"
        ))?;
    }
    for files in &skipped {
        terminal::print_to_stderr(&files.described())?;
    }
    if !skipped.is_empty() {
        terminal::print_to_stderr(collection.advice)?;
    }
    if parts.is_empty() {
        let reasons: BTreeSet<&str> = skipped.iter().map(|files| files.reason.as_str()).collect();
        let reasons: Vec<&str> = reasons.into_iter().take(REASONS).collect();
        return Err(Failure::Failed(format!(
            "nothing in {} is of a kind that Stile imports: {}. Nothing was stored",
            collection.description,
            reasons.join("; ")
        )));
    }
    let parts = chosen(parts, flags::text(matches, "stream"))?;
    let command = ImportCommand::open(matches, environment)?;
    let parts = stored_names(parts, &command.owner, &connection)?;
    let (mut bad, mut failed) = (0, Vec::new());
    for ExportPart { stream, inputs } in parts {
        let name = SourceName::parse(&stream).map_err(|bad| Failure::Failed(bad.to_string()))?;
        let target = ImportTarget { connection: connection.clone(), stream: name };
        if matches.get_flag("preview") {
            writeln!(output, "{stream}:")?;
            match command.preview(&target, &inputs, output) {
                Err(Failure::Failed(why)) => failed.push(format!("{stream}: {why}")),
                shown => shown?,
            }
            continue;
        }
        match print_report(command.import(&target, &inputs), &format!("{stream}: "), output) {
            Ok(report) => {
                print_declared(&target, &report)?;
                print_misfits(&target, &report)?;
                bad += report.bad_rows;
            }
            Err(Failure::Failed(why)) if !matches.get_flag("strict") => {
                failed.push(format!("{stream}: {why}"));
            }
            Err(failure) => return Err(failure),
        }
    }
    if matches.get_flag("preview") {
        writeln!(output, "{NOTHING_STORED}")?;
    }
    command.rejected.map(RejectedRows::finish).transpose()?;
    if !failed.is_empty() {
        return Err(Failure::Failed(failed.join("\n")));
    }
    some_rejected(bad)
}

/// Gives the parts with databases of Notion the names that their streams have in the connection:
/// a database that was renamed keeps its stream.
fn stored_names(
    mut parts: Vec<ExportPart>,
    owner: &Owner,
    connection: &SourceName,
) -> Result<Vec<ExportPart>, Failure> {
    let streams = owner.services.list_streams(&owner.caller, owner.now)?;
    let of_connection = streams.iter().filter(|own| own.connection == *connection);
    let names: Vec<&str> = of_connection.map(|own| own.stream.as_str()).collect();
    for part in &mut parts {
        let is_database = part.inputs.iter().any(|input| input.pages.is_some());
        let stored = notion::stored_as(&part.stream, names.iter().copied());
        if let Some(stored) = stored.filter(|_| is_database) {
            terminal::print_to_stderr(&format!(
                "{}: the database was renamed, and its stream stays `{stored}`",
                part.stream
            ))?;
            part.stream = stored;
        }
    }
    Ok(parts)
}

/// Returns the part that `--stream` names, or all. The only part of an export may get any name.
fn chosen(mut parts: Vec<ExportPart>, stream: Option<&str>) -> Result<Vec<ExportPart>, Failure> {
    let Some(wanted) = stream else { return Ok(parts) };
    if let [only] = parts.as_mut_slice() {
        wanted.clone_into(&mut only.stream);
        return Ok(parts);
    }
    let names: Vec<String> = parts.iter().map(|part| part.stream.clone()).collect();
    parts.retain(|part| part.stream == wanted);
    if parts.is_empty() {
        return Err(Failure::Usage(format!(
            "the export has no part `{wanted}`: it has {}. Leave --stream out to import them all",
            names.join(", ")
        )));
    }
    Ok(parts)
}
