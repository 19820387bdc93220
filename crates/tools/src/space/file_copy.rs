//! `file.copy`: a second file with the same bytes, and never over anything.

use schemars::JsonSchema;
use serde::Deserialize;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::path::FilePath;
use stile_domain::permit::{Edit, Gate, Permit, Read};
use stile_store::space::Space;

use super::file_create::FileCreated;
use super::two_paths::both;
use crate::tool::Tool;

/// Copy a file that you have read, of any kind. Missing folders are made. Refused with
/// `already_exists` if anything is at `to`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileCopy {
    /// Which file.
    path: FilePath,
    /// Its `hash`.
    hash: ContentHash,
    /// The path of the copy.
    to: FilePath,
}

impl Tool for FileCopy {
    const NAME: &'static str = "file.copy";
    const TITLE: &'static str = "Copy a file";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = (Permit<Read>, Permit<Edit>);
    type Output = FileCreated;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Self::Permits, Refusal> {
        both(gate.permit(&self.path), gate.permit(&self.to))
    }

    async fn run(self, permits: Self::Permits, space: &Space) -> Result<FileCreated, Refusal> {
        let copied = space.copy_file(permits, self.hash).await?;
        Ok(FileCreated::new(self.to.into(), &copied))
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, Some(self.hash)).with_target(&self.to)
    }
}
