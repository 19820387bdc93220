//! What imports and syncs print alike: their progress, how files were read, how a new stream was
//! declared, and what does not fit the declaration.

use std::io;

use stile_import::importer::ImportTarget;
use stile_import::report::{ImportProgress, ImportReport};

use crate::cli::terminal::{self, Step, Unit};
use crate::owner_imports::words;

/// Returns the progress of an import as a line shows it.
pub(super) fn step(ImportProgress { storing, bytes, total }: ImportProgress) -> Step {
    let action = if storing { "storing" } else { "reading" };
    Step { action, done: bytes, total, unit: Unit::Bytes }
}

/// Prints to standard error what does not fit the declaration of the stream: values of another
/// type, and fields that it lacks.
pub(super) fn print_misfits(target: &ImportTarget, report: &ImportReport) -> io::Result<()> {
    words::misfits(report).iter().try_for_each(|line| terminal::print_to_stderr(line))?;
    match words::undeclared(target, report) {
        Some(lacking) => terminal::print_to_stderr(&format!(
            "{lacking} To declare them, import again with --add-fields"
        )),
        None => Ok(()),
    }
}

/// Prints to standard error how the files were read, and why a new stream was declared as it was.
pub(super) fn print_declared(target: &ImportTarget, report: &ImportReport) -> io::Result<()> {
    report.read_as.iter().try_for_each(|line| terminal::print_to_stderr(line))?;
    let Some(declared) = words::declared(target, report) else { return Ok(()) };
    terminal::print_to_stderr(&declared)?;
    report
        .declared_because
        .iter()
        .try_for_each(|line| terminal::print_to_stderr(&format!("  {line}")))?;
    let ImportTarget { connection, stream } = target;
    let command = format!("stile declare --connection {connection} --stream {stream}");
    terminal::print_to_stderr(&format!(
        "It stays so until you change it: `{command} --show > FILE`, edit FILE, \
         `{command} --from FILE`."
    ))
}
