//! `stile import --sync` and `--watch`: keep the records of a stream in step with a folder.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use clap::ArgMatches;
use serde_json::json;
use stile_domain::records::identifiers::SourceName;
use stile_import::importer::ImportTarget;
use stile_import::importers::markdown;
use stile_import::input::ImportInput;
use stile_import::report::{BadRow, ImportReport};
use stile_import::sync::{NOTES_LISTED, NoteSync, RemovalGuard, SyncError, SyncReport};
use stile_store::files;
use stile_store::space::{Space, SpaceOptions};
use stile_store::state::{StateDir, SyncLock};

use super::report::{print_declared, step};
use crate::cli::compose::{Owner, owner, process};
use crate::cli::failure::Failure;
use crate::cli::invocation::settings;
use crate::cli::terminal::Progress;
use crate::cli::{flags, terminal};
use crate::clock;
use crate::config::Environment;
use crate::live_notes;

/// The exit code of a sync that could not read or store some notes.
const SOME_UNSTORED: u8 = 3;
/// The name of a note's path as a field, which must be the key.
const KEY: &str = "path";

/// How the results of syncs are printed.
#[derive(Clone, Copy)]
enum Form {
    Lines,
    Json,
}

/// Syncs once, or until the process is asked to stop.
pub(super) fn run(
    matches: &ArgMatches,
    environment: Environment<'_>,
    inputs: &[ImportInput],
    target: ImportTarget,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let folder = only_folder(inputs)?;
    if flags::texts(matches, "key").iter().any(|field| field != KEY) {
        return Err(Failure::Usage(format!(
            "--sync and --watch know a note by its path: leave --key out, or name `{KEY}`"
        )));
    }
    let form = if matches.get_flag("json") { Form::Json } else { Form::Lines };
    let guard = match matches.get_flag("remove_all") {
        true => RemovalGuard::RemoveAll,
        false => RemovalGuard::RefuseToRemoveAll,
    };
    let state = StateDir::open(&settings(matches, environment)?.config.state)?;
    let _lock = take_lock(&state, &target.connection, &target.stream)?;
    let space = Space::open_ambient_to_read(folder, SpaceOptions::of_import())
        .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", folder.display())))?;
    let Owner { services, caller, .. } = owner::open(matches, environment)?;
    let sync = NoteSync::open(services, caller, target.clone(), &space)?;
    match matches.get_flag("watch") {
        true => watch(sync, guard, &target, form, output),
        false => sync_once(sync, guard, &target, form, output),
    }
}

/// Returns the folder of notes, if that is what the command names.
fn only_folder(inputs: &[ImportInput]) -> Result<&Path, Failure> {
    match inputs {
        [only] if only.importer.name == markdown::IMPORTER.name && files::is_folder(&only.path) => {
            Ok(&only.path)
        }
        [_] => Err(Failure::Usage(
            "--sync and --watch are for a folder of Markdown: a note that is not in it any more is \
             certainly gone, but another export may leave out what is older. Nothing was changed"
                .to_owned(),
        )),
        _ => Err(Failure::Usage(
            "--sync and --watch take one folder; give each folder a stream or a connection of its \
             own. Nothing was changed"
                .to_owned(),
        )),
    }
}

fn take_lock(
    state: &StateDir,
    connection: &SourceName,
    stream: &SourceName,
) -> Result<SyncLock, Failure> {
    SyncLock::try_take(state, connection, stream)?.ok_or_else(|| {
        Failure::Failed(format!(
            "another process keeps the stream `{stream}` of `{connection}` in step with a folder; \
             stop it first. Nothing was changed"
        ))
    })
}

fn sync_once(
    mut sync: NoteSync,
    guard: RemovalGuard,
    target: &ImportTarget,
    form: Form,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let mut line = Progress::new();
    let synced = sync.sync_first(guard, clock::now(), &mut |progress| line.show(step(progress)));
    line.clear();
    let report = synced?;
    print_problems(&report.problems())?;
    print_report(&report, form, output)?;
    print_declared(target, &report.import)?;
    let unstored = report.import.bad_rows + report.unread_folders.len() as u64;
    match unstored {
        0 => Ok(()),
        _ => Err(Failure::Verbatim {
            text: "some notes could not be read or stored; every other note is in step".to_owned(),
            code: SOME_UNSTORED,
        }),
    }
}

