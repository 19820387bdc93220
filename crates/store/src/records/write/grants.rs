//! Stores grants, and what happens to them.

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::WriteBatch;

impl WriteBatch<'_> {
    pub(in crate::records) fn insert_grant(&self, id: &str, json: &str) -> Result<(), Problem> {
        self.rows.insert_grant(id, json)
    }

    pub(in crate::records) fn bind_grant(&self, id: &str, token: &str) -> Result<(), Problem> {
        self.rows.bind_grant(id, token)
    }

    pub(in crate::records) fn revoke_grant(
        &self,
        id: &str,
        now: Instant,
    ) -> Result<Option<Option<Instant>>, Problem> {
        self.rows.revoke_grant(id, now)
    }
}
