//! Who opened which session, and how many each may have.
//!
//! The SDK keeps the sessions themselves and knows nothing of callers: whoever holds an id is in.
//! So the edge remembers the owner of each, and answers for an unknown id and for another caller's
//! alike. It also bounds their number, which the SDK does not.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::records::authority::RecordsClaim;
use stile_domain::role::Role;

use crate::auth::{VaultClaim, VerifiedCaller};

/// What makes two requests those of one caller. A renewed token is the same caller; another client,
/// grant, vault or role is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOwner {
    subject: String,
    client: Option<String>,
    /// The grant, or that it is the owner of the records.
    records: RecordsClaim,
    issuer: Option<Arc<str>>,
    vault: VaultClaim,
    role: Role,
}

impl SessionOwner {
    /// Of a verified caller.
    pub fn of(verified: &VerifiedCaller) -> Self {
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

/// All open sessions.
pub struct Sessions {
    most_per_subject: usize,
    idle: Duration,
    table: Arc<Mutex<Table>>,
}

type Table = HashMap<String, Session>;

struct Session {
    owner: SessionOwner,
    used: Instant,
    /// Ids of the requests that are being answered, as JSON.
    under_way: HashSet<String>,
}

impl Sessions {
    /// Bounds: sessions of one subject, and how long one outlives its last use.
    pub fn new(most_per_subject: usize, idle: Duration) -> Self {
        Self { most_per_subject: most_per_subject.max(1), idle, table: Arc::default() }
    }

    /// Enters a session that was opened just now. Returns those that must be closed for it: the
    /// idle ones, and the idlest of the owner's where there are too many.
    pub fn open(&self, id: &str, owner: SessionOwner, now: Instant) -> Vec<String> {
        let mut table = self.lock();
        let mut closed: Vec<String> = table
            .iter()
            .filter(|(_, session)| {
                session.under_way.is_empty()
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
        let surplus = (own.len() + 1).saturating_sub(self.most_per_subject);
        for (_, id) in own.into_iter().take(surplus) {
            table.remove(&id);
            closed.push(id);
        }
        table.insert(id.to_owned(), Session { owner, used: now, under_way: HashSet::new() });
        closed
    }

    /// Whether a caller may use a session; if so, it was used just now.
    pub fn enter(&self, id: &str, owner: &SessionOwner, now: Instant) -> bool {
        match self.lock().get_mut(id) {
            Some(session) if session.owner == *owner => {
                session.used = now;
                true
            }
            _ => false,
        }
    }

    /// Says that a request of a session is being answered, until the returned value is dropped.
    /// `None` where one with that id is under way already: the SDK would answer only one of them.
    pub fn begin(&self, id: &str, request: &serde_json::Value) -> Option<PendingRequest> {
        let request = request.to_string();
        if let Some(session) = self.lock().get_mut(id)
            && !session.under_way.insert(request.clone())
        {
            return None;
        }
        Some(PendingRequest { table: Arc::clone(&self.table), session: id.to_owned(), request })
    }

    /// Forgets a session.
    pub fn forget(&self, id: &str) {
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
            session.under_way.remove(&self.request);
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
    fn a_session_is_its_owners_alone() {
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
    fn whoever_differs_in_one_thing_is_another_caller() {
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
    fn the_idlest_goes_when_there_are_too_many_and_others_keep_theirs() {
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
    fn an_idle_hour_is_survived_and_not_much_more() {
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
    fn two_requests_under_one_id_are_told_apart_from_two_requests() {
        let sessions = Sessions::new(64, Duration::from_secs(3600));
        sessions.open("1", owner("ann", None), Instant::now());
        let first = sessions.begin("1", &1.into());
        assert!(first.is_some());
        assert!(sessions.begin("1", &1.into()).is_none());
        assert!(sessions.begin("1", &"1".into()).is_some());
        drop(first);
        assert!(sessions.begin("1", &1.into()).is_some());
    }
}
