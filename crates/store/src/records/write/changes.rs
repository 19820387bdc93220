//! The log of changes, which has the previous state of each record that was changed or removed.
//!
//! A line of the log has digests in place of all but short values. States are compared and never
//! sent. An inserted record needs no line, since the numbers of records grow. Each write deletes
//! some lines that are older than the promised time and a day, which is for clocks that were set
//! back.

use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{MARGIN, PAST_KEPT};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;

use super::WriteBatch;

/// A write deletes at most this many lines more than it adds.
const EXPIRING: i64 = 1000;

impl WriteBatch<'_> {
    /// Logs the state of a record that is about to be changed or removed.
    pub(super) fn log_state(&mut self, record: i64, body: &[u8]) -> Result<(), Problem> {
        let body = RecordBody::new(body).digested().map_err(|_| Problem::Corrupt)?;
        self.rows.insert_change(record, self.now, &body)?;
        self.logged += 1;
        Ok(())
    }

    /// Deletes some lines that are too old.
    ///
    /// A clock that is later set back far may delete lines too early. The log then lacks changes
    /// since sync tokens of these days, so another history begins, which makes the tokens invalid.
    pub(super) fn expire_states(&self) -> Result<(), Problem> {
        let newest = self.now.0.saturating_sub(PAST_KEPT);
        let oldest = Instant(newest.saturating_sub(MARGIN));
        self.rows.note_forgotten(oldest, Instant(newest))?;
        self.rows.delete_changes(oldest, EXPIRING.saturating_add(self.logged))
    }
}
