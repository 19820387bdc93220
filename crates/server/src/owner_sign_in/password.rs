//! Hashes the owner's password with argon2id, and compares what a browser sends.
//!
//! A hash takes some 50 ms and 32 MiB on purpose. So one hash runs at a time, few wait for their
//! turn, and the rest are refused at once: sign-in attempts take at most one core, and other
//! requests keep the others. An attempt takes as long without a password as with a wrong one.
//!
//! *Source*: RFC 9106; OWASP Password Storage Cheat Sheet, which asks for at least 19 MiB and two
//! passes.

use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};
use ring::rand::{SecureRandom as _, SystemRandom};
use stile_domain::owner_password::OwnerPassword;
use stile_store::state::{StateError, StoredPassword, TokenStore};
use tokio::sync::{AcquireError, Semaphore};

/// The memory of a new hash, in KiB.
const MEMORY_KIB: u32 = 32 * 1024;
/// How often a new hash passes over its memory.
const PASSES: u32 = 2;
/// One lane: a hash takes one core.
const LANES: u32 = 1;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// How many attempts may wait while one is hashed.
const MAX_WAITING: usize = 8;

/// Why a password was neither accepted nor refused.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// So many attempts wait that this one would wait too long.
    #[error("too many people sign in at this moment; try again in a few seconds")]
    Busy,
    /// The stored password cannot be read, or the hash cannot be computed.
    #[error("the password could not be checked")]
    Unusable,
    /// The database of the state fails.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Whether an attempt had the owner's password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordVerdict {
    /// The attempt had the password of this user.
    Right(String),
    /// The attempt had another text, or there is no password.
    Wrong,
}

/// Checks attempts, one at a time.
#[derive(Clone, Debug)]
pub struct PasswordChecker {
    tokens: Arc<TokenStore>,
    /// One permit for each attempt that may wait or be hashed.
    queue: Arc<Semaphore>,
    /// One permit: an attempt that is hashed holds it.
    turn: Arc<Semaphore>,
}

impl PasswordChecker {
    /// A checker of the password in `tokens`. Clones share the turn.
    pub fn new(tokens: Arc<TokenStore>) -> Self {
        let queue = Arc::new(Semaphore::new(MAX_WAITING + 1));
        Self { tokens, queue, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Compares what a browser sent with the owner's password, after waiting for a turn.
    ///
    /// # Errors
    /// [`PasswordError`]. The attempt then counts as neither right nor wrong.
    pub async fn check(&self, attempt: String) -> Result<PasswordVerdict, PasswordError> {
        let place = Arc::clone(&self.queue).try_acquire_owned().map_err(|_| PasswordError::Busy)?;
        let closed = |_: AcquireError| PasswordError::Busy;
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(closed)?;
        let tokens = Arc::clone(&self.tokens);
        let checked = tokio::task::spawn_blocking(move || {
            // A browser that goes away must not free the turn of the hash that it began.
            let _held = (place, turn);
            verify(tokens.owner_password()?.as_ref(), &attempt)
        });
        checked.await.map_err(|_| PasswordError::Unusable)?
    }
}

/// Hashes a new password of a user. `now` is in UTC seconds since 1970.
///
/// # Errors
/// [`PasswordError::Unusable`] if the system has no random bytes or no memory.
pub fn hash(
    subject: &str,
    password: &OwnerPassword,
    now: i64,
) -> Result<StoredPassword, PasswordError> {
    let mut salt = vec![0; SALT_BYTES];
    SystemRandom::new().fill(&mut salt).map_err(|_| PasswordError::Unusable)?;
    let mut stored = StoredPassword {
        subject: subject.to_owned(),
        salt,
        hash: Vec::new(),
        memory_kib: MEMORY_KIB,
        passes: PASSES,
        changed: now,
    };
    stored.hash = derive(&stored, password.as_bytes())?;
    Ok(stored)
}

/// Compares an attempt with the stored password, with the same work if there is none.
fn verify(
    stored: Option<&StoredPassword>,
    attempt: &str,
) -> Result<PasswordVerdict, PasswordError> {
    let nobodys = StoredPassword {
        subject: String::new(),
        salt: vec![0; SALT_BYTES],
        hash: vec![0; HASH_BYTES],
        memory_kib: MEMORY_KIB,
        passes: PASSES,
        changed: 0,
    };
    let attempt = OwnerPassword::parse(attempt).ok();
    // A text that cannot be a password is hashed like one that can.
    let bytes = attempt.as_ref().map_or(&b"not a password"[..], OwnerPassword::as_bytes);
    let against = stored.unwrap_or(&nobodys);
    let hash = derive(against, bytes)?;
    let equal = is_equal(&hash, &against.hash);
    Ok(match (stored, attempt) {
        (Some(stored), Some(_)) if equal => PasswordVerdict::Right(stored.subject.clone()),
        _ => PasswordVerdict::Wrong,
    })
}

fn derive(parameters: &StoredPassword, password: &[u8]) -> Result<Vec<u8>, PasswordError> {
    let StoredPassword { salt, memory_kib, passes, .. } = parameters;
    let params = Params::new(*memory_kib, *passes, LANES, Some(HASH_BYTES))
        .map_err(|_| PasswordError::Unusable)?;
    let mut hash = vec![0; HASH_BYTES];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password, salt, &mut hash)
        .map_err(|_| PasswordError::Unusable)?;
    Ok(hash)
}

/// Compares without ending at the first difference.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use stile_domain::hash::hex;
    use stile_store::state::StateDir;

