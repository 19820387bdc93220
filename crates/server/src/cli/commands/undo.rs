//! `stile undo`: takes back what one call or one client changed.
//!
//! Shows the plan of [`undo`], and carries it out if the owner says so. Every [`Shortfall`] is
//! named, and if there is one, the command ends with exit code 1.

use std::io::Write;

use serde_json::{Value, json};
use stile_domain::history::past_change::ChangeNumber;
use stile_domain::history::undo_plan::{UndoPlan, UndoStep};
use stile_domain::path::SpacePath;
use stile_domain::shown_paths::ShownPaths;
use stile_domain::unseen::shown;
use stile_store::history::{ChangeQuery, ClientChanges, UnrecordedChanges, UnrecordedName};

use crate::cli::compose::FilesOwner;
use crate::cli::failure::Failure;
use crate::cli::flags;
use crate::cli::flags::duration::{since_flag, time_flag};
use crate::cli::invocation::Invocation;
use crate::cli::terminal::{self, Colours, Meaning, Progress, Step, Unit, local_time};
use crate::owner_files::undo::{self, MadeUndo, PlannedUndo, Shortfall, UNDO};

/// Shows the plan, and carries it out if the owner said so.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = FilesOwner::open(matches, environment, UNDO)?;
    let mut query = ChangeQuery {
        path: flags::text(matches, "path").map(|text| owner.path(text)).transpose()?,
        since: since_flag(matches)?,
        until: time_flag(matches, "until")?,
        call: flags::text(matches, "call").map(call_number).transpose()?,
        ..ChangeQuery::default()
    };
    owner.limit_to_client(&mut query, flags::text(matches, "client"))?;
    if let (Some(since), Some(until)) = (query.since, query.until)
        && until <= since
    {
        return Err(Failure::Usage("--until must be later than --since".to_owned()));
    }
    let Some(planned) = owner.read(undo::plan(&owner.files, &query))? else {
        return Err(nothing_found(&owner, &query)?);
    };
    let (plan, paths) = (&planned.plan, planned.shown_paths());
    let is_of_one = query.client.is_some() || query.callers.is_some() || query.call.is_some();
    if matches.get_flag("json") {
        terminal::write_json(output, &plan_json(&planned))?;
        return refuse(&planned.shortfalls(), (Tense::Planned, &paths), is_of_one);
    }
    write_plan(plan, output, (colours, &paths))?;
    if plan.steps.is_empty() {
        writeln!(output, "Nothing is to be done.")?;
        return refuse(&planned.shortfalls(), (Tense::Planned, &paths), is_of_one);
    }
    if !matches.get_flag("yes") {
        writeln!(output, "Nothing was changed. Add --yes to do this.")?;
        return refuse(&planned.shortfalls(), (Tense::Planned, &paths), is_of_one);
    }
    let made = carry_out(&owner, &planned)?;
    let (done, all) = (made.done(), plan.steps.len());
    writeln!(output, "{done} of {all} done.{}", owner.how_to_take_back())?;
    refuse(&made.shortfalls(), (Tense::Made, &paths), is_of_one)
}

/// Says why there is nothing to take back: the argument names nobody, or nothing was changed then.
fn nothing_found(owner: &FilesOwner, query: &ChangeQuery) -> Result<Failure, Failure> {
    if let Some(call) = query.call {
        return Ok(Failure::Usage(format!(
            "the history has no call {call}; `stile history` shows the calls that it has"
        )));
    }
    let clients = owner.files.history.clients()?;
    let within = match &query.path {
        Some(path) => format!(" of {}", shown(path.as_str())),
        None => String::new(),
    };
    let when = if query.since.or(query.until).is_some() { " in that time" } else { "" };
    let by = if query.callers.is_some() { " by this client" } else { "" };
    let Some(name) = &query.client else {
        return Ok(Failure::Failed(format!("the history has no change{within}{by}{when}")));
    };
    if let Some(unknown) = unknown_client(owner, query)? {
        return Ok(unknown);
    }
    let known = clients.iter().find(|client| client.name == *name);
    let name = shown(name);
    Ok(match known {
        Some(ClientChanges { first, last, .. }) => Failure::Failed(format!(
            "the history has no change{within} by {name}{when}; its changes are from {} to {}",
            local_time::minute(*first),
            local_time::in_words(*last),
        )),
        None => Failure::Failed(format!("the history has no change{within} by {name}{when}")),
    })
}

