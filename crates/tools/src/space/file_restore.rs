//! `file.restore`: gives a file back a version that the caller's own change replaced or removed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::history::version::OldVersion;
use stile_domain::journal::CallTrace;
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Edit, Gate, Permit};
use stile_domain::tool_name::ShownTools;
use stile_store::space::Space;

use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Give a file back what it had before one of your changes, also if you removed it.
/// Refused with `stale` if the file changed since you read it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileRestore {
    /// Which file.
    path: FilePath,
    /// The number of a change in `file.history`, for what was before it, or the first 8 or more
    /// digits of the content's hash.
    version: String,
    /// Its `hash` now; none if there is no such file.
    hash: Option<ContentHash>,
}

/// A file that was given an old version.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileRestored {
    /// Its canonical path.
    path: SpacePath,
    /// Its hash now, which the next change needs.
    hash: ContentHash,
    /// Its size now.
    size_bytes: u64,
    #[serde(skip)]
    base: Option<ContentHash>,
}

impl Output for FileRestored {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }

    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        (self.base, Some(self.hash))
    }
}

impl Tool for FileRestore {
    const NAME: &'static str = "file.restore";
    const TITLE: &'static str = "Restore a file";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = Permit<Edit>;
    type Output = FileRestored;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<FileRestored, Refusal> {
        let Some(version) = OldVersion::parse(&self.version) else {
            return Err(Refusal::invalid_argument(
                "`version` must be the number of a change, or 8 to 64 digits of a hash",
            ));
        };
        let restored = space.restore(permit, self.hash, version).await?;
        Ok(FileRestored {
            path: self.path.into(),
            hash: restored.hash,
            size_bytes: restored.size_bytes,
            base: self.hash,
        })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, self.hash)
    }
}
