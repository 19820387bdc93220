//! Locks a folder, so that one thread of one process changes it at a time.
//!
//! The threads of this process queue at a mutex, so that only one of them asks the system. That
//! thread takes an advisory lock on the folder's own handle, which all server processes share
//! whatever their state folders are. The lock needs no file and ends with the process. Waiting is
//! bounded.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::os::{self, Identity};

/// The folders that this process changes now.
#[derive(Debug, Default)]
pub(super) struct Folders {
    taken: Mutex<HashSet<Identity>>,
    freed: Condvar,
}

/// A folder that only the holder of this value may change.
#[derive(Debug)]
pub(super) struct LockedFolder {
    pub(super) handle: Arc<OwnedFd>,
    pub(super) identity: Identity,
    folders: Arc<Folders>,
}

/// Why a folder could not be locked.
#[derive(Debug)]
pub(super) enum LockError {
    /// Others held the lock until the deadline.
    Busy,
    Io(std::io::Error),
}

impl From<std::io::Error> for LockError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl Folders {
    /// Locks the folder that `open` opens. Waits until `deadline` at most.
    pub(super) fn lock(
        self: &Arc<Self>,
        open: impl Fn() -> std::io::Result<OwnedFd>,
        deadline: Instant,
    ) -> Result<LockedFolder, LockError> {
        loop {
            let handle = open()?;
            let identity = os::status(&handle)?.identity();
            self.enter(identity, deadline)?;
            // From here on, dropping the value releases both locks.
            let locked =
                LockedFolder { handle: Arc::new(handle), identity, folders: Arc::clone(self) };
            await_lock(&locked.handle, deadline)?;
            // Another folder may have taken the name while this thread waited.
            if os::status(open()?)?.identity() == identity {
                return Ok(locked);
            }
        }
    }

    fn enter(&self, identity: Identity, deadline: Instant) -> Result<(), LockError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while !taken.insert(identity) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LockError::Busy);
            }
            taken = self.freed.wait_timeout(taken, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// Retries [`os::try_lock`] until `deadline`, since the system has no lock with a time limit. The
/// pauses grow to 2 ms.
pub(super) fn await_lock(handle: &OwnedFd, deadline: Instant) -> Result<(), LockError> {
    let mut pause = Duration::from_micros(50);
    while !os::try_lock(handle)? {
        if Instant::now() >= deadline {
            return Err(LockError::Busy);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
    Ok(())
}

impl Drop for LockedFolder {
    fn drop(&mut self) {
        os::unlock(&*self.handle);
        self.folders.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.identity);
        self.folders.freed.notify_all();
    }
}

/// Limits how many threads do something at once. Waiting is bounded.
#[derive(Debug)]
pub(super) struct Turnstile {
    free: Mutex<usize>,
    freed: Condvar,
}

/// The right of one thread to pass a [`Turnstile`].
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turnstile);

impl Turnstile {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }

    /// Waits for a free turn. Returns `None` if there is none before the deadline.
    pub(super) fn enter(&self, deadline: Instant) -> Option<Turn<'_>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            free = self.freed.wait_timeout(free, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(folder: &tempfile::TempDir) -> OwnedFd {
        std::fs::File::open(folder.path()).unwrap().into()
    }

    #[test]
    fn a_lock_that_another_handle_holds_is_awaited_until_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let (held, other) = (handle(&folder), handle(&folder));
        assert!(os::try_lock(&held).unwrap());
        let soon = Instant::now() + Duration::from_millis(5);
        assert!(matches!(await_lock(&other, soon), Err(LockError::Busy)));
        assert!(Instant::now() >= soon);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The other thread waits by then, or else finds the lock free; both are right.
                std::thread::park_timeout(Duration::from_millis(20));
                os::unlock(&held);
            });
            await_lock(&other, Instant::now() + Duration::from_secs(60)).unwrap();
        });
    }

    #[test]
    fn a_turnstile_lets_as_many_pass_at_once_as_it_has_turns() {
        let turnstile = Turnstile::new(2);
        let (first, second) = (turnstile.enter(Instant::now()), turnstile.enter(Instant::now()));
        assert!(first.is_some() && second.is_some());
        assert!(turnstile.enter(Instant::now()).is_none());
        drop(first);
        assert!(turnstile.enter(Instant::now()).is_some());
    }
}
