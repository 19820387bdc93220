//! Tokens that were verified a moment ago.
//!
//! A client sends the same token with every request, and verifying its signature is a good part of
//! what a small call costs. So what came of it is kept, under the token's digest, and holds only as
//! long as the very set of keys that verified it is in use: whatever is fetched anew is asked anew.
//! When it begins and ends is looked at each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest::{SHA256, digest};

use super::VerifiedCaller;
use super::compact::LEEWAY;
use super::key_set::KeySet;

/// Tokens that are remembered; a few kilobytes each at most, since a token has at most eight.
const MOST: usize = 1_024;

/// What came of tokens.
#[derive(Default)]
pub(super) struct VerifiedCache(Mutex<HashMap<[u8; 32], Entry>>);

struct Entry {
    set: Arc<KeySet>,
    lasts: Lasts,
    verified: VerifiedCaller,
}

/// From when until when a token holds, in UTC seconds, without leeway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lasts {
    pub(super) from: i64,
    pub(super) until: i64,
}

impl Lasts {
    fn holds(self, now: i64) -> bool {
        self.from <= now.saturating_add(LEEWAY) && now < self.until.saturating_add(LEEWAY)
    }
}

impl VerifiedCache {
    /// What came of a token, if `set` verified it and it holds at `now`.
    pub(super) fn recall(
        &self,
        token: &str,
        set: &Arc<KeySet>,
        now: i64,
    ) -> Option<VerifiedCaller> {
        let entries = self.lock();
        let entry = entries.get(&name(token)?)?;
        (Arc::ptr_eq(&entry.set, set) && entry.lasts.holds(now)).then(|| entry.verified.clone())
    }

    /// Keeps what came of a token.
    pub(super) fn keep(
        &self,
        token: &str,
        set: Arc<KeySet>,
        lasts: Lasts,
        verified: &VerifiedCaller,
        now: i64,
    ) {
        let Some(name) = name(token) else { return };
        let mut entries = self.lock();
        if entries.len() >= MOST {
            entries.retain(|_, entry| Arc::ptr_eq(&entry.set, &set) && entry.lasts.holds(now));
        }
        if entries.len() >= MOST {
            // More callers than are remembered: all are verified again, which is what would happen
            // without this.
            entries.clear();
        }
        entries.insert(name, Entry { set, lasts, verified: verified.clone() });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A digest and not the token, so that nothing here could be used by whoever gets to see it.
fn name(token: &str) -> Option<[u8; 32]> {
    digest(&SHA256, token.as_bytes()).as_ref().try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use stile_domain::permit::Principal;
    use stile_domain::records::authority::RecordsClaim;
    use stile_domain::role::Role;
    use stile_domain::scope::Scopes;

    use super::super::{IdentityClaims, VaultClaim};
    use super::*;

    fn verified() -> VerifiedCaller {
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
    fn a_token_is_recalled_for_the_set_that_verified_it_and_while_it_holds() {
        let (remembered, set, lasts) =
            (VerifiedCache::default(), Arc::new(KeySet::none()), Lasts { from: 100, until: 200 });
        assert!(remembered.recall("t", &set, 150).is_none());
        remembered.keep("t", Arc::clone(&set), lasts, &verified(), 150);
        assert!(remembered.recall("t", &set, 150).is_some());
        assert!(remembered.recall("u", &set, 150).is_none());
        for (now, holds) in [(94, false), (95, true), (204, true), (205, false)] {
            assert_eq!(remembered.recall("t", &set, now).is_some(), holds, "{now}");
        }
        assert!(
            remembered.recall("t", &Arc::new(KeySet::none()), 150).is_none(),
            "an equal set is another"
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (remembered, set, lasts) =
            (VerifiedCache::default(), Arc::new(KeySet::none()), Lasts { from: 100, until: 200 });
        for number in 0..3 * MOST {
            remembered.keep(&number.to_string(), Arc::clone(&set), lasts, &verified(), 150);
            assert!(remembered.lock().len() <= MOST);
        }
        assert!(remembered.recall(&(3 * MOST - 1).to_string(), &set, 150).is_some());
    }
}