fn watch(
    sync: NoteSync,
    guard: RemovalGuard,
    target: &ImportTarget,
    form: Form,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    process::block_on(async {
        let stop = process::stop_signal()?;
        let mut is_first = true;
        let mut ended = Ok(());
        // The command prints a repeated failure once, and each note that it cannot read once.
        let (mut last_failure, mut told) = (None, Vec::new());
        // Whether it was asked to stop or failed, `ended` says what to report.
        let _ = live_notes::follow(sync, guard, stop, |result| {
            let printed = match result {
                Ok(report) => {
                    last_failure = None;
                    let problems = report.problems();
                    let are_new = !problems.is_empty() && problems != told;
                    let mut print = || {
                        if is_first || are_new || report.has_changes() {
                            print_problems(&problems)?;
                            print_names(&report, is_first, form, output)?;
                            print_report(&report, form, output)?;
                        }
                        print_declared(target, &report.import)
                    };
                    let printed = print();
                    if are_new {
                        told = problems;
                    }
                    printed.map_err(Failure::from)
                }
                Err(SyncError::Folder(error)) if !is_first => {
                    tell_once(&mut last_failure, &SyncError::Folder(error))
                }
                Err(error @ SyncError::Import(_)) if !is_first => {
                    tell_once(&mut last_failure, &error)
                }
                Err(error) => Err(error.into()),
            };
            is_first = false;
            match printed {
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => {
                    ended = Err(failure);
                    ControlFlow::Break(())
                }
            }
        })
        .await;
        ended
    })
}

fn tell_once(last: &mut Option<String>, error: &SyncError) -> Result<(), Failure> {
    let text = error.to_string();
    if last.as_ref() != Some(&text) {
        terminal::print_to_stderr(&text)?;
        *last = Some(text);
    }
    Ok(())
}

/// Prints what could not be read or stored to standard error.
fn print_problems(problems: &[String]) -> io::Result<()> {
    problems.iter().try_for_each(|problem| terminal::print_to_stderr(problem))
}

/// Prints the names of the notes that were read and of those whose records were removed. A first
/// sync reads every note, so these are not named.
fn print_names(
    report: &SyncReport,
    is_first: bool,
    form: Form,
    output: &mut dyn Write,
) -> io::Result<()> {
    if matches!(form, Form::Json) {
        return Ok(());
    }
    let read = if is_first { &[] } else { report.read_notes.as_slice() };
    for (done, names) in [("read", read), ("removed", report.removed_notes.as_slice())] {
        names.iter().try_for_each(|name| writeln!(output, "{done} {name}"))?;
        if names.len() == NOTES_LISTED {
            writeln!(output, "{done} perhaps more; the counts are below")?;
        }
    }
    Ok(())
}

fn print_report(report: &SyncReport, form: Form, output: &mut dyn Write) -> io::Result<()> {
    let ImportReport { added, changed, unchanged, bad_rows, ref bad, .. } = report.import;
    let removed = report.removed;
    match form {
        Form::Lines => writeln!(
            output,
            "added {added}, changed {changed}, unchanged {unchanged}, removed {removed}, \
             bad {bad_rows}"
        )?,
        Form::Json => {
            let bad = bad.iter().map(|BadRow { file, code, reason, .. }| {
                json!({ "note": file, "code": code, "reason": reason })
            });
            let unread = report
                .unread_folders
                .iter()
                .map(|(folder, reason)| json!({ "folder": folder, "reason": reason }));
            let line = json!({
                "added": added, "changed": changed, "unchanged": unchanged, "removed": removed,
                "bad": bad_rows, "read_notes": report.read_notes,
                "removed_notes": report.removed_notes,
                "bad_notes": bad.collect::<Vec<_>>(), "unread_folders": unread.collect::<Vec<_>>(),
            });
            writeln!(output, "{line}")?;
        }
    }
    // A pipe buffers lines; the program at its other end is to get each line at once.
    output.flush()
}
