//! The sessions that outlive the process, in the state. One that a shared database does not take is
//! carried by its identifier, so that the other servers know it.
//!
//! A request that names a session looks it up here, as it looks up its token. The use of a session
//! is written once a minute at most, together with that of others, so a request waits for no disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::permit::Principal;
use stile_store::state::{ClientSession, OpenedSession, StateError, TokenStanding, TokenStore};

use super::carried_sessions::CarriedSessions;
use super::rate_limit::RateLimit;
use crate::auth::MAX_NAME_CHARS;
use crate::clock::{unix_seconds, wall_clock};

/// How long uses are collected before they are written.
const COLLECTED: Duration = Duration::from_secs(60);
/// The sessions of one subject that are kept in a second, over time and at once. Each is a write
/// that the lookups of all tokens wait for. A subject that opens more gets sessions in memory only,
/// which end with the process, and as all others with what they were opened with.
const KEPT_RATE: (u32, u32) = (2, 128);

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
    /// The session ends with the process, unless its client gets another identifier, which carries
    /// it.
    InMemoryOnly(BriefSession, Option<String>),
}

/// What a session that is in memory only ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BriefSession {
    /// The identifier of the authorization or the token that it was opened with.
    origin: String,
    /// What that allowed then; `None` if this server did not issue it.
    allowed: Option<TokenStanding>,
}

/// Whether a session that is in memory only has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The session is open.
    Open,
    /// The session ended because its rights were narrowed. It may be taken up again as this one.
    Narrowed(BriefSession),
    /// The session ended with what it was opened with.
    Ended,
}

/// The sessions in the state.
pub struct KeptSessions {
    tokens: Arc<TokenStore>,
    /// The sessions that are in their identifiers; `None` without other servers.
    carried: Option<CarriedSessions>,
    rate: RateLimit,
    /// When sessions were last used, in UTC seconds, since the last write.
    collected: Mutex<HashMap<String, i64>>,
}

impl KeptSessions {
    /// Keeps sessions in `tokens`. Those that the database does not take are carried by their
    /// identifiers, if there is a key for these.
    pub fn new(tokens: Arc<TokenStore>, carried: Option<CarriedSessions>) -> Arc<Self> {
        let rate = RateLimit::new(KEPT_RATE.0, KEPT_RATE.1);
        Arc::new(Self { tokens, carried, rate, collected: Mutex::default() })
    }

    /// Returns the identifier within one that carries its session; `None` for any other.
    pub(super) fn read_carried(&self, sent: &str) -> Option<String> {
        self.carried.as_ref()?.read(sent)
    }

    /// Returns a carried session, unless what it was opened with has ended.
    fn carried(&self, id: &str, now: i64) -> Result<Option<ClientSession>, StateError> {
        let Some(carried) = self.carried.as_ref().and_then(|it| it.known(id, now)) else {
            return Ok(None);
        };
        let has_ended = carried.is_issued_here
            && self.tokens.standing_of_origin(&carried.session.origin, now)?
                == TokenStanding::Refused;
        Ok(Some(carried.session).filter(|_| !has_ended))
    }

