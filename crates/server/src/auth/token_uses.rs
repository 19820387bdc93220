//! Notes when tokens are used, without a write for each call.
//!
//! A use is kept in memory. The uses of half a minute are written together, and so is the rest when
//! the server stops. A power cut loses at most those. The database is busy with this a few
//! milliseconds in half a minute, and not at all while nobody calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stile_store::state::{StateError, TokenStore};

/// How long uses are collected before they are written.
const COLLECTED: Duration = Duration::from_secs(30);

/// The uses of the tokens of one state.
#[derive(Debug)]
pub struct TokenUses {
    tokens: Arc<TokenStore>,
    collected: Mutex<HashMap<Box<str>, i64>>,
}

impl TokenUses {
    /// Collects the uses of tokens in `tokens`.
    pub fn new(tokens: Arc<TokenStore>) -> Arc<Self> {
        Arc::new(Self { tokens, collected: Mutex::default() })
    }

    /// Notes that a token was used at `now`, in UTC seconds since 1970. The token must be one that
    /// was minted here, so that the uses are as few as the tokens.
    pub(super) fn note(self: &Arc<Self>, jti: &str, now: i64) {
        let mut collected = self.lock();
        if let Some(used) = collected.get_mut(jti) {
            *used = now;
            return;
        }
        let is_first = collected.is_empty();
        collected.insert(jti.into(), now);
        drop(collected);
        // Without a runtime, the uses are written when this is dropped.
        if is_first && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let uses = Arc::downgrade(self);
            runtime.spawn(async move {
                tokio::time::sleep(COLLECTED).await;
                let Some(uses) = uses.upgrade() else { return };
                let _ = tokio::task::spawn_blocking(move || uses.write()).await;
            });
        }
    }

    /// Returns when each token was last used, in UTC seconds since 1970.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn all(&self) -> Result<HashMap<String, i64>, StateError> {
        let mut uses = self.tokens.uses()?;
        for (jti, used) in &*self.lock() {
            uses.insert(jti.to_string(), *used);
        }
        Ok(uses)
    }

    /// Writes the collected uses. Uses that cannot be written are lost, and nothing else.
    pub(super) fn write(&self) {
        let collected = std::mem::take(&mut *self.lock());
        if collected.is_empty() {
            return;
        }
        let uses = collected.iter().map(|(jti, used)| (&**jti, *used));
        if let Err(error) = self.tokens.record_uses(uses) {
            tracing::warn!(target: "stile::auth", %error, "the use of tokens was not recorded");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, i64>> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TokenUses {
    fn drop(&mut self) {
        self.write();
    }
}

#[cfg(test)]
mod tests {
    use stile_store::state::{StateDir, TokenKind, TokenRecord};

    use super::*;

    fn store() -> (tempfile::TempDir, Arc<TokenStore>) {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        for jti in ["a", "b"] {
            let token = TokenRecord {
                jti: jti.to_owned(),
                audience: None,
                kind: TokenKind::Bearer,
                subject: "ann".to_owned(),
                client: None,
                grant: None,
                owner: false,
                scopes: String::new(),
                issued: 1,
                expires: 2,
                revoked: None,
            };
            store.record(&token).unwrap();
        }
        (folder, Arc::new(store))
    }

    #[tokio::test(start_paused = true)]
    async fn the_uses_of_half_a_minute_are_written_together() {
        let (_folder, tokens) = store();
        let uses = TokenUses::new(Arc::clone(&tokens));
        for now in 0..1000 {
            uses.note("a", now);
            uses.note("b", now / 2);
        }
        assert_eq!(tokens.uses().unwrap(), HashMap::new());
        let expected = HashMap::from([("a".to_owned(), 999), ("b".to_owned(), 499)]);
        assert_eq!(uses.all().unwrap(), expected);
        tokio::time::sleep(COLLECTED).await;
        while tokens.uses().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(tokens.uses().unwrap(), expected);
        assert!(uses.lock().is_empty());
    }

    #[test]
    fn what_is_not_written_yet_is_written_at_the_end() {
        let (_folder, tokens) = store();
        let uses = TokenUses::new(Arc::clone(&tokens));
        uses.note("a", 7);
        drop(uses);
        assert_eq!(tokens.uses().unwrap(), HashMap::from([("a".to_owned(), 7)]));
    }
}
