//! The sessions of MCP clients, which outlive the process that opened them.
//!
//! A session is a row of [`super::short_lived`]. Of a session the row holds whose it is, the
//! revision of the protocol and the name of the client, and nothing that was said in it. A session
//! belongs to what the owner allowed: an authorization, or a token of `stile token`. It ends with
//! that, and where the owner narrows it, unless its client is told and it is taken up again.

use stile_domain::records::instant::Instant;

use super::session_bounds::{Counted, surplus};
use super::session_rows::{ClientSession, KIND, end, take_up};
use super::short_lived::{ShortLived, put};
use super::state_dir::StateError;
use super::tables::{TableError, Tables, values};
use super::tokens::TokenStore;

/// How long a session is kept after its last use, in seconds.
pub const CLIENT_SESSION_SECONDS: i64 = 7 * 24 * 60 * 60;

/// A session that was opened just now, and what is written with it.
#[derive(Clone, Copy, Debug)]
pub struct OpenedSession<'a> {
    /// The identifier of the session.
    pub id: &'a str,
    /// The user whose share of sessions the session counts in.
    pub subject: &'a str,
    /// What is kept of the session.
    pub session: &'a ClientSession,
    /// Sessions that end now.
    pub ended: &'a [String],
    /// When other sessions were last used, in UTC seconds.
    pub uses: &'a [(String, i64)],
    /// The most sessions of the subject, as [`surplus`] counts them.
    pub most: usize,
}

impl TokenStore {
    /// Keeps a session. Returns the sessions of the subject that made room for it, as [`surplus`]
    /// finds them. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn keep_client_session(
        &self,
        opened: OpenedSession<'_>,
        now: i64,
    ) -> Result<Vec<String>, StateError> {
        let OpenedSession { id, subject, session, ended, uses, most } = opened;
        let value = session.to_value();
        self.change("keep a session in", |tables| {
            ended.iter().try_for_each(|id| end(tables, id))?;
            uses.iter().try_for_each(|(id, used)| note_use(tables, id, *used))?;
            let ends = end_of(tables, &session.origin, now)?;
            put(tables, ShortLived { kind: KIND, key: id, owner: subject, value: &value, ends })?;
            let surplus = surplus(counted(tables, subject, now)?, id, most);
            surplus.iter().try_for_each(|id| end(tables, id))?;
            Ok(surplus)
        })
    }

    /// Returns a session that was kept, and when it was last used, in UTC seconds and at most;
    /// `None` if it was never opened, or has ended.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn client_session(
        &self,
        id: &str,
        now: i64,
    ) -> Result<Option<(ClientSession, i64)>, StateError> {
        let found = self.find_short_lived(KIND, id, now)?;
        Ok(found.and_then(|(value, ends)| {
            let used = ends.saturating_sub(CLIENT_SESSION_SECONDS);
            Some((ClientSession::of_value(&value)?, used))
        }))
    }

    /// Returns the sessions that have not ended at `now`, in UTC seconds. The one used last
    /// comes last.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn client_sessions(&self, now: i64) -> Result<Vec<ClientSession>, StateError> {
        let all = "SELECT value FROM short_lived WHERE kind = ?1 AND ends > ?2 ORDER BY made, key";
        let values: Vec<String> = self.read("list the sessions in", |tables| {
            tables.rows(all, values![KIND, now], |row| row.get(0))
        })?;
        Ok(values.iter().filter_map(|value| ClientSession::of_value(value)).collect())
    }

    /// Records when sessions were last used, in UTC seconds, in one transaction. Forgets sessions
    /// that have ended at `now`.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails. No use is then recorded.
    pub fn record_session_uses(&self, uses: &[(String, i64)], now: i64) -> Result<(), StateError> {
        // Servers that lock the same rows lock them in the same order.
        let mut uses: Vec<&(String, i64)> = uses.iter().collect();
        uses.sort_unstable();
        self.change_rows("record the use of sessions in", |tables| {
            uses.iter().try_for_each(|(id, used)| note_use(tables, id, *used))
        })?;
        self.remove_ended(now).map(drop)
    }

    /// Takes a session up again that ended because its rights were narrowed. Returns whether there
    /// is one.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn take_up_client_session(&self, id: &str) -> Result<bool, StateError> {
        self.change_rows("take a session up in", |tables| take_up(tables, id))
    }

    /// Ends a session, durably.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn end_client_session(&self, id: &str) -> Result<(), StateError> {
        self.change_rows("end a session in", |tables| end(tables, id))
    }
}

