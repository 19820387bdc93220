//! `file.history`: the caller's own changes of a file, for a server whose owner allows that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::{ChangeNumber, PastChange};
use stile_domain::journal::CallTrace;
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Gate, Permit, Read};
use stile_domain::tool_name::ShownTools;
use stile_store::space::Space;

use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// The most changes of one answer.
const MOST_CHANGES: usize = 50;

/// List the changes that you made to a file, the latest first. `file.restore` with the number of a
/// change brings back what the file was before it. When `truncated` is true, call again with
/// `next_below`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileHistory {
    /// Which file. It need not exist any more.
    path: FilePath,
    /// `next_below`: show only changes with smaller numbers.
    below: Option<i64>,
}

/// The changes of a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileChanges {
    /// The canonical path of the file.
    path: SpacePath,
    /// At most 50 changes.
    changes: Vec<FileChange>,
    /// Whether earlier changes follow.
    truncated: bool,
    /// What to send as `below` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_below: Option<i64>,
}

/// One change of a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileChange {
    /// The number of the change.
    change: i64,
    /// When, in UTC.
    at: String,
    /// `replaced`, `appended`, `created`, `removed` or `moved`, and `folder_moved` for a folder.
    kind: &'static str,
    /// The tool, if listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The path of the file before.
    path: SpacePath,
    /// The path that a move gave the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<SpacePath>,
    /// The hash before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<ContentHash>,
    /// The hash after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<ContentHash>,
}

impl From<PastChange> for FileChange {
    fn from(change: PastChange) -> Self {
        Self {
            change: change.number.0,
            at: change.at.to_rfc3339(),
            kind: change.kind.word(),
            tool: Some(change.author.tool),
            path: change.path,
            to: change.to,
            before: change.before,
            after: change.after,
        }
    }
}

impl Output for FileChanges {
    fn render(mut self, names: ShownTools) -> serde_json::Result<Answer> {
        for change in &mut self.changes {
            let tool = change.tool.take().filter(|tool| names.has(tool));
            change.tool = tool.map(|tool| names.name(&tool).into_owned());
        }
        Answer::json(&self)
    }
}

impl Tool for FileHistory {
    const NAME: &'static str = "file.history";
    const TITLE: &'static str = "List your changes of a file";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Permits = Permit<Read>;
    type Output = FileChanges;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Read>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Read>, space: &Space) -> Result<FileChanges, Refusal> {
        let below = self.below.map(ChangeNumber);
        let mut changes = space.past_changes(permit, below, MOST_CHANGES + 1).await?;
        let truncated = changes.len() > MOST_CHANGES;
        changes.truncate(MOST_CHANGES);
        let last = changes.last().map(|change| change.number.0);
        Ok(FileChanges {
            path: self.path.into(),
            changes: changes.into_iter().map(FileChange::from).collect(),
            truncated,
            next_below: last.filter(|_| truncated),
        })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
