//! Whether what a client was allowed still allows something.

use std::collections::HashSet;

use stile_domain::scope::Scopes;
use stile_store::records::GrantStatus;

use crate::cli::compose::{Home, Owner, owner};
use crate::cli::failure::Failure;
use crate::config::Environment;

/// The grants on records that count now.
pub(super) struct Grants {
    active: HashSet<String>,
}

impl Grants {
    /// Returns the grants of the person whom the command is about, or of all people if it names
    /// none.
    pub(super) fn of(home: &Home, environment: Environment<'_>) -> Result<Self, Failure> {
        if !home.has_records() {
            return Ok(Self { active: HashSet::new() });
        }
        let now = crate::clock::now();
        let all_records = match home.check_named() {
            Ok(()) => vec![home.records(now)?],
            Err(_) => {
                let people = home.people_with_tokens()?.into_iter();
                people.map(|tenant| home.records_of(&tenant, now)).collect::<Result<_, _>>()?
            }
        };
        let mut active = HashSet::new();
        for records in all_records {
            let Owner { services, caller, now } = owner::of_records(records, environment);
            let all = services.grants(&caller)?.into_iter();
            let counting = all.filter(|grant| grant.status(now) == GrantStatus::Active);
            active.extend(counting.map(|grant| grant.id));
        }
        Ok(Self { active })
    }

    /// Returns the grant if it counts.
    pub(super) fn active(&self, grant: Option<String>) -> Option<String> {
        grant.filter(|grant| self.active.contains(grant))
    }
}

/// Returns whether scopes allow something with files.
pub(super) fn allow_something(scopes: &str) -> bool {
    Scopes::from_claim(scopes).iter().any(|scope| scope.verb().is_right())
}
