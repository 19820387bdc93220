//! Notes when tokens are used, and what their clients call themselves, without a write for each
//! call.
//!
//! The first use of a token since the start is written at once, so that the owner's lists have it
//! even if the process is killed. Later uses are kept in memory: those of half a minute are written
//! together, and so is the rest when the server stops. The database is busy with this a few
//! milliseconds in half a minute, and not at all while nobody calls.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stile_store::state::{StateError, TokenStore};

/// How long uses are collected before they are written.
const COLLECTED: Duration = Duration::from_secs(30);
/// The most characters of a client's name that are kept.
pub(crate) const MAX_NAME_CHARS: usize = 128;

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
    /// What the client of each token called itself last, since the start.
    names: HashMap<Box<str>, OwnName>,
    /// The tokens that were used since the start.
    known: HashSet<Box<str>>,
    /// Whether a task waits to write the uses.
    will_be_written: bool,
    /// Whether a write has been asked for that has not begun.
    is_due: bool,
}

/// What a client calls itself.
#[derive(Debug)]
struct OwnName {
    name: String,
    is_written: bool,
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
        if !collected.known.contains(jti) {
            collected.known.insert(jti.into());
            return self.write_soon(collected);
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

    /// Notes what the client of a token calls itself, where the token names no client. The first
    /// name is written at once, so that the owner's lists have it, and another one with the uses.
    pub(super) fn note_name(self: &Arc<Self>, jti: &str, name: &str) {
        let mut collected = self.lock();
        let known = collected.names.get(jti);
        if known.is_some_and(|known| known.name.chars().eq(name.chars().take(MAX_NAME_CHARS))) {
            return;
        }
        let is_first = known.is_none();
        let name = name.chars().take(MAX_NAME_CHARS).collect();
        collected.names.insert(jti.into(), OwnName { name, is_written: false });
        if is_first {
            self.write_soon(collected);
        }
    }

    /// Writes everything on another thread, unless that has been asked for and has not begun.
    /// Without a runtime, all is written with the next uses, or when this is dropped.
    fn write_soon(self: &Arc<Self>, mut collected: MutexGuard<'_, Collected>) {
        if !collected.is_due
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            collected.is_due = true;
            drop(collected);
            let uses = Arc::clone(self);
            runtime.spawn_blocking(move || uses.write());
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

    /// Writes the collected uses and names. If they cannot be written, uses wait for the next write
    /// and names are lost, and nothing else is.
    pub fn write(&self) {
        let mut collected = self.lock();
        // They stay here until they are written, so that `all` finds each use at any moment.
        let uses = collected.uses.clone();
        (collected.will_be_written, collected.is_due) = (false, false);
        let new = collected.names.iter_mut().filter(|(_, name)| !name.is_written);
        let names = new.map(|(jti, known)| {
            known.is_written = true;
            (jti.to_string(), known.name.clone())
        });
        let names: Vec<(String, String)> = names.collect();
        drop(collected);
        if !uses.is_empty() {
            match self.tokens.record_uses(uses.iter().map(|(jti, used)| (&**jti, *used))) {
                Ok(()) => self.lock().uses.retain(|jti, used| uses.get(jti) != Some(used)),
                Err(error) => {
                    error.log("the use of tokens was not recorded");
                }
            }
        }
        if !names.is_empty()
            && let Err(error) = self.tokens.record_self_given_names(&names)
        {
            error.log("names of clients were not recorded");
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
    async fn the_first_use_is_written_at_once_and_those_of_half_a_minute_together() {
        let (_folder, tokens) = store();
        let uses = TokenUses::new(Arc::clone(&tokens));
        uses.note("a", -2);
        uses.note("b", -1);
        let first = HashMap::from([("a".to_owned(), -2), ("b".to_owned(), -1)]);
        while tokens.uses().unwrap() != first {
            tokio::task::yield_now().await;
        }
        for now in 0..1000 {
            uses.note("a", now);
            uses.note("b", now / 2);
        }
        assert_eq!(tokens.uses().unwrap(), first);
        let expected = HashMap::from([("a".to_owned(), 999), ("b".to_owned(), 499)]);
        assert_eq!(uses.all().unwrap(), expected);
        tokio::time::sleep(COLLECTED).await;
        while tokens.uses().unwrap() == first {
            tokio::task::yield_now().await;
        }
        assert_eq!(tokens.uses().unwrap(), expected);
        while !uses.lock().uses.is_empty() {
            tokio::task::yield_now().await;
        }
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
