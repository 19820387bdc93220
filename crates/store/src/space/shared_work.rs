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
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// The work that threads share.
pub(super) struct SharedWork<J, O> {
    shared: Mutex<Shared<J, O>>,
    /// Signalled when a job or an outcome was added, if a thread waits: each signal is a call of
    /// the system.
    changed: Condvar,
    /// Whether nobody waits for an outcome any more, as `Shared::is_over`, for readers of files.
    is_over: AtomicBool,
    /// The outcome of a job whose thread panicked.
    failed: fn(&J) -> O,
}

pub(super) struct Shared<J, O> {
    pub(super) jobs: VecDeque<(u64, J)>,
    pub(super) outcomes: BTreeMap<u64, O>,
    is_over: bool,
    /// How many threads wait for a change.
    waiting: usize,
}

impl<J, O> SharedWork<J, O> {
    pub(super) fn new(failed: fn(&J) -> O) -> Self {
        let (jobs, outcomes) = (VecDeque::new(), BTreeMap::new());
        let shared = Shared { jobs, outcomes, is_over: false, waiting: 0 };
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
                shared.waiting += 1;
                shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
                shared.waiting -= 1;
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
        let mut shared = self.lock();
        shared.jobs.push_back((number, job));
        let is_awaited = shared.waiting > 0;
        drop(shared);
        if is_awaited {
            self.changed.notify_one();
        }
    }

    /// Adds an outcome. Returns whether a thread waits for a change.
    pub(super) fn put(&self, number: u64, outcome: O) -> bool {
        let mut shared = self.lock();
        shared.outcomes.insert(number, outcome);
        shared.waiting > 0
    }

    /// Waits until something changes, or a while.
    pub(super) fn wait(&self, mut shared: MutexGuard<'_, Shared<J, O>>) {
        shared.waiting += 1;
        let waited = self.changed.wait_timeout(shared, LONGEST_WAIT);
        waited.unwrap_or_else(PoisonError::into_inner).0.waiting -= 1;
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
        if self.work.put(self.number, outcome) {
            self.work.changed.notify_all();
        }
    }
}

/// Ends the work for the helpers, also after a panic.
pub(super) struct EndOnDrop<'a, J, O>(pub(super) &'a SharedWork<J, O>);

impl<J, O> Drop for EndOnDrop<'_, J, O> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_is_told_of_what_is_added() {
        let work = SharedWork::new(|_: &u64| 0);
        std::thread::scope(|scope| {
            let _end = EndOnDrop(&work);
            scope.spawn(|| work.help(|job| job * 2));
            let waits = |times: usize, is_so: &dyn Fn(&Shared<u64, u64>) -> bool| {
                (0..times).any(|_| {
                    let shared = work.lock();
                    is_so(&shared) || {
                        work.wait(shared);
                        false
                    }
                })
            };
            for number in 0..3 {
                // The helper has nothing to do, and waits.
                assert!(waits(200, &|shared| shared.waiting == 1 && shared.jobs.is_empty()));
                work.add(number, number);
                assert!(waits(200, &|shared| shared.outcomes.contains_key(&number)));
            }
            let outcomes = std::mem::take(&mut work.lock().outcomes);
            assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [(0, 0), (1, 2), (2, 4)]);
        });
    }
}
