//! The credentials with which the owner signs in: a hashed password, and public keys of passkeys.
//!
//! Neither lets a reader of the database sign in: a password is kept as a slow hash, and a passkey
//! has its private key in the owner's device.

use super::state_dir::StateError;
use super::tables::{TableError, TableRow, values};
use super::tokens::TokenStore;

/// The most passkeys of an owner.
pub(super) const MAX_PASSKEYS: i64 = 32;

/// A password as argon2id hashed it, with the parameters that make the same hash again.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredPassword {
    /// The user whom the password signs in.
    pub subject: String,
    /// The random salt of this password.
    pub salt: Vec<u8>,
    /// The output of argon2id.
    pub hash: Vec<u8>,
    /// How much memory the hash took, in KiB.
    pub memory_kib: u32,
    /// How often the hash passed over its memory.
    pub passes: u32,
    /// When the password was set, in UTC seconds since 1970.
    pub changed: i64,
}

impl std::fmt::Debug for StoredPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredPassword").field("changed", &self.changed).finish_non_exhaustive()
    }
}

/// A passkey that the owner registered. Times are UTC seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passkey {
    /// The identifier that the authenticator chose, at most 1023 bytes.
    pub credential: Vec<u8>,
    /// The user whom the passkey signs in.
    pub subject: String,
    /// The name that the owner gave.
    pub name: String,
    /// The domain that the passkey is for: the relying party identifier.
    pub domain: String,
    /// The public key in COSE form, which names its algorithm.
    pub public_key: Vec<u8>,
    /// The authenticator's counter at the last sign-in; 0 for one that does not count.
    pub counter: u32,
    /// When the owner registered the passkey.
    pub created: i64,
    /// When the owner last signed in with the passkey.
    pub last_used: Option<i64>,
}

/// What became of a new passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasskeyAdded {
    /// The passkey is stored.
    Added,
    /// A passkey with this identifier exists. Nothing was changed.
    Known,
    /// The owner has as many passkeys as are allowed. Nothing was changed.
    TooMany,
}

/// What became of a sign-in with a passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasskeyUse {
    /// The counter went up, or the authenticator does not count.
    Accepted,
    /// The counter did not go up, so there may be a copy of the authenticator; or the passkey was
    /// removed meanwhile.
    Refused,
}

impl TokenStore {
    /// Returns the owner's password; `None` if none was set.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn owner_password(&self) -> Result<Option<StoredPassword>, StateError> {
        let query = "SELECT subject, salt, hash, memory_kib, passes, changed FROM owner_password";
        let read = |row: &TableRow| {
            Ok(StoredPassword {
                subject: row.get(0)?,
                salt: row.get(1)?,
                hash: row.get(2)?,
                memory_kib: row.get(3)?,
                passes: row.get(4)?,
                changed: row.get(5)?,
            })
        };
        self.read("look up the password in", |tables| tables.first(query, &[], read))
    }

    /// Sets the owner's password in place of the old one, durably.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails. The old password then stays.
    pub fn set_owner_password(&self, password: &StoredPassword) -> Result<(), StateError> {
        let store = "INSERT INTO owner_password \
                     (\"only\", subject, salt, hash, memory_kib, passes, changed) \
                     VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (\"only\") DO UPDATE SET \
                     subject = ?1, salt = ?2, hash = ?3, memory_kib = ?4, passes = ?5, changed = ?6";
        let row = values![
            password.subject, password.salt, password.hash, password.memory_kib, password.passes,
            password.changed,
        ];
        self.execute("store the password in", store, row).map(drop)
    }

    /// Removes the owner's password, durably. Returns whether there was one.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn remove_owner_password(&self) -> Result<bool, StateError> {
        Ok(self.execute("remove the password from", "DELETE FROM owner_password", &[])? > 0)
    }

    /// Returns the owner's passkeys in the order in which they were registered.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn passkeys(&self) -> Result<Vec<Passkey>, StateError> {
        let all = "SELECT credential, subject, name, domain, public_key, counter, created, last_used \
             FROM passkeys ORDER BY created, credential";
        self.read("list the passkeys of", |tables| tables.rows(all, &[], passkey))
    }

    /// Returns the passkey with this identifier; `None` if the owner has no such passkey.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn passkey(&self, credential: &[u8]) -> Result<Option<Passkey>, StateError> {
        let one = "SELECT credential, subject, name, domain, public_key, counter, created, last_used \
             FROM passkeys WHERE credential = ?1";
        self.read("look up a passkey in", |tables| tables.first(one, values![credential], passkey))
    }

    /// Stores a new passkey, durably.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn add_passkey(&self, passkey: &Passkey) -> Result<PasskeyAdded, StateError> {
        // One statement, so that two registrations at once do not pass the limit together.
        let insert = "INSERT INTO passkeys \
                      (credential, subject, name, domain, public_key, counter, created, last_used) \
                      SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL \
                      WHERE (SELECT count(*) FROM passkeys) < ?8 \
                      AND NOT EXISTS (SELECT 1 FROM passkeys WHERE credential = ?1)";
        let row = values![
            passkey.credential, passkey.subject, passkey.name, passkey.domain, passkey.public_key,
            passkey.counter, passkey.created, MAX_PASSKEYS,
        ];
        let added = self.execute("store a passkey in", insert, row)?;
        if added > 0 {
            return Ok(PasskeyAdded::Added);
        }
        let known = self.passkey(&passkey.credential)?.is_some();
        Ok(if known { PasskeyAdded::Known } else { PasskeyAdded::TooMany })
    }

    /// Records a sign-in with a passkey at `now`, if the authenticator's counter went up.
    ///
    /// *Source*: Web Authentication Level 3, section 7.2, on the signature counter.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn use_passkey(
        &self,
        credential: &[u8],
        counter: u32,
        now: i64,
    ) -> Result<PasskeyUse, StateError> {
        let update = "UPDATE passkeys SET counter = ?2, last_used = ?3 \
                      WHERE credential = ?1 AND (counter < ?2 OR (counter = 0 AND ?2 = 0))";
        let updated =
            self.execute("record a sign-in in", update, values![credential, counter, now])?;
        Ok(if updated > 0 { PasskeyUse::Accepted } else { PasskeyUse::Refused })
    }

    /// Removes a passkey, durably. Returns whether there was one with this identifier.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn remove_passkey(&self, credential: &[u8]) -> Result<bool, StateError> {
        let remove = "DELETE FROM passkeys WHERE credential = ?1";
        Ok(self.execute("remove a passkey from", remove, values![credential])? > 0)
    }
}

