//! What the owner's commands need of a space beside the tools.
//!
//! The commands change files through the tools, as a client does. Here are the reads that no tool
//! offers: what is at a path now, the bytes of any version, and how many files a search leaves out
//! because they are guarded.

use std::sync::Arc;

use stile_domain::error::Refusal;
use stile_domain::history::undo_plan::{Obstacle, PathNow};
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Principal, Read, Walk};
use stile_store::history::Call;

use super::SpaceTools;

impl SpaceTools {
    /// Offers the tools for the owner's commands: those of the history too, which see all changes.
    /// All changes count as made by one call.
    #[must_use]
    pub fn for_owner(mut self, call: Arc<Call>) -> Self {
        self.space = self.space.with_whole_history();
        self.owner_call = Some(call);
        self.with_history_tools()
    }

    /// Returns what is at a path.
    ///
    /// # Errors
    /// A [`Refusal`] if the whole space cannot be used.
    pub async fn path_now(
        &self,
        principal: &Principal,
        path: &SpacePath,
    ) -> Result<PathNow, Refusal> {
        let permit = principal.gate().permit::<Read>(path)?;
        Ok(PathNow::Blocked(match self.space.read_bytes(permit, 0, 0).await {
            Ok(file) => return Ok(PathNow::File(file.hash)),
            Err(Refusal::NotFound { .. }) => return Ok(PathNow::Nothing),
            Err(refusal @ Refusal::RootMoved) => return Err(refusal),
            Err(Refusal::NotAFile { .. }) => Obstacle::NotAFile,
            Err(Refusal::NotADirectory { .. }) => Obstacle::FileAbove,
            Err(Refusal::SymlinkRefused { .. }) => Obstacle::Link,
            Err(_) => Obstacle::Unreadable,
        }))
    }

    /// Counts the files below a path that `all` may read and `shown` may not.
    ///
    /// # Errors
    /// A [`Refusal`].
    pub async fn count_hidden(
        &self,
        (all, shown): (&Principal, &Principal),
        path: &SpacePath,
    ) -> Result<u64, Refusal> {
        let permit = |of: &Principal| of.gate().permit::<Walk>(path);
        self.space.count_hidden((permit(all)?, permit(shown)?)).await
    }

    /// Returns the bytes of an old version of a file, or of the file as it is now.
    ///
    /// # Errors
    /// A [`Refusal`].
    pub async fn version_bytes(
        &self,
        principal: &Principal,
        path: &SpacePath,
        version: Option<OldVersion>,
    ) -> Result<Vec<u8>, Refusal> {
        let permit = principal.gate().permit::<Read>(path)?;
        match version {
            Some(version) => self.space.read_version(permit, version).await,
            None => {
                let most = usize::try_from(self.space.limits().file_size).unwrap_or(usize::MAX);
                Ok(self.space.read_bytes(permit, 0, most).await?.bytes)
            }
        }
    }
}