/// Returns the sessions of a subject that have not ended.
fn counted(
    tables: Tables<'_>,
    subject: &str,
    now: i64,
) -> Result<Vec<Counted<String, i64>>, TableError> {
    let all = "SELECT key, value, made FROM short_lived \
               WHERE kind = ?1 AND owner = ?2 AND ends > ?3";
    tables.rows(all, values![KIND, subject, now], |row| {
        let value: String = row.get(1)?;
        let owner = ClientSession::of_value(&value).map(|session| session.owner);
        let owner = owner.unwrap_or_default();
        Ok(Counted { id: row.get(0)?, owner, used: row.get(2)? })
    })
}

/// Lets a session end later, unless it has ended, and counts it as used at `used`.
fn note_use(tables: Tables<'_>, id: &str, used: i64) -> Result<(), TableError> {
    let one = "SELECT value FROM short_lived WHERE kind = ?1 AND key = ?2";
    let value: Option<String> = tables.first(one, values![KIND, id], |row| row.get(0))?;
    let Some(session) = value.as_deref().and_then(ClientSession::of_value) else { return Ok(()) };
    let (ends, made) = (end_of(tables, &session.origin, used)?, Instant::from_seconds(used).0);
    let prolong = "UPDATE short_lived SET ends = ?3, made = ?4 \
                   WHERE kind = ?1 AND key = ?2 AND made < ?4";
    tables.execute(prolong, values![KIND, id, ends, made]).map(drop)
}

/// Returns when a session ends that was used at `used`: after a week, and with its token.
fn end_of(tables: Tables<'_>, origin: &str, used: i64) -> Result<i64, TableError> {
    let expires = "SELECT expires FROM tokens WHERE jti = ?1";
    let expires: Option<i64> = tables.first(expires, values![origin], |row| row.get(0))?;
    let ends = used.saturating_add(CLIENT_SESSION_SECONDS);
    Ok(expires.map_or(ends, |expires| ends.min(expires)))
}

#[cfg(test)]
mod tests {
    use stile_testkit::postgres::PostgresServer;

    use super::super::session_rows::narrow_sessions_of;
    use super::*;
    use crate::postgresql::Database;
    use crate::state::{StateDir, TokenRecord};

    const DAY: i64 = 24 * 60 * 60;

    fn session(origin: &str) -> ClientSession {
        ClientSession {
            origin: origin.to_owned(),
            owner: "ann, with\na line end".to_owned(),
            revision: "2025-11-25".to_owned(),
            client: "editor".to_owned(),
        }
    }

    fn token(jti: &str, expires: i64) -> TokenRecord {
        TokenRecord { expires, ..TokenRecord::of_test(jti) }
    }

    fn on_both_databases(test: &str, check: fn(&TokenStore)) {
        let folder = tempfile::tempdir().unwrap();
        check(&TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap());
        let Some(server) = PostgresServer::shared(test) else { return };
        check(&TokenStore::on(&Database::open(&server.database().address()).unwrap()));
    }

    fn keep(store: &TokenStore, id: &str, origin: &str, most: usize, now: i64) -> Vec<String> {
        let opened = OpenedSession {
            id,
            subject: "ann",
            session: &session(origin),
            ended: &[],
            uses: &[],
            most,
        };
        store.keep_client_session(opened, now).unwrap()
    }

