//! `stile history`, `show`, `diff` and `restore`: old versions of files, for their owner.
//!
//! The commands change files through the same tools as a client does, so a change is guarded,
//! journalled and kept in the history like any other. They may run beside a server.

use std::time::Duration;

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::history::past_change::{ChangeNumber, PastChange};
use stile_domain::history::undo_plan::{LeftChange, LeftReason, PathNow};
use stile_domain::history::version::OldVersion;
use stile_domain::shown_paths::ShownPaths;
use stile_domain::unseen::shown;
use stile_store::history::ChangeQuery;

use super::undo;
use crate::cli::compose::FilesOwner;
use crate::cli::failure::Failure;
use crate::cli::flags;
use crate::cli::flags::duration::since_flag;
use crate::cli::invocation::Invocation;
use crate::cli::terminal::table::{cell, table};
use crate::cli::terminal::{self, Meaning, local_time};
use crate::owner_files::Restoration;

/// The most time that a comparison of two versions takes before it shows larger blocks.
const DIFF_TIME: Duration = Duration::from_secs(5);

/// How many changes a table shows, unless the owner asks for all.
const SHOWN: usize = 1_000;

/// Returns the typed path and the version that an argument names.
fn path_and_version(matches: &ArgMatches) -> (&str, Option<OldVersion>) {
    OldVersion::split(flags::text(matches, "path").unwrap_or_default())
}

/// Lists changes.
pub(super) fn list(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = FilesOwner::open(matches, environment, "history")?;
    let (is_json, all) = (matches.get_flag("json"), matches.get_flag("all"));
    let mut query = ChangeQuery {
        path: flags::text(matches, "path").map(|text| owner.path(text)).transpose()?,
        since: since_flag(matches)?,
        // One more says whether there are more.
        limit: (!is_json && !all).then_some(SHOWN + 1),
        ..ChangeQuery::default()
    };
    owner.limit_to_client(&mut query, flags::text(matches, "client"))?;
    let mut changes = owner.files.history.changes(&query)?;
    if changes.is_empty()
        && let Some(unknown) = undo::unknown_client(&owner, &query)?
    {
        return Err(unknown);
    }
    if is_json {
        terminal::write_json(output, &Value::from_iter(changes.iter().map(to_json)))?;
        return Ok(());
    }
    if changes.is_empty() {
        let root = owner.root.display();
        let is_of_one = query.client.is_some() || query.callers.is_some();
        let is_of_some = is_of_one || query.since.is_some();
        match &query.path {
            Some(path) if owner.read(owner.files.now(path))? == PathNow::Nothing => {
                let path = shown(path.as_str());
                writeln!(output, "There is no {path} in {root}, and the history has none.")?;
            }
            Some(path) => {
                let such = if is_of_some { "such " } else { "" };
                let path = shown(path.as_str());
                writeln!(output, "The history of {root} has no {such}change of {path}.")?;
            }
            None if is_of_some => writeln!(output, "The history of {root} has no such change.")?,
            None => writeln!(output, "No agent has changed anything in {root}.")?,
        }
        return Ok(());
    }
    let has_more = query.limit.is_some() && changes.len() > SHOWN;
    if has_more {
        changes.truncate(SHOWN);
    }
    let headings = ["CHANGE", "CALL", "WHEN (UTC)", "CLIENT", "USER", "TOOL", "WHAT"];
    let rows = changes.iter().map(|change| {
        [
            change.number.to_string(),
            change.call.to_string(),
            local_time::minute(change.at),
            cell(change.author.client.as_deref()),
            cell(Some(&change.author.subject)),
            cell(Some(&change.author.tool)),
            change.in_words(),
        ]
    });
    output.write_all(table(colours, headings, rows).as_bytes())?;
    if has_more {
        let shown = "These are the latest 1,000 changes. Add --all for every one, or name a file, \
                     a --client or a --since.";
        writeln!(output, "{shown}")?;
    }
    Ok(())
}

