//! The owner's sessions in browsers, and the one-time links that open them.
//!
//! The database holds SHA-256 digests of secrets only, so that whoever reads a copy of it cannot
//! sign in. A session ends after an idle time and at a fixed time, whichever comes first.

use super::state_dir::StateError;
use super::tables::values;
use super::tokens::TokenStore;

/// The SHA-256 digest of a secret.
pub type SecretDigest = [u8; 32];

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
    /// The browser in words, such as `Firefox on Linux`; empty if it asked for no page yet.
    pub browser: String,
    /// The address from which it last asked for a page; empty if it asked for none yet.
    pub address: String,
}

impl TokenStore {
    /// Returns the sessions that have not ended at `now`, the latest first.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn sessions(&self, now: i64) -> Result<Vec<OpenSession>, StateError> {
        let open = "SELECT digest, subject, created, used, browser, address FROM browser_sessions \
                    WHERE ?1 - created <= ?2 AND ?1 - used <= ?3 ORDER BY used DESC, digest";
        let bounds = values![now, SESSION_SECONDS, SESSION_IDLE_SECONDS];
        self.read("list the sessions of", |tables| {
            tables.rows(open, bounds, |row| {
                Ok(OpenSession {
                    digest: row.get(0)?,
                    subject: row.get(1)?,
                    created: row.get(2)?,
                    used: row.get(3)?,
                    browser: row.get::<Option<String>>(4)?.unwrap_or_default(),
                    address: row.get::<Option<String>>(5)?.unwrap_or_default(),
                })
            })
        })
    }

    /// Notes which browser uses a session, in words, and from which address. Nothing is written if
    /// both are known.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn note_session_place(
        &self,
        session: &SecretDigest,
        browser: &str,
        address: &str,
    ) -> Result<(), StateError> {
        let one = "SELECT browser, address FROM browser_sessions WHERE digest = ?1";
        let known = self.read("look up a session in", |tables| {
            tables.first(one, values![session], |row| {
                Ok((row.get::<Option<String>>(0)?, row.get::<Option<String>>(1)?))
            })
        })?;
        let now = (Some(browser.to_owned()), Some(address.to_owned()));
        if known.is_none_or(|known| known == now) {
            return Ok(());
        }
        let note = "UPDATE browser_sessions SET browser = ?2, address = ?3 WHERE digest = ?1";
        self.execute("note the place of a session in", note, values![session, browser, address])
            .map(drop)
    }

    /// Notes the role of the person of a session, whom an identity provider signed in, durably.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn set_session_role(&self, session: &SecretDigest, role: &str) -> Result<(), StateError> {
        let set = "UPDATE browser_sessions SET role = ?2 WHERE digest = ?1";
        self.execute("note the role of a session in", set, values![session, role]).map(drop)
    }

    /// Returns the role of the person of a session; `None` if no identity provider signed the
    /// person in.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn session_role(&self, session: &SecretDigest) -> Result<Option<String>, StateError> {
        let role = "SELECT role FROM browser_sessions WHERE digest = ?1";
        let found = self.read("look up a session in", |tables| {
            tables.first(role, values![session], |row| row.get::<Option<String>>(0))
        })?;
        Ok(found.flatten())
    }

    /// Ends the sessions of a user, durably, and returns how many there were.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn close_sessions_of(&self, subject: &str) -> Result<usize, StateError> {
        let end = "DELETE FROM browser_sessions WHERE subject = ?1";
        self.execute("end the sessions of", end, values![subject])
    }

    /// Ends every session, durably, and returns how many there were.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn close_all_sessions(&self) -> Result<usize, StateError> {
        self.execute("end the sessions of", "DELETE FROM browser_sessions", &[])
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
        let clean = "DELETE FROM sign_in_links WHERE created < ?1 OR created > ?2";
        // The clock may have been set back since a link was made.
        let [before, after] = [now.saturating_sub(LINK_SECONDS), now.saturating_add(LINK_SECONDS)];
        let insert = "INSERT INTO sign_in_links (digest, subject, created) VALUES (?1, ?2, ?3)";
        self.change_rows("record a link in", |tables| {
            tables.execute(clean, values![before, after])?;
            tables.execute(insert, values![link, subject, now]).map(drop)
        })
    }

    /// Returns whether there is a one-time link that nobody has spent, of whatever age.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn has_link(&self, link: &SecretDigest) -> Result<bool, StateError> {
        let one = "SELECT 1 FROM sign_in_links WHERE digest = ?1";
        let found = self.read("look up a link of", |tables| {
            tables.first(one, values![link], |row| row.get::<i64>(0))
        })?;
        Ok(found.is_some())
    }

    /// Spends a one-time link, and returns its user; `None` if the link is unknown, spent or too
    /// old. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn spend_link(&self, link: &SecretDigest, now: i64) -> Result<Option<String>, StateError> {
        let spend = "DELETE FROM sign_in_links WHERE digest = ?1 RETURNING subject, created";
        let spent: Option<(String, i64)> = self.change_rows("spend a link of", |tables| {
            tables.first(spend, values![link], |row| Ok((row.get(0)?, row.get(1)?)))
        })?;
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
        let clean = "DELETE FROM browser_sessions WHERE created < ?1";
        let before = now.saturating_sub(SESSION_SECONDS);
        let insert = "INSERT INTO browser_sessions (digest, subject, created, used) \
                      VALUES (?1, ?2, ?3, ?3)";
        self.change_rows("open a session in", |tables| {
            tables.execute(clean, values![before])?;
            tables.execute(insert, values![session, subject, now]).map(drop)
        })
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
        let one = "SELECT subject, created, used FROM browser_sessions WHERE digest = ?1";
        let found: Option<(String, i64, i64)> = self.read("look up a session in", |tables| {
            tables.first(one, values![session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        })?;
        let Some((subject, created, used)) = found else { return Ok(None) };
        if now.saturating_sub(created) > SESSION_SECONDS
            || now.saturating_sub(used) > SESSION_IDLE_SECONDS
        {
            return Ok(None);
        }
        if now.saturating_sub(used) > USE_WRITTEN_SECONDS {
            let note = "UPDATE browser_sessions SET used = ?2 WHERE digest = ?1";
            self.execute("note the use of a session in", note, values![session, now])?;
        }
        Ok(Some(subject))
    }

    /// Ends a session, durably. An unknown one is no error.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn close_session(&self, session: &SecretDigest) -> Result<(), StateError> {
        let delete = "DELETE FROM browser_sessions WHERE digest = ?1";
        self.execute("end a session of", delete, values![session]).map(drop)
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
        for address in ["192.0.2.1", "192.0.2.7"] {
            store.note_session_place(&[1; 32], "Firefox on Linux", address).unwrap();
        }
        store.note_session_place(&[9; 32], "Firefox on Linux", "192.0.2.1").unwrap();
        let places: Vec<_> = store
            .sessions(1100)
            .unwrap()
            .into_iter()
            .map(|session| (session.browser, session.address))
            .collect();
        let known = ("Firefox on Linux".to_owned(), "192.0.2.7".to_owned());
        assert_eq!(places, [Default::default(), known]);
        assert_eq!(digests(1050 + SESSION_IDLE_SECONDS), [2]);
        assert!(digests(1200 + SESSION_IDLE_SECONDS).is_empty());
        assert_eq!(store.close_all_sessions().unwrap(), 2);
        assert_eq!(store.session_user(&[2; 32], 1100).unwrap(), None);
        assert_eq!(store.close_all_sessions().unwrap(), 0);
    }
}
