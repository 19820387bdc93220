//! The key that signs local tokens, and the identifier in their `aud` claim.
//!
//! Both are made once, in one file. A token works at every address of this server, and at no other
//! server.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use stile_domain::hash::{from_hex, hex};
use uuid::Uuid;

use super::copying::replace_file;
use super::private::{self, create_private, sync_folder};
use super::state_dir::{StateDir, StateError, io_error};
use super::tables::values;
use super::tokens::TokenStore;
use crate::postgresql::Database;

const NAME: &str = "key.json";
/// The number of bytes that are read. A key file has about 150.
const MAX_BYTES: u64 = 4096;

/// The key that signs local tokens, with their audience.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenKey {
    /// The key of HMAC with SHA-256.
    pub secret: [u8; 32],
    /// The `aud` of every token: `urn:uuid:` and a UUID.
    pub audience: String,
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("secret", &"…").field("audience", &self.audience).finish()
    }
}

/// The content of the key file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    /// 64 hexadecimal digits.
    secret: String,
    audience: String,
}

impl TokenKey {
    /// Reads the key, after making one if there is none. Processes that start at once use the same
    /// key.
    ///
    /// # Errors
    /// [`StateError`] if the file is damaged, belongs to another user, or can be opened by others.
    pub fn open(state: &StateDir) -> Result<Self, StateError> {
        let path = state.path().join(NAME);
        match read(&path) {
            Err(StateError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                create(state.path(), &path)?;
                read(&path)
            }
            read => read,
        }
    }

    /// Reads the key that servers with one database share, after making one if there is none.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails; [`StateError::Random`].
    pub fn of(database: &Database) -> Result<Self, StateError> {
        if let Some(key) = Self::find(database)? {
            return Ok(key);
        }
        let tokens = TokenStore::on(database);
        let new = Self::generate().map_err(|_| StateError::Random)?;
        let insert = "INSERT INTO token_key (\"only\", secret, audience) VALUES (1, ?1, ?2) \
                      ON CONFLICT DO NOTHING";
        tokens.execute("make the key of", insert, values![new.secret, new.audience])?;
        Self::find(database)?.ok_or(StateError::Random)
    }

    /// Reads the key without making one.
    ///
    /// # Errors
    /// The errors of [`TokenKey::open`], or that there is no key.
    pub fn open_existing(state: &StateDir) -> Result<Self, StateError> {
        read(&state.path().join(NAME))
    }

    /// Reads the key that servers with one database share. `None` if none was made.
    pub(crate) fn find(database: &Database) -> Result<Option<Self>, StateError> {
        TokenStore::on(database).read("look up the key of", |tables| {
            tables.first("SELECT secret, audience FROM token_key", &[], |row| {
                Ok(Self { secret: row.get(0)?, audience: row.get(1)? })
            })
        })
    }

