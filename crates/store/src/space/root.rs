//! The folder of a space, held open, and whether its path still leads to it.
//!
//! All work goes through the open folder, wherever the folder is moved. Its owner goes by the path.
//! A change that is written into a folder that was moved away, or covered by a mount, would be lost
//! with it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::error::Refusal;

use super::os::{self, Identity};

/// How long a read relies on the last check.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The open folder of a space.
pub(super) struct Root {
    handle: OwnedFd,
    path: PathBuf,
    identity: Identity,
    /// When the path led to the folder last.
    checked: Mutex<Instant>,
}

/// How old a check may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// At most a second, for reads.
    Recent,
    /// Made now, for changes.
    Now,
}

impl Root {
    /// Opens the folder by a path of the machine. Follows links.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let handle = os::open_root(&path)?;
        let identity = os::status(&handle)?.identity();
        Ok(Self { handle, path, identity, checked: Mutex::new(Instant::now()) })
    }

    /// Checks that the path leads to this folder. Once the folder is back, everything goes on.
    pub(super) fn check(&self, check: Check) -> Result<(), Refusal> {
        let lock = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if check == Check::Recent && lock().elapsed() < MAX_AGE {
            return Ok(());
        }
        let now = Instant::now();
        let found = os::open_root(&self.path).and_then(os::status);
        if !found.is_ok_and(|status| status.identity() == self.identity) {
            return Err(Refusal::RootMoved);
        }
        *lock() = now;
        Ok(())
    }
}

impl std::ops::Deref for Root {
    type Target = OwnedFd;
    fn deref(&self) -> &OwnedFd {
        &self.handle
    }
}
