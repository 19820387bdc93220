//! `file.remove`: removes a file, if it is still the one that was read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Edit, Gate, Permit};
use stile_domain::tool_name::ShownTools;
use stile_store::space::Space;

use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Remove a regular file that you have read. Refused with `stale` if it changed since. Folders
/// stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileRemove {
    /// Which file.
    path: FilePath,
    /// Its `hash`.
    hash: ContentHash,
}

/// A file that was removed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileRemoved {
    /// Its canonical path.
    path: SpacePath,
    #[serde(skip)]
    base: Option<ContentHash>,
}

impl Output for FileRemoved {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }

    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        (self.base, None)
    }
}

impl Tool for FileRemove {
    const NAME: &'static str = "file.remove";
    const TITLE: &'static str = "Remove a file";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = Permit<Edit>;
    type Output = FileRemoved;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<FileRemoved, Refusal> {
        space.remove(permit, self.hash).await?;
        Ok(FileRemoved { path: self.path.into(), base: Some(self.hash) })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, Some(self.hash))
    }
}
