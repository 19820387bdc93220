//! `stile import`: stores the rows of files as records, and restores exports.
//!
//! The formats come from the list of importers. `--format stile` has no importer: an export names
//! its own connections and streams, so it is restored.

mod interrupted;
mod parts;
mod rejected;
mod report;
mod sync;

use std::io::Write;
use std::path::Path;

use clap::ArgMatches;
use stile_domain::records::identifiers::SourceName;
use stile_import::attachment::TEXT_FIELD;
use stile_import::attachment_text::TextReader;
use stile_import::importer::{ImportTarget, Importer};
use stile_import::importers::{self, IMPORTERS};
use stile_import::input::ImportInput;
use stile_import::reading::ReadingOptions;
use stile_import::report::{BadRow, BadRowPolicy, ImportError, ImportReport, StoppedImport};
use stile_import::run::{Import, ImportPreview};

use self::interrupted::Reached;
use self::rejected::RejectedRows;
use self::report::{print_declared, print_misfits, step};
use crate::cli::compose::{Owner, owner};
use crate::cli::failure::Failure;
use crate::cli::flags;
use crate::cli::flags::import_reading::{self, EXPORT_FORMAT};
use crate::cli::invocation::Invocation;
use crate::cli::terminal::{self, Progress};
use crate::config::Environment;
use crate::owner_imports::{self, PREVIEW_ROWS, input, words};

/// The exit code of an import that rejected some rows and stored the others.
const SOME_REJECTED: u8 = 3;

pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    run_with(IMPORTERS, matches, environment, output)
}

