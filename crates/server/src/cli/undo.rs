//! `stile undo`: takes back what one call or one client changed.
//!
//! The plan comes from `domain::history::undo_plan`. It names what cannot be given back before
//! anything is changed, and what of the undo itself cannot be taken back, since the history has no
//! room for it. The command then ends with exit code 1. Each step is one call of a tool, guarded by
//! the hash of the file, so a file that somebody changes meanwhile is left as it is. After an
//! interruption, or once an obstacle is gone, the next run plans anew and goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{ChangeNumber, PastChange, PastChangeKind};
use stile_domain::history::undo_plan::again::undo_plan_again;
use stile_domain::history::undo_plan::{
    LeftReason, PathNow, UndoFacts, UndoPlan, UndoStep, moved_folders,
};
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::unseen::shown;
use stile_store::history::{ChangeQuery, ForeseenChange, History, HistoryError, VersionError};

use super::colours::{Colours, Meaning};
use super::duration::since_flag;
use super::history::FilesOwner;
use super::progress::{Progress, Step, Unit};
use super::{Failure, Invocation, local_time, owner};

/// The command, which is also the tool of the changes that it makes.
const COMMAND: &str = "undo";

/// Shows the plan, and carries it out if the owner said so.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = FilesOwner::open(matches, environment, COMMAND)?;
    let query = ChangeQuery {
        path: owner::text(matches, "path").map(|text| owner.path(text)).transpose()?,
        client: owner::text(matches, "client").map(str::to_owned),
        since: since_flag(matches)?,
        call: owner::text(matches, "call").map(call_number).transpose()?,
        ..ChangeQuery::default()
    };
    let mut changes = owner.history.changes(&query)?;
    changes.reverse();
    let unrecorded = unrecorded(&owner, &query)?;
    if changes.is_empty() && unrecorded.is_empty() {
        return Err(Failure::Failed(
            "the history has no such change; `stile history` shows all changes".to_owned(),
        ));
    }
    let undone = undone_before(&owner, &changes)?;
    let (plan, lacking) = owner.read(async {
        let (plan, found) = plan_of(&owner, &changes, &undone).await?;
        let lacking = foresee_lacking(&owner, &plan, &found).await?;
        Ok::<_, Failure>((plan, lacking))
    })?;
    let foreseen = lacking_lines(&unrecorded, &lacking, "replace or remove");
    if matches.get_flag("json") {
        owner::write_json(output, &plan_json(&plan, &lacking))?;
        return refuse_failures(&plan, foreseen, Vec::new());
    }
    write_plan(&plan, output, colours)?;
    if plan.steps.is_empty() {
        writeln!(output, "Nothing is to be done.")?;
        return refuse_failures(&plan, foreseen, Vec::new());
    }
    let folders = moved_folders(&changes);
    for folder in &folders {
        let (verb, folder) = (colours.paint("remove", Meaning::Good), shown(folder.as_str()));
        writeln!(output, "{verb}     {folder}, if it is empty by then")?;
    }
    if !matches.get_flag("yes") {
        writeln!(output, "Nothing was changed. Add --yes to do this.")?;
        return refuse_failures(&plan, foreseen, Vec::new());
    }
    let failed = carry_out(&owner, &plan, &folders)?;
    let done = plan.steps.len() - failed.len();
    writeln!(output, "{done} of {} done.{}", plan.steps.len(), owner.how_to_take_back())?;
    let lacking = owner.call.number().map_or(Ok(Vec::new()), |call| owner.history.lacking(call))?;
    let lines = lacking_lines(&unrecorded, &lacking, "replaced or removed");
    refuse_failures(&plan, lines, failed)
}

/// Makes the steps of a plan, and removes those of `folders` that are empty then. Returns the steps
/// that failed, with the reason.
fn carry_out<'p>(
    owner: &FilesOwner,
    plan: &'p UndoPlan,
    folders: &[SpacePath],
) -> Result<Vec<(&'p UndoStep, String)>, Failure> {
    owner.run(async {
        let mut failed = Vec::new();
        let mut progress = Progress::new();
        for (done, step) in (0..).zip(&plan.steps) {
            let (total, unit) = (plan.steps.len() as u64, Unit::Things("steps"));
            progress.show(Step { action: "undoing", done, total, unit });
            let (tool, arguments) = call_of(step);
            if let Err(error) = owner.call(tool, arguments).await {
                failed.push((step, error));
            }
        }
        for folder in folders {
            // Somebody has put something into a folder that stays.
            let _ = owner.call("folder.remove", json!({ "path": folder })).await;
        }
        progress.clear();
        Ok(failed)
    })
}

