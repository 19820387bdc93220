//! Locks a folder, so that one thread of one process changes it at a time.
//!
//! The changes of this process take turns, so that only one of them asks the system. That change
//! takes an advisory lock on the folder's own handle, which all server processes share whatever
//! their state folders are. The lock needs no file and ends with the process. Nothing here waits:
//! a change that cannot go on gets a [`Wait`], which is awaited without a thread.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use stile_domain::error::Refusal;
use tokio::sync::oneshot;

use super::identity::Identity;
use super::os;

/// The pause between two attempts of a program that starts.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// The folders that this process changes now, each with the changes that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Folders {
    taken: Mutex<HashMap<Identity, VecDeque<oneshot::Sender<FolderTurn>>>>,
}

/// The right of one change of this process to lock a folder. Goes to the change that waits longest
/// when dropped.
#[derive(Debug)]
pub(super) struct FolderTurn {
    identity: Identity,
    folders: Arc<Folders>,
}

/// A folder that only the holder of this value may change.
#[derive(Debug)]
pub(super) struct LockedFolder {
    pub(super) handle: Arc<os::Handle>,
    turn: FolderTurn,
}

/// What a change has to wait for.
#[derive(Debug)]
pub(super) enum Wait {
    /// The changes of this process that came first.
    Turn(oneshot::Receiver<FolderTurn>),
    /// Another process, which holds the lock of the folder.
    Others(FolderTurn),
    /// Fewer large changes at once, or fewer kept files.
    Room,
}

/// Why an attempt did not make its change.
#[derive(Debug)]
pub(super) enum Stop {
    Refused(Refusal),
    MustWait(Wait),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Why a folder could not be locked.
#[derive(Debug)]
pub(super) enum LockError {
    Wait(Wait),
    Io(std::io::Error),
}

impl From<std::io::Error> for LockError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl Folders {
    /// Locks the folder that `open` opens, if that can be done now. `waited` is the turn that an
    /// earlier attempt waited for, and stays where it is if it is for another folder.
    pub(super) fn try_lock(
        self: &Arc<Self>,
        open: impl Fn() -> std::io::Result<os::Handle>,
        waited: &Cell<Option<FolderTurn>>,
    ) -> Result<LockedFolder, LockError> {
        loop {
            let handle = open()?;
            let identity = os::status(&handle)?.identity();
            let turn = match waited.take() {
                Some(turn) if turn.identity == identity => turn,
                other => {
                    waited.set(other);
                    self.enter(identity).map_err(|next| LockError::Wait(Wait::Turn(next)))?
                }
            };
            if !os::try_lock(&handle)? {
                return Err(LockError::Wait(Wait::Others(turn)));
            }
            // From here on, dropping the value releases both locks.
            let locked = LockedFolder { handle: Arc::new(handle), turn };
            // Another folder may have taken the name meanwhile.
            if os::status(open()?)?.identity() == identity {
                return Ok(locked);
            }
        }
    }

    /// Retries [`Folders::try_lock`] until `deadline`, for a program that starts.
    pub(super) fn lock_by(
        self: &Arc<Self>,
        open: impl Fn() -> std::io::Result<os::Handle>,
        deadline: Instant,
    ) -> Option<LockedFolder> {
        loop {
            match self.try_lock(&open, &Cell::new(None)) {
                Ok(locked) => return Some(locked),
                Err(LockError::Wait(_)) if Instant::now() < deadline => {
                    std::thread::sleep(RETRY_AFTER);
                }
                Err(_) => return None,
            }
        }
    }

    /// Takes the turn for a folder, or a place in the queue for it.
    fn enter(
        self: &Arc<Self>,
        identity: Identity,
    ) -> Result<FolderTurn, oneshot::Receiver<FolderTurn>> {
        let mut taken = self.taken();
        match taken.get_mut(&identity) {
            Some(waiting) => {
                let (send, receive) = oneshot::channel();
                waiting.push_back(send);
                Err(receive)
            }
            None => {
                taken.insert(identity, VecDeque::new());
                Ok(FolderTurn { identity, folders: Arc::clone(self) })
            }
        }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Identity, VecDeque<oneshot::Sender<FolderTurn>>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FolderTurn {
    fn drop(&mut self) {
        let mut taken = self.folders.taken();
        let Some(waiting) = taken.get_mut(&self.identity) else { return };
        while let Some(next) = waiting.pop_front() {
            if !next.is_closed() {
                drop(taken);
                let turn = Self { identity: self.identity, folders: Arc::clone(&self.folders) };
                // If the change has gone meanwhile, its turn passes on in the same way.
                let _ = next.send(turn);
                return;
            }
        }
        taken.remove(&self.identity);
    }
}

/// Retries [`os::try_lock`] until `deadline`, for a program that starts. Returns whether the lock
/// was taken.
pub(super) fn await_lock(handle: &os::Handle, deadline: Instant) -> std::io::Result<bool> {
    while !os::try_lock(handle)? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(RETRY_AFTER);
    }
    Ok(true)
}

impl LockedFolder {
    pub(super) fn identity(&self) -> Identity {
        self.turn.identity
    }
}

impl Drop for LockedFolder {
    fn drop(&mut self) {
        os::unlock(&*self.handle);
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

    /// Takes a free turn. Returns `None` if there is none.
    pub(super) fn try_enter(&self) -> Option<Turn<'_>> {
        self.enter(Instant::now())
    }

    /// Starts a thread that does `work` for each free turn, and adds the turns to `taken`, which
    /// the caller keeps until the work is done.
    pub(super) fn start_threads<'scope, 't>(
        &'t self,
        scope: &'scope Scope<'scope, '_>,
        taken: &mut Vec<Turn<'t>>,
        work: impl Fn() + Copy + Send + 'scope,
    ) {
        while let Some(turn) = self.try_enter() {
            // A system without a free thread leaves the work to the thread of the caller.
            if Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
            taken.push(turn);
        }
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

    fn handle(folder: &tempfile::TempDir) -> os::Handle {
        std::fs::File::open(folder.path()).unwrap().into()
    }

    #[test]
    fn a_lock_that_another_handle_holds_is_awaited_until_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let (held, other) = (handle(&folder), handle(&folder));
        assert!(os::try_lock(&held).unwrap());
        let soon = Instant::now() + Duration::from_millis(5);
        assert!(!await_lock(&other, soon).unwrap());
        assert!(Instant::now() >= soon);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The other thread waits by then, or else finds the lock free; both are right.
                std::thread::park_timeout(Duration::from_millis(20));
                os::unlock(&held);
            });
            assert!(await_lock(&other, Instant::now() + Duration::from_secs(60)).unwrap());
        });
    }

    #[test]
    fn a_program_that_starts_awaits_a_locked_folder_until_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let held = handle(&folder);
        assert!(os::try_lock(&held).unwrap());
        let folders = Arc::new(Folders::default());
        let open = || Ok(handle(&folder));
        let soon = Instant::now() + Duration::from_millis(5);
        assert!(folders.lock_by(open, soon).is_none());
        assert!(Instant::now() >= soon);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::park_timeout(Duration::from_millis(20));
                os::unlock(&held);
            });
            assert!(folders.lock_by(open, Instant::now() + Duration::from_secs(60)).is_some());
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