fn passkey(row: &TableRow) -> Result<Passkey, TableError> {
    Ok(Passkey {
        credential: row.get(0)?,
        subject: row.get(1)?,
        name: row.get(2)?,
        domain: row.get(3)?,
        public_key: row.get(4)?,
        counter: row.get(5)?,
        created: row.get(6)?,
        last_used: row.get(7)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StateDir;

    fn store() -> (tempfile::TempDir, TokenStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        (folder, store)
    }

    fn key(credential: u8, counter: u32) -> Passkey {
        Passkey {
            credential: vec![credential; 16],
            subject: "ann".to_owned(),
            name: "phone".to_owned(),
            domain: "localhost".to_owned(),
            public_key: vec![1, 2, 3],
            counter,
            created: 100,
            last_used: None,
        }
    }

    #[test]
    fn a_new_password_replaces_the_old_one() {
        let (_folder, store) = store();
        assert_eq!(store.owner_password().unwrap(), None);
        let password = |changed| StoredPassword {
            subject: "ann".to_owned(),
            salt: vec![1; 16],
            hash: vec![2; 32],
            memory_kib: 8,
            passes: 1,
            changed,
        };
        store.set_owner_password(&password(1)).unwrap();
        store.set_owner_password(&password(2)).unwrap();
        assert_eq!(store.owner_password().unwrap(), Some(password(2)));
        assert!(store.remove_owner_password().unwrap());
        assert!(!store.remove_owner_password().unwrap());
        assert_eq!(store.owner_password().unwrap(), None);
    }

    #[test]
    fn a_counter_that_does_not_go_up_is_refused() {
        let (_folder, store) = store();
        assert_eq!(store.add_passkey(&key(1, 5)).unwrap(), PasskeyAdded::Added);
        assert_eq!(store.add_passkey(&key(2, 0)).unwrap(), PasskeyAdded::Added);
        let uses =
            |credential: u8, counter| store.use_passkey(&[credential; 16], counter, 200).unwrap();
        for (credential, counter, expected) in [
            (1, 5, PasskeyUse::Refused),
            (1, 6, PasskeyUse::Accepted),
            (1, 6, PasskeyUse::Refused),
            (1, 0, PasskeyUse::Refused),
            (1, u32::MAX, PasskeyUse::Accepted),
            // An authenticator that does not count always sends 0.
            (2, 0, PasskeyUse::Accepted),
            (2, 0, PasskeyUse::Accepted),
            (2, 1, PasskeyUse::Accepted),
            (2, 0, PasskeyUse::Refused),
            (3, 1, PasskeyUse::Refused),
        ] {
            assert_eq!(uses(credential, counter), expected, "{credential} {counter}");
        }
        let listed = store.passkeys().unwrap();
        let used = Passkey { last_used: Some(200), ..key(1, u32::MAX) };
        assert_eq!(listed, [used, Passkey { last_used: Some(200), ..key(2, 1) }]);
    }

    #[test]
    fn passkeys_are_few_and_each_identifier_is_stored_once() {
        let (_folder, store) = store();
        for credential in 0..u8::try_from(MAX_PASSKEYS).unwrap() {
            assert_eq!(store.add_passkey(&key(credential, 0)).unwrap(), PasskeyAdded::Added);
        }
        assert_eq!(store.add_passkey(&key(200, 0)).unwrap(), PasskeyAdded::TooMany);
        assert!(store.remove_passkey(&[0; 16]).unwrap());
        assert!(!store.remove_passkey(&[0; 16]).unwrap());
        assert_eq!(store.add_passkey(&key(1, 7)).unwrap(), PasskeyAdded::Known);
        assert_eq!(store.passkey(&[1; 16]).unwrap(), Some(key(1, 0)));
    }
}
