//! `stile undo`: takes back what one call or one client changed.
//!
//! The plan comes from `domain::history::undo_plan`. Each step is one call of a tool, guarded by
//! the hash of the file, so a file that somebody changes meanwhile is left as it is. After an
//! interruption the next run plans anew and goes on.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{ChangeNumber, PastChange};
use stile_domain::history::undo_plan::{UndoPlan, UndoStep, undo_plan};
use stile_domain::path::SpacePath;
use stile_store::history::ChangeQuery;

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
    if changes.is_empty() {
        return Err(Failure::Failed(
            "the history has no such change; `stile history` shows all changes".to_owned(),
        ));
    }
    let versions = owner.read(current_versions(&owner, &changes))?;
    let plan = undo_plan(&changes, &mut |path| versions.get(path).copied().flatten());
    if matches.get_flag("json") {
        return Ok(writeln!(output, "{:#}", plan_json(&plan))?);
    }
    write_plan(&plan, output, colours)?;
    if plan.steps.is_empty() {
        writeln!(output, "Nothing is to be done.")?;
        return Ok(());
    }
    if !matches.get_flag("yes") {
        writeln!(output, "Nothing was changed. Add --yes to do this.")?;
        return Ok(());
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
    let back = owner.call_number().map(|call| format!(" `stile undo {call}` takes this back."));
    writeln!(output, "{done} of {} done.{}", plan.steps.len(), back.unwrap_or_default())?;
    if failed.is_empty() {
        return Ok(());
    }
    let lines = failed.iter().map(|(step, error)| format!("{}: {error}", step.path()));
    Err(Failure::Failed(format!(
        "not everything was taken back:\n{}",
        lines.collect::<Vec<_>>().join("\n")
    )))
}

fn call_number(text: &str) -> Result<ChangeNumber, Failure> {
    let wrong = || Failure::Usage(format!("`{}` is not the number of a call", text.escape_debug()));
    text.parse().map(ChangeNumber).map_err(|_| wrong())
}

/// Returns the present version of each file that a change concerns.
async fn current_versions(
    owner: &FilesOwner,
    changes: &[PastChange],
) -> Result<BTreeMap<SpacePath, Option<ContentHash>>, Failure> {
    let mut versions = BTreeMap::new();
    for path in changes.iter().flat_map(|change| [Some(&change.path), change.to.as_ref()]).flatten()
    {
        if !versions.contains_key(path) {
            versions.insert(path.clone(), owner.tools.current_hash(&owner.caller, path).await?);
        }
    }
    Ok(versions)
}

fn write_plan(plan: &UndoPlan, output: &mut dyn Write, colours: Colours) -> Result<(), Failure> {
    let good = |verb: &str| colours.paint(verb, Meaning::Good);
    for step in &plan.steps {
        match step {
            UndoStep::Restore { path, from: Some(_), before, .. } => {
                writeln!(output, "{}    {path} as before change {before}", good("restore"))?;
            }
            UndoStep::Restore { path, from: None, before, .. } => {
                writeln!(output, "{} {path} as before change {before}", good("bring back"))?;
            }
            UndoStep::Remove { path, .. } => {
                writeln!(output, "{}     {path}, which was created", good("remove"))?;
            }
            UndoStep::MoveBack { path, to, .. } => {
                writeln!(output, "{}  {path} to {to}", good("move back"))?;
            }
        }
    }
    for left in &plan.left {
        let (path, why) = (&left.path, left.why.text());
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