    /// Reads the key of a state folder. `None` if none was made.
    pub(crate) fn find_in(state: &StateDir) -> Result<Option<Self>, StateError> {
        match read(&state.path().join(NAME)) {
            Err(StateError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Puts the key in the place of the one that servers with one database share.
    pub(crate) fn replace(&self, database: &Database) -> Result<(), StateError> {
        let text = "INSERT INTO token_key (\"only\", secret, audience) VALUES (1, ?1, ?2) \
                    ON CONFLICT (\"only\") DO UPDATE \
                    SET secret = excluded.secret, audience = excluded.audience";
        let tokens = TokenStore::on(database);
        tokens.execute("replace the key of", text, values![self.secret, self.audience]).map(drop)
    }

    /// Puts the key in the place of that of a state folder.
    pub(crate) fn replace_in(&self, state: &StateDir) -> Result<(), StateError> {
        let path = state.path().join(NAME);
        replace_file(state, NAME, &self.to_json().map_err(io_error("make", &path))?)
    }

    fn to_json(&self) -> io::Result<Vec<u8>> {
        let stored =
            Stored { version: 1, secret: hex(&self.secret), audience: self.audience.clone() };
        Ok(serde_json::to_vec(&stored)?)
    }

    fn generate() -> io::Result<Self> {
        let mut secret = [0; 32];
        SystemRandom::new()
            .fill(&mut secret)
            .map_err(|_| io::Error::other("no random bytes to be had"))?;
        Ok(Self { secret, audience: Uuid::new_v4().urn().to_string() })
    }
}

fn read(path: &Path) -> Result<TokenKey, StateError> {
    let file = File::open(path).map_err(io_error("open", path))?;
    let metadata = file.metadata().map_err(io_error("open", path))?;
    if !private::is_ours(&metadata) {
        return Err(StateError::Foreign { path: path.to_owned() });
    }
    if private::others_can_open(&metadata) {
        return Err(StateError::Exposed { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(io_error("read", path))?;
    parse(&bytes).ok_or_else(|| StateError::DamagedKey { path: path.to_owned() })
}

fn parse(bytes: &[u8]) -> Option<TokenKey> {
    let stored: Stored = serde_json::from_slice(bytes).ok()?;
    let uuid = Uuid::try_parse(stored.audience.strip_prefix("urn:uuid:")?).ok()?;
    if stored.version != 1 || uuid.is_nil() {
        return None;
    }
    Some(TokenKey { secret: from_hex(&stored.secret)?, audience: stored.audience })
}

/// Makes a key. Links a finished file to its name, so that nobody reads half a key and the first
/// key stays.
fn create(folder: &Path, path: &Path) -> Result<(), StateError> {
    let key = TokenKey::generate().map_err(io_error("make", path))?;
    let text = key.to_json().map_err(io_error("make", path))?;
    let temporary = folder.join(format!(".key-{}.tmp", Uuid::new_v4().simple()));
    let linked = create_private(&temporary)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .and_then(|()| match std::fs::hard_link(&temporary, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        });
    let removed = std::fs::remove_file(&temporary);
    linked.and(removed).and_then(|()| sync_folder(folder)).map_err(io_error("make", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        (folder, state)
    }

    #[test]
    fn a_key_is_made_once_and_then_read() {
        let (folder, state) = state();
        let key = TokenKey::open(&state).unwrap();
        assert_eq!(TokenKey::open(&state).unwrap(), key);
        assert_ne!(key.secret, [0; 32]);
        assert!(key.audience.starts_with("urn:uuid:"));
        let names: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, [NAME]);
    }

    #[test]
    fn many_first_runs_at_once_agree_on_one_key() {
        for _ in 0..20 {
            let (_folder, state) = state();
            let keys: Vec<TokenKey> = std::thread::scope(|scope| {
                let runs: Vec<_> =
                    (0..8).map(|_| scope.spawn(|| TokenKey::open(&state).unwrap())).collect();
                runs.into_iter().map(|run| run.join().unwrap()).collect()
            });
            assert!(keys.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_can_open_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let (folder, state) = state();
        TokenKey::open(&state).unwrap();
        let path = folder.path().join(NAME);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        for mode in [0o640, 0o604, 0o660] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = TokenKey::open(&state).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn a_damaged_key_is_refused_and_left_alone() {
        let (folder, state) = state();
        TokenKey::open(&state).unwrap();
        let path = folder.path().join(NAME);
        let good = std::fs::read_to_string(&path).unwrap();
        for bad in [
            "".to_owned(),
            good[..good.len() - 1].to_owned(),
            good.replace("\"version\":1", "\"version\":2"),
            good.replace("urn:uuid:", "urn:"),
            good.replace("\"secret\":\"", "\"secret\":\"00"),
            good.replace("\"secret\":\"", "\"secret\":\"g").replacen("\",\"aud", "x\",\"aud", 1),
            good.replace('{', "{\"more\":1,"),
        ] {
            std::fs::write(&path, &bad).unwrap();
            assert!(matches!(TokenKey::open(&state), Err(StateError::DamagedKey { .. })), "{bad}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), bad);
        }
    }

    #[test]
    fn the_debug_output_of_a_key_lacks_its_secret() {
        let key = TokenKey { secret: [0x5a; 32], audience: "urn:uuid:x".to_owned() };
        let text = format!("{key:?}");
        assert!(!text.contains("90") && !text.to_lowercase().contains("5a"), "{text}");
    }
}
