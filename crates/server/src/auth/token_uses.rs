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

/// Returns when a token of each authorization was last used. A code or a refresh token that a
/// client redeems is no use: the client saw and did nothing by it. `of_tokens` has the
/// authorization of each token.
pub fn last_uses(
    of_tokens: &HashMap<String, String>,
    uses: &HashMap<String, i64>,
) -> HashMap<String, i64> {
    let mut last: HashMap<String, i64> = HashMap::new();
    for (jti, used) in uses {
        if let Some(authorization) = of_tokens.get(jti) {
            let known = last.entry(authorization.clone()).or_insert(*used);
            *known = (*known).max(*used);
        }
    }
    last
}

/// The uses of the tokens of one state.
#[derive(Debug)]
pub struct TokenUses {
    tokens: Arc<TokenStore>,
    collected: Mutex<Collected>,
}

/// The uses since the last write.
#[derive(Debug, Default)]
struct Collected {
    uses: HashMap<Box<str>, i64>,
    /// Whether a task waits to write them.
    will_be_written: bool,
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
        match collected.uses.get_mut(jti) {
            Some(used) => *used = now,
            None => drop(collected.uses.insert(jti.into(), now)),
        }
        if collected.will_be_written {
            return;
        }
        // Without a runtime, the uses are written after the next use, or when this is dropped.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            collected.will_be_written = true;
            drop(collected);
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
        for (jti, used) in &self.lock().uses {
            uses.insert(jti.to_string(), *used);
        }
        Ok(uses)
    }

    /// Writes the collected uses. Uses that cannot be written are lost, and nothing else.
    pub fn write(&self) {
        let Collected { uses, .. } = std::mem::take(&mut *self.lock());
        if uses.is_empty() {
            return;
        }
        let uses = uses.iter().map(|(jti, used)| (&**jti, *used));
        if let Err(error) = self.tokens.record_uses(uses) {
            tracing::warn!(target: "stile::auth", %error, "the use of tokens was not recorded");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
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
        assert!(uses.lock().uses.is_empty());
    }

    /// `stile stdio` notes a first use before it starts its runtime.
    #[test]
    fn what_was_noted_before_there_was_a_runtime_is_written_after_the_next_use() {
        let (_folder, tokens) = store();
        let uses = TokenUses::new(Arc::clone(&tokens));
        uses.note("a", 1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            uses.note("a", 7);
            tokio::time::sleep(COLLECTED).await;
            while tokens.uses().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(tokens.uses().unwrap(), HashMap::from([("a".to_owned(), 7)]));
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
