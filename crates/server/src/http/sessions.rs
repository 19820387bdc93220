//! The owner of each MCP session, and the number of sessions per subject.
//!
//! The SDK keeps the sessions and knows no callers: it accepts any client that sends a session id.
//! So the owner of each session is kept here, and an unknown id and another caller's id get the
//! same response. The number of sessions is bounded here too, because the SDK does not bound it.
//!
//! Servers that share a database keep the owners there, so a session that one of them opened goes
//! on at another. The SDK then gets what the client said when it opened the session, and continues
//! as if it had opened the session itself.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::records::authority::RecordsClaim;
use stile_domain::role::Role;
use stile_store::state::ShortLived;

use crate::auth::{VaultClaim, VerifiedCaller};
use crate::clock::{unix_seconds, wall_clock};
use crate::fleet::Fleet;
use crate::mcp::session_starts::KIND as START_KIND;

/// The kind of the rows that say whose a session is.
const KIND: &str = "session";
/// How often the use of a session is written for the other servers, in seconds.
const USE_WRITTEN_SECONDS: i64 = 60;

/// The caller who opened a session. A renewed token is the same caller. Another client, grant,
/// vault or role is another caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOwner {
    subject: String,
    client: Option<String>,
    records: RecordsClaim,
    issuer: Option<Arc<str>>,
    vault: VaultClaim,
    role: Role,
}

impl SessionOwner {
    /// Returns a text that is the same for the same caller on every server.
    fn to_text(&self) -> String {
        let Self { subject, client, records, issuer, vault, role } = self;
        let parts = (subject, client, issuer.as_deref());
        format!("{parts:?} {records:?} {vault:?} {role:?}")
    }

    /// The owner of the sessions that this caller opens.
    pub fn new(verified: &VerifiedCaller) -> Self {
        let VerifiedCaller { principal, identity, .. } = verified;
        Self {
            subject: principal.subject().to_owned(),
            client: principal.client().map(str::to_owned),
            records: principal.records().clone(),
            issuer: identity.issuer.clone(),
            vault: identity.vault.clone(),
            role: identity.role,
        }
    }
}

/// The owners of all open sessions.
pub struct Sessions {
    max_per_subject: usize,
    idle: Duration,
    table: Arc<Mutex<Table>>,
    /// Where the owners are kept for all servers; `None` if no other server has this one's
    /// sessions.
    fleet: Option<Arc<Fleet>>,
}

type Table = HashMap<String, Session>;

struct Session {
    owner: SessionOwner,
    used: Instant,
    /// The ids of the requests that are being answered, as JSON.
    pending: HashSet<String>,
}

impl Sessions {
    /// Allows each subject at least one and at most `max_per_subject` sessions, each for `idle`
    /// after its last use.
    pub fn new(max_per_subject: usize, idle: Duration) -> Self {
        Self { max_per_subject: max_per_subject.max(1), idle, table: Arc::default(), fleet: None }
    }

    /// Shares the sessions with the servers that have the same database.
    #[must_use]
    pub fn shared_by(self, fleet: Option<Arc<Fleet>>) -> Self {
        Self { fleet, ..self }
    }

    /// Records a session that was opened just now. Returns the sessions that must be closed: those
    /// that have been idle too long, and, if the owner's subject has too many, the one of them that
    /// was used least recently.
    pub fn open(&self, id: &str, owner: SessionOwner, now: Instant) -> Vec<String> {
        let dropped = self.share(id, &owner);
        let mut closed = self.open_here(id, owner, now);
        for other in dropped {
            if self.lock().remove(&other).is_some() && !closed.contains(&other) {
                closed.push(other);
            }
        }
        closed
    }

    fn open_here(&self, id: &str, owner: SessionOwner, now: Instant) -> Vec<String> {
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
        let mut own: Vec<(Instant, String)> = table
            .iter()
            .filter(|(other, session)| session.owner.subject == owner.subject && *other != id)
            .map(|(id, session)| (session.used, id.clone()))
            .collect();
        own.sort();
        let surplus = (own.len() + 1).saturating_sub(self.max_per_subject);
        for (_, id) in own.into_iter().take(surplus) {
            table.remove(&id);
            closed.push(id);
        }
        table.insert(id.to_owned(), Session { owner, used: now, pending: HashSet::new() });
        closed
    }

    /// Returns whether a caller may use a session. If so, the session counts as used at `now`.
    pub fn enter(&self, id: &str, owner: &SessionOwner, now: Instant) -> bool {
        if let Some(fleet) = &self.fleet {
            if !self.is_shared_with(fleet, id, owner) {
                return false;
            }
            let new = Session { owner: owner.clone(), used: now, pending: HashSet::new() };
            self.lock().entry(id.to_owned()).or_insert(new);
        }
        match self.lock().get_mut(id) {
            Some(session) if session.owner == *owner => {
                session.used = now;
                true
            }
            _ => false,
        }
    }

