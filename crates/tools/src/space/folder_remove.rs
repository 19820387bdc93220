//! `folder.remove`: removes a folder that holds nothing, or one with all that it holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::path::SpacePath;
use stile_domain::permit::{EditTree, Gate, Permit};
use stile_domain::tool_name::ShownTools;
use stile_store::space::Space;

use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Remove an empty folder, or one with all it holds if `hash` is sent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FolderRemove {
    /// Which folder.
    path: SpacePath,
    /// `tree_hash`. See `file.list`.
    hash: Option<ContentHash>,
}

/// A folder that was removed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FolderRemoved {
    /// Its canonical path.
    path: SpacePath,
    #[serde(skip)]
    base: Option<ContentHash>,
}

impl Output for FolderRemoved {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }

    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        (self.base, None)
    }
}

impl Tool for FolderRemove {
    const NAME: &'static str = "folder.remove";
    const TITLE: &'static str = "Remove a folder";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = Permit<EditTree>;
    type Output = FolderRemoved;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<EditTree>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<EditTree>, space: &Space) -> Result<FolderRemoved, Refusal> {
        space.remove_folder(permit, self.hash).await?;
        Ok(FolderRemoved { path: self.path, base: self.hash })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, self.hash)
    }
}
