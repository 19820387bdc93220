//! Grants as they are kept, and what one allows at this moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use stile_domain::records::authority::{OwnerPermit, RecordsCaller};
use stile_domain::records::grant::{BadGrant, Grant};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::sqlite::{GrantRow, Snapshot, Sqlite};
use super::view::Authority;
use super::{Engine, Records, parsed_grants};

/// A grant, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRecord {
    /// Its identifier.
    pub id: String,
    /// What it allows; none where what is stored is damaged.
    pub grant: Option<Grant>,
    /// When it was revoked.
    pub revoked: Option<Instant>,
    /// The token that it is bound to, if it is for one alone and was used.
    pub bound: Option<String>,
}

/// What became of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantStatus {
    /// It counts.
    Active,
    /// It ended by itself.
    Expired,
    /// The owner ended it.
    Revoked,
    /// It is damaged.
    Invalid,
}

impl GrantRecord {
    /// What became of it.
    pub fn status(&self, now: Instant) -> GrantStatus {
        match &self.grant {
            _ if self.revoked.is_some() => GrantStatus::Revoked,
            None => GrantStatus::Invalid,
            Some(grant) if grant.expires.is_some_and(|end| end <= now) => GrantStatus::Expired,
            Some(_) => GrantStatus::Active,
        }
    }

    fn read(row: GrantRow) -> Self {
        let GrantRow { id, terms, revoked, bound } = row;
        Self { id, grant: Grant::parse(&terms).ok(), revoked, bound }
    }
}

impl Records {
    /// Keeps a new grant, durably, and names it.
    ///
    /// # Errors
    /// [`BadGrant`] within where it says less than a grant must.
    pub fn grant(
        &self,
        _permit: &OwnerPermit,
        grant: &Grant,
    ) -> Result<Result<String, BadGrant>, Problem> {
        let terms = match grant.to_json() {
            Ok(terms) => terms,
            Err(bad) => return Ok(Err(bad)),
        };
        let id = format!("grt_{}", uuid::Uuid::new_v4().simple());
        let Engine::Sqlite(sqlite) = &self.inner.engine;
        sqlite.write(super::now(), |batch| batch.insert_grant(&id, &terms))?;
        Ok(Ok(id))
    }

    /// Every grant there is, in the order in which they were made.
    ///
    /// # Errors
    /// What the database says.
    pub fn grants(&self, _permit: &OwnerPermit) -> Result<Vec<GrantRecord>, Problem> {
        let Engine::Sqlite(sqlite) = &self.inner.engine;
        let mut grants: Vec<GrantRecord> = sqlite
            .read(|snapshot, _| snapshot.grants())?
            .into_iter()
            .map(GrantRecord::read)
            .collect();
        grants.sort_by_key(|grant| grant.grant.as_ref().map(|grant| grant.issued));
        Ok(grants)
    }

    /// Revokes a grant, durably: it counts no more from the next request on. Says when it was
    /// revoked before, and none where there is no such grant.
    ///
    /// # Errors
    /// What the database says.
    pub fn revoke(
        &self,
        _permit: &OwnerPermit,
        id: &str,
        now: Instant,
    ) -> Result<Option<Option<Instant>>, Problem> {
        let Engine::Sqlite(sqlite) = &self.inner.engine;
        sqlite.write(now, |batch| batch.revoke_grant(id, now))
    }
}

/// What a caller may see, or that they must be bound to their grant first.
pub(super) enum Standing {
    /// What they may see.
    Settled(Authority),
    /// The grant is for one token, and none was presented yet.
    Unbound,
}

/// What a caller may see at this moment.
pub(super) fn standing(
    snapshot: &Snapshot<'_>,
    who: RecordsCaller<'_>,
    now: Instant,
    parsed: &Mutex<HashMap<String, (String, Arc<Grant>)>>,
) -> Result<Standing, Problem> {
    let RecordsCaller::Client { grant: id, token } = who else {
        return Ok(Standing::Settled(Authority::Owner));
    };
    // A token may outlive the database that its grant was in.
    let row = snapshot.grant(id)?.ok_or(Problem::GrantInvalid)?;
    if row.revoked.is_some() {
        return Err(Problem::GrantRevoked);
    }
    let grant = parsed_grants(parsed, id, &row.terms)?;
    if grant.expires.is_some_and(|end| end <= now) {
        return Err(Problem::GrantExpired);
    }
    match row.bound.as_deref() {
        None if grant.single_use => return Ok(Standing::Unbound),
        Some(bound) if grant.single_use && bound != token => return Err(Problem::GrantConsumed),
        _ => {}
    }
    Ok(Standing::Settled(Authority::Client { id: id.to_owned(), grant }))
}

/// Binds a grant to a token, if none is bound to it yet. Whoever comes second at the same moment is
/// told so when the grant is looked up again.
pub(super) fn bind(sqlite: &Sqlite, who: RecordsCaller<'_>, now: Instant) -> Result<(), Problem> {
    match who {
        RecordsCaller::Owner => Ok(()),
        RecordsCaller::Client { grant, token } => {
            sqlite.write(now, |batch| batch.bind_grant(grant, token))
        }
    }
}
