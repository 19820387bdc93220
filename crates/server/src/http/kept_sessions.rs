//! The sessions that outlive the process, in the state.
//!
//! A request that names a session looks it up here, as it looks up its token. The use of a session
//! is written once a minute at most, together with that of others, so a request waits for no disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::permit::Principal;
use stile_store::state::{ClientSession, OpenedSession, StateError, TokenStore};

use super::rate_limit::RateLimit;
use crate::clock::{unix_seconds, wall_clock};

/// How long uses are collected before they are written.
const COLLECTED: Duration = Duration::from_secs(60);
/// The sessions of one subject that are kept in a second, over time and at once. Each is a write
/// that the lookups of all tokens wait for. A subject that opens more gets sessions in memory only.
const KEPT_RATE: (u32, u32) = (2, 128);
/// The most characters of a client's name that are kept.
const MAX_NAME_CHARS: usize = 128;

/// A session that was opened just now.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The identifier of the session.
    pub id: String,
    /// The caller who opened it.
    pub principal: Principal,
    /// The revision of the protocol.
    pub revision: String,
    /// The name of the client.
    pub client: String,
}

/// Whether a session was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The session is in the state. Sessions of the subject that made room have ended.
    Kept { dropped: Vec<String> },
    /// The session ends with the process.
    InMemoryOnly,
}

/// The sessions in the state.
pub struct KeptSessions {
    tokens: Arc<TokenStore>,
    rate: RateLimit,
    /// When sessions were last used, in UTC seconds, since the last write.
    collected: Mutex<HashMap<String, i64>>,
}

impl KeptSessions {
    /// Keeps sessions in `tokens`.
    pub fn new(tokens: Arc<TokenStore>) -> Arc<Self> {
        let rate = RateLimit::new(KEPT_RATE.0, KEPT_RATE.1);
        Arc::new(Self { tokens, rate, collected: Mutex::default() })
    }

    /// Keeps a session of `owner`, ends `ended`, and drops those of the subject that exceed `most`.
    pub(super) async fn keep(
        self: &Arc<Self>,
        new: NewSession,
        owner: String,
        ended: Vec<String>,
        most: usize,
    ) -> Kept {
        let is_shared = self.tokens.is_shared();
        if !is_shared && self.rate.take(new.principal.subject(), Instant::now()).is_err() {
            return Kept::InMemoryOnly;
        }
        let kept = Arc::clone(self);
        let written =
            tokio::task::spawn_blocking(move || kept.write_new(&new, owner, &ended, most)).await;
        match written {
            Ok(Ok(dropped)) => Kept::Kept { dropped },
            Ok(Err(error)) => {
                tracing::warn!(target: "stile::http", %error, "a session is not kept");
                Kept::InMemoryOnly
            }
            Err(_) => Kept::InMemoryOnly,
        }
    }

    fn write_new(
        &self,
        new: &NewSession,
        owner: String,
        ended: &[String],
        most: usize,
    ) -> Result<Vec<String>, StateError> {
        let now = unix_seconds(wall_clock());
        let session = ClientSession {
            origin: self.origin(&new.principal)?,
            owner,
            revision: new.revision.clone(),
            client: new.client.chars().take(MAX_NAME_CHARS).collect(),
        };
        let uses: Vec<_> = std::mem::take(&mut *self.lock()).into_iter().collect();
        let opened = OpenedSession {
            id: &new.id,
            subject: new.principal.subject(),
            session: &session,
            ended,
            uses: &uses,
            most,
        };
        self.tokens.keep_client_session(opened, now)
    }

    /// Returns what the session of a caller ends with.
    fn origin(&self, principal: &Principal) -> Result<String, StateError> {
        let Some(token) = principal.token() else { return Ok(String::new()) };
        let authorization = self.tokens.authorization_of_token(token)?;
        Ok(authorization.map_or_else(|| token.to_owned(), |authorization| authorization.id))
    }

    /// Returns a caller's session, which then counts as used; `None` if the caller has no such
    /// session.
    ///
    /// # Errors
    /// [`StateError`] if the state cannot say.
    pub(super) fn enter(
        self: &Arc<Self>,
        id: &str,
        owner: &str,
    ) -> Result<Option<ClientSession>, StateError> {
        let now = unix_seconds(wall_clock());
        let found = self.tokens.client_session(id, now)?;
        let Some((session, used)) = found.filter(|(session, _)| session.owner == owner) else {
            return Ok(None);
        };
        if now.saturating_sub(used) >= COLLECTED.as_secs() as i64 {
            self.note(id, now);
        }
        Ok(Some(session))
    }

    /// Returns whether a session has not ended, as far as the state can say.
    pub(super) fn has(&self, id: &str) -> bool {
        !matches!(self.tokens.client_session(id, unix_seconds(wall_clock())), Ok(None))
    }

    /// Ends a session, durably.
    pub(super) async fn end(self: &Arc<Self>, id: &str) {
        self.lock().remove(id);
        let (kept, id) = (Arc::clone(self), id.to_owned());
        let ended = tokio::task::spawn_blocking(move || kept.tokens.end_client_session(&id)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(target: "stile::http", %error, "a session was not ended in the state");
        }
    }

    /// Returns the revision and the client of a session.
    pub(crate) async fn find(
        self: &Arc<Self>,
        id: &str,
    ) -> Result<Option<ClientSession>, StateError> {
        let (kept, id) = (Arc::clone(self), id.to_owned());
        let now = unix_seconds(wall_clock());
        let found = tokio::task::spawn_blocking(move || kept.tokens.client_session(&id, now)).await;
        Ok(found.unwrap_or(Ok(None))?.map(|(session, _)| session))
    }

    fn note(self: &Arc<Self>, id: &str, now: i64) {
        let mut collected = self.lock();
        let is_first = collected.is_empty();
        collected.insert(id.to_owned(), now);
        drop(collected);
        // Without a runtime, the uses are written when this is dropped.
        if is_first && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let kept = Arc::downgrade(self);
            runtime.spawn(async move {
                tokio::time::sleep(COLLECTED).await;
                let Some(kept) = kept.upgrade() else { return };
                let _ = tokio::task::spawn_blocking(move || kept.write_uses()).await;
            });
        }
    }

    /// Writes the collected uses. Uses that cannot be written are lost, and nothing else.
    fn write_uses(&self) {
        let uses: Vec<_> = std::mem::take(&mut *self.lock()).into_iter().collect();
        if uses.is_empty() {
            return;
        }
        let written = self.tokens.record_session_uses(&uses, unix_seconds(wall_clock()));
        if let Err(error) = written {
            tracing::warn!(target: "stile::http", %error, "the use of sessions was not recorded");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for KeptSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptSessions").finish_non_exhaustive()
    }
}

impl Drop for KeptSessions {
    fn drop(&mut self) {
        self.write_uses();
    }
}
