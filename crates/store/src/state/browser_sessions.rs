//! The owner's sessions in browsers, and the one-time links that open them.
//!
//! The database holds SHA-256 digests of secrets only, so that whoever reads a copy of it cannot
//! sign in. A session ends after an idle time and at a fixed time, whichever comes first.

use rusqlite::{OptionalExtension as _, params};

use super::state_dir::StateError;
use super::tokens::{TokenStore, failed};

/// The SHA-256 digest of a secret.
pub type SecretDigest = [u8; 32];

/// The tables of sessions and links.
pub(super) const MIGRATION: &str = "
    CREATE TABLE browser_sessions (
        digest BLOB PRIMARY KEY NOT NULL,
        subject TEXT NOT NULL,
        created INTEGER NOT NULL,
        used INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE sign_in_links (
        digest BLOB PRIMARY KEY NOT NULL,
        subject TEXT NOT NULL,
        created INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// The role of the person, whom an identity provider signed in.
pub(super) const ROLE_MIGRATION: &str = "ALTER TABLE browser_sessions ADD COLUMN role TEXT";

/// A session ends this long after its last request, in seconds.
pub const SESSION_IDLE_SECONDS: i64 = 30 * 60;
/// A session ends this long after signing in, in seconds.
pub const SESSION_SECONDS: i64 = 12 * 60 * 60;
/// A one-time link ends this long after it was made, in seconds.
pub const LINK_SECONDS: i64 = 10 * 60;
/// How often the last use of a session is written, in seconds.
const USE_WRITTEN_SECONDS: i64 = 60;

/// A session that has not ended. Times are UTC seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    /// The digest of the secret that the browser has.
    pub digest: SecretDigest,
    /// The user who signed in.
    pub subject: String,
    /// When the user signed in.
    pub created: i64,
    /// When the browser last asked for a page, to the minute.
    pub used: i64,
}

impl TokenStore {
    /// Returns the sessions that have not ended at `now`, the latest first.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn sessions(&self, now: i64) -> Result<Vec<OpenSession>, StateError> {
        let connection = self.lock();
        let listed = connection
            .prepare_cached(
                "SELECT digest, subject, created, used FROM browser_sessions \
                 WHERE ?1 - created <= ?2 AND ?1 - used <= ?3 ORDER BY used DESC, digest",
            )
            .and_then(|mut query| {
                let bounds = [now, SESSION_SECONDS, SESSION_IDLE_SECONDS];
                let rows = query.query_map(bounds, |row| {
                    Ok(OpenSession {
                        digest: row.get(0)?,
                        subject: row.get(1)?,
                        created: row.get(2)?,
                        used: row.get(3)?,
                    })
                })?;
                rows.collect()
            });
        listed.map_err(failed("list the sessions of"))
    }

    /// Notes the role of the person of a session, whom an identity provider signed in, durably.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn set_session_role(&self, session: &SecretDigest, role: &str) -> Result<(), StateError> {
        let set = "UPDATE browser_sessions SET role = ?2 WHERE digest = ?1";
        let set = self.lock().execute(set, params![session, role]);
        set.map(drop).map_err(failed("note the role of a session in"))
    }

    /// Returns the role of the person of a session; `None` if no identity provider signed the
    /// person in.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn session_role(&self, session: &SecretDigest) -> Result<Option<String>, StateError> {
        let connection = self.lock();
        let found = connection
            .prepare_cached("SELECT role FROM browser_sessions WHERE digest = ?1")
            .and_then(|mut query| query.query_row(params![session], |row| row.get(0)).optional());
        Ok(found.map_err(failed("look up a session in"))?.flatten())
    }

    /// Ends the sessions of a user, durably, and returns how many there were.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn close_sessions_of(&self, subject: &str) -> Result<usize, StateError> {
        let ended =
            self.lock().execute("DELETE FROM browser_sessions WHERE subject = ?1", [subject]);
        ended.map_err(failed("end the sessions of"))
    }

    /// Ends every session, durably, and returns how many there were.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn close_all_sessions(&self) -> Result<usize, StateError> {
        let ended = self.lock().execute("DELETE FROM browser_sessions", []);
        ended.map_err(failed("end the sessions of"))
    }

    /// Records a one-time link for a user. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn record_link(
        &self,
        link: &SecretDigest,
        subject: &str,
        now: i64,
    ) -> Result<(), StateError> {
        let connection = self.lock();
        let insert = "INSERT INTO sign_in_links (digest, subject, created) VALUES (?1, ?2, ?3)";
        connection
            .execute("DELETE FROM sign_in_links WHERE abs(?1 - created) > ?2", [now, LINK_SECONDS])
            .and_then(|_| connection.execute(insert, params![link, subject, now]))
            .map(drop)
            .map_err(failed("record a link in"))
    }

    /// Spends a one-time link, and returns its user; `None` if the link is unknown, spent or too
    /// old. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn spend_link(&self, link: &SecretDigest, now: i64) -> Result<Option<String>, StateError> {
        let connection = self.lock();
        let spend = "DELETE FROM sign_in_links WHERE digest = ?1 RETURNING subject, created";
        let spent: Option<(String, i64)> = connection
            .query_row(spend, params![link], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(failed("spend a link of"))?;
        let is_young = |created: i64| (0..=LINK_SECONDS).contains(&now.saturating_sub(created));
        Ok(spent.filter(|(_, created)| is_young(*created)).map(|(subject, _)| subject))
    }

    /// Opens a session of a browser, durably, and drops those that have ended. `now` is in UTC
    /// seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn open_session(
        &self,
        session: &SecretDigest,
        subject: &str,
        now: i64,
    ) -> Result<(), StateError> {
        let connection = self.lock();
        let insert = "INSERT INTO browser_sessions (digest, subject, created, used) \
                      VALUES (?1, ?2, ?3, ?3)";
        connection
            .execute("DELETE FROM browser_sessions WHERE ?1 - created > ?2", [now, SESSION_SECONDS])
            .and_then(|_| connection.execute(insert, params![session, subject, now]))
            .map(drop)
            .map_err(failed("open a session in"))
    }

    /// Returns the user of a session and notes that the session is in use; `None` if the session
    /// is unknown or has ended. `now` is in UTC seconds; a clock that was set back ends no session
    /// and prolongs none by more than that.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn session_user(
        &self,
        session: &SecretDigest,
        now: i64,
    ) -> Result<Option<String>, StateError> {
        let connection = self.lock();
        let found: Option<(String, i64, i64)> = connection
            .prepare_cached("SELECT subject, created, used FROM browser_sessions WHERE digest = ?1")
            .and_then(|mut query| {
                let row = query
                    .query_row(params![session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
                row.optional()
            })
            .map_err(failed("look up a session in"))?;
        let Some((subject, created, used)) = found else { return Ok(None) };
        if now.saturating_sub(created) > SESSION_SECONDS
            || now.saturating_sub(used) > SESSION_IDLE_SECONDS
        {
            return Ok(None);
        }
        if now.saturating_sub(used) > USE_WRITTEN_SECONDS {
            connection
                .execute(
                    "UPDATE browser_sessions SET used = ?2 WHERE digest = ?1",
                    params![session, now],
                )
                .map_err(failed("note the use of a session in"))?;
        }
        Ok(Some(subject))
    }

    /// Ends a session, durably. An unknown one is no error.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn close_session(&self, session: &SecretDigest) -> Result<(), StateError> {
        let connection = self.lock();
        let delete = "DELETE FROM browser_sessions WHERE digest = ?1";
        connection.execute(delete, params![session]).map(drop).map_err(failed("end a session of"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StateDir;

    #[test]
    fn sessions_are_listed_until_they_end_and_all_end_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        store.open_session(&[1; 32], "ann", 1000).unwrap();
        store.open_session(&[2; 32], "ann", 1100).unwrap();
        let digests = |now| {
            let sessions = store.sessions(now).unwrap();
            sessions.iter().map(|session| session.digest[0]).collect::<Vec<_>>()
        };
        assert_eq!(digests(1100), [2, 1]);
        assert_eq!(digests(1050 + SESSION_IDLE_SECONDS), [2]);
        assert!(digests(1200 + SESSION_IDLE_SECONDS).is_empty());
        assert_eq!(store.close_all_sessions().unwrap(), 2);
        assert_eq!(store.session_user(&[2; 32], 1100).unwrap(), None);
        assert_eq!(store.close_all_sessions().unwrap(), 0);
    }
}