/// [`run`] with another list of importers.
pub(crate) fn run_with(
    importers: &[&'static Importer],
    matches: &ArgMatches,
    environment: Environment<'_>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let files = flags::texts(matches, "file");
    let format = flags::text(matches, "format");
    let bad_rows = match matches.get_flag("strict") {
        true => BadRowPolicy::StoreNothing,
        false => BadRowPolicy::Skip,
    };
    if format == Some(EXPORT_FORMAT) {
        return restore(matches, environment, &files, bad_rows, output);
    }
    let is_sync = matches.get_flag("sync") || matches.get_flag("watch");
    if !is_sync && let Some(export) = owner_imports::divided(&files, format)? {
        return parts::run(matches, environment, export, output);
    }
    let inputs =
        files.iter().map(|file| input(importers, file, format)).collect::<Result<Vec<_>, _>>()?;
    // The folder of a sync, and one that the owner calls a folder of Markdown, may be empty.
    if !is_sync && format.is_none() {
        inputs.iter().try_for_each(refuse_folder_of_nothing)?;
    }
    let target = ImportTarget {
        connection: flags::name(matches, "connection")?,
        stream: stream(matches, &inputs)?,
    };
    if is_sync {
        return sync::run(matches, environment, &inputs, target, output);
    }
    let command = ImportCommand::open(matches, environment)?;
    if matches.get_flag("preview") {
        command.preview(&target, &inputs, output)?;
        writeln!(output, "{NOTHING_STORED}")?;
        return Ok(());
    }
    let imported = command.import(&target, &inputs);
    let kept = command.rejected.map(RejectedRows::finish);
    let report = print_report(imported, "", output)?;
    kept.transpose()?;
    let ImportReport { added, changed, unchanged, bad_rows, .. } = report;
    if added + changed + unchanged + bad_rows == 0
        && let Some(path) = flags::text(matches, "rows")
    {
        return Err(Failure::Failed(format!(
            "there are no rows in `{}`. Leave --rows out to let Stile look for them, or name the \
             member that holds them, as in chats/list/*/messages",
            path.escape_debug()
        )));
    }
    print_declared(&target, &report)?;
    print_misfits(&target, &report)?;
    some_rejected(report.bad_rows)
}

const NOTHING_STORED: &str =
    "nothing was stored or declared: import without --preview to store all rows";

/// What all imports of one command have in common.
struct ImportCommand {
    owner: Owner,
    reader: TextReader,
    key: Vec<String>,
    reading: ReadingOptions,
    bad_rows: BadRowPolicy,
    rejected: Option<RejectedRows>,
    reached: Reached,
}

impl ImportCommand {
    fn open(matches: &ArgMatches, environment: Environment<'_>) -> Result<Self, Failure> {
        let bad_rows = match matches.get_flag("strict") {
            true => BadRowPolicy::StoreNothing,
            false => BadRowPolicy::Skip,
        };
        let reached = Reached::watch(bad_rows)?;
        let owner = owner::open(matches, environment)?;
        let reader = owner_imports::text_reader()
            .map_err(|error| Failure::Failed(format!("cannot find this program: {error}")))?;
        let rejected = flags::text(matches, "rejected").map(RejectedRows::create).transpose()?;
        let (key, reading) = (flags::texts(matches, "key"), import_reading::options(matches)?);
        Ok(Self { owner, reader, key, reading, bad_rows, rejected, reached })
    }

    /// Imports files into one stream.
    fn import(
        &self,
        target: &ImportTarget,
        inputs: &[ImportInput],
    ) -> Result<ImportReport, Box<StoppedImport>> {
        let keep = self.rejected.as_ref().map(|rejected| |bad: &BadRow| rejected.add(bad));
        let on_rejected = keep.as_ref().map(|keep| keep as &dyn Fn(&BadRow));
        let import = Import { on_rejected, ..self.of(target) };
        let mut line = Progress::new();
        let imported = import.run(inputs, &mut |progress| {
            self.reached.note(progress);
            line.show(step(progress));
        });
        line.clear();
        imported
    }

    /// Prints what an import of files into one stream would store.
    fn preview(
        &self,
        target: &ImportTarget,
        inputs: &[ImportInput],
        output: &mut dyn Write,
    ) -> Result<(), Failure> {
        let mut line = Progress::new();
        let preview = self.of(target).preview(inputs, PREVIEW_ROWS, &mut |progress| {
            line.show(step(progress));
        });
        line.clear();
        print_preview(target, preview, output)
    }

    fn of<'a>(&'a self, target: &'a ImportTarget) -> Import<'a> {
        let Owner { services, caller, now } = &self.owner;
        Import {
            services,
            caller,
            target,
            key: &self.key,
            reading: &self.reading,
            bad_rows: self.bad_rows,
            now: *now,
            text_reader: Some(&self.reader),
            on_rejected: None,
        }
    }
}

/// Prints what an import would store.
fn print_preview(
    target: &ImportTarget,
    preview: Result<ImportPreview, ImportError>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let ImportPreview { report, rows } = match preview {
        Ok(preview) => preview,
        Err(error @ (ImportError::OtherKey { .. } | ImportError::Key(_))) => {
            return Err(Failure::Usage(error.to_string()));
        }
        Err(error) => return Err(Failure::Failed(error.to_string())),
    };
    print_bad_rows(&report)?;
    print_declared(target, &report)?;
    print_misfits(target, &report)?;
    for row in rows {
        writeln!(output, "{row}")?;
    }
    Ok(())
}

/// Ends the command with an exit code of its own if rows were rejected and others stored.
fn some_rejected(bad_rows: u64) -> Result<(), Failure> {
    let rows = match bad_rows {
        0 => return Ok(()),
        1 => "1 row was".to_owned(),
        rows => format!("{rows} rows were"),
    };
    Err(Failure::Verbatim {
        text: format!("{rows} rejected; every other row is stored"),
        code: SOME_REJECTED,
    })
}

/// Returns the stream that `--stream` names, or else the default of the importers if they agree.
fn stream(matches: &ArgMatches, inputs: &[ImportInput]) -> Result<SourceName, Failure> {
    if flags::text(matches, "stream").is_some() {
        return flags::name(matches, "stream");
    }
    match owner_imports::stream_of(inputs) {
        Some(stream) => SourceName::parse(stream).map_err(|bad| Failure::Failed(bad.to_string())),
        None => Err(Failure::Usage(
            "say with --stream what the rows are, for example --stream messages".to_owned(),
        )),
    }
}

fn restore(
    matches: &ArgMatches,
    environment: Environment<'_>,
    files: &[String],
    bad_rows: BadRowPolicy,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    for flag in ["sync", "watch"] {
        if matches.get_flag(flag) {
            return Err(Failure::Usage(format!(
                "--{flag} cannot be used with --format {EXPORT_FORMAT}: it is for a folder of Markdown"
            )));
        }
    }
    for flag in ["connection", "stream", "key"] {
        if !flags::texts(matches, flag).is_empty() {
            return Err(Failure::Usage(format!(
                "--{flag} cannot be used with --format {EXPORT_FORMAT}: \
                 an export names the connection, stream and key of each record"
            )));
        }
    }
    if flags::text(matches, "rejected").is_some() {
        return Err(Failure::Usage(format!(
            "--rejected cannot be used with --format {EXPORT_FORMAT}: the rows are in the export"
        )));
    }
    let Owner { services, caller, .. } = owner::open(matches, environment)?;
    let mut bad = 0;
    for file in files {
        let mut line = Progress::new();
        let restored = stile_import::restore::restore(
            &services,
            &caller,
            Path::new(file),
            bad_rows,
            &mut |progress| line.show(step(progress)),
        );
        line.clear();
        bad += print_report(restored, "", output)?.bad_rows;
    }
    some_rejected(bad)
}

/// Refuses a folder in which no importer finds anything: the owner named the wrong folder.
fn refuse_folder_of_nothing(input: &ImportInput) -> Result<(), Failure> {
    if !importers::is_folder_of_nothing(input.importer, &input.path) {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "cannot import {}: it has neither Markdown (`.md`, `.markdown`) nor mail (`.eml`, or a \
         Maildir with `cur` and `new`). Nothing was stored. Name the files of other formats one by \
         one",
        input.path.display()
    )))
}

