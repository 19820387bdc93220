//! What the owner's commands need of the history beside the tools.
//!
//! The commands change files through the tools, as a client does. Here are the reads that no tool
//! offers: the hash of a file now, and the bytes of any version.

use std::sync::Arc;

use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Principal, Read};
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

    /// Returns the hash of a file; `None` if there is no file at the path.
    ///
    /// # Errors
    /// A [`Refusal`] if the file cannot be read.
    pub async fn current_hash(
        &self,
        principal: &Principal,
        path: &SpacePath,
    ) -> Result<Option<ContentHash>, Refusal> {
        let permit = principal.gate().permit::<Read>(path)?;
        match self.space.read_bytes(permit, 0, 0).await {
            Ok(file) => Ok(Some(file.hash)),
            Err(Refusal::NotFound { .. }) => Ok(None),
            Err(refusal) => Err(refusal),
        }
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
