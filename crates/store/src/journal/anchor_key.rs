//! The key under which anchors are written, so that nobody who has no access to the key can write
//! or change an anchor.
//!
//! The key is a file of 32 random bytes in the state folder, made with the first anchor. Whoever
//! can read that file and write in the folder can forge a journal. Whoever only rewrites the
//! journal, or its database of anchors, cannot.

use std::io::{self, Write as _};
use std::path::Path;

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::state::{create_private, sync_folder};

/// The name of the key in the state folder.
pub(super) const NAME: &str = "journal.key";
/// The name of a key whose database of anchors is not made yet. A kill may leave it.
const PENDING: &str = "journal.key.pending";
const KEY_BYTES: usize = 32;
const MAC_BYTES: usize = 32;

/// The key of the anchors of one state folder.
pub(super) struct AnchorKey(hmac::Key);

impl AnchorKey {
    /// Reads the key of a state folder; `None` if there is none.
    ///
    /// # Errors
    /// The error of the file system, or that the file has another length than a key.
    pub(super) fn find(state: &Path) -> io::Result<Option<Self>> {
        Self::read(&state.join(NAME))
    }

    /// Reads the key that [`AnchorKey::prepare`] wrote, and gives it its place.
    pub(super) fn find_prepared(state: &Path) -> io::Result<Option<Self>> {
        let found = Self::read(&state.join(PENDING))?;
        if found.is_some() {
            Self::keep_prepared(state)?;
        }
        Ok(found)
    }

    /// Makes a key beside its place. A key in its place without a database of anchors means that
    /// somebody removed the database, so the key gets its place last.
    pub(super) fn prepare(state: &Path) -> io::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random bytes"))?;
        let pending = state.join(PENDING);
        match std::fs::remove_file(&pending) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = create_private(&pending)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        Ok(Self::of(&bytes))
    }

    /// Gives the key that was made beside its place its place.
    pub(super) fn keep_prepared(state: &Path) -> io::Result<()> {
        std::fs::rename(state.join(PENDING), state.join(NAME))?;
        sync_folder(state)
    }

    /// Returns the code that binds a text to the key: HMAC with SHA-256 (RFC 2104).
    pub(super) fn mac(&self, text: &str) -> [u8; MAC_BYTES] {
        let tag = hmac::sign(&self.0, text.as_bytes());
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(tag.as_ref());
        mac
    }

    /// Returns whether a code is that of a text.
    pub(super) fn verifies(&self, text: &str, mac: &[u8]) -> bool {
        hmac::verify(&self.0, text.as_bytes(), mac).is_ok()
    }

    fn read(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(path) {
            Ok(bytes) if bytes.len() == KEY_BYTES => Ok(Some(Self::of(&bytes))),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the key is damaged")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn of(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }
}
