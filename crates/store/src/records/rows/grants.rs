//! The rows of grants.

use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::transaction::Rows;
use crate::records::model::GrantRow;
use crate::sql::{Row, statement, values};

/// Reads grants.
pub(in crate::records) trait GrantRows: Rows {
    /// Returns one grant.
    fn grant(&self, id: &str) -> Result<Option<GrantRow>, Problem> {
        let sql = statement!(
            "SELECT id, terms, revoked, bound FROM grants WHERE tenant = $1 AND id = $2"
        );
        self.door().first(sql, values![id], grant_row)
    }

    /// Returns all grants, ordered by identifier.
    fn grants(&self) -> Result<Vec<GrantRow>, Problem> {
        let sql = statement!(
            "SELECT id, terms, revoked, bound FROM grants WHERE tenant = $1 ORDER BY id"
        );
        self.door().all(sql, &[], grant_row)
    }
}

/// Writes grants.
pub(in crate::records) trait WriteGrantRows: GrantRows {
    /// Inserts a grant.
    fn insert_grant(&self, id: &str, json: &str) -> Result<(), Problem> {
        let sql = statement!("INSERT INTO grants (tenant, id, terms) VALUES ($1, $2, $3)");
        self.door().execute(sql, values![id, json]).map(drop)
    }

    /// Binds a grant to a token, unless it is bound.
    fn bind_grant(&self, id: &str, token: &str) -> Result<(), Problem> {
        let sql = statement!(
            "UPDATE grants SET bound = $3 WHERE tenant = $1 AND id = $2 AND bound IS NULL"
        );
        self.door().execute(sql, values![id, token]).map(drop)
    }

    /// Revokes a grant. Returns `None` for an unknown one, and the time of an earlier revocation.
    fn revoke_grant(&self, id: &str, now: Instant) -> Result<Option<Option<Instant>>, Problem> {
        let before = self.grant(id)?.map(|grant| grant.revoked);
        let sql = statement!(
            "UPDATE grants SET revoked = $3 WHERE tenant = $1 AND id = $2 AND revoked IS NULL"
        );
        self.door().execute(sql, values![id, now.0])?;
        Ok(before)
    }
}

impl<R: Rows> GrantRows for R {}
impl<R: Rows> WriteGrantRows for R {}

fn grant_row(row: &Row<'_>) -> Result<GrantRow, Problem> {
    Ok(GrantRow {
        id: row.get(0)?,
        json: row.get(1)?,
        revoked: row.get::<Option<i64>>(2)?.map(Instant),
        bound: row.get(3)?,
    })
}