/// Returns the changes that undos made after the first of `changes`, in the order of their numbers.
fn undone_before(
    owner: &FilesOwner,
    changes: &[PastChange],
) -> Result<Vec<PastChange>, HistoryError> {
    let Some(first) = changes.first() else { return Ok(Vec::new()) };
    let numbers: BTreeSet<ChangeNumber> = changes.iter().map(|change| change.number).collect();
    let tool = Some(COMMAND.to_owned());
    let query = ChangeQuery { tool, ..ChangeQuery::default() };
    let mut undone = owner.history.changes(&query)?;
    undone.retain(|change| change.number > first.number && !numbers.contains(&change.number));
    undone.reverse();
    Ok(undone)
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

/// Returns a line for the changes of the client that no history has, if there are any.
fn unrecorded(owner: &FilesOwner, query: &ChangeQuery) -> Result<Vec<String>, Failure> {
    let Some(client) = &query.client else { return Ok(Vec::new()) };
    let lines = owner.history.unrecorded()?.into_iter();
    let of_client = lines.filter(|unrecorded| {
        let is_later = query.since.is_none_or(|since| unrecorded.until >= since);
        unrecorded.client.as_ref() == Some(client) && is_later
    });
    Ok(of_client
        .map(|unrecorded| {
            format!(
                "{} changes by {client} between {} and {} are not in the history, which had \
                 no room for them",
                unrecorded.changes,
                local_time::minute(unrecorded.since),
                local_time::in_words(unrecorded.until)
            )
        })
        .collect())
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

/// Which version of a file a step gives: the one before a change, over the version `from`.
type Restored = (SpacePath, ChangeNumber, Option<ContentHash>);

/// What the command found out for the plan.
#[derive(Default)]
struct Found {
    now: BTreeMap<SpacePath, PathNow>,
    /// Why a version cannot be given.
    lacks: BTreeMap<Restored, Option<LeftReason>>,
    /// The paths that were looked up without knowing what is there.
    unknown_paths: BTreeSet<SpacePath>,
    /// The restoring steps that were planned without knowing whether there is a version.
    unknown: Vec<UndoStep>,
}

impl UndoFacts for Found {
    fn now(&mut self, path: &SpacePath) -> PathNow {
        let known = self.now.get(path).copied();
        if known.is_none() {
            self.unknown_paths.insert(path.clone());
        }
        known.unwrap_or(PathNow::Nothing)
    }

    fn lacks(&mut self, step: &UndoStep) -> Option<LeftReason> {
        let UndoStep::Restore { path, before, from, .. } = step else { return None };
        let known = self.lacks.get(&(path.clone(), *before, *from)).copied();
        if known.is_none() {
            self.unknown.push(step.clone());
        }
        known.flatten()
    }
}

/// Plans the undo of changes after the undos that made `undone`. Looks at each path and reads each
/// version that the plan needs, so that no step is planned whose version is missing or damaged.
async fn plan_of(
    owner: &FilesOwner,
    changes: &[PastChange],
    undone: &[PastChange],
) -> Result<(UndoPlan, Found), Failure> {
    let mut found = Found::default();
    loop {
        let plan = undo_plan_again(changes, undone, &mut found);
        let unknown = std::mem::take(&mut found.unknown);
        let unknown_paths = std::mem::take(&mut found.unknown_paths);
        if unknown.is_empty() && unknown_paths.is_empty() {
            return Ok((plan, found));
        }
        let all_paths_are_known = unknown_paths.is_empty();
        for path in unknown_paths {
            let now = owner.tools.path_now(&owner.caller, &path).await?;
            found.now.insert(path, now);
        }
        // Steps that were planned without knowing the files may not be needed.
        for step in unknown.into_iter().filter(|_| all_paths_are_known) {
            let UndoStep::Restore { path, from, to, before } = step else { continue };
            let lacks = lacks(owner, &found, &path, before, (from, to)).await;
            found.lacks.insert((path, before, from), lacks);
        }
    }
}

/// Returns the bytes of a version that a file is by then. The file may be at another path now, from
/// which the plan moves it back.
async fn bytes_by_then(owner: &FilesOwner, found: &Found, version: ContentHash) -> Option<Vec<u8>> {
    let is_source = |now: &PathNow| *now == PathNow::File(version);
    let source = found.now.iter().find(|(_, now)| is_source(now)).map(|(path, _)| path);
    match source {
        Some(source) => owner.tools.version_bytes(&owner.caller, source, None).await.ok(),
        None => owner.history.version_bytes(version, owner.most_bytes()).ok(),
    }
}

/// Returns the files that steps of a plan replace or remove although the history has no room for
/// what they hold.
async fn foresee_lacking(
    owner: &FilesOwner,
    plan: &UndoPlan,
    found: &Found,
) -> Result<Vec<SpacePath>, Failure> {
    let free = owner.history.free_bytes()?;
    let (mut needed, mut changes) = (0, Vec::new());
    for step in &plan.steps {
        let Some((mut change, path)) = foreseen(step) else { continue };
        if let (Some(version), true) = (change.before, change.kind != PastChangeKind::Moved) {
            let bytes = bytes_by_then(owner, found, version).await.unwrap_or_default();
            change.stored = History::stored_bytes(&bytes)?;
        }
        needed += change.stored + MOST_ROW_BYTES + 4 * path.as_str().len() as u64;
        changes.push(change);
    }
    if needed <= free {
        return Ok(Vec::new());
    }
    Ok(owner.history.foresee_lacking(&owner.call, &changes)?)
}

/// The most bytes that a row of the history takes beside its paths.
const MOST_ROW_BYTES: u64 = 512;

/// Returns the change of a step as the history will record it, and the file; `None` for a folder.
fn foreseen(step: &UndoStep) -> Option<(ForeseenChange, &SpacePath)> {
    let (kind, to, before, after) = match step {
        UndoStep::Restore { from: None, to, .. } => {
            (PastChangeKind::Created, None, None, Some(*to))
        }
        UndoStep::Restore { from, to, .. } => (PastChangeKind::Replaced, None, *from, Some(*to)),
        UndoStep::Remove { from, .. } => (PastChangeKind::Removed, None, Some(*from), None),
        UndoStep::MoveBack { from, to, .. } => {
            (PastChangeKind::Moved, Some(to.clone()), Some(*from), Some(*from))
        }
        UndoStep::RemoveFolder { .. } => return None,
    };
    let path = step.path();
    Some((ForeseenChange { kind, path: path.clone(), to, before, stored: 0, after }, path))
}

/// Returns why the history cannot give a file its version before a change. `from` is the version
/// that the file has by then, of which the other one may be the beginning.
async fn lacks(
    owner: &FilesOwner,
    found: &Found,
    path: &SpacePath,
    before: ChangeNumber,
    (from, to): (Option<ContentHash>, ContentHash),
) -> Option<LeftReason> {
    let version = OldVersion::Before(before);
    if owner.tools.version_bytes(&owner.caller, path, Some(version)).await.is_ok() {
        return None;
    }
    let bytes = match from {
        Some(from) => bytes_by_then(owner, found, from).await,
        None => None,
    };
    match owner.history.bytes_of(path, to, bytes.as_deref(), owner.most_bytes()) {
        Ok(_) => None,
        Err(VersionError::Damaged { .. }) => Some(LeftReason::Damaged),
        Err(VersionError::TooLarge { .. }) => Some(LeftReason::TooLarge),
        Err(_) => Some(LeftReason::NotKept),
    }
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

/// Returns the call that makes a step.
fn call_of(step: &UndoStep) -> (&'static str, Value) {
    match step {
        UndoStep::Restore { path, from: Some(hash), before, .. } => {
            ("file.restore", json!({ "path": path, "version": before.to_string(), "hash": hash }))
        }
        UndoStep::Restore { path, from: None, before, .. } => {
            ("file.restore", json!({ "path": path, "version": before.to_string() }))
        }
        UndoStep::Remove { path, from } => ("file.remove", json!({ "path": path, "hash": from })),
        UndoStep::MoveBack { path, from, to } => {
            let exact = json!({ "path": path, "hash": from, "to": to, "rewrite_links": false });
            ("file.move", exact)
        }
        UndoStep::RemoveFolder { path } => ("folder.remove", json!({ "path": path })),
    }
}