    use super::*;

    fn password(text: &str) -> OwnerPassword {
        OwnerPassword::parse(text).unwrap()
    }

    /// A hash that takes no time.
    fn quick(text: &str) -> StoredPassword {
        let mut stored = StoredPassword {
            subject: "ann".to_owned(),
            salt: vec![7; 16],
            hash: Vec::new(),
            memory_kib: 8,
            passes: 1,
            changed: 1,
        };
        stored.hash = derive(&stored, password(text).as_bytes()).unwrap();
        stored
    }

    fn right() -> PasswordVerdict {
        PasswordVerdict::Right("ann".to_owned())
    }

    fn store() -> (tempfile::TempDir, Arc<TokenStore>) {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        (folder, Arc::new(store))
    }

    /// The reference implementation printed this value for these inputs.
    #[test]
    fn a_published_argon2id_hash_is_computed() {
        let parameters = StoredPassword {
            subject: String::new(),
            salt: b"somesalt".to_vec(),
            hash: Vec::new(),
            memory_kib: 256,
            passes: 2,
            changed: 0,
        };
        assert_eq!(
            hex(&derive(&parameters, b"password").unwrap()),
            "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe"
        );
    }

    #[test]
    fn only_the_stored_password_is_right() {
        let stored = quick("correct horse battery");
        for (attempt, expected) in [
            ("correct horse battery", right()),
            ("correct horse batterz", PasswordVerdict::Wrong),
            ("Correct horse battery", PasswordVerdict::Wrong),
            ("correct horse battery ", PasswordVerdict::Wrong),
            ("", PasswordVerdict::Wrong),
            ("not a password", PasswordVerdict::Wrong),
        ] {
            assert_eq!(verify(Some(&stored), attempt).unwrap(), expected, "{attempt}");
            assert_eq!(verify(None, attempt).unwrap(), PasswordVerdict::Wrong, "{attempt}");
        }
    }

    #[test]
    fn two_hashes_of_one_password_differ() {
        let (one, other) = (
            hash("ann", &password("correct horse battery"), 1),
            hash("ann", &password("correct horse battery"), 1),
        );
        let (one, other) = (one.unwrap(), other.unwrap());
        assert!(one.salt != other.salt && one.hash != other.hash);
        assert_eq!(verify(Some(&one), "correct horse battery").unwrap(), right());
    }

    #[tokio::test]
    async fn attempts_beyond_those_that_may_wait_are_refused_at_once() {
        let (_folder, store) = store();
        store.set_owner_password(&quick("correct horse battery")).unwrap();
        let checker = PasswordChecker::new(store);
        // Nobody gets a turn while the test holds it.
        let turn = Arc::clone(&checker.turn).acquire_owned().await.unwrap();
        let attempts: Vec<_> = (0..=MAX_WAITING)
            .map(|_| {
                let checker = checker.clone();
                tokio::spawn(async move { checker.check("correct horse battery".to_owned()).await })
            })
            .collect();
        while checker.queue.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = checker.check("correct horse battery".to_owned()).await;
        assert!(matches!(refused, Err(PasswordError::Busy)), "{refused:?}");
        drop(turn);
        for attempt in attempts {
            assert_eq!(attempt.await.unwrap().unwrap(), right());
        }
        let checked = checker.check("wrong horse battery".to_owned()).await.unwrap();
        assert_eq!(checked, PasswordVerdict::Wrong);
    }

    #[tokio::test]
    async fn a_browser_that_goes_away_keeps_its_turn_until_the_hash_is_done() {
        let (_folder, store) = store();
        let checker = PasswordChecker::new(Arc::clone(&store));
        let locked = store.set_owner_password(&quick("correct horse battery"));
        locked.unwrap();
        let attempt = tokio::spawn({
            let checker = checker.clone();
            async move { checker.check("correct horse battery".to_owned()).await }
        });
        while checker.turn.available_permits() > 0 && !attempt.is_finished() {
            tokio::task::yield_now().await;
        }
        attempt.abort();
        // The turn comes back when the hash is done, and not before; nothing is left held.
        let _turn = checker.turn.acquire().await.unwrap();
        let _places = checker.queue.acquire_many(MAX_WAITING as u32 + 1).await.unwrap();
    }
}
