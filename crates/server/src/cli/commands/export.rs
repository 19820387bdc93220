//! `stile export`: writes records to a folder, from which `stile import` restores them.

use std::io;
use std::path::Path;

use stile_import::export::{ExportError, ExportProgress, ExportSelection, ExportSummary};
use stile_store::files::ExportFolder;

use crate::cli::compose::{Owner, owner};
use crate::cli::failure::Failure;
use crate::cli::flags;
use crate::cli::invocation::Invocation;
use crate::cli::terminal::{Progress, Step, Unit};

pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = owner::open(matches, environment)?;
    let to = Path::new(flags::text(matches, "to").unwrap_or_default());
    let chosen = (flags::text(matches, "connection"), flags::text(matches, "stream"));
    let exported = write(&owner, to, chosen)?;
    writeln!(output, "exported {} records of {} streams", exported.records, exported.streams)?;
    Ok(())
}

/// Makes a folder for an export, unless there is an empty one.
pub(super) fn new_folder(to: &Path) -> Result<ExportFolder, Failure> {
    ExportFolder::create(to).map_err(|error| match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => {
            let to = to.display();
            Failure::Usage(format!("{to} is not empty; name a folder that is new or empty"))
        }
        _ => Failure::Failed(format!("cannot create {}: {error}", to.display())),
    })
}

/// Writes the records of the owner into a new folder: those of a connection and a stream, or all.
pub(super) fn write(
    owner: &Owner,
    to: &Path,
    (connection, stream): (Option<&str>, Option<&str>),
) -> Result<ExportSummary, Failure> {
    let folder = new_folder(to)?;
    let selection = ExportSelection { connection, stream };
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
    exported.map_err(|error| match error {
        ExportError::Problem(problem) => Failure::from(problem),
        ExportError::Io(_) => Failure::Failed(error.to_string()),
    })
}
