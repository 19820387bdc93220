//! The owner of each MCP session, and the number of sessions per owner.
//!
//! The SDK keeps the sessions and knows no callers: it accepts any client that sends a session id.
//! So the owner of each session is kept here, and an unknown id and another caller's id get the
//! same response. The number of sessions is bounded here too, because the SDK does not bound it.
//!
//! A session outlives the process that opened it: the state has its owner, its revision and the
//! name of its client, for a week after its last use. Another server that shares the database, or
//! this one after a restart, gives these to the SDK, which continues as if it had opened the
//! session itself. A session that ended in the state has ended everywhere.
//!
//! A session whose rights are narrowed ends. But where its client listens on an event stream, and
//! so is told, the session is taken up again under the same id, with the rights that are left.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::records::authority::RecordsClaim;
use stile_domain::role::Role;
use stile_store::state::{Counted, surplus};

use super::kept_sessions::{BriefSession, Kept, KeptSessions, NewSession, Standing};
use crate::auth::{VaultClaim, VerifiedCaller};
use crate::mcp::list_changes::IsOpen;

/// The caller who opened a session. A renewed token is the same caller. Another client, grant,
/// vault or role is another caller, and so is another client of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOwner {
    subject: String,
    /// What tells the client from every other one: for a token of this server nothing that the
    /// client chooses ([`Principal::held_by`]), for one of an identity provider the client that the
    /// provider names in each of its tokens.
    ///
    /// [`Principal::held_by`]: stile_domain::permit::Principal::held_by
    holder: Option<String>,
    records: RecordsClaim,
    issuer: Option<Arc<str>>,
    vault: VaultClaim,
    role: Role,
}

impl SessionOwner {
    /// Returns a text that is the same for the same caller on every server.
    fn to_text(&self) -> String {
        let Self { subject, holder, records, issuer, vault, role } = self;
        let parts = (subject, holder, issuer.as_deref());
        format!("{parts:?} {records:?} {vault:?} {role:?}")
    }

    /// The owner of the sessions that this caller opens.
    pub fn new(verified: &VerifiedCaller) -> Self {
        let VerifiedCaller { principal, identity, .. } = verified;
        let holder = match &identity.issuer {
            None => principal.held_by(),
            Some(_) => principal.client(),
        };
        Self {
            subject: principal.subject().to_owned(),
            holder: holder.map(str::to_owned),
            records: principal.records().clone(),
            issuer: identity.issuer.clone(),
            vault: identity.vault.clone(),
            role: identity.role,
        }
    }
}

/// The owners of all open sessions.
pub struct Sessions {
    most: usize,
    idle: Duration,
    table: Arc<Mutex<Table>>,
    /// Where sessions outlive the process; `None` for a server without a state.
    kept: Option<Arc<KeptSessions>>,
}

type Table = HashMap<String, Session>;

struct Session {
    owner: SessionOwner,
    /// The name that the client gave itself when it opened the session.
    client: Option<String>,
    used: Instant,
    /// The ids of the requests that are being answered, as JSON, and the names of streams.
    pending: HashSet<String>,
    /// What the session ends with, if it is in memory only.
    brief: Option<BriefSession>,
}

impl Session {
    fn new(owner: SessionOwner, used: Instant) -> Self {
        Self { owner, client: None, used, pending: HashSet::new(), brief: None }
    }
}

impl Sessions {
    /// Allows each subject at least one and at most `most` sessions, as [`surplus`] counts them.
    /// Each is in memory for `idle` after its last use, and while its client listens.
    pub fn new(most: usize, idle: Duration) -> Self {
        Self { most: most.max(1), idle, table: Arc::default(), kept: None }
    }

    /// Keeps the sessions in the state, too.
    #[must_use]
    pub fn kept_by(self, kept: Option<Arc<KeptSessions>>) -> Self {
        Self { kept, ..self }
    }

