//! What imports and syncs print alike: their progress, how files were read, how a new stream was
//! declared, and what does not fit the declaration.

use std::io;

use stile_domain::unseen::shown_start;
use stile_import::importer::ImportTarget;
use stile_import::report::{ImportProgress, ImportReport, MisfitValues};

use crate::cli::terminal::{self, Step, Unit};

/// Returns the progress of an import as a line shows it.
pub(super) fn step(ImportProgress { storing, bytes, total }: ImportProgress) -> Step {
    let action = if storing { "storing" } else { "reading" };
    Step { action, done: bytes, total, unit: Unit::Bytes }
}

/// Prints to standard error what does not fit the declaration of the stream: values of another
/// type, and fields that it lacks.
pub(super) fn print_misfits(target: &ImportTarget, report: &ImportReport) -> io::Result<()> {
    for (name, found) in &report.misfits {
        let MisfitValues { declared, rows, example, file, line } = found;
        let (values, are) = if *rows == 1 { ("1 value", "is") } else { ("values", "are") };
        let count = if *rows == 1 { String::new() } else { format!("{rows} ") };
        terminal::print_to_stderr(&format!(
            "{count}{values} of `{}` {are} not {declared}, as the stream declares it, such as \
             \"{example}\" in {file}:{line}. Sums and ranges leave such values out",
            shown_start(name, NAME_CHARS)
        ))?;
    }
    let list = |names: &mut dyn Iterator<Item = &String>| -> String {
        let names: Vec<String> =
            names.map(|name| format!("`{}`", shown_start(name, NAME_CHARS))).collect();
        names.join(", ")
    };
    if !report.added_fields.is_empty() {
        terminal::print_to_stderr(&format!(
            "The stream now declares {} too",
            list(&mut report.added_fields.iter())
        ))?;
    }
    if !report.undeclared.is_empty() {
        let ImportTarget { connection, stream } = target;
        terminal::print_to_stderr(&format!(
            "The stream `{stream}` of `{connection}` does not declare {}: only you see these fields. To \
             declare them, import again with --add-fields",
            list(&mut report.undeclared.keys())
        ))?;
    }
    Ok(())
}

/// How much of a field's name a line shows, in characters.
const NAME_CHARS: usize = 64;

/// Prints to standard error how the files were read, and why a new stream was declared as it was.
pub(super) fn print_declared(target: &ImportTarget, report: &ImportReport) -> io::Result<()> {
    report.read_as.iter().try_for_each(|line| terminal::print_to_stderr(line))?;
    if report.declared_because.is_empty() {
        return Ok(());
    }
    let ImportTarget { connection, stream } = target;
    terminal::print_to_stderr(&format!(
        "The stream `{stream}` of `{connection}` is new and now declared:"
    ))?;
    report
        .declared_because
        .iter()
        .try_for_each(|line| terminal::print_to_stderr(&format!("  {line}")))?;
    let command = format!("stile declare --connection {connection} --stream {stream}");
    terminal::print_to_stderr(&format!(
        "It stays so until you change it: `{command} --show > FILE`, edit FILE, \
         `{command} --from FILE`."
    ))
}
