//! The last check of the journal and its chain, for pages that do not wait for one.
//!
//! Verifying the chain reads up to 128 MB. The first page must warn of a broken chain and must not
//! wait, so it shows what was found within the last hour, and lets a thread look again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stile_domain::records::instant::{Instant, MICROS_A_SECOND};
use stile_store::journal::JournalPlace;
use stile_store::state::StateDir;

use crate::checkup::{self, Finding};

/// How long what was found is shown, in microseconds.
const FRESH: i64 = 60 * 60 * MICROS_A_SECOND;
/// The longest journal that is checked while a page waits, in bytes.
const CHECKED_AT_ONCE: u64 = 1 << 20;

/// Checks the journal of a state folder.
#[derive(Debug)]
pub(super) struct ChainCheck {
    state: StateDir,
    found: Mutex<Option<(Instant, Vec<Finding>)>>,
    is_checking: AtomicBool,
}

impl ChainCheck {
    pub(super) fn new(state: StateDir) -> Self {
        Self { state, found: Mutex::default(), is_checking: AtomicBool::new(false) }
    }

    /// Checks the journal now.
    pub(super) fn check(&self, now: Instant) -> Vec<Finding> {
        let found = checkup::journal(&self.state);
        let mut kept = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((now, found.clone()));
        found
    }

    /// Returns what the last check found. If it is old, looks again, in a thread if that takes
    /// long.
    pub(super) fn latest(self: &Arc<Self>, now: Instant) -> Vec<Finding> {
        let kept = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_fresh = |at: Instant| now.0.abs_diff(at.0) < FRESH.unsigned_abs();
        if let Some((at, found)) = &kept
            && is_fresh(*at)
        {
            return found.clone();
        }
        let bytes = JournalPlace::new(self.state.clone(), None).bytes();
        if bytes.is_ok_and(|bytes| bytes <= CHECKED_AT_ONCE) {
            return self.check(now);
        }
        if !self.is_checking.swap(true, Ordering::Relaxed) {
            let checking = Arc::clone(self);
            let thread = std::thread::Builder::new().name("journal check".to_owned());
            let spawned = thread.spawn(move || {
                checking.check(now);
                checking.is_checking.store(false, Ordering::Relaxed);
            });
            if spawned.is_err() {
                self.is_checking.store(false, Ordering::Relaxed);
            }
        }
        kept.map(|(_, found)| found).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::journal::JournalLine;
    use stile_store::journal::Journal;

    use super::*;
    use crate::checkup::FindingGrade;

    #[test]
    fn a_broken_chain_is_known_within_the_hour_and_a_long_journal_lets_no_page_wait() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let journal = Journal::open(&state).unwrap();
        let line = || JournalLine { tool: "text.read".to_owned(), ..JournalLine::default() };
        journal.append(line()).unwrap();
        journal.append(line()).unwrap();
        let check = Arc::new(ChainCheck::new(state.clone()));
        let is_whole = |now| {
            check.latest(Instant(now)).iter().all(|found| found.outcome == FindingGrade::Good)
        };
        assert!(is_whole(0));
        drop(journal);
        let file = std::fs::read_dir(folder.path().join("journal")).unwrap().next().unwrap();
        let file = file.unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("text.read", "text.edit")).unwrap();
        assert!(is_whole(FRESH - 1), "what was found is shown for an hour");
        assert!(!is_whole(FRESH));
        let long = "x".repeat(2 << 20);
        std::fs::write(&file, format!("{long}\n")).unwrap();
        assert!(!is_whole(2 * FRESH), "the last finding, while a thread looks");
    }
}
