//! `stile undo`: takes back what one call or one client changed.
//!
//! Shows the plan of [`undo`], and carries it out if the owner says so. The command ends with exit
//! code 1 if something cannot be given back.

use std::io::Write;

use serde_json::{Value, json};
use stile_domain::history::past_change::ChangeNumber;
use stile_domain::history::undo_plan::{UndoPlan, UndoStep};
use stile_domain::path::SpacePath;
use stile_domain::unseen::shown;
use stile_store::history::{ChangeQuery, UnrecordedChanges};

use crate::cli::compose::FilesOwner;
use crate::cli::failure::Failure;
use crate::cli::flags;
use crate::cli::flags::duration::{since_flag, time_flag};
use crate::cli::invocation::Invocation;
use crate::cli::terminal::{self, Colours, Meaning, Progress, Step, Unit, local_time};
use crate::owner_files::undo::{self, PlannedUndo, UNDO};

/// Shows the plan, and carries it out if the owner said so.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = FilesOwner::open(matches, environment, UNDO)?;
    let query = ChangeQuery {
        path: flags::text(matches, "path").map(|text| owner.path(text)).transpose()?,
        client: flags::text(matches, "client").map(str::to_owned),
        since: since_flag(matches)?,
        until: time_flag(matches, "until")?,
        call: flags::text(matches, "call").map(call_number).transpose()?,
        ..ChangeQuery::default()
    };
    let Some(planned) = owner.read(undo::plan(&owner.files, &query))? else {
        return Err(Failure::Failed(
            "the history has no such change; `stile history` shows all changes".to_owned(),
        ));
    };
    let plan = &planned.plan;
    let unrecorded = unrecorded_lines(&planned.unrecorded);
    let foreseen = lacking_lines(&unrecorded, &planned.lacking, "replace or remove");
    if matches.get_flag("json") {
        terminal::write_json(output, &plan_json(plan, &planned.lacking))?;
        return refuse_failures(plan, foreseen, Vec::new());
    }
    write_plan(plan, output, colours)?;
    if plan.steps.is_empty() {
        writeln!(output, "Nothing is to be done.")?;
        return refuse_failures(plan, foreseen, Vec::new());
    }
    for folder in &planned.folders {
        let (verb, folder) = (colours.paint("remove", Meaning::Good), shown(folder.as_str()));
        writeln!(output, "{verb}     {folder}, if it is empty by then")?;
    }
    if !matches.get_flag("yes") {
        writeln!(output, "Nothing was changed. Add --yes to do this.")?;
        return refuse_failures(plan, foreseen, Vec::new());
    }
    let failed = carry_out(&owner, &planned)?;
    let done = plan.steps.len() - failed.len();
    writeln!(output, "{done} of {} done.{}", plan.steps.len(), owner.how_to_take_back())?;
    let files = &owner.files;
    let lacking = files.call.number().map_or(Ok(Vec::new()), |call| files.history.lacking(call))?;
    let lines = lacking_lines(&unrecorded, &lacking, "replaced or removed");
    refuse_failures(plan, lines, failed)
}

/// Carries a plan out, and shows how far the work is.
fn carry_out<'p>(
    owner: &FilesOwner,
    planned: &'p PlannedUndo,
) -> Result<Vec<(&'p UndoStep, String)>, Failure> {
    owner.run(async {
        let mut progress = Progress::new();
        let (total, unit) = (planned.plan.steps.len() as u64, Unit::Things("steps"));
        let mut on_step = |done| progress.show(Step { action: "undoing", done, total, unit });
        let failed = undo::carry_out(&owner.files, planned, &mut on_step).await;
        progress.clear();
        Ok(failed)
    })
}

/// Returns a line for each time in which changes of the client did not come into the history.
fn unrecorded_lines(unrecorded: &[UnrecordedChanges]) -> Vec<String> {
    let line = |unrecorded: &UnrecordedChanges| {
        format!(
            "{} changes by {} between {} and {} are not in the history, which had no room for \
             them: {}",
            unrecorded.changes,
            unrecorded.client.as_deref().unwrap_or_default(),
            local_time::minute(unrecorded.since),
            local_time::in_words(unrecorded.until),
            unrecorded_files(unrecorded),
        )
    };
    unrecorded.iter().map(line).collect()
}