    /// Records a session that was opened just now. Returns the sessions that must be closed: those
    /// that have been idle too long, and those that are too many. Also returns the identifier that
    /// the client is to send, if it is another one.
    pub async fn open(
        &self,
        new: NewSession,
        owner: SessionOwner,
        now: Instant,
    ) -> (Vec<String>, Option<String>) {
        let mut sent = None;
        let text = owner.to_text();
        let (mut closed, surplus) = self.open_here(&new.id, owner, now);
        if let Some(session) = self.lock().get_mut(&new.id) {
            session.client = Some(new.client.clone());
        }
        if let Some(kept) = &self.kept {
            let id = new.id.clone();
            match kept.keep(new, text, surplus, self.most).await {
                Kept::Kept { dropped } => {
                    let mut table = self.lock();
                    closed.extend(dropped.into_iter().filter(|id| table.remove(id).is_some()));
                }
                Kept::InMemoryOnly(brief, carried) => {
                    sent = carried;
                    if let Some(session) = self.lock().get_mut(&id) {
                        session.brief = Some(brief);
                    }
                }
            }
        }
        (closed, sent)
    }

    /// Returns the identifier of a session within one that carries it; `None` for any other.
    pub fn read_carried(&self, sent: &str) -> Option<String> {
        self.kept.as_ref()?.read_carried(sent)
    }

    /// Returns the name that the client of a session gave itself, if it is known.
    pub fn client(&self, id: &str) -> Option<String> {
        self.lock().get(id)?.client.clone()
    }