fn to_json(change: &PastChange) -> Value {
    let ChangeNumber(number) = change.number;
    json!({
        "change": number,
        "call": change.call.0,
        "at": change.at.to_rfc3339(),
        "kind": change.kind.word(),
        "path": change.path,
        "to": change.to,
        "before": change.before,
        "after": change.after,
        "tool": change.author.tool,
        "subject": change.author.subject,
        "client": change.author.client,
    })
}

/// Prints a version.
pub(super) fn show(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let (typed, version) = path_and_version(matches);
    let Some(version) = version else {
        return Err(Failure::Usage(format!(
            "name a version, as in {typed}@42; `stile history {typed}` shows the versions"
        )));
    };
    let owner = FilesOwner::open(matches, environment, "show")?;
    let path = owner.path(typed)?;
    let bytes =
        owner.read(owner.files.tools.version_bytes(&owner.files.caller, &path, Some(version)))?;
    Ok(output.write_all(&bytes)?)
}

/// Prints the difference between two versions.
pub(super) fn diff(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let (typed, version) = path_and_version(matches);
    let other = flags::text(matches, "other");
    let other = other.map(|text| {
        let version = text.strip_prefix('@').and_then(OldVersion::parse);
        version.ok_or_else(|| {
            Failure::Usage(format!("`{}` is not a version such as @42", text.escape_debug()))
        })
    });
    let other = other.transpose()?;
    let owner = FilesOwner::open(matches, environment, "diff")?;
    let path = owner.path(typed)?;
    let version = match version {
        Some(version) => version,
        None => owner.last_version(&path)?,
    };
    let name = shown(path.as_str());
    let old_name = format!("{name}@{version}");
    let new_name =
        other.as_ref().map_or_else(|| name.to_string(), |other| format!("{name}@{other}"));
    let versions = [Some(version), other];
    let names = [old_name.as_str(), new_name.as_str()];
    let diff = owner.read(owner.files.difference(&path, versions, names, DIFF_TIME))?;
    let not_text = || Failure::Failed(format!("{path} is not text in both versions"));
    Ok(output.write_all(diff.ok_or_else(not_text)?.as_bytes())?)
}

/// Shows that a file would get an old version, and gives it the version if the owner said so.
pub(super) fn restore(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let (typed, version) = path_and_version(matches);
    let owner = FilesOwner::open(matches, environment, "restore")?;
    let path = owner.path(typed)?;
    let version = match version {
        Some(version) => version,
        None => owner.last_version(&path)?,
    };
    let restoration = owner.read(owner.files.restoration(&path, version.clone()))?;
    let (verb, replaced) = match restoration {
        Restoration::Blocked(obstacle) => {
            let (number, why) = (ChangeNumber(0), LeftReason::Blocked(obstacle));
            let left = LeftChange { number, path, to: None, why };
            let paths = ShownPaths::default();
            let (path, why) = (paths.show(&left.path), left.text(&paths));
            return Err(Failure::Failed(format!("{path} {why}")));
        }
        Restoration::Needless => {
            let path = shown(path.as_str());
            writeln!(output, "{path} is what it was at {version}. Nothing is to be done.")?;
            return Ok(());
        }
        Restoration::BringBack => ("bring back", None),
        Restoration::Replace(hash) => ("restore", Some(hash)),
    };
    let verb = colours.paint(verb, Meaning::Good);
    let at = match &version {
        OldVersion::Before(number) => format!("as before change {number}"),
        OldVersion::Hash(_) => format!("as version {version}"),
    };
    writeln!(output, "{verb} {} {at}", shown(path.as_str()))?;
    if !matches.get_flag("yes") {
        writeln!(output, "Nothing was changed. Add --yes to do this.")?;
        return Ok(());
    }
    let restored =
        async { owner.files.restore(&path, &version, replaced).await.map_err(Failure::Failed) };
    owner.run(restored)?;
    writeln!(output, "Done.{}", owner.how_to_take_back())?;
    Ok(())
}
