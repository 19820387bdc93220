//! The owner at the files of a space: reads them, their history, and takes changes back.
//!
//! `stile history`, `stile undo` and the owner's page stand on this. The owner changes files
//! through the tools, as a client does. All changes of one [`OwnerFiles`] count as one call, which
//! can be taken back itself. [`undo`] plans what takes changes back, and does it.

pub mod undo;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stile_domain::error::Refusal;
use stile_domain::error::owner_text::owner_text;
use stile_domain::hash::{ContentHash, hex};
use stile_domain::history::past_change::{Author, PastChange};
use stile_domain::history::undo_plan::{Obstacle, PathNow};
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::permit::Principal;
use stile_store::history::{Call, ChangeQuery, History, HistoryError};
use stile_tools::answer::Answer;
use stile_tools::space::SpaceTools;
use stile_tools::toolset::{Caller, Toolset as _, UnknownTool};

use crate::known_clients::{KnownClients, NotOneClient};

/// The owner's session with the files of a space and their history.
pub struct OwnerFiles {
    /// The tools, those of the history too.
    pub tools: SpaceTools,
    /// The history of the space.
    pub history: Arc<History>,
    /// The owner, who may read and change everything.
    pub caller: Principal,
    /// The call as which all changes of the session count.
    pub call: Arc<Call>,
}

/// Why the owner's work on files failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum OwnerFilesError {
    /// The history cannot be used.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The space refuses.
    #[error("{}", .0.owner_text())]
    Refused(Box<Refusal>),
    /// What was typed means no client, or several.
    #[error(transparent)]
    Client(#[from] NotOneClient),
}

impl From<Refusal> for OwnerFilesError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl OwnerFiles {
    /// Begins a session. What it changes, it changes with the tool `tool`.
    pub fn new(tools: SpaceTools, history: Arc<History>, caller: Principal, tool: &str) -> Self {
        let call = Arc::new(Call::of_owner(Author::new(tool, &caller)));
        Self { tools: tools.for_owner(Arc::clone(&call)), history, caller, call }
    }