    /// Returns the sessions that must be closed, and those of them that end.
    fn open_here(&self, id: &str, owner: SessionOwner, now: Instant) -> (Vec<String>, Vec<String>) {
        let mut table = self.lock();
        let mut closed: Vec<String> = table
            .iter()
            .filter(|(_, session)| {
                session.pending.is_empty()
                    && now.saturating_duration_since(session.used) > self.idle
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in &closed {
            table.remove(id);
        }
        let subject = owner.subject.clone();
        table.insert(id.to_owned(), Session::new(owner, now));
        let own = table.iter().filter(|(_, session)| session.owner.subject == subject);
        let own = own.map(|(id, session)| Counted {
            id: id.clone(),
            owner: session.owner.to_text(),
            used: session.used,
        });
        let surplus = surplus(own.collect(), id, self.most);
        for id in &surplus {
            table.remove(id);
        }
        closed.extend(surplus.iter().cloned());
        (closed, surplus)
    }

    /// Returns whether a caller may use a session. If so, the session counts as used at `now`.
    pub fn enter(&self, id: &str, owner: &SessionOwner, now: Instant) -> bool {
        let brief = self.brief(id);
        if let (Some(kept), Some(brief)) = (&self.kept, &brief) {
            if kept.standing(brief) != Standing::Open {
                return false;
            }
        } else if let Some(kept) = &self.kept {
            match kept.enter(id, &owner.to_text()) {
                Ok(Some(found)) => {
                    let mut table = self.lock();
                    // A session that another process opened keeps the name of its client.
                    table.entry(id.to_owned()).or_insert_with(|| Session {
                        client: Some(found.client),
                        ..Session::new(owner.clone(), now)
                    });
                }
                Ok(None) => return false,
                // The state does not say that the session ended. Its token was verified just now.
                Err(_) => {}
            }
        }
        match self.lock().get_mut(id) {
            Some(session) if session.owner == *owner => {
                session.used = now;
                true
            }
            _ => false,
        }
    }

    /// Records that a request is being answered until the returned value is dropped. Returns `None`
    /// if the session has a pending request with that id: the SDK would answer only one of the two.
    pub fn start_request(&self, id: &str, request: &serde_json::Value) -> Option<PendingRequest> {
        let request = request.to_string();
        if let Some(session) = self.lock().get_mut(id)
            && !session.pending.insert(request.clone())
        {
            return None;
        }
        Some(PendingRequest { table: Arc::clone(&self.table), session: id.to_owned(), request })
    }

    /// Records that the client of a session listens until the returned value is dropped, so that
    /// the session is not idle.
    pub fn start_stream(&self, id: &str) -> PendingRequest {
        // No text of JSON, so no request has this id.
        let request = format!("stream {}", uuid::Uuid::new_v4());
        if let Some(session) = self.lock().get_mut(id) {
            session.pending.insert(request.clone());
        }
        PendingRequest { table: Arc::clone(&self.table), session: id.to_owned(), request }
    }

    /// Returns what the listener of a session asks whether the session has not ended, which may
    /// block. A session that ended because its rights were narrowed is taken up again: its client
    /// listens, and is told.
    pub fn is_open(&self, id: &str) -> IsOpen {
        let (kept, table, id) = (self.kept.clone(), Arc::clone(&self.table), id.to_owned());
        Arc::new(move || {
            let Some(kept) = &kept else { return true };
            let brief = lock(&table).get(&id).and_then(|session| session.brief.clone());
            match brief.map(|brief| kept.standing(&brief)) {
                Some(Standing::Open) => true,
                Some(Standing::Narrowed(now)) => match lock(&table).get_mut(&id) {
                    Some(session) => {
                        session.brief = Some(now);
                        true
                    }
                    None => false,
                },
                Some(Standing::Ended) => false,
                // Another thread may take the session up between the first look and the try.
                None => kept.has(&id) || kept.take_up(&id) || kept.has(&id),
            }
        })
    }

    /// Takes a session of a caller up again, whose client listens here, if it ended because its
    /// rights were narrowed. Returns whether the session is open.
    pub async fn take_up(&self, id: &str, owner: &SessionOwner) -> bool {
        if self.lock().get(id).is_none_or(|session| session.owner != *owner) {
            return false;
        }
        let is_open = self.is_open(id);
        tokio::task::spawn_blocking(move || is_open()).await.unwrap_or(false)
    }

    fn brief(&self, id: &str) -> Option<BriefSession> {
        self.lock().get(id)?.brief.clone()
    }

    /// Ends a session for good.
    pub async fn forget(&self, id: &str) {
        self.lock().remove(id);
        if let Some(kept) = &self.kept {
            kept.end(id).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request of a session that is being answered, or its event stream.
pub struct PendingRequest {
    table: Arc<Mutex<Table>>,
    session: String,
    request: String,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let Some(session) = lock(&self.table).get_mut(&self.session) {
            session.pending.remove(&self.request);
            session.used = session.used.max(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(subject: &str, client: Option<&str>) -> SessionOwner {
        SessionOwner {
            subject: subject.to_owned(),
            holder: client.map(str::to_owned),
            records: RecordsClaim::None,
            issuer: None,
            vault: VaultClaim::None,
            role: Role::Viewer,
        }
    }

    /// Opens a session that is in memory only, and returns the sessions to close.
    fn open(sessions: &Sessions, id: &str, owner: SessionOwner, now: Instant) -> Vec<String> {
        sessions.open_here(id, owner, now).0
    }

    #[test]
    fn only_the_owner_may_use_a_session() {
        let sessions = Sessions::new(64, Duration::from_secs(3600));
        let now = Instant::now();
        open(&sessions, "s", owner("ann", None), now);
        assert!(sessions.enter("s", &owner("ann", None), now));
        assert!(!sessions.enter("s", &owner("bob", None), now));
        assert!(!sessions.enter("s", &owner("ann", Some("other")), now));
        assert!(!sessions.enter("t", &owner("ann", None), now));
        futures::executor::block_on(sessions.forget("s"));
        assert!(!sessions.enter("s", &owner("ann", None), now));
    }

    #[test]
    fn a_caller_that_differs_in_one_property_is_another_caller() {
        let sessions = Sessions::new(64, Duration::from_secs(3600));
        let now = Instant::now();
        let ann = SessionOwner {
            records: RecordsClaim::Grant("g".into()),
            issuer: Some("https://id.example".into()),
            vault: VaultClaim::One("garden".into()),
            role: Role::Editor,
            ..owner("ann", Some("notebook"))
        };
        open(&sessions, "s", ann.clone(), now);
        for other in [
            SessionOwner { subject: "bob".to_owned(), ..ann.clone() },
            SessionOwner { holder: None, ..ann.clone() },
            SessionOwner { holder: Some("other".to_owned()), ..ann.clone() },
            SessionOwner { records: RecordsClaim::None, ..ann.clone() },
            SessionOwner { records: RecordsClaim::Owner, ..ann.clone() },
            SessionOwner { records: RecordsClaim::Grant("h".into()), ..ann.clone() },
            SessionOwner { issuer: None, ..ann.clone() },
            SessionOwner { issuer: Some("https://id.example/".into()), ..ann.clone() },
            SessionOwner { vault: VaultClaim::None, ..ann.clone() },
            SessionOwner { vault: VaultClaim::Malformed, ..ann.clone() },
            SessionOwner { vault: VaultClaim::One("work".into()), ..ann.clone() },
            SessionOwner { role: Role::Viewer, ..ann.clone() },
            SessionOwner { role: Role::Admin, ..ann.clone() },
        ] {
            assert!(!sessions.enter("s", &other, now), "{other:?}");
        }
        assert!(sessions.enter("s", &ann, now));
    }

    #[test]
    fn the_least_recently_used_session_is_closed_when_a_client_has_too_many() {
        let sessions = Sessions::new(3, Duration::from_secs(3600));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        open(&sessions, "b", owner("bob", None), at(0));
        open(&sessions, "x", owner("ann", Some("x")), at(0));
        assert!(open(&sessions, "1", owner("ann", None), at(1)).is_empty());
        assert!(open(&sessions, "2", owner("ann", None), at(2)).is_empty());
        assert!(sessions.enter("1", &owner("ann", None), at(3)));
        assert_eq!(open(&sessions, "3", owner("ann", None), at(4)), ["2"]);
        assert!(sessions.enter("b", &owner("bob", None), at(5)));
        assert!(sessions.enter("x", &owner("ann", Some("x")), at(5)));
    }

    #[test]
    fn a_session_whose_client_listens_is_not_idle() {
        let sessions = Sessions::new(64, Duration::from_secs(3600));
        let start = Instant::now();
        open(&sessions, "1", owner("ann", None), start);
        let stream = sessions.start_stream("1");
        let late = start + Duration::from_secs(4000);
        assert!(open(&sessions, "2", owner("bob", None), late).is_empty());
        drop(stream);
        let later = late + Duration::from_secs(4000);
        assert_eq!(open(&sessions, "3", owner("cid", None), later).len(), 2);
    }

    #[test]
    fn a_session_is_closed_after_more_than_an_idle_hour() {
        let sessions = Sessions::new(64, Duration::from_secs(3600));
        let start = Instant::now();
        open(&sessions, "1", owner("ann", None), start);
        assert!(
            open(&sessions, "2", owner("bob", None), start + Duration::from_secs(3600)).is_empty()
        );
        assert_eq!(
            open(&sessions, "3", owner("bob", None), start + Duration::from_secs(3601)),
            ["1"]
        );
    }

    #[test]
    fn a_second_request_with_a_pending_id_is_refused() {
        let sessions = Sessions::new(64, Duration::from_secs(3600));
        open(&sessions, "1", owner("ann", None), Instant::now());
        let first = sessions.start_request("1", &1.into());
        assert!(first.is_some());
        assert!(sessions.start_request("1", &1.into()).is_none());
        assert!(sessions.start_request("1", &"1".into()).is_some());
        drop(first);
        assert!(sessions.start_request("1", &1.into()).is_some());
    }
}