    /// Keeps the owner of a new session for all servers. Returns the sessions that made room.
    fn share(&self, id: &str, owner: &SessionOwner) -> Vec<String> {
        let Some(fleet) = &self.fleet else { return Vec::new() };
        let now = unix_seconds(wall_clock());
        let (value, ends) = (owner.to_text(), self.end(now));
        let new = ShortLived { kind: KIND, key: id, owner: &owner.subject, value: &value, ends };
        let kept = fleet.tokens().keep_short_lived(new, self.max_per_subject, now);
        kept.unwrap_or_else(|error| {
            tracing::warn!(target: "stile::http", %error, "a session is not shared");
            Vec::new()
        })
    }

    /// Returns whether the database has a session with this owner. A session that ended on another
    /// server is gone from there.
    fn is_shared_with(&self, fleet: &Fleet, id: &str, owner: &SessionOwner) -> bool {
        let now = unix_seconds(wall_clock());
        let found = match fleet.tokens().find_short_lived(KIND, id, now) {
            Ok(Some((value, ends))) if value == owner.to_text() => ends,
            Ok(_) => return false,
            // The database does not say that the session ended. Its token was verified just now.
            Err(_) => return self.lock().contains_key(id),
        };
        let ends = self.end(now);
        if ends.saturating_sub(found) >= USE_WRITTEN_SECONDS {
            for kind in [KIND, START_KIND] {
                let _ = fleet.tokens().prolong_short_lived(kind, id, ends);
            }
        }
        true
    }

    fn end(&self, now: i64) -> i64 {
        now.saturating_add(i64::try_from(self.idle.as_secs()).unwrap_or(i64::MAX))
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

    /// Removes a session that was closed.
    pub fn forget(&self, id: &str) {
        if let Some(fleet) = &self.fleet {
            let _ = fleet.tokens().take_short_lived(KIND, id, unix_seconds(wall_clock()));
        }
        self.lock().remove(id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request of a session that is being answered.
pub struct PendingRequest {
    table: Arc<Mutex<Table>>,
    session: String,
    request: String,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let Some(session) =
            self.table.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&self.session)
        {
            session.pending.remove(&self.request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(subject: &str, client: Option<&str>) -> SessionOwner {
        SessionOwner {
            subject: subject.to_owned(),
            client: client.map(str::to_owned),
            records: RecordsClaim::None,
            issuer: None,
            vault: VaultClaim::None,
            role: Role::Viewer,
        }
    }

    #[test]
    fn only_the_owner_may_use_a_session() {
        let sessions = Sessions::new(64, Duration::from_secs(3600));
        let now = Instant::now();
        sessions.open("s", owner("ann", None), now);
        assert!(sessions.enter("s", &owner("ann", None), now));
        assert!(!sessions.enter("s", &owner("bob", None), now));
        assert!(!sessions.enter("s", &owner("ann", Some("other")), now));
        assert!(!sessions.enter("t", &owner("ann", None), now));
        sessions.forget("s");
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
        sessions.open("s", ann.clone(), now);
        for other in [
            SessionOwner { subject: "bob".to_owned(), ..ann.clone() },
            SessionOwner { client: None, ..ann.clone() },
            SessionOwner { client: Some("other".to_owned()), ..ann.clone() },
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
    fn the_least_recently_used_session_is_closed_when_a_subject_has_too_many() {
        let sessions = Sessions::new(2, Duration::from_secs(3600));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        sessions.open("b", owner("bob", None), at(0));
        assert!(sessions.open("1", owner("ann", None), at(1)).is_empty());
        assert!(sessions.open("2", owner("ann", Some("x")), at(2)).is_empty());
        assert!(sessions.enter("1", &owner("ann", None), at(3)));
        assert_eq!(sessions.open("3", owner("ann", None), at(4)), ["2"]);
        assert!(sessions.enter("b", &owner("bob", None), at(5)));
    }

    #[test]
    fn a_session_is_closed_after_more_than_an_idle_hour() {
        let sessions = Sessions::new(64, Duration::from_secs(3600));
        let start = Instant::now();
        sessions.open("1", owner("ann", None), start);
        assert!(
            sessions.open("2", owner("bob", None), start + Duration::from_secs(3600)).is_empty()
        );
        assert_eq!(
            sessions.open("3", owner("bob", None), start + Duration::from_secs(3601)),
            ["1"]
        );
    }

    #[test]
    fn a_second_request_with_a_pending_id_is_refused() {
        let sessions = Sessions::new(64, Duration::from_secs(3600));
        sessions.open("1", owner("ann", None), Instant::now());
        let first = sessions.start_request("1", &1.into());
        assert!(first.is_some());
        assert!(sessions.start_request("1", &1.into()).is_none());
        assert!(sessions.start_request("1", &"1".into()).is_some());
        drop(first);
        assert!(sessions.start_request("1", &1.into()).is_some());
    }
}
