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
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{Author, ChangeNumber, PastChange};
use stile_domain::history::undo_plan::{LeftChange, LeftReason, PathNow};
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::tool_name::Spelling;
use stile_domain::unseen::shown;
use stile_store::history::{Call, ChangeQuery, History, HistoryError};
use stile_store::journal::Journal;
use stile_tools::space::SpaceTools;
use stile_tools::toolset::{Caller, Toolset as _, UnknownTool};

use super::colours::Meaning;
use super::duration::since_flag;
use super::home::Home;
use super::table::{cell, table};
use super::{
    Failure, Invocation, found_server, local_time, open, owner, process, settings, typed_path,
    user_name,
};
use crate::auth;
use crate::config::declarations::ROOT;
use crate::config::{Environment, Resolved, Source};

/// The most time that a comparison of two versions takes before it shows larger blocks.
const DIFF_TIME: Duration = Duration::from_secs(5);

/// The owner's session with the files of a space and their history.
pub(super) struct FilesOwner {
    root: PathBuf,
    pub(super) tools: SpaceTools,
    pub(super) history: Arc<History>,
    pub(super) caller: Principal,
    pub(super) call: Arc<Call>,
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
        let caller = auth::command_line(&user_name(environment), everything, RecordsClaim::None);
        let (open_space, history) = open::open_space_of_owner(&resolved)?;
        let call = Arc::new(Call::of_owner(Author::new(tool, &caller)));
        let tools = open_space.tools().for_owner(Arc::clone(&call));
        let root = resolved.config.root;
        Ok(Self { root, tools, history, caller, journal: open_space.journal, call })
    }

    /// Parses the path of a file or folder as a person types it.
    pub(super) fn path(&self, text: &str) -> Result<SpacePath, Failure> {
        typed_path::parse(text, &self.root)
    }

    /// Returns a sentence that says how to take the changes of this session back; nothing if there
    /// are none.
    pub(super) fn how_to_take_back(&self) -> String {
        let back = self.call.number().map(|call| format!(" `stile undo {call}` takes this back."));
        back.unwrap_or_default()
    }

    /// Calls a tool, and returns its structured answer, or its refusal as text.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        let unknown = |UnknownTool| "this program has no such tool".to_owned();
        let tool = self.tools.find(tool).ok_or(UnknownTool).map_err(unknown)?;
        // The owner reads the canonical names, as in the documents.
        let caller = Caller { names: Spelling::Dotted, ..Caller::local(self.caller.clone()) };
        let answer = self.tools.call(tool, arguments, &caller).await.map_err(unknown)?;
        match answer.failure {
            None => Ok(serde_json::from_str(&answer.text).unwrap_or_default()),
            Some(_) => Err(answer.text),
        }
    }

    /// Returns the most bytes that a file may have.
    pub(super) fn most_bytes(&self) -> u64 {
        self.tools.space().limits().file_size
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
            self.tools.space().close().await;
            done
        });
        self.journal.sync();
        done
    }

    /// Returns the version before the last change of a file.
    fn last_version(&self, path: &SpacePath) -> Result<OldVersion, Failure> {
        let query = ChangeQuery { path: Some(path.clone()), ..ChangeQuery::default() };
        let changes = self.history.changes(&query)?;
        let last = changes.iter().find(|change| change.concerns(path) && change.before.is_some());
        let none = || Failure::Failed(format!("the history has no earlier version of {path}"));
        last.map(|change| OldVersion::Before(change.number)).ok_or_else(none)
    }
}

/// Names the folder that is served, or was served with this state, where the command line and the
/// settings name none. If several were served, the default must be one of them.
pub(super) fn with_served_root(mut resolved: Resolved) -> Result<Resolved, Failure> {
    if *resolved.source(&ROOT) != Source::Default {
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
    let changes = owner.history.changes(&query)?;
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
    let bytes = owner.read(owner.tools.version_bytes(&owner.caller, &path, Some(version)))?;
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
    let names = [
        format!("{name}@{version}"),
        other.as_ref().map_or_else(|| name.to_string(), |other| format!("{name}@{other}")),
    ];
    let read = async {
        let old = owner.tools.version_bytes(&owner.caller, &path, Some(version)).await?;
        Ok::<_, Refusal>([old, owner.tools.version_bytes(&owner.caller, &path, other).await?])
    };
    let versions = owner.read(read)?.map(String::from_utf8);
    let [Ok(old), Ok(new)] = versions else {
        return Err(Failure::Failed(format!("{path} is not text in both versions")));
    };
    let mut config = similar::TextDiff::configure();
    let diff = config.timeout(DIFF_TIME).diff_lines(&old, &new);
    let [old_name, new_name] = &names;
    let text = diff.unified_diff().header(old_name, new_name).to_string();
    Ok(output.write_all(text.as_bytes())?)
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
    let bytes = owner.tools.version_bytes(&owner.caller, &path, Some(version.clone()));
    let wanted = ContentHash::digest(&owner.read(bytes)?);
    let now = owner.read(owner.tools.path_now(&owner.caller, &path))?;
    let (verb, hash) = match now {
        PathNow::Blocked(obstacle) => {
            let (number, why) = (ChangeNumber(0), LeftReason::Blocked(obstacle));
            let left = LeftChange { number, path, to: None, why };
            return Err(Failure::Failed(format!("{} {}", left.path, left.text())));
        }
        PathNow::Nothing => ("bring back", None),
        PathNow::File(hash) if hash == wanted => {
            let path = shown(path.as_str());
            writeln!(output, "{path} is what it was at {version}. Nothing is to be done.")?;
            return Ok(());
        }
        PathNow::File(hash) => ("restore", Some(hash)),
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
    let mut arguments = json!({ "path": path, "version": version.to_string() });
    if let (Some(hash), Some(arguments)) = (hash, arguments.as_object_mut()) {
        arguments.insert("hash".to_owned(), json!(hash));
    }
    owner.run(async { owner.call("file.restore", arguments).await.map_err(Failure::Failed) })?;
    writeln!(output, "Done.{}", owner.how_to_take_back())?;
    Ok(())
}