    /// Calls a tool, and returns its structured answer, or why it refused in words for the owner.
    ///
    /// # Errors
    /// Why the tool refused.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        let unknown = |UnknownTool| "this program has no such tool".to_owned();
        let tool = self.tools.find(tool).ok_or(UnknownTool).map_err(unknown)?;
        let caller = Caller::local(self.caller.clone());
        let answer = self.tools.call(tool, arguments, &caller).await.map_err(unknown)?;
        match answer.failure {
            None => Ok(answer.to_tree().into_owned()),
            Some(_) => Err(refused_text(&answer)),
        }
    }

    /// Returns the most bytes that a file may have.
    pub fn most_bytes(&self) -> u64 {
        self.tools.space().limits().file_size
    }

    /// Limits a query to the client that a typed name or identifier means; to the typed name itself
    /// if neither the history nor `known` has anything like it.
    ///
    /// # Errors
    /// [`OwnerFilesError::Client`]; [`OwnerFilesError::History`].
    pub fn limit_to_client(
        &self,
        query: &mut ChangeQuery,
        typed: &str,
        known: &KnownClients,
    ) -> Result<(), OwnerFilesError> {
        let all = self.history.authors(&ChangeQuery::default())?;
        let within = self.history.authors(query)?;
        known.meant_by(typed, &all, &within)?.limit(query);
        Ok(())
    }

    /// Returns the version before the last change of a file; `None` if the history has none.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn last_version(&self, path: &SpacePath) -> Result<Option<OldVersion>, HistoryError> {
        let query = ChangeQuery { path: Some(path.clone()), ..ChangeQuery::default() };
        let changes = self.history.changes(&query)?;
        let last = changes.iter().find(|change| change.concerns(path) && change.before.is_some());
        Ok(last.map(|change| OldVersion::Before(change.number)))
    }

    /// Returns what it takes to give a file an old version.
    ///
    /// # Errors
    /// [`OwnerFilesError`], if there is no such version too.
    pub async fn restoration(
        &self,
        path: &SpacePath,
        version: OldVersion,
    ) -> Result<Restoration, OwnerFilesError> {
        let bytes = self.tools.version_bytes(&self.caller, path, Some(version.clone())).await?;
        let wanted = ContentHash::digest(&bytes);
        Ok(match self.tools.path_now(&self.caller, path).await? {
            PathNow::Blocked(obstacle) => Restoration::Blocked(obstacle),
            PathNow::Nothing => Restoration::BringBack,
            PathNow::File(hash) if hash == wanted => {
                let (paths, version) = ([path, path], (version, hash));
                match self.tools.is_other_file(&self.caller, paths, version).await {
                    true => Restoration::Replace(hash),
                    false => Restoration::Needless,
                }
            }
            PathNow::File(hash) => Restoration::Replace(hash),
        })
    }

    /// Gives a file an old version, over the version `replaced` and no other.
    ///
    /// # Errors
    /// The text of the refusal.
    pub async fn restore(
        &self,
        path: &SpacePath,
        version: &OldVersion,
        replaced: Option<ContentHash>,
    ) -> Result<(), String> {
        let mut arguments = json!({ "path": path, "version": version.to_string() });
        if let (Some(hash), Some(arguments)) = (replaced, arguments.as_object_mut()) {
            arguments.insert("hash".to_owned(), json!(hash));
        }
        self.call("file.restore", arguments).await.map(drop)
    }

    /// Returns what is at a path.
    ///
    /// # Errors
    /// [`OwnerFilesError`].
    pub async fn now(&self, path: &SpacePath) -> Result<PathNow, OwnerFilesError> {
        Ok(self.tools.path_now(&self.caller, path).await?)
    }

    /// Returns the difference between two versions of a file, with these names, as `diff -u` shows
    /// it; `None` if one of them is not text. `None` for a version means the file as it is now.
    /// After the time `within`, the rest is shown with more lines than need be.
    ///
    /// # Errors
    /// [`OwnerFilesError`].
    pub async fn difference(
        &self,
        path: &SpacePath,
        [old, new]: [Option<OldVersion>; 2],
        [old_name, new_name]: [&str; 2],
        within: Duration,
    ) -> Result<Option<String>, OwnerFilesError> {
        let old = self.tools.version_bytes(&self.caller, path, old).await?;
        let new = self.tools.version_bytes(&self.caller, path, new).await?;
        Ok(unified(old, new, [old_name, new_name], within))
    }

    /// Returns what a change did to the text of its file, as `diff -u` shows it; `None` if one of
    /// the versions is not text. After the time `within`, the rest is shown with more lines than
    /// need be.
    ///
    /// # Errors
    /// [`OwnerFilesError`], if the history has a version no longer too.
    pub async fn change_difference(
        &self,
        change: &PastChange,
        within: Duration,
    ) -> Result<Option<String>, OwnerFilesError> {
        let path = change.to.as_ref().unwrap_or(&change.path);
        let old = match change.before {
            None => Vec::new(),
            // A move keeps the text.
            Some(_) if change.to.is_some() && change.before == change.after => {
                return Ok(Some(String::new()));
            }
            Some(_) => {
                let before = Some(OldVersion::Before(change.number));
                self.tools.version_bytes(&self.caller, &change.path, before).await?
            }
        };
        let new = match change.after {
            None => Vec::new(),
            Some(hash) => {
                let is_now = self.now(path).await? == PathNow::File(hash);
                let after = (!is_now).then(|| OldVersion::Hash(hex(hash.as_bytes())));
                self.tools.version_bytes(&self.caller, path, after).await?
            }
        };
        Ok(unified(old, new, ["before", "after"], within))
    }
}

/// Returns why a call was refused, in words for the owner.
pub fn refused_text(answer: &Answer) -> String {
    owner_text(answer.to_tree().get("error").unwrap_or(&Value::Null))
}

/// Returns the difference between two texts as `diff -u` shows it; `None` if one is not text.
fn unified(
    old: Vec<u8>,
    new: Vec<u8>,
    [old_name, new_name]: [&str; 2],
    within: Duration,
) -> Option<String> {
    let (Ok(old), Ok(new)) = (String::from_utf8(old), String::from_utf8(new)) else { return None };
    let mut config = similar::TextDiff::configure();
    let diff = config.timeout(within).diff_lines(&old, &new);
    Some(diff.unified_diff().header(old_name, new_name).to_string())
}

/// What it takes to give a file an old version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restoration {
    /// Nothing: the file is that version.
    Needless,
    /// The file comes back to where nothing is.
    BringBack,
    /// The version replaces this one.
    Replace(ContentHash),
    /// Something keeps the file from its path.
    Blocked(Obstacle),
}
