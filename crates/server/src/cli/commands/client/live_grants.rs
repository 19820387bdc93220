//! Whether what a client was allowed still allows something.

use std::collections::HashSet;

use stile_domain::scope::Scopes;
use stile_store::records::GrantStatus;

use crate::cli::compose::{Home, Owner, owner};
use crate::cli::failure::Failure;
use crate::config::Environment;

/// The grants on records that count now.
pub(super) struct Grants {
    /// `None` where each person has grants of their own: all of them are shown.
    active: Option<HashSet<String>>,
}

impl Grants {
    /// Returns the grants of the person whom the command is about.
    pub(super) fn of(home: &Home, environment: Environment<'_>) -> Result<Self, Failure> {
        if !home.has_records() {
            return Ok(Self { active: Some(HashSet::new()) });
        }
        if home.check_named().is_err() {
            return Ok(Self { active: None });
        }
        let records = home.records(crate::clock::now())?;
        let Owner { services, caller, now } = owner::of_records(records, environment);
        let all = services.grants(&caller)?.into_iter();
        let active = all.filter(|grant| grant.status(now) == GrantStatus::Active);
        Ok(Self { active: Some(active.map(|grant| grant.id).collect()) })
    }

    /// Returns the grant if it counts.
    pub(super) fn active(&self, grant: Option<String>) -> Option<String> {
        grant.filter(|grant| self.active.as_ref().is_none_or(|active| active.contains(grant)))
    }
}

/// Returns whether scopes allow something with files.
pub(super) fn allow_something(scopes: &str) -> bool {
    Scopes::from_claim(scopes).iter().any(|scope| scope.verb().is_right())
}
