//! `file.append`: bytes at the end of a file of any kind.

use schemars::JsonSchema;
use serde::Deserialize;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::path::FilePath;
use stile_domain::permit::{Edit, Gate, Permit};
use stile_store::space::Space;

use super::file_create::{ContentEncoding, FileCreated};
use crate::tool::Tool;

/// Add bytes at the end of a file that you have read or made, of any kind: a large file is made by
/// `file.create` and then by this. For lines, call `text.append`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileAppend {
    /// Which file.
    path: FilePath,
    /// Its `hash`.
    hash: ContentHash,
    /// What to add: text, or base64 when `encoding` says so.
    content: String,
    /// How `content` is written.
    #[serde(default)]
    encoding: ContentEncoding,
}

impl Tool for FileAppend {
    const NAME: &'static str = "file.append";
    const TITLE: &'static str = "Append bytes";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = Permit<Edit>;
    type Output = FileCreated;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<FileCreated, Refusal> {
        let bytes = self.encoding.decode(self.content)?;
        let edited = space.append_bytes(permit, self.hash, bytes).await?;
        Ok(FileCreated::of_edited(self.path.into(), self.hash, &edited))
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, Some(self.hash))
    }
}
