//! `stile migrate-store`: copies the records of a person from one engine to the other.

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::hash::hex;
use stile_store::postgresql::PersonName;
use stile_store::store_copy::{CopyStep, StoreAddress, StoreCopy, TableChecksum};

use crate::cli::compose::home::LOCAL_ISSUER;
use crate::cli::compose::person_folder::{NOTES, STATE};
use crate::cli::failure::Failure;
use crate::cli::invocation::Invocation;
use crate::cli::terminal::table::table;
use crate::cli::terminal::{Progress, Step, Unit};
use crate::cli::{flags, terminal};
use crate::clock;

/// Copies everything, compares both sides, and prints the checksum of each table.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let address = |flag: &str| address(flags::text(matches, flag).unwrap_or_default(), environment);
    let (from, to) = (address("from")?, address("to")?);
    let copy = match person(matches) {
        Some(person) => StoreCopy::open_person(&from, &to, &person, clock::now())?,
        None => StoreCopy::open(&from, &to, clock::now())?,
    };
    let person = copy.person().map(str::to_owned);
    let files = files(copy.source_person(), copy.target_person());
    let checksums = copy_all(copy, Progress::new())?;
    if matches.get_flag("json") {
        let rows = checksums.iter().map(|TableChecksum { table, rows, sha256 }| {
            json!({ "table": table, "rows": rows, "sha256": hex(sha256) })
        });
        let tables = Value::from_iter(rows);
        let said = match person {
            Some(person) => json!({ "person": person, "tables": tables }),
            None => json!({ "tables": tables }),
        };
        writeln!(output, "{said:#}")?;
        return Ok(());
    }
    let rows = checksums.iter().map(|TableChecksum { table, rows, sha256 }| {
        [(*table).to_owned(), rows.to_string(), hex(sha256)]
    });
    output
        .write_all(table(colours, ["TABLE", "ROWS", "SHA-256 OF BOTH SIDES"], rows).as_bytes())?;
    if person.is_some() {
        return terminal::print_to_stderr(&format!(
            "the copy is complete, and each side has these checksums; the source is as it was\n\
             tokens and cursors of the person were not copied: their clients sign in again and \
             read from the beginning\n\
             {files}"
        ))
        .map_err(Failure::from);
    }
    terminal::print_to_stderr(
        "the copy is complete, and each side has these checksums; the source is as it was\n\
         serve only one of the two from now on: cursors and sync tokens fit both, and what is \
         written to one is not in the other",
    )?;
    Ok(())
}

/// Says where the files of a person are, and where they belong. Takes the identifiers of the person
/// at both ends, of which a state folder has none.
fn files(source: Option<&str>, target: Option<&str>) -> String {
    let of = |person| {
        format!("{person}/{NOTES} of its --spaces (their old versions in {person}/{STATE})")
    };
    let is = source.map_or_else(
        || "in the folder that its server serves (their old versions in --from)".to_owned(),
        |person| format!("in {}", of(person)),
    );
    let belongs = target.map_or_else(
        || "in the folder that its server will serve (their old versions in --to)".to_owned(),
        |person| format!("in {}", of(person)),
    );
    format!(
        "the person's files were not copied; at the source they are {is}, and at the target they \
         belong {belongs}"
    )
}

/// Returns the person whom the arguments name, as servers with `--spaces` know them.
fn person(matches: &ArgMatches) -> Option<PersonName> {
    let text = |flag: &str| flags::text(matches, flag).map(str::to_owned);
    if let Some(id) = text("person") {
        return Some(PersonName::Id(id));
    }
    let issuer = text("issuer").unwrap_or_else(|| LOCAL_ISSUER.to_owned());
    text("user").map(|subject| PersonName::Subject { issuer, subject })
}

/// Parses the address of a store. For `env:NAME`, reads the address from the environment variable:
/// other users of a machine can see the arguments of a command, and an address may have a password.
fn address(
    text: &str,
    environment: crate::config::Environment<'_>,
) -> Result<StoreAddress, Failure> {
    let Some(name) = text.strip_prefix("env:") else { return Ok(StoreAddress::parse(text)) };
    let value = environment(name)
        .filter(|value| !value.is_empty())
        .ok_or_else(|| Failure::Usage(format!("{text}: the environment has no variable {name}")))?;
    Ok(StoreAddress::parse(&value))
}

/// Copies everything and compares both sides.
fn copy_all(mut copy: StoreCopy, mut progress: Progress) -> Result<Vec<TableChecksum>, Failure> {
    let amount = copy.amount()?;
    if amount.copied > 0 {
        let line = format!("going on after {} rows that an earlier run copied", amount.copied);
        terminal::print_to_stderr(&line)?;
    }
    let (mut copied, mut indexed) = (amount.copied, 0);
    let done = loop {
        match copy.step() {
            Ok(Some(CopyStep::Copied(rows))) => {
                copied += rows;
                progress.show(rows_of("copying", copied, amount.rows));
            }
            Ok(Some(CopyStep::Indexed(records))) => {
                indexed += records;
                let unit = Unit::Things("records");
                let (done, total) = (indexed, amount.records);
                progress.show(Step { action: "indexing", done, total, unit });
            }
            Ok(Some(CopyStep::Removed)) => copied = 0,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let done = done.and_then(|()| {
        let mut compared = 0;
        copy.verify(&mut |rows| {
            compared += rows;
            progress.show(rows_of("comparing", compared, 2 * amount.rows));
        })
    });
    progress.clear();
    Ok(done?)
}

fn rows_of(action: &'static str, done: u64, total: u64) -> Step {
    Step { action, done, total, unit: Unit::Things("rows") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_person_are_told_by_the_identifier_of_each_side() {
        let text = files(Some("aa"), Some("bb"));
        let (source, target) = text.split_once("at the target").unwrap();
        assert!(source.contains("aa/notes") && source.contains("aa/state"), "{text}");
        assert!(target.contains("bb/notes") && target.contains("bb/state"), "{text}");
        assert!(!source.contains("bb") && !target.contains("aa"), "{text}");
        let into = files(None, Some("bb"));
        let (source, target) = into.split_once("at the target").unwrap();
        assert!(!source.contains("--spaces") && target.contains("bb/notes"), "{into}");
        let out = files(Some("aa"), None);
        let (source, target) = out.split_once("at the target").unwrap();
        assert!(source.contains("aa/notes") && !target.contains("--spaces"), "{out}");
    }
}
