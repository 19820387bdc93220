//! `folder.create`: a folder and its parents.

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

/// Make a folder, with its parents. A new file gets its folders by itself.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FolderCreate {
    /// Which folder.
    path: SpacePath,
}

/// A folder that is there.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FolderCreated {
    /// Its canonical path.
    path: SpacePath,
    /// Whether it was not there before.
    created: bool,
}

impl Output for FolderCreated {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }
}

impl Tool for FolderCreate {
    const NAME: &'static str = "folder.create";
    const TITLE: &'static str = "Create a folder";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Permits = Permit<Edit>;
    type Output = FolderCreated;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<FolderCreated, Refusal> {
        let created = space.create_folder(permit).await?;
        Ok(FolderCreated { path: self.path, created })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