    #[test]
    fn a_session_lives_for_a_week_after_its_last_use_and_no_longer_than_its_token() {
        let test = "a_session_lives_for_a_week_after_its_last_use_and_no_longer_than_its_token";
        on_both_databases(test, |store| {
            let now = crate::now().seconds();
            store.record(&token("brief", now + 2 * DAY)).unwrap();
            keep(store, "a", "approval", 9, now);
            keep(store, "b", "brief", 9, now);
            let found = |id, at| store.client_session(id, at).unwrap().map(|(session, _)| session);
            assert_eq!(found("a", now + 7 * DAY - 1), Some(session("approval")));
            assert_eq!(found("a", now + 7 * DAY), None);
            assert_eq!(found("b", now + 2 * DAY - 1), Some(session("brief")));
            let open = |at| store.client_sessions(at).unwrap();
            assert_eq!(open(now), [session("approval"), session("brief")]);
            assert_eq!(open(now + 2 * DAY), [session("approval")]);
            let names = store.self_given_names(now + 2 * DAY).unwrap();
            assert_eq!(names, [("approval".to_owned(), "editor".to_owned())].into());
            assert_eq!(found("b", now + 2 * DAY), None);
            assert_eq!(found("never", now), None);
            let later = now + DAY;
            let uses = ["a", "b", "never"].map(|id| (id.to_owned(), later));
            store.record_session_uses(&uses, later).unwrap();
            assert_eq!(store.client_session("a", later).unwrap().unwrap().1, later);
            assert_eq!(found("a", later + 7 * DAY - 1), Some(session("approval")));
            assert_eq!(found("b", now + 2 * DAY), None);
            assert_eq!(found("never", later), None, "a use opens nothing");
            store.end_client_session("a").unwrap();
            store.record_session_uses(&uses, later).unwrap();
            assert_eq!(found("a", later), None, "a use brings nothing back");
        });
    }

    #[test]
    fn a_narrowed_session_is_taken_up_again_until_it_ends_for_another_reason() {
        let test = "a_narrowed_session_is_taken_up_again_until_it_ends_for_another_reason";
        on_both_databases(test, |store| {
            let now = crate::now().seconds();
            store.record(&token("one", now + 9 * DAY)).unwrap();
            for id in ["a", "b", "c"] {
                keep(store, id, "one", 9, now);
            }
            let is_open = |id| store.client_session(id, now).unwrap().is_some();
            let narrow = || store.change("test", |tables| narrow_sessions_of(tables, "one"));
            narrow().unwrap();
            assert_eq!(["a", "b", "c"].map(is_open), [false; 3]);
            assert_eq!(store.client_sessions(now).unwrap(), []);
            store.end_client_session("b").unwrap();
            let takes_up = |id| store.take_up_client_session(id).unwrap();
            assert_eq!(["a", "b", "never"].map(takes_up), [true, false, false]);
            assert_eq!(["a", "b", "c"].map(is_open), [true, false, false]);
            assert!(!takes_up("a"), "it is open");
            narrow().unwrap();
            store.revoke("one", now).unwrap();
            assert_eq!(["a", "c"].map(takes_up), [false; 2], "their token has ended");
        });
    }

    #[test]
    fn the_sessions_of_a_token_end_with_it_and_the_idlest_of_a_subject_makes_room() {
        let test = "the_sessions_of_a_token_end_with_it_and_the_idlest_of_a_subject_makes_room";
        on_both_databases(test, |store| {
            let now = crate::now().seconds();
            for jti in ["one", "other"] {
                store.record(&token(jti, now + 9 * DAY)).unwrap();
            }
            for (id, origin) in [("a", "one"), ("b", "other"), ("c", "one")] {
                assert!(keep(store, id, origin, 3, now).is_empty());
            }
            store.record_session_uses(&[("a".to_owned(), now + 60)], now + 60).unwrap();
            assert_eq!(keep(store, "d", "other", 3, now), ["b"]);
            store.revoke("one", now).unwrap();
            let left =
                ["a", "b", "c", "d"].map(|id| store.client_session(id, now).unwrap().is_some());
            assert_eq!(left, [false, false, false, true]);
        });
    }
}
