//! Who may change a folder now: one thread of one process.
//!
//! A mutex in the process, so that its own threads queue fairly and only one of them asks the
//! system; then an advisory lock on the folder's own handle, where all server processes meet
//! whatever their state directories are. The lock needs no file and dies with the process. Waiting
//! is bounded.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::os::{self, Identity};

/// The folders that this process is changing.
#[derive(Debug, Default)]
pub(super) struct Folders {
    taken: Mutex<HashSet<Identity>>,
    freed: Condvar,
}

/// A folder that only the holder may change.
#[derive(Debug)]
pub(super) struct LockedFolder {
    pub(super) handle: Arc<OwnedFd>,
    pub(super) identity: Identity,
    folders: Arc<Folders>,
}

/// Why a folder could not be locked.
#[derive(Debug)]
pub(super) enum LockError {
    /// Others held it all the time that one may wait.
    Busy,
    /// The system said no.
    Io(std::io::Error),
}

impl From<std::io::Error> for LockError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl Folders {
    /// Waits until the folder that `open` opens is this thread's alone, at most until `deadline`.
    pub(super) fn lock(
        self: &Arc<Self>,
        open: impl Fn() -> std::io::Result<OwnedFd>,
        deadline: Instant,
    ) -> Result<LockedFolder, LockError> {
        loop {
            let handle = open()?;
            let identity = os::look(&handle)?.identity();
            self.enter(identity, deadline)?;
            // From here on dropping it gives both locks back.
            let locked =
                LockedFolder { handle: Arc::new(handle), identity, folders: Arc::clone(self) };
            await_lock(&locked.handle, deadline)?;
            // While we waited the folder may have been moved away and another put in its place.
            if os::look(open()?)?.identity() == identity {
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

/// The system has no lock with a time limit, so this asks again, ever less often, at most every 2
/// ms.
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

/// So many at once and no more; waiting is bounded.
#[derive(Debug)]
pub(super) struct Turnstile {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place inside a [`Turnstile`].
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turnstile);

impl Turnstile {
    pub(super) fn new(places: usize) -> Self {
        Self { free: Mutex::new(places), freed: Condvar::new() }
    }

    /// Waits for a place; `None` where none came free in time.
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