/// Says that a query names a client of which the history has nothing, and which names it has;
/// `None` if it has changes of the client, or the query names none.
pub(super) fn unknown_client(
    owner: &FilesOwner,
    query: &ChangeQuery,
) -> Result<Option<Failure>, Failure> {
    let Some(name) = &query.client else { return Ok(None) };
    if owner.files.history.authors(&ChangeQuery::default())?.iter().any(|it| it.name == *name) {
        return Ok(None);
    }
    let clients = owner.files.history.clients()?;
    let name = shown(name);
    Ok(Some(match clients.is_empty() {
        true => {
            Failure::Failed(format!("the history has no changes yet, by {name} or anybody else"))
        }
        false => Failure::Usage(format!(
            "the history has no changes by {name}; clients with changes: {}",
            names_of(&clients)
        )),
    }))
}

/// Returns the names of the clients that changed something last.
fn names_of(clients: &[ClientChanges]) -> String {
    let names: Vec<_> =
        clients.iter().take(MOST_CLIENTS).map(|client| shown(&client.name)).collect();
    match clients.len().saturating_sub(MOST_CLIENTS) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// How many clients a message names.
const MOST_CLIENTS: usize = 10;

/// Carries a plan out, and shows how far the work is.
fn carry_out<'p>(owner: &FilesOwner, planned: &'p PlannedUndo) -> Result<MadeUndo<'p>, Failure> {
    owner.run(async {
        let mut progress = Progress::new();
        let (total, unit) = (planned.plan.steps.len() as u64, Unit::Things("steps"));
        let mut on_step = |done| progress.show(Step { action: "undoing", done, total, unit });
        let made = undo::carry_out(&owner.files, planned, &mut on_step).await;
        progress.clear();
        Ok(made)
    })
}

/// Whether an undo is planned or was made.
#[derive(Clone, Copy)]
enum Tense {
    Planned,
    Made,
}

/// Fails with a line for each reason why an undo is not whole, unless there is none. For an undo of
/// one client or call, a line says what takes back what several did to the same files.
fn refuse(
    shortfalls: &[Shortfall<'_>],
    (tense, paths): (Tense, &ShownPaths),
    is_of_one: bool,
) -> Result<(), Failure> {
    if shortfalls.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = shortfalls.iter().map(|it| line_of(it, (tense, paths))).collect();
    let is_behind =
        |it: &Shortfall<'_>| matches!(it, Shortfall::Left(left) if left.why.is_behind_others());
    if is_of_one && shortfalls.iter().any(is_behind) {
        lines.push(
            "what several clients did to the same files, `stile undo --since TIME` takes back \
             for all of them at once"
                .to_owned(),
        );
    }
    Err(Failure::Failed(format!("not everything can be taken back:\n{}", lines.join("\n"))))
}

/// Returns a reason why an undo is not whole as a line.
fn line_of(shortfall: &Shortfall<'_>, (tense, shown): (Tense, &ShownPaths)) -> String {
    match shortfall {
        Shortfall::Left(left) => format!("{} {}", shown.show(&left.path), left.text(shown)),
        Shortfall::Failed(step, why) => format!("{}: {why}", shown.show(step.path())),
        Shortfall::Unrecorded(gap) => format!(
            "{} changes by {} between {} and {} are not in the history, which had no room for \
             them: {}",
            gap.changes,
            gap.client,
            local_time::minute(gap.since),
            local_time::in_words(gap.until),
            unrecorded_files(gap, shown),
        ),
        Shortfall::NotKept(paths) => {
            let verb = match tense {
                Tense::Planned => "replace or remove",
                Tense::Made => "replaced or removed",
            };
            let names: Vec<_> = paths.iter().take(NAMED).map(|path| shown.show(path)).collect();
            let more = match paths.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "the history has no room for what {} steps {verb}, so those steps cannot be taken \
                 back: {}{more}; with a higher --history-bytes the server keeps it",
                paths.len(),
                names.join(", ")
            )
        }
    }
}

