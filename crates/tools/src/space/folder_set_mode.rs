//! `folder.set_mode`: gives a folder another mode. For commands of the owner alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::journal::CallTrace;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Edit, Gate, Permit};
use stile_domain::tool_name::ShownTools;
use stile_store::space::Space;

use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Give a folder another mode, if it still has the mode `from`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FolderSetMode {
    /// Which folder.
    path: SpacePath,
    /// The permission bits that it must still have.
    from: u32,
    /// The permission bits that it gets.
    to: u32,
}

/// A folder that has another mode.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FolderModeSet {
    /// Its canonical path.
    path: SpacePath,
}

impl Output for FolderModeSet {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }
}

impl Tool for FolderSetMode {
    const NAME: &'static str = "folder.set_mode";
    const TITLE: &'static str = "Give a folder another mode";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Permits = Permit<Edit>;
    type Output = FolderModeSet;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<FolderModeSet, Refusal> {
        space.set_folder_mode(permit, self.from, self.to).await?;
        Ok(FolderModeSet { path: self.path })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
