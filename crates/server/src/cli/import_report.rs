//! What imports and syncs print alike: their progress, and how a new stream was declared.

use std::io;

use stile_import::importer::ImportTarget;
use stile_import::report::{ImportProgress, ImportReport};

use super::owner;
use super::progress::{Step, Unit};

/// Returns the progress of an import as a line shows it.
pub(super) fn step(ImportProgress { storing, bytes, total }: ImportProgress) -> Step {
    let action = if storing { "storing" } else { "reading" };
    Step { action, done: bytes, total, unit: Unit::Bytes }
}

/// Prints to standard error why a new stream was declared as it was.
pub(super) fn print_declared(target: &ImportTarget, report: &ImportReport) -> io::Result<()> {
    if report.declared_because.is_empty() {
        return Ok(());
    }
    let ImportTarget { connection, stream } = target;
    owner::print_to_stderr(&format!(
        "The stream `{stream}` of `{connection}` is new and now declared:"
    ))?;
    report
        .declared_because
        .iter()
        .try_for_each(|line| owner::print_to_stderr(&format!("  {line}")))?;
    let command = format!("stile declare --connection {connection} --stream {stream}");
    owner::print_to_stderr(&format!(
        "It stays so until you change it: `{command} --show > FILE`, edit FILE, \
         `{command} --from FILE`."
    ))
}