/// Prints the bad rows that a report lists to standard error.
fn print_bad_rows(report: &ImportReport) -> Result<(), Failure> {
    for bad in &report.bad {
        terminal::print_to_stderr(&words::bad_row(bad))?;
    }
    words::unlisted_bad_rows(report).map_or(Ok(()), |more| Ok(terminal::print_to_stderr(&more)?))
}

/// Prints the counts to the output, behind what they are of, and bad rows to standard error.
fn print_report(
    imported: Result<ImportReport, Box<StoppedImport>>,
    of: &str,
    output: &mut dyn Write,
) -> Result<ImportReport, Failure> {
    let (report, error) = match imported {
        Ok(report) => (report, None),
        Err(stopped) => {
            let StoppedImport { error, report } = *stopped;
            (report, Some(error))
        }
    };
    print_bad_rows(&report)?;
    words::attached(&report).iter().try_for_each(|line| terminal::print_to_stderr(line))?;
    if let Some(lacking) = words::without_text_field(&report) {
        terminal::print_to_stderr(&format!(
            "{lacking}; to search it, add the property `{TEXT_FIELD}` (`{{\"type\": \"string\"}}`) and \
             its name to `query.search.lexical_fields` with `stile declare`, and import again"
        ))?;
    }
    let further = words::replaced(&report).into_iter().chain(words::older(&report));
    further
        .chain(words::left_out(&report))
        .try_for_each(|line| terminal::print_to_stderr(&line))?;
    let ImportReport { added, changed, unchanged, bad_rows, .. } = report;
    let stored = added + changed + unchanged;
    let summary = words::counts(&report);
    match error {
        Some(error @ (ImportError::OtherKey { .. } | ImportError::Key(_))) => {
            return Err(Failure::Usage(error.to_string()));
        }
        Some(error) if stored == 0 => return Err(Failure::Failed(error.to_string())),
        Some(error) => {
            return Err(Failure::Failed(format!(
                "{error}\nBefore that: {summary}. Run it again to go on from there."
            )));
        }
        None => writeln!(output, "{of}{summary}")?,
    }
    if of.is_empty() && added + changed == 0 && bad_rows == 0 {
        let result = if unchanged > 0 { "nothing has changed" } else { "there are no rows" };
        writeln!(output, "{result}")?;
    }
    if stored == 0 && bad_rows > 0 {
        return Err(Failure::Failed("no row could be stored; the reasons are above".to_owned()));
    }
    Ok(report)
}
