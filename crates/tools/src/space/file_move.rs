//! `file.move`: another name or another folder for a file, and never over anything.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Edit, Gate, Permit};
use stile_store::space::Space;

use super::two_paths::both;
use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Move or rename a file that you have read. Missing folders are made. Refused with
/// `already_exists` if anything is at `to`, and with `stale` if the file changed since you read
/// it. Links to it stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileMove {
    /// Which file.
    path: FilePath,
    /// Its `hash`, from a read or a change.
    hash: ContentHash,
    /// Its new path, e.g. `/archive/2025/plan.md`.
    to: FilePath,
}

/// A file that was moved.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileMoved {
    /// Its new path.
    path: SpacePath,
    /// Its hash, which stays the same.
    hash: ContentHash,
}

impl Output for FileMoved {
    fn render(self) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }

    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        (Some(self.hash), Some(self.hash))
    }
}

impl Tool for FileMove {
    const NAME: &'static str = "file.move";
    const TITLE: &'static str = "Move a file";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = (Permit<Edit>, Permit<Edit>);
    type Output = FileMoved;
    type Error = Refusal;

    fn ask(&self, gate: Gate<'_>) -> Result<Self::Permits, Refusal> {
        both(gate.permit(&self.path), gate.permit(&self.to))
    }

    async fn run(self, permits: Self::Permits, space: &Space) -> Result<FileMoved, Refusal> {
        space.move_file(permits, self.hash).await?;
        Ok(FileMoved { path: self.to.into(), hash: self.hash })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, Some(self.hash)).with_target(&self.to)
    }
}