/// Returns the files of changes that are not in the history, as far as they are known.
fn unrecorded_files(unrecorded: &UnrecordedChanges) -> String {
    let names = unrecorded.paths.iter().map(|path| shown(path.as_str()));
    let names = names.collect::<Vec<_>>().join(", ");
    // Several changes of one file name it once, so there may be others beyond the last name.
    match unrecorded.changes > unrecorded.paths.len() as u64 {
        true => format!("{names}, and maybe others"),
        false => names,
    }
}

/// How many files a line names.
const NAMED: usize = 3;

/// Returns the lines about what the history has not: changes of the client, and what the undo
/// itself replaces or removes, as `verb` says.
fn lacking_lines(unrecorded: &[String], lacking: &[SpacePath], verb: &str) -> Vec<String> {
    let mut lines = unrecorded.to_vec();
    if !lacking.is_empty() {
        let names = lacking.iter().take(NAMED).map(|path| shown(path.as_str()));
        let names: Vec<_> = names.collect();
        let more = match lacking.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        lines.push(format!(
            "the history has no room for what {} steps {verb}, so those steps cannot be taken \
             back: {}{more}; with a higher --history-bytes the server keeps it",
            lacking.len(),
            names.join(", ")
        ));
    }
    lines
}

/// Fails with a line for each file that the plan cannot give back, for what the history has not,
/// and for each step that failed.
fn refuse_failures(
    plan: &UndoPlan,
    lacking: Vec<String>,
    failed: Vec<(&UndoStep, String)>,
) -> Result<(), Failure> {
    let left = plan.left.iter().filter(|left| left.why.is_failure());
    let left = left.map(|left| format!("{} {}", left.path, left.text()));
    let failed = failed.into_iter().map(|(step, error)| format!("{}: {error}", step.path()));
    let lines: Vec<String> = left.chain(lacking).chain(failed).collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("not everything can be taken back:\n{}", lines.join("\n"))))
}

fn call_number(text: &str) -> Result<ChangeNumber, Failure> {
    let wrong = || Failure::Usage(format!("`{}` is not the number of a call", text.escape_debug()));
    text.parse().map(ChangeNumber).map_err(|_| wrong())
}

fn write_plan(plan: &UndoPlan, output: &mut dyn Write, colours: Colours) -> Result<(), Failure> {
    let good = |verb: &str| colours.paint(verb, Meaning::Good);
    let shown = |path: &SpacePath| shown(path.as_str()).into_owned();
    for step in &plan.steps {
        match step {
            UndoStep::Restore { path, from: Some(_), before, .. } => {
                writeln!(
                    output,
                    "{}    {} as before change {before}",
                    good("restore"),
                    shown(path)
                )?;
            }
            UndoStep::Restore { path, from: None, before, .. } => {
                writeln!(
                    output,
                    "{} {} as before change {before}",
                    good("bring back"),
                    shown(path)
                )?;
            }
            UndoStep::Remove { path, .. } => {
                writeln!(output, "{}     {}, which was created", good("remove"), shown(path))?;
            }
            UndoStep::MoveBack { path, to, .. } => {
                writeln!(output, "{}  {} to {}", good("move back"), shown(path), shown(to))?;
            }
            UndoStep::RemoveFolder { path } => {
                writeln!(output, "{}     {}, which this undo made", good("remove"), shown(path))?;
            }
        }
    }
    for left in &plan.left {
        let (path, why) = (shown(&left.path), left.text());
        let leave = colours.paint("leave", Meaning::Warning);
        writeln!(output, "{leave}      {path}, which {why} (change {})", left.number)?;
    }
    Ok(())
}

fn plan_json(plan: &UndoPlan, lacking: &[SpacePath]) -> Value {
    let steps = plan.steps.iter().map(|step| match step {
        UndoStep::Restore { path, before, .. } => {
            json!({ "step": "restore", "path": path, "before_change": before })
        }
        UndoStep::Remove { path, .. } => json!({ "step": "remove", "path": path }),
        UndoStep::MoveBack { path, to, .. } => {
            json!({ "step": "move_back", "path": path, "to": to })
        }
        UndoStep::RemoveFolder { path } => json!({ "step": "remove_folder", "path": path }),
    });
    let left = plan
        .left
        .iter()
        .map(|left| json!({ "path": left.path, "change": left.number, "why": left.text() }));
    json!({ "steps": Value::from_iter(steps), "left": Value::from_iter(left), "not_kept": lacking })
}
