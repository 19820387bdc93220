//! Which folders are served now, with a history or without one.
//!
//! A server knows the space of its folder by what it read at its start. So no folder may become
//! another space while it is served. A process that serves a folder holds a shared lock on a file
//! that stands for the folder in the state folder. Whoever changes the space of a folder holds that
//! lock alone. The system releases it when the process ends, however it ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use stile_domain::hash::ContentHash;

use super::private::{create_private, make_folder};
use super::spaces::{OldSpace, folder_identity};
use super::state_dir::StateDir;

/// The folder of the files in the state folder.
const FOLDER: &str = "served";

/// Says that a folder is served as long as the value lives.
#[derive(Debug)]
pub struct ServedFolder {
    _lock: File,
}

impl ServedFolder {
    /// Says that this process serves a folder. Waits while a command changes the space of the
    /// folder.
    ///
    /// # Errors
    /// The error of the file system, also one that has no locks.
    pub fn hold(state: &StateDir, root: &Path) -> io::Result<Self> {
        let lock = open(state, &identity_of(root)?)?;
        crate::platform::lock_shared(&lock)?;
        Ok(Self { _lock: lock })
    }
}

/// Keeps two folders from being served as long as the value lives.
#[derive(Debug)]
pub struct UnservedFolders {
    _locks: Vec<File>,
}

impl UnservedFolders {
    /// Keeps the folder `root` and the folder of an old space from being served; `None` if one of
    /// them is served now.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn hold(state: &StateDir, root: &Path, old: &OldSpace) -> io::Result<Option<Self>> {
        let mut identities = [identity_of(root)?, old.identity.clone()];
        // In one order, so that no two commands wait for each other.
        identities.sort();
        let mut locks = Vec::new();
        for identity in identities {
            let lock = open(state, &identity)?;
            match crate::platform::try_lock(&lock) {
                Ok(()) => locks.push(lock),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(Some(Self { _locks: locks }))
    }
}

fn identity_of(root: &Path) -> io::Result<String> {
    let path = root.canonicalize()?;
    Ok(folder_identity(&path.metadata()?, &path))
}

/// Opens the file that stands for a folder, and makes it on first use.
fn open(state: &StateDir, identity: &str) -> io::Result<File> {
    let folder = state.path().join(FOLDER);
    make_folder(&folder)?;
    let path: PathBuf = folder.join(ContentHash::digest(identity.as_bytes()).to_string());
    match create_private(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::open(&path),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::TokenStore;
    use super::*;

    #[test]
    fn no_folder_changes_its_space_while_it_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(&folder.path().join("state")).unwrap();
        let tokens = TokenStore::open(&state).unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        for path in [&old, &new] {
            std::fs::create_dir(path).unwrap();
        }
        tokens.space_of(&old).unwrap();
        let [space] = tokens.other_spaces(&new).unwrap().try_into().unwrap();
        let is_held = || UnservedFolders::hold(&state, &new, &space).unwrap().is_some();
        assert!(is_held());
        for served in [&old, &new] {
            let first = ServedFolder::hold(&state, served).unwrap();
            let second = ServedFolder::hold(&state, served).unwrap();
            drop(first);
            assert!(!is_held(), "another process serves it still");
            drop(second);
            assert!(is_held());
        }
        // The folder may be gone while its server runs.
        let server = ServedFolder::hold(&state, &old).unwrap();
        std::fs::remove_dir(&old).unwrap();
        assert!(!is_held());
        drop(server);
        assert!(is_held());
    }
}
