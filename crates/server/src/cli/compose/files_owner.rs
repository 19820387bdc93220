//! The owner's session with the files of a space and their history, and which folder is meant.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ArgMatches;
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_store::history::ChangeQuery;
use stile_store::journal::Journal;

use super::home::Home;
use super::person_folder::with_root_of_person;
use super::{found_server, open, owner, process};
use crate::auth;
use crate::cli::failure::Failure;
use crate::cli::flags::typed_path;
use crate::cli::invocation::settings;
use crate::clock::{unix_seconds, wall_clock};
use crate::config::declarations::ROOT;
use crate::config::{Environment, Resolved, Source};
use crate::known_clients::KnownClients;
use crate::owner_files::OwnerFiles;

/// The owner's session with the files of a space and their history, at the command line.
pub(crate) struct FilesOwner {
    pub(crate) root: PathBuf,
    pub(crate) files: OwnerFiles,
    journal: Arc<Journal>,
    home: Home,
}

impl FilesOwner {
    /// Opens the space and its history. What the session changes, it changes with `tool`.
    pub(crate) fn open(
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
        let home = Home::open(&resolved.config)?;
        let files = OwnerFiles::new(open_space.tools(), history, caller, tool);
        Ok(Self { root: resolved.config.root, files, journal: open_space.journal, home })
    }

    /// Limits a query to the client that a typed name or identifier means, if there is one.
    pub(crate) fn limit_to_client(
        &self,
        query: &mut ChangeQuery,
        typed: Option<&str>,
    ) -> Result<(), Failure> {
        let Some(typed) = typed else { return Ok(()) };
        let known = KnownClients::of(&self.home.tokens()?, unix_seconds(wall_clock()))?;
        Ok(self.files.limit_to_client(query, typed, &known)?)
    }

    /// Parses the path of a file or folder as a person types it.
    pub(crate) fn path(&self, text: &str) -> Result<SpacePath, Failure> {
        typed_path::parse(text, &self.root)
    }

    /// Returns a sentence that says how to take the changes of this session back, and whether that
    /// will be whole; nothing if there are none.
    pub(crate) fn how_to_take_back(&self) -> String {
        let Some(call) = self.files.call.number() else { return String::new() };
        let is_whole = self.files.history.lacking(call).is_ok_and(|lacking| lacking.is_empty());
        let except = if is_whole { "" } else { ", except for what the history has no room for" };
        format!(" `stile undo {call}` takes this back{except}.")
    }

    /// Runs `work`, which changes nothing.
    pub(crate) fn read<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        process::block_on(async { Ok(work.await?) })
    }

    /// Runs `work`, and then waits until all changes are complete and journalled.
    pub(crate) fn run<T>(
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
    pub(crate) fn last_version(&self, path: &SpacePath) -> Result<OldVersion, Failure> {
        let none = || Failure::Failed(format!("the history has no earlier version of {path}"));
        self.files.last_version(path)?.ok_or_else(none)
    }
}

/// Names the folder that is served, or was served with this state, where the command line and the
/// settings name none. If several were served, the default must be one of them.
pub(crate) fn with_served_root(mut resolved: Resolved) -> Result<Resolved, Failure> {
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
    let roots = found_server::possible_roots(&resolved, &tokens)?;
    if roots.is_empty() {
        return Ok(resolved);
    }
    let roots = roots.iter().map(|root| format!("\n  --root {}", root.display()));
    Err(Failure::Usage(format!(
        "several folders were served with this state; name one of them:{}",
        roots.collect::<String>()
    )))
}
