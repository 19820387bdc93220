//! `stile undo`: takes back what one call or one client changed.
//!
//! The plan comes from `domain::history::undo_plan`. It names what cannot be given back before
//! anything is changed, and the command then ends with exit code 1. Each step is one call of a
//! tool, guarded by the hash of the file, so a file that somebody changes meanwhile is left as it
//! is. After an interruption the next run plans anew and goes on.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{ChangeNumber, PastChange};
use stile_domain::history::undo_plan::{
    LeftReason, PathNow, UndoFacts, UndoPlan, UndoStep, undo_plan,
};
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::unseen::shown;
use stile_store::history::{ChangeQuery, VersionError};

use super::audit::since;
use super::colours::{Colours, Meaning};
use super::history::{FilesOwner, path};
use super::progress::{Progress, Step, Unit};
use super::{Failure, Invocation, owner};

/// Shows the plan, and carries it out if the owner said so.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = FilesOwner::open(matches, environment, "undo")?;
    let query = ChangeQuery {
        path: owner::text(matches, "path").map(path).transpose()?,
        client: owner::text(matches, "client").map(str::to_owned),
        since: since(matches)?,
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
    let plan = owner.read(plan_of(&owner, &changes))?;
    if matches.get_flag("json") {
        writeln!(output, "{:#}", plan_json(&plan))?;
        return refuse_failures(&plan, unrecorded, Vec::new());
    }
    write_plan(&plan, output, colours)?;
    if plan.steps.is_empty() {
        writeln!(output, "Nothing is to be done.")?;
        return refuse_failures(&plan, unrecorded, Vec::new());
    }
    if !matches.get_flag("yes") {
        writeln!(output, "Nothing was changed. Add --yes to do this.")?;
        return refuse_failures(&plan, unrecorded, Vec::new());
    }
    let outcomes = owner.run(async {
        let mut outcomes = Vec::new();
        let mut progress = Progress::new();
        for (done, step) in (0..).zip(&plan.steps) {
            let (total, unit) = (plan.steps.len() as u64, Unit::Things("steps"));
            progress.show(Step { action: "undoing", done, total, unit });
            let (tool, arguments) = call_of(step);
            outcomes.push(owner.call(tool, arguments).await.err());
        }
        progress.clear();
        Ok(outcomes)
    })?;
    let failed: Vec<(&UndoStep, String)> =
        plan.steps.iter().zip(outcomes).filter_map(|(step, error)| Some((step, error?))).collect();
    let done = plan.steps.len() - failed.len();
    writeln!(output, "{done} of {} done.{}", plan.steps.len(), owner.how_to_take_back())?;
    refuse_failures(&plan, unrecorded, failed)
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
                "{} changes by {client} between {} and {} (UTC) are not in the history, which had \
                 no room for them",
                unrecorded.changes,
                owner::minute(unrecorded.since),
                owner::minute(unrecorded.until)
            )
        })
        .collect())
}

/// Fails with a line for each file that the plan cannot give back, for the changes that are not in
/// the history, and for each step that failed.
fn refuse_failures(
    plan: &UndoPlan,
    unrecorded: Vec<String>,
    failed: Vec<(&UndoStep, String)>,
) -> Result<(), Failure> {
    let left = plan.left.iter().filter(|left| left.why.is_failure());
    let left = left.map(|left| format!("{} {}", left.path, left.why.text()));
    let failed = failed.into_iter().map(|(step, error)| format!("{}: {error}", step.path()));
    let lines: Vec<String> = left.chain(unrecorded).chain(failed).collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("not everything can be taken back:\n{}", lines.join("\n"))))
}

fn call_number(text: &str) -> Result<ChangeNumber, Failure> {
    let wrong = || Failure::Usage(format!("`{}` is not the number of a call", text.escape_debug()));
    text.parse().map(ChangeNumber).map_err(|_| wrong())
}

/// What the command found out for the plan.
#[derive(Default)]
struct Found {
    now: BTreeMap<SpacePath, PathNow>,
    /// Why a version cannot be given, by the file and the change before which the file had it.
    lacks: BTreeMap<(SpacePath, ChangeNumber), Option<LeftReason>>,
    /// The restoring steps that were planned without knowing that.
    unknown: Vec<UndoStep>,
}

impl UndoFacts for Found {
    fn now(&mut self, path: &SpacePath) -> PathNow {
        self.now.get(path).copied().unwrap_or(PathNow::Nothing)
    }

    fn lacks(&mut self, step: &UndoStep) -> Option<LeftReason> {
        let UndoStep::Restore { path, before, .. } = step else { return None };
        let known = self.lacks.get(&(path.clone(), *before)).copied();
        if known.is_none() {
            self.unknown.push(step.clone());
        }
        known.flatten()
    }
}

/// Plans the undo of changes. Reads each version that the plan needs, so that no step is planned
/// whose version is missing or damaged.
async fn plan_of(owner: &FilesOwner, changes: &[PastChange]) -> Result<UndoPlan, Failure> {
    let mut found = Found::default();
    for path in changes.iter().flat_map(|change| [Some(&change.path), change.to.as_ref()]).flatten()
    {
        if !found.now.contains_key(path) {
            let now = owner.tools.path_now(&owner.caller, path).await?;
            found.now.insert(path.clone(), now);
        }
    }
    loop {
        let plan = undo_plan(changes, &mut found);
        let unknown = std::mem::take(&mut found.unknown);
        if unknown.is_empty() {
            return Ok(plan);
        }
        for step in unknown {
            let UndoStep::Restore { path, from, to, before } = step else { continue };
            let lacks = lacks(owner, &found, &path, before, (from, to)).await;
            found.lacks.insert((path, before), lacks);
        }
    }
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
    // The file with the bytes may be at another path now, from which the plan moves it back.
    let is_source = |now: &PathNow| from.is_some_and(|from| *now == PathNow::File(from));
    let source = found.now.iter().find(|(_, now)| is_source(now)).map(|(path, _)| path);
    let bytes = match (source, from) {
        (Some(source), _) => owner.tools.version_bytes(&owner.caller, source, None).await.ok(),
        (None, Some(from)) => owner.history.version_bytes(from, owner.most_bytes()).ok(),
        (None, None) => None,
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
        }
    }
    for left in &plan.left {
        let (path, why) = (shown(&left.path), left.why.text());
        let leave = colours.paint("leave", Meaning::Warning);
        writeln!(output, "{leave}      {path}, which {why} (change {})", left.number)?;
    }
    Ok(())
}

fn plan_json(plan: &UndoPlan) -> Value {
    let steps = plan.steps.iter().map(|step| match step {
        UndoStep::Restore { path, before, .. } => {
            json!({ "step": "restore", "path": path, "before_change": before })
        }
        UndoStep::Remove { path, .. } => json!({ "step": "remove", "path": path }),
        UndoStep::MoveBack { path, to, .. } => {
            json!({ "step": "move_back", "path": path, "to": to })
        }
    });
    let left = plan
        .left
        .iter()
        .map(|left| json!({ "path": left.path, "change": left.number, "why": left.why.text() }));
    json!({ "steps": Value::from_iter(steps), "left": Value::from_iter(left) })
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
            ("file.move", json!({ "path": path, "hash": from, "to": to }))
        }
    }
}
