//! Which servers run with a state folder, and where each of them listens.
//!
//! A server writes a note in the folder `running` once it listens, and holds a lock as long as it
//! does. The system releases the lock when the process ends, however it ends. So a note whose lock
//! is held says who has the address now: as long as one process listens there, no other one can.
//! Only the owner can write in the state folder.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::private::{create_private, make_folder};
use super::state_dir::StateDir;

/// The folder of the notes in the state folder.
const FOLDER: &str = "running";
const LOCK: &str = "lock";
const NOTE: &str = "json";
/// The number of bytes of a note that are read.
const MAX_BYTES: u64 = 64 * 1024;

/// Where a server listens, and what it serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningServer {
    /// The address listened on as an origin, such as `http://127.0.0.1:9999`.
    pub origin: String,
    /// The origin that clients use, if the server was told one.
    pub public_url: Option<String>,
    /// The `aud` of the tokens of its space.
    pub audience: String,
    /// The folder that it serves.
    pub root: PathBuf,
    /// The number of its process.
    pub pid: u32,
    /// When it began to listen, in UTC seconds since 1970.
    pub started: i64,
}

/// The note of a server of this process. Dropping it withdraws the note.
#[derive(Debug)]
pub struct RunningNote {
    stem: PathBuf,
    _lock: File,
}

impl RunningNote {
    /// Writes the note of a server that listens now.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn publish(state: &StateDir, server: &RunningServer) -> io::Result<Self> {
        let folder = state.path().join(FOLDER);
        make_folder(&folder)?;
        let stem = folder.join(Uuid::new_v4().simple().to_string());
        let lock = create_private(&stem.with_extension(LOCK))?;
        crate::platform::lock(&lock)?;
        // Readers look for notes, so the lock is held before there is one.
        let published = create_private(&stem.with_extension(NOTE))
            .and_then(|mut file| file.write_all(&serde_json::to_vec(server)?));
        let note = Self { stem, _lock: lock };
        published.map(|()| note)
    }
}

impl Drop for RunningNote {
    fn drop(&mut self) {
        remove(&self.stem);
    }
}

/// Returns the servers that run with this state, the latest start first. Removes the notes of
/// servers that were killed.
///
/// # Errors
/// The error of the file system.
pub fn running_servers(state: &StateDir) -> io::Result<Vec<RunningServer>> {
    let entries = match std::fs::read_dir(state.path().join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == NOTE) {
            match is_held(&path.with_extension(LOCK)) {
                true => found.extend(read(&path)),
                false => remove(&path.with_extension("")),
            }
        }
    }
    found.sort_by_key(|server| std::cmp::Reverse((server.started, server.pid)));
    Ok(found)
}

/// Returns whether a process holds a lock. A lock that cannot be tried counts as not held.
fn is_held(path: &Path) -> bool {
    // Readers share the lock among each other, so that none takes another for a server.
    let tried = File::open(path).map(|file| crate::platform::try_lock_shared(&file));
    matches!(tried, Ok(Err(TryLockError::WouldBlock)))
}

/// Returns a note; `None` for one that is being written, or that another version wrote.
fn read(path: &Path) -> Option<RunningServer> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Removes a note, and then its lock.
fn remove(stem: &Path) {
    for extension in [NOTE, LOCK] {
        let _ = std::fs::remove_file(stem.with_extension(extension));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(origin: &str, started: i64) -> RunningServer {
        RunningServer {
            origin: origin.to_owned(),
            public_url: None,
            audience: "urn:uuid:1".to_owned(),
            root: PathBuf::from("/srv/notes"),
            pid: 1,
            started,
        }
    }

    #[test]
    fn a_server_is_found_as_long_as_its_process_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        assert_eq!(running_servers(&state).unwrap(), []);
        let (first, second) = (server("http://127.0.0.1:1", 5), server("http://127.0.0.1:2", 9));
        let note = RunningNote::publish(&state, &first).unwrap();
        let other = RunningNote::publish(&state, &second).unwrap();
        let both = [second.clone(), first.clone()];
        assert_eq!(running_servers(&state).unwrap(), both);
        assert_eq!(running_servers(&state).unwrap(), both, "looking changes nothing");
        drop(note);
        assert_eq!(running_servers(&state).unwrap(), [second]);
        drop(other);
        assert_eq!(std::fs::read_dir(folder.path().join(FOLDER)).unwrap().count(), 0);
    }

    #[test]
    fn the_note_of_a_killed_server_is_not_believed_and_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let note = RunningNote::publish(&state, &server("http://127.0.0.1:1", 5)).unwrap();
        let stem = &note.stem;
        // What a killed process leaves: its files without its lock.
        let left = stem.with_file_name("left");
        std::fs::copy(stem.with_extension(NOTE), left.with_extension(NOTE)).unwrap();
        std::fs::write(left.with_extension(LOCK), "").unwrap();
        let half = stem.with_file_name("without-lock");
        std::fs::copy(stem.with_extension(NOTE), half.with_extension(NOTE)).unwrap();
        assert_eq!(running_servers(&state).unwrap().len(), 1);
        assert_eq!(std::fs::read_dir(folder.path().join(FOLDER)).unwrap().count(), 2);
    }
}
