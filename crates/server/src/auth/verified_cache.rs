//! Tokens that were verified a moment ago.
//!
//! A client sends the same token with every request, and verifying its signature is a good part of
//! the cost of a small call. So the caller is kept under the token's digest. An entry holds only
//! while the very set of keys that verified the token is in use: after each fetch of the keys the
//! token is verified again. The times of the token are checked on every use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest::{SHA256, digest};

use super::claims::{Validity, VerifiedCaller};
use super::key_set::KeySet;

/// The most tokens that are kept. Each entry takes a few kilobytes at most, because a token has at
/// most eight.
const MAX_ENTRIES: usize = 1_024;

/// Callers by the digest of their token. Whoever gets to see the digest cannot use it as a token.
#[derive(Default)]
pub(super) struct VerifiedCache(Mutex<HashMap<[u8; 32], Entry>>);

struct Entry {
    set: Arc<KeySet>,
    validity: Validity,
    caller: VerifiedCaller,
}

impl Entry {
    fn holds(&self, set: &Arc<KeySet>, now: i64) -> bool {
        Arc::ptr_eq(&self.set, set) && self.validity.check(now).is_ok()
    }
}

impl VerifiedCache {
    /// Returns the bearer of a token that `set` verified and that is valid at `now`.
    pub(super) fn get(&self, token: &str, set: &Arc<KeySet>, now: i64) -> Option<VerifiedCaller> {
        let entries = self.lock();
        let entry = entries.get(&key(token)?)?;
        entry.holds(set, now).then(|| entry.caller.clone())
    }

    /// Keeps the bearer of a token that `set` verified.
    pub(super) fn insert(
        &self,
        token: &str,
        set: Arc<KeySet>,
        validity: Validity,
        caller: &VerifiedCaller,
        now: i64,
    ) {
        let Some(key) = key(token) else { return };
        let mut entries = self.lock();
        if entries.len() >= MAX_ENTRIES {
            entries.retain(|_, entry| entry.holds(&set, now));
        }
        if entries.len() >= MAX_ENTRIES {
            // With more callers than entries, every token is verified again, as without the cache.
            entries.clear();
        }
        entries.insert(key, Entry { set, validity, caller: caller.clone() });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(token: &str) -> Option<[u8; 32]> {
    digest(&SHA256, token.as_bytes()).as_ref().try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use stile_domain::permit::Principal;
    use stile_domain::records::authority::RecordsClaim;
    use stile_domain::role::Role;
    use stile_domain::scope::Scopes;

    use super::super::claims::{IdentityClaims, VaultClaim};
    use super::*;

    const VALIDITY: Validity = Validity { issued: Some(100), not_before: None, expires: 200 };

    fn caller() -> VerifiedCaller {
        let identity = IdentityClaims {
            issuer: None,
            actor: "ann".into(),
            vault: VaultClaim::None,
            role: Role::Viewer,
            audiences: Vec::new(),
        };
        let principal =
            Principal::assert_verified("ann", None, None, Scopes::none(), RecordsClaim::None);
        VerifiedCaller { principal, identity, expires: SystemTime::UNIX_EPOCH }
    }

    #[test]
    fn a_token_is_remembered_for_its_key_set_and_while_it_is_valid() {
        let (cache, set) = (VerifiedCache::default(), Arc::new(KeySet::none()));
        assert!(cache.get("t", &set, 150).is_none());
        cache.insert("t", Arc::clone(&set), VALIDITY, &caller(), 150);
        assert!(cache.get("t", &set, 150).is_some());
        assert!(cache.get("u", &set, 150).is_none());
        for (now, holds) in [(94, false), (95, true), (204, true), (205, false)] {
            assert_eq!(cache.get("t", &set, now).is_some(), holds, "{now}");
        }
        let equal = Arc::new(KeySet::none());
        assert!(cache.get("t", &equal, 150).is_none(), "an equal set is another set");
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let (cache, set) = (VerifiedCache::default(), Arc::new(KeySet::none()));
        for number in 0..3 * MAX_ENTRIES {
            cache.insert(&number.to_string(), Arc::clone(&set), VALIDITY, &caller(), 150);
            assert!(cache.lock().len() <= MAX_ENTRIES);
        }
        assert!(cache.get(&(3 * MAX_ENTRIES - 1).to_string(), &set, 150).is_some());
    }
}
