//! `folder.remove`: removes a folder that holds nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::journal::CallTrace;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Gate, Permit, RemoveFolder};
use stile_domain::tool_name::Spelling;
use stile_store::space::Space;

use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Remove a folder that is empty. Refused with `folder_not_empty` otherwise: remove its files
/// first, with `file.remove`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FolderRemove {
    /// Which folder, from the root of the space.
    path: SpacePath,
}

/// A folder that was removed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FolderRemoved {
    /// Its canonical path.
    path: SpacePath,
}

impl Output for FolderRemoved {
    fn render(self, _: Spelling) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }
}

impl Tool for FolderRemove {
    const NAME: &'static str = "folder.remove";
    const TITLE: &'static str = "Remove a folder";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = Permit<RemoveFolder>;
    type Output = FolderRemoved;
    type Error = Refusal;

    fn ask(&self, gate: Gate<'_>) -> Result<Permit<RemoveFolder>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(
        self,
        permit: Permit<RemoveFolder>,
        space: &Space,
    ) -> Result<FolderRemoved, Refusal> {
        space.remove_folder(permit).await?;
        Ok(FolderRemoved { path: self.path })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
