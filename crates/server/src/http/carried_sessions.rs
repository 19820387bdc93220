//! Sessions that are in their identifier, sealed, while the database takes no writes.
//!
//! A session that was opened then cannot be kept where the other servers would find it. Its client
//! gets an identifier that says what the state would: whose the session is, and how it began. Any
//! server with the same key reads it, and nobody else can make one. The identifier allows nothing:
//! each request has a token, which is looked up.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use stile_domain::hash::hex;
use stile_store::sealer::{Sealer, SealerError};
use stile_store::state::{CLIENT_SESSION_SECONDS, ClientSession, TokenKey};

/// What the key is derived for. Another purpose opens none of the identifiers.
const PURPOSE: &str = "identifiers of sessions";
/// A shorter identifier has no session in it.
const LEAST_BYTES: usize = 64;
/// The most sessions that are remembered. The identifier brings a forgotten one back.
const MOST: usize = 4096;

/// Makes and reads such identifiers, and remembers the sessions that were read.
pub struct CarriedSessions {
    seals: Sealer,
    /// By the identifier within; `None` for a session that was ended here.
    known: Mutex<HashMap<String, Option<CarriedSession>>>,
}

/// A session that is in its identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CarriedSession {
    /// What the state would have.
    pub(super) session: ClientSession,
    /// Whether this program issued what the session was opened with.
    pub(super) is_issued_here: bool,
    /// When the session ends, in UTC seconds.
    ends: i64,
}

/// What an identifier carries.
#[derive(Serialize, Deserialize)]
struct Carried {
    #[serde(rename = "i")]
    id: String,
    #[serde(rename = "f")]
    origin: String,
    #[serde(rename = "o")]
    owner: String,
    #[serde(rename = "r")]
    revision: String,
    #[serde(rename = "c")]
    client: String,
    #[serde(rename = "h")]
    is_issued_here: bool,
    #[serde(rename = "e")]
    ends: i64,
}

impl CarriedSessions {
    /// Derives the key of the identifiers from the key of the state.
    ///
    /// # Errors
    /// [`SealerError`] if no key can be derived.
    pub fn new(key: &TokenKey) -> Result<Self, SealerError> {
        let seals = Sealer::from_secret(&hex(&key.secret), &key.audience, PURPOSE)?;
        Ok(Self { seals, known: Mutex::default() })
    }

    /// Returns the identifier of a session that begins at `now`, in UTC seconds; `None` if the
    /// system gives no random bytes.
    pub(super) fn carry(
        &self,
        id: &str,
        session: &ClientSession,
        is_issued_here: bool,
        now: i64,
    ) -> Option<String> {
        let ClientSession { origin, owner, revision, client } = session.clone();
        let ends = now.saturating_add(CLIENT_SESSION_SECONDS);
        let carried =
            Carried { id: id.to_owned(), origin, owner, revision, client, is_issued_here, ends };
        self.seals.seal(&serde_json::to_vec(&carried).ok()?).ok()
    }

    /// Returns the identifier within one that a client sent, whose session is then known; `None`
    /// for any other text.
    pub(super) fn read(&self, sent: &str) -> Option<String> {
        if sent.len() < LEAST_BYTES {
            return None;
        }
        let carried: Carried = serde_json::from_slice(&self.seals.open(sent)?).ok()?;
        let Carried { id, origin, owner, revision, client, is_issued_here, ends } = carried;
        let session = ClientSession { origin, owner, revision, client };
        let mut known = self.lock();
        if known.len() >= MOST && !known.contains_key(&id) {
            known.clear();
        }
        known.entry(id.clone()).or_insert(Some(CarriedSession { session, is_issued_here, ends }));
        Some(id)
    }

    /// Returns a session that was read and has not ended at `now`, in UTC seconds.
    pub(super) fn known(&self, id: &str, now: i64) -> Option<CarriedSession> {
        let known = self.lock().get(id).cloned()?;
        known.filter(|carried| carried.ends > now)
    }

    /// Ends a session at this server.
    pub(super) fn end(&self, id: &str) {
        if let Some(known) = self.lock().get_mut(id) {
            *known = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Option<CarriedSession>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(secret: u8) -> CarriedSessions {
        let audience = "urn:uuid:0".to_owned();
        CarriedSessions::new(&TokenKey { secret: [secret; 32], audience }).unwrap()
    }

    #[test]
    fn a_server_with_the_same_key_knows_the_session_and_no_other_does() {
        let text = |text: &str| text.to_owned();
        let session = ClientSession {
            origin: text("jti"),
            owner: text("ann"),
            revision: text("2025-11-25"),
            client: text("cursor"),
        };
        let sent = sessions(1).carry("id", &session, true, 10).unwrap();
        assert_eq!(sessions(2).read(&sent), None);
        let other = sessions(1);
        assert_eq!(other.known("id", 10), None, "it was not sent yet");
        assert_eq!(other.read(&sent).as_deref(), Some("id"));
        assert_eq!(other.known("id", 10).unwrap().session, session);
        assert_eq!(other.known("id", 10 + CLIENT_SESSION_SECONDS), None);
        let changed = sent.replace(&sent[20..24], "AAAA");
        assert_eq!(other.read(&changed), None);
        other.end("id");
        other.read(&sent);
        assert_eq!(other.known("id", 10), None, "its client ended it here");
    }
}
