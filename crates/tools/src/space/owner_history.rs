//! What the owner's commands need of a space beside the tools.
//!
//! The commands change files through the tools, as a client does. Here are the reads that no tool
//! offers: what is at a path now, the bytes of any version, and how many files a search leaves out
//! because they are guarded.

use std::sync::Arc;

use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::history::past_folder::FolderNow;
use stile_domain::history::undo_plan::{Obstacle, PathNow};
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::permit::{List, Principal, Read, Walk};
use stile_store::history::Call;
use stile_store::space::Space;

use super::SpaceTools;
use super::folder_give::FolderGive;
use super::folder_set_mode::FolderSetMode;
use crate::tool::ToolEntry;

/// What only commands of the owner call.
const OWNER_TOOLS: &[ToolEntry<Space>] =
    &[ToolEntry::new::<FolderGive>(), ToolEntry::new::<FolderSetMode>()];

impl SpaceTools {
    /// Offers the tools for the owner's commands: those of the history too, which see all changes.
    /// All changes count as made by one call.
    #[must_use]
    pub fn for_owner(mut self, call: Arc<Call>) -> Self {
        self.space = self.space.with_whole_history();
        self.owner_call = Some(call);
        self.tools.extend(OWNER_TOOLS);
        self.with_history_tools()
    }

    /// Whether the file `now` is another file than the one that had a version of the file `of`. A
    /// file that cannot be compared counts as the same.
    pub async fn is_other_file(
        &self,
        principal: &Principal,
        [now, of]: [&SpacePath; 2],
        version: (OldVersion, ContentHash),
    ) -> bool {
        let permit = |path| principal.gate().permit::<Read>(path);
        let (Ok(now), Ok(of)) = (permit(now), permit(of)) else { return false };
        self.space.is_other_file(now, of, version).await.unwrap_or(false)
    }

    /// Returns the permission bits of a folder; `None` if there is no folder.
    ///
    /// # Errors
    /// A [`Refusal`] if the whole space cannot be used.
    pub async fn folder_mode(
        &self,
        principal: &Principal,
        path: &SpacePath,
    ) -> Result<Option<u32>, Refusal> {
        self.space.folder_mode(principal.gate().permit::<Read>(path)?).await
    }

    /// Returns what keeps the file or the folder at a path from being changed.
    ///
    /// # Errors
    /// A [`Refusal`] if the whole space cannot be used.
    pub async fn guard(
        &self,
        principal: &Principal,
        path: &SpacePath,
    ) -> Result<Option<Obstacle>, Refusal> {
        self.space.guard(principal.gate().permit::<Read>(path)?).await
    }

    /// Returns what is in a folder; `None` if there is no folder.
    ///
    /// # Errors
    /// A [`Refusal`] if the whole space cannot be used.
    pub async fn folder_now(
        &self,
        principal: &Principal,
        path: &SpacePath,
    ) -> Result<Option<FolderNow>, Refusal> {
        self.space.folder_now(principal.gate().permit::<Read>(path)?).await
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
            Err(refusal @ (Refusal::RootMoved | Refusal::RootReplaced | Refusal::RootMissing)) => {
                return Err(refusal);
            }
            Err(Refusal::NotAFile { .. }) => Obstacle::NotAFile,
            Err(Refusal::NotADirectory { .. }) => Obstacle::FileAbove,
            Err(Refusal::SymlinkRefused { .. }) => Obstacle::Link,
            Err(_) => Obstacle::Unreadable,
        }))
    }

    /// Returns names of a folder that no path can express, `most` at most, for people to read.
    ///
    /// # Errors
    /// A [`Refusal`].
    pub async fn odd_names(
        &self,
        principal: &Principal,
        folder: &SpacePath,
        most: usize,
    ) -> Result<Vec<String>, Refusal> {
        let permit = principal.gate().permit::<List>(folder)?;
        self.space.odd_names(permit, most).await
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
