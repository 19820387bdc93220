//! `stile history`, `show`, `diff` and `restore`: old versions of files, for their owner.
//!
//! The commands change files through the same tools as a client does, so a change is guarded,
//! journalled and kept in the history like any other. They may run beside a server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::error::Refusal;
use stile_domain::history::past_change::{ChangeNumber, PastChange};
use stile_domain::history::undo_plan::{LeftChange, LeftReason};
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::tool_name::Spelling;
use stile_domain::unseen::shown;
use stile_store::history::{ChangeQuery, HistoryError};
use stile_store::journal::Journal;

use super::colours::Meaning;
use super::duration::since_flag;
use super::home::Home;
use super::person_folder::with_root_of_person;
use super::table::{cell, table};
use super::{
    Failure, Invocation, found_server, local_time, open, owner, process, settings, typed_path,
};
use crate::auth;
use crate::config::declarations::ROOT;
use crate::config::{Environment, Resolved, Source};
use crate::owner_files::{OwnerFiles, OwnerFilesError, Restoration};

/// The most time that a comparison of two versions takes before it shows larger blocks.
const DIFF_TIME: Duration = Duration::from_secs(5);

/// The owner's session with the files of a space and their history, at the command line.
pub(super) struct FilesOwner {
    root: PathBuf,
    pub(super) files: OwnerFiles,
    journal: Arc<Journal>,
}

impl FilesOwner {
    /// Opens the space and its history. What the session changes, it changes with `tool`.
    pub(super) fn open(
        matches: &ArgMatches,
        environment: Environment<'_>,
        tool: &str,
    ) -> Result<Self, Failure> {
        let resolved = with_served_root(settings(matches, environment)?)?;
        process::log(resolved.config.log);
        let everything = Scopes::from_iter([Verb::Write, Verb::Unguard].map(Scope::everything));
        let user = owner::user(&resolved, environment)?;
        let caller = auth::command_line(&user, everything, RecordsClaim::None);
        let (open_space, history) = open::open_space_of_owner(&resolved)?;
        let files = OwnerFiles::new(open_space.tools(), history, caller, tool);
        Ok(Self { root: resolved.config.root, files, journal: open_space.journal })
    }

    /// Parses the path of a file or folder as a person types it.
    pub(super) fn path(&self, text: &str) -> Result<SpacePath, Failure> {
        typed_path::parse(text, &self.root)
    }

    /// Returns a sentence that says how to take the changes of this session back; nothing if there
    /// are none.
    pub(super) fn how_to_take_back(&self) -> String {
        let back =
            self.files.call.number().map(|call| format!(" `stile undo {call}` takes this back."));
        back.unwrap_or_default()
    }

    /// Runs `work`, which changes nothing.
    pub(super) fn read<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        process::block_on(async { Ok(work.await?) })
    }

    /// Runs `work`, and then waits until all changes are complete and journalled.
    pub(super) fn run<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let done = process::block_on(async {
            let done = work.await;
            self.files.tools.space().close().await;
            done
        });
        self.journal.sync();
        done
    }

    /// Returns the version before the last change of a file.
    fn last_version(&self, path: &SpacePath) -> Result<OldVersion, Failure> {
        let none = || Failure::Failed(format!("the history has no earlier version of {path}"));
        self.files.last_version(path)?.ok_or_else(none)
    }
}

/// Names the folder that is served, or was served with this state, where the command line and the
/// settings name none. If several were served, the default must be one of them.
pub(super) fn with_served_root(mut resolved: Resolved) -> Result<Resolved, Failure> {
    resolved = with_root_of_person(resolved)?;
    if *resolved.source(&ROOT) != Source::Default || resolved.config.person.is_some() {
        return Ok(resolved);
    }
    let Ok(home) = Home::open_existing(&resolved.config) else { return Ok(resolved) };
    let tokens = home.tokens()?;
    if let Some(root) = found_server::served_root(&resolved, &home, &tokens)? {
        resolved.config.root = root;
        return Ok(resolved);
    }
    let known: Vec<PathBuf> = tokens.spaces()?.into_iter().filter_map(|it| it.path).collect();
    if known.is_empty() || known.contains(&resolved.config.root) {
        return Ok(resolved);
    }
    let roots = known.iter().map(|root| format!("\n  --root {}", root.display()));
    Err(Failure::Usage(format!(
        "several folders were served with this state; name one of them:{}",
        roots.collect::<String>()
    )))
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<OwnerFilesError> for Failure {
    fn from(error: OwnerFilesError) -> Self {
        match error {
            OwnerFilesError::History(error) => error.into(),
            OwnerFilesError::Refused(refusal) => (*refusal).into(),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoVersion { path, why } => Self::Failed(format!("{path}: {why}")),
            refusal => Self::Failed(refusal.message(Spelling::Dotted)),
        }
    }
}

/// Returns the typed path and the version that an argument names.
fn path_and_version(matches: &ArgMatches) -> (&str, Option<OldVersion>) {
    OldVersion::split(owner::text(matches, "path").unwrap_or_default())
}

/// Lists changes.
pub(super) fn list(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let owner = FilesOwner::open(matches, environment, "history")?;
    let query = ChangeQuery {
        path: owner::text(matches, "path").map(|text| owner.path(text)).transpose()?,
        client: owner::text(matches, "client").map(str::to_owned),
        since: since_flag(matches)?,
        ..ChangeQuery::default()
    };
    let changes = owner.files.history.changes(&query)?;
    if matches.get_flag("json") {
        owner::write_json(output, &Value::from_iter(changes.iter().map(to_json)))?;
        return Ok(());
    }
    if changes.is_empty() {
        let of = query.path.map(|path| format!(" of {}", shown(path.as_str()))).unwrap_or_default();
        writeln!(output, "The history of {} has no such change{of}.", owner.root.display())?;
        return Ok(());
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
            what(change),
        ]
    });
    output.write_all(table(colours, headings, rows).as_bytes())?;
    Ok(())
}

/// Says in words what a change did.
fn what(change: &PastChange) -> String {
    let path = &change.path;
    match &change.to {
        Some(to) => format!("moved {path} to {to}"),
        None => format!("{} {path}", change.kind.word()),
    }
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
    let other = owner::text(matches, "other");
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
            return Err(Failure::Failed(format!("{} {}", left.path, left.text())));
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
