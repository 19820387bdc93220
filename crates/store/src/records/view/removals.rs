//! The removed records that the owner can restore.

use stile_domain::records::problem::Problem;

use super::RecordsView;
use crate::records::removal::{HiddenReason, KeptRemoval, REMOVED_KEPT};

impl RecordsView<'_> {
    /// Returns the removed records that can be restored, the oldest removal first. For the owner.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`] for a client; the error of the database.
    pub fn removals(&self) -> Result<Vec<KeptRemoval>, Problem> {
        self.require_owner()?;
        let mut kept = Vec::new();
        for hidden in self.snapshot.hidden_streams()? {
            let HiddenReason::Keeping(stream) = hidden.reason else { continue };
            if stream.at.saturating_add(REMOVED_KEPT) <= self.now().0 {
                continue;
            }
            let records = self.snapshot.count_records(hidden.id)?;
            kept.push(KeptRemoval { kept_in: hidden.id, stream, records });
        }
        kept.sort_by_key(|removal| removal.stream.at);
        Ok(kept)
    }
}
