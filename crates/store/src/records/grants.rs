//! Stored grants, and what a grant allows at this moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use stile_domain::records::authority::RecordsCaller;
use stile_domain::records::grant::Grant;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;

use super::engine::Engine;
use super::model::GrantRow;
use super::port::Snapshot;

/// A stored grant and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRecord {
    /// The identifier of the grant.
    pub id: String,
    /// What the grant allows. `None` if the stored text is damaged.
    pub grant: Option<Grant>,
    /// When the owner revoked the grant.
    pub revoked: Option<Instant>,
    /// The token that the grant is bound to, if it is for a single token and was used.
    pub bound: Option<String>,
}

/// The state of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantStatus {
    /// The grant counts.
    Active,
    /// The time of the grant has passed.
    Expired,
    /// The owner revoked the grant.
    Revoked,
    /// The stored text is damaged.
    Invalid,
}

impl GrantRecord {
    /// Returns the state of the grant at the time `now`.
    pub fn status(&self, now: Instant) -> GrantStatus {
        match &self.grant {
            _ if self.revoked.is_some() => GrantStatus::Revoked,
            None => GrantStatus::Invalid,
            Some(grant) if grant.expires.is_some_and(|end| end <= now) => GrantStatus::Expired,
            Some(_) => GrantStatus::Active,
        }
    }

    pub(super) fn parse(row: GrantRow) -> Self {
        let GrantRow { id, json, revoked, bound } = row;
        Self { id, grant: Grant::parse(&json).ok(), revoked, bound }
    }
}

/// Grants by their identifiers, each with the text that it was parsed from.
#[derive(Default)]
pub(super) struct GrantCache(Mutex<HashMap<String, (String, Arc<Grant>)>>);

impl GrantCache {
    fn parse(&self, id: &str, json: &str) -> Result<Arc<Grant>, Problem> {
        /// More grants than an owner has at once. A cache with more is emptied.
        const MAX_GRANTS: usize = 1000;
        let mut parsed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((text, grant)) = parsed.get(id)
            && text == json
        {
            return Ok(Arc::clone(grant));
        }
        let grant = Arc::new(Grant::parse(json).map_err(|_| Problem::GrantInvalid)?);
        if parsed.len() >= MAX_GRANTS {
            parsed.clear();
        }
        parsed.insert(id.to_owned(), (json.to_owned(), Arc::clone(&grant)));
        Ok(grant)
    }
}

/// What a caller may see.
pub(super) enum Authority {
    /// All records.
    Owner,
    /// The records that a grant names.
    Client { id: String, grant: Arc<Grant> },
}

/// Whether a caller may read now.
pub(super) enum Access {
    Granted(Authority),
    /// The grant is for a single token and must first be bound to the caller's.
    Unbound,
}

/// Looks up what a caller may see at this moment.
pub(super) fn access(
    snapshot: &dyn Snapshot,
    caller: RecordsCaller<'_>,
    now: Instant,
    cache: &GrantCache,
) -> Result<Access, Problem> {
    let RecordsCaller::Client { grant: id, token } = caller else {
        return Ok(Access::Granted(Authority::Owner));
    };
    // A token may outlive the database that had its grant.
    let row = snapshot.grant(id)?.ok_or(Problem::GrantInvalid)?;
    if row.revoked.is_some() {
        return Err(Problem::GrantRevoked);
    }
    let grant = cache.parse(id, &row.json)?;
    if grant.expires.is_some_and(|end| end <= now) {
        return Err(Problem::GrantExpired);
    }
    match row.bound.as_deref() {
        None if grant.single_use => return Ok(Access::Unbound),
        Some(bound) if grant.single_use && bound != token => return Err(Problem::GrantConsumed),
        _ => {}
    }
    Ok(Access::Granted(Authority::Client { id: id.to_owned(), grant }))
}

/// Binds a grant to the caller's token, unless another token was faster. The next lookup of the
/// grant refuses the slower one.
pub(super) fn bind(
    engine: &Engine,
    caller: RecordsCaller<'_>,
    now: Instant,
) -> Result<(), Problem> {
    match caller {
        RecordsCaller::Owner => Ok(()),
        RecordsCaller::Client { grant, token } => {
            engine.write(now, |batch| batch.bind_grant(grant, token))
        }
    }
}
