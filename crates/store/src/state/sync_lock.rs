//! A lock that one process holds while it keeps the records of a stream in step with a folder.
//!
//! Two processes that followed different folders would remove each other's records. The system
//! releases the lock when the process ends, however it ends.

use std::fs::{File, TryLockError};
use std::io;

use stile_domain::records::identifiers::SourceName;

use super::private::{create_private, make_folder};
use super::state_dir::StateDir;

/// The folder of the locks in the state folder.
const LOCKS: &str = "records-sync";

/// The lock of one stream of one connection. Dropping it releases it.
#[derive(Debug)]
pub struct SyncLock {
    _file: File,
}

impl SyncLock {
    /// Takes the lock; `None` if another process, or another part of this one, has it.
    ///
    /// # Errors
    /// The error of the system.
    pub fn try_take(
        state: &StateDir,
        connection: &SourceName,
        stream: &SourceName,
    ) -> io::Result<Option<Self>> {
        // A name has no `/`, so two streams never share a lock.
        let folder = state.path().join(LOCKS).join(connection.as_str());
        make_folder(&folder)?;
        let path = folder.join(format!("{}.lock", stream.as_str()));
        match create_private(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let file = File::open(&path)?;
        match crate::platform::try_lock(&file) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_keeps_a_stream_in_step() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(&folder.path().join("state")).unwrap();
        let name = |text: &str| SourceName::parse(text).unwrap();
        let take = |connection: &str, stream: &str| {
            SyncLock::try_take(&state, &name(connection), &name(stream)).unwrap()
        };
        let held = take("a", "notes");
        assert!(held.is_some() && take("a", "notes").is_none());
        assert!(take("b", "notes").is_some() && take("a", "other").is_some());
        drop(held);
        assert!(take("a", "notes").is_some());
    }
}
