//! `stile export`: writes records to a folder, from which `stile import` restores them.

use std::io;
use std::path::Path;

use stile_import::export::{ExportError, ExportProgress, ExportSelection};
use stile_store::files::ExportFolder;

use super::progress::{Progress, Step, Unit};
use super::{Failure, Invocation, owner};

pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = owner::open(matches, environment)?;
    let to = owner::text(matches, "to").unwrap_or_default();
    let folder = ExportFolder::create(Path::new(to)).map_err(|error| match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => {
            Failure::Usage(format!("{to} is not empty; name a folder that is new or empty"))
        }
        _ => Failure::Failed(format!("cannot create {to}: {error}")),
    })?;
    let selection = ExportSelection {
        connection: owner::text(matches, "connection"),
        stream: owner::text(matches, "stream"),
    };
    let mut line = Progress::new();
    let exported = stile_import::export::export(
        &owner.services,
        &owner.caller,
        owner.now,
        selection,
        &folder,
        &mut |ExportProgress { records: done, total }| {
            let unit = Unit::Things("records");
            line.show(Step { action: "exporting", done, total, unit });
        },
    );
    line.clear();
    let exported = exported.map_err(|error| match error {
        ExportError::Problem(problem) => Failure::from(problem),
        ExportError::Io(_) => Failure::Failed(error.to_string()),
    })?;
    writeln!(output, "exported {} records of {} streams", exported.records, exported.streams)?;
    Ok(())
}