/// How many files a line names.
const NAMED: usize = 3;

/// Returns the files of changes that are not in the history, as far as they are known.
fn unrecorded_files(unrecorded: &UnrecordedChanges, shown: &ShownPaths) -> String {
    let name = |name: &UnrecordedName| match &name.to {
        Some(to) => format!("{} to {}", shown.show(&name.path), shown.show(to)),
        None => shown.show(&name.path),
    };
    let names: Vec<_> = unrecorded.names.iter().map(name).collect();
    let more = if unrecorded.names_all() { "" } else { ", and maybe others" };
    format!("{}{more}", names.join(", "))
}

fn call_number(text: &str) -> Result<ChangeNumber, Failure> {
    let wrong = || Failure::Usage(format!("`{}` is not the number of a call", text.escape_debug()));
    text.parse().map(ChangeNumber).map_err(|_| wrong())
}

fn write_plan(
    plan: &UndoPlan,
    output: &mut dyn Write,
    (colours, paths): (Colours, &ShownPaths),
) -> Result<(), Failure> {
    let good = |verb: &str| colours.paint(verb, Meaning::Good);
    let shown = |path: &SpacePath| paths.show(path);
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
            UndoStep::GiveFolder { path, from: None, .. } => {
                writeln!(output, "{} {}, a folder", good("bring back"), shown(path))?;
            }
            UndoStep::GiveFolder { path, from: Some(from), rest, .. } => {
                let (verb, path, from) = (good("bring back"), shown(path), shown(from));
                match rest.len() {
                    0 => writeln!(output, "{verb} {path}, a folder that is {from} now")?,
                    held => writeln!(
                        output,
                        "{verb} {path}, a folder that is {from} now, with {held} beside its files"
                    )?,
                }
            }
            UndoStep::UnmakeFolder { path, .. } => {
                writeln!(output, "{}     {}, a folder that was made", good("remove"), shown(path))?;
            }
            UndoStep::SetFolderMode { path, from, to } => {
                let (verb, path) = (good("set mode"), shown(path));
                writeln!(output, "{verb}   of {path} to {to:03o}, which is {from:03o} now")?;
            }
        }
    }
    for left in &plan.left {
        let (path, why) = (shown(&left.path), left.text(paths));
        let leave = colours.paint("leave", Meaning::Warning);
        writeln!(output, "{leave}      {path}, which {why} (change {})", left.number)?;
    }
    Ok(())
}

fn plan_json(planned: &PlannedUndo) -> Value {
    let paths = ShownPaths::default();
    let steps = planned.plan.steps.iter().map(|step| match step {
        UndoStep::Restore { path, before, .. } => {
            json!({ "step": "restore", "path": path, "before_change": before })
        }
        UndoStep::Remove { path, .. } => json!({ "step": "remove", "path": path }),
        UndoStep::MoveBack { path, to, .. } => {
            json!({ "step": "move_back", "path": path, "to": to })
        }
        UndoStep::RemoveFolder { path } | UndoStep::UnmakeFolder { path, .. } => {
            json!({ "step": "remove_folder", "path": path })
        }
        UndoStep::GiveFolder { path, from, rest, .. } => {
            json!({ "step": "make_folder", "path": path, "from": from, "with": rest.len() })
        }
        UndoStep::SetFolderMode { path, from, to } => {
            let [from, to] = [from, to].map(|mode| format!("{mode:03o}"));
            json!({ "step": "set_folder_mode", "path": path, "from": from, "to": to })
        }
    });
    let left =
        planned.plan.left.iter().map(
            |left| json!({ "path": left.path, "change": left.number, "why": left.text(&paths) }),
        );
    let unrecorded = planned.unrecorded.iter().map(|gap| {
        json!({
            "client": gap.client, "changes": gap.changes, "paths": Vec::from_iter(gap.paths()),
            "since": gap.since.to_rfc3339(), "until": gap.until.to_rfc3339(),
        })
    });
    json!({
        "steps": Value::from_iter(steps),
        "left": Value::from_iter(left),
        "unrecorded": Value::from_iter(unrecorded),
        "not_kept": planned.lacking,
    })
}