    /// Keeps a session of `owner`, ends `ended`, and drops those of the subject that are too many
    /// where it may have `most`.
    pub(super) async fn keep(
        self: &Arc<Self>,
        new: NewSession,
        owner: String,
        ended: Vec<String>,
        most: usize,
    ) -> Kept {
        let is_shared = self.tokens.is_shared();
        let is_kept = is_shared || self.rate.take(new.principal.subject(), Instant::now()).is_ok();
        let kept = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || {
            if is_kept {
                match kept.write_new(&new, owner.clone(), &ended, most) {
                    Ok(dropped) => return Kept::Kept { dropped },
                    Err(error) => {
                        error.log("a session is not kept");
                    }
                }
            } else {
                kept.end_all(&ended);
            }
            let brief = kept.brief(&new.principal);
            let carried = kept.carry(&new, owner, brief.allowed.is_some());
            Kept::InMemoryOnly(brief, carried)
        });
        // If the work panicked, nobody knows what the session was opened with: it has ended.
        let never = BriefSession { origin: String::new(), allowed: Some(TokenStanding::Refused) };
        written.await.unwrap_or(Kept::InMemoryOnly(never, None))
    }

    /// Returns the identifier that carries a new session.
    fn carry(&self, new: &NewSession, owner: String, is_issued_here: bool) -> Option<String> {
        let carried = self.carried.as_ref()?;
        let session = self.session(new, owner).ok()?;
        carried.carry(&new.id, &session, is_issued_here, unix_seconds(wall_clock()))
    }

    fn session(&self, new: &NewSession, owner: String) -> Result<ClientSession, StateError> {
        Ok(ClientSession {
            origin: self.origin(&new.principal)?,
            owner,
            revision: new.revision.clone(),
            client: new.client.chars().take(MAX_NAME_CHARS).collect(),
        })
    }

    /// Returns what a session of a caller ends with that is in memory only.
    fn brief(&self, principal: &Principal) -> BriefSession {
        let origin = self.origin(principal).unwrap_or_default();
        let now = unix_seconds(wall_clock());
        let allowed = self.tokens.standing_of_origin(&origin, now).ok();
        let allowed = allowed.filter(|allowed| *allowed != TokenStanding::Refused);
        BriefSession { origin, allowed }
    }

    /// Returns whether a session that is in memory only has ended. May block.
    pub(super) fn standing(&self, brief: &BriefSession) -> Standing {
        let Some(allowed) = &brief.allowed else { return Standing::Open };
        let now = self.tokens.standing_of_origin(&brief.origin, unix_seconds(wall_clock()));
        match (allowed, now) {
            (TokenStanding::Refused, _) | (_, Ok(TokenStanding::Refused)) => Standing::Ended,
            (TokenStanding::ByApproval(then), Ok(TokenStanding::ByApproval(now)))
                if then.is_narrowed_by(&now) =>
            {
                let allowed = Some(TokenStanding::ByApproval(now));
                Standing::Narrowed(BriefSession { allowed, ..brief.clone() })
            }
            // The state does not say that the session ended. Its token was verified just now.
            (_, Ok(_) | Err(_)) => Standing::Open,
        }
    }

    /// Ends sessions in the state that made room for one which is in memory only.
    fn end_all(&self, ended: &[String]) {
        for id in ended {
            self.lock().remove(id);
            if let Err(error) = self.tokens.end_client_session(id) {
                error.log("a session was not ended in the state");
            }
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
        let session = self.session(new, owner)?;
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
            return Ok(self.carried(id, now)?.filter(|session| session.owner == owner));
        };
        self.note_used(id, used, now);
        Ok(Some(session))
    }

    /// Returns whether a session to which its client listens has not ended, as far as the state can
    /// say. The session counts as used.
    pub(super) fn has(self: &Arc<Self>, id: &str) -> bool {
        let now = unix_seconds(wall_clock());
        let found = self.tokens.client_session(id, now);
        if let Ok(Some((_, used))) = &found {
            self.note_used(id, *used, now);
        }
        !matches!(found, Ok(None)) || !matches!(self.carried(id, now), Ok(None))
    }

    /// Notes that a session is used now, unless that was noted a short time ago.
    fn note_used(self: &Arc<Self>, id: &str, used: i64, now: i64) {
        if now.saturating_sub(used) >= COLLECTED.as_secs() as i64 {
            self.note(id, now);
        }
    }

    /// Takes a session up again that ended because its rights were narrowed. Returns whether there
    /// is one. May block.
    pub(super) fn take_up(&self, id: &str) -> bool {
        matches!(self.tokens.take_up_client_session(id), Ok(true))
    }

    /// Ends a session, durably.
    pub(super) async fn end(self: &Arc<Self>, id: &str) {
        self.lock().remove(id);
        self.carried.iter().for_each(|carried| carried.end(id));
        let (kept, id) = (Arc::clone(self), id.to_owned());
        let ended = tokio::task::spawn_blocking(move || kept.tokens.end_client_session(&id)).await;
        if let Ok(Err(error)) = ended {
            error.log("a session was not ended in the state");
        }
    }

    /// Returns the revision and the client of a session.
    pub(crate) async fn find(
        self: &Arc<Self>,
        id: &str,
    ) -> Result<Option<ClientSession>, StateError> {
        let (kept, id) = (Arc::clone(self), id.to_owned());
        let now = unix_seconds(wall_clock());
        let find = move || match kept.tokens.client_session(&id, now)? {
            Some((session, _)) => Ok(Some(session)),
            None => kept.carried(&id, now),
        };
        tokio::task::spawn_blocking(find).await.unwrap_or(Ok(None))
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
            error.log("the use of sessions was not recorded");
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
