//! The bounds that hold for what the server takes of the machine.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::{CALLERS, Place};
use crate::usage::Usage;

/// How much more memory than when it was idle a working server may take, in bytes.
const MORE_MEMORY: u64 = 96 << 20;
/// How much memory may grow after the first fifth of the time, in bytes: it does not leak.
const LATER_MEMORY: u64 = 32 << 20;
/// Each caller has two connections and works with few files at a time.
const MORE_DESCRIPTORS: usize = 8 * CALLERS;
/// How many more descriptors the server keeps: the idle one has one reader of the database, which
/// has two descriptors, and reads at once make more.
const KEPT_DESCRIPTORS: usize = 4 + 2 * (stile_store::read_limit::MAX_READERS - 1);
/// Each call may block one thread; so many more than callers belong to calls that were given up.
const MORE_THREADS: usize = 4 * CALLERS;
/// What one call may add to the state folder, in bytes: its line in the journal.
const STATE_PER_CALL: u64 = 1024;
/// What the database and the reserve of the journal may add, in bytes.
const MORE_STATE: u64 = 8 << 20;
/// How long after the last call everything is as before, at the latest.
const SETTLES: Duration = Duration::from_secs(30);

/// What the process took so far.
pub(super) struct Watch {
    idle: Usage,
    began: Instant,
    /// After this the memory does not grow further.
    warm: Duration,
    most: RefCell<Usage>,
    warm_memory: RefCell<u64>,
}

impl Watch {
    pub(super) fn new(idle: Usage, took: Duration) -> Self {
        Self {
            idle,
            began: Instant::now(),
            warm: took / 5,
            most: RefCell::new(idle),
            warm_memory: RefCell::new(idle.memory),
        }
    }

    /// Looks at the process, and says which bound it exceeds.
    pub(super) fn look(&self, place: &Place) -> Result<(), String> {
        let (now, idle) = (Usage::of(&place.server, &place.rig.state), self.idle);
        self.most.replace_with(|most| most.most(now));
        if self.began.elapsed() < self.warm {
            self.warm_memory.replace_with(|most| (*most).max(now.memory));
        }
        let warm = *self.warm_memory.borrow();
        let grows = self.began.elapsed() > self.warm && now.memory > warm + LATER_MEMORY;
        if grows
            || now.memory > idle.memory + MORE_MEMORY
            || now.descriptors > idle.descriptors + MORE_DESCRIPTORS
            || now.threads > idle.threads + MORE_THREADS
        {
            return Err(format!("the server grows: {now}; {}", self.figures()));
        }
        Ok(())
    }

    pub(super) fn figures(&self) -> String {
        let warm = *self.warm_memory.borrow() >> 20;
        format!("idle {}; most {}; {warm} MB when warm", self.idle, self.most.borrow())
    }

    /// Fails unless the process gives back what it took for `calls` calls.
    #[expect(clippy::print_stdout, reason = "a rig prints its figures")]
    pub(super) fn assert_ended(&self, place: &Place, calls: usize) {
        let ended = Instant::now();
        loop {
            let (now, idle) = (Usage::of(&place.server, &place.rig.state), self.idle);
            let grown = now.state.saturating_sub(idle.state);
            assert!(grown < MORE_STATE + STATE_PER_CALL * calls as u64, "{now}");
            if now.descriptors <= idle.descriptors + KEPT_DESCRIPTORS {
                println!("afterwards {now}");
                return;
            }
            assert!(ended.elapsed() < SETTLES, "idle {idle}; afterwards {now}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
