//! Jobs of one call, which the thread of the call and its helpers take from one queue.
//!
//! Jobs have numbers, so that the thread of the call takes the outcomes in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The files after which helpers are worth their start.
pub(super) const FEW: u64 = 8;
/// How long the thread that walks waits for helpers before it looks whether the call is over.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// The work that threads share.
pub(super) struct SharedWork<J, O> {
    shared: Mutex<Shared<J, O>>,
    /// Signalled when a job or an outcome was added.
    pub(super) changed: Condvar,
    /// Whether nobody waits for an outcome any more, as `Shared::is_over`, for readers of files.
    is_over: AtomicBool,
    /// The outcome of a job whose thread panicked.
    failed: fn(&J) -> O,
}

pub(super) struct Shared<J, O> {
    pub(super) jobs: VecDeque<(u64, J)>,
    pub(super) outcomes: BTreeMap<u64, O>,
    is_over: bool,
}

impl<J, O> SharedWork<J, O> {
    pub(super) fn new(failed: fn(&J) -> O) -> Self {
        let shared = Shared { jobs: VecDeque::new(), outcomes: BTreeMap::new(), is_over: false };
        let (shared, changed, is_over) =
            (Mutex::new(shared), Condvar::new(), AtomicBool::new(false));
        Self { shared, changed, is_over, failed }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared<J, O>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Does jobs until the work is over.
    pub(super) fn help(&self, mut work: impl FnMut(&J) -> O) {
        let mut shared = self.lock();
        while !shared.is_over {
            let Some((number, job)) = shared.jobs.pop_front() else {
                shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(shared);
            let mut begun = BegunJob { work: self, number, outcome: None, job };
            begun.outcome = Some(work(&begun.job));
            drop(begun);
            shared = self.lock();
        }
    }

    /// Adds a job.
    pub(super) fn add(&self, number: u64, job: J) {
        self.lock().jobs.push_back((number, job));
        self.changed.notify_one();
    }

    /// Adds an outcome.
    pub(super) fn put(&self, number: u64, outcome: O) {
        self.lock().outcomes.insert(number, outcome);
    }

    /// Ends the work for the helpers.
    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.lock().is_over = true;
        self.changed.notify_all();
    }
}

/// A job that a helper does. Its outcome is added also after a panic, since the thread of the call
/// waits for it.
struct BegunJob<'a, J, O> {
    work: &'a SharedWork<J, O>,
    number: u64,
    outcome: Option<O>,
    job: J,
}

impl<J, O> Drop for BegunJob<'_, J, O> {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| (self.work.failed)(&self.job));
        self.work.put(self.number, outcome);
        self.work.changed.notify_all();
    }
}

/// Ends the work for the helpers, also after a panic.
pub(super) struct EndOnDrop<'a, J, O>(pub(super) &'a SharedWork<J, O>);

impl<J, O> Drop for EndOnDrop<'_, J, O> {
    fn drop(&mut self) {
        self.0.end();
    }
}
