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

use super::history::{FilesOwner, path, since};
use super::{Failure, Invocation, owner};

/// Shows the plan, and carries it out if the owner said so.
pub(super) fn run(
    Invocation { matches, environment, output }: Invocation<'_>,
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
    write_plan(&plan, output)?;
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
        for step in &plan.steps {
            let (tool, arguments) = call_of(step);
            outcomes.push(owner.call(tool, arguments).await.err());
        }
        Ok(outcomes)
    })?;
    let failed: Vec<(&UndoStep, String)> =
        plan.steps.iter().zip(outcomes).filter_map(|(step, error)| Some((step, error?))).collect();
    let done = plan.steps.len() - failed.len();
    writeln!(output, "{done} of {} done.", plan.steps.len())?;
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

fn write_plan(plan: &UndoPlan, output: &mut dyn Write) -> Result<(), Failure> {
    for step in &plan.steps {
        match step {
            UndoStep::Restore { path, from: Some(_), before, .. } => {
                writeln!(output, "restore    {path} as before change {before}")?;
            }
            UndoStep::Restore { path, from: None, before, .. } => {
                writeln!(output, "bring back {path} as before change {before}")?;
            }
            UndoStep::Remove { path, .. } => {
                writeln!(output, "remove     {path}, which was created")?;
            }
            UndoStep::MoveBack { path, to, .. } => writeln!(output, "move back  {path} to {to}")?,
        }
    }
    for left in &plan.left {
        let (path, why) = (&left.path, left.why.text());
        writeln!(output, "leave      {path}, which {why} (change {})", left.number)?;
    }
    Ok(())
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
