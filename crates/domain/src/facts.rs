//! What is known of a file without reading it again, and when that may be believed.
//!
//! Facts are kept under the file's identity, size, and change and modification time at full
//! resolution. A file that changed within the clock's granularity before it was read could change
//! once more without any of these moving, so its facts are not kept at all: the rule that careful
//! version-control tools follow for their index. Writes through a shared memory mapping move no
//! clock until much later and are outside the promise.

use std::collections::HashMap;
use std::sync::Arc;

use crate::hash::ContentHash;
use crate::lines::LineIndex;

/// Nanoseconds since 1970-01-01 UTC, by the clock that stamps files.
pub type UnixNanos = i64;

/// What the file system says of a file's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// Which file system.
    pub device: u64,
    /// Which file in it.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// When its bytes last changed.
    pub modified: UnixNanos,
    /// When its bytes or its metadata last changed; no program can set this one.
    pub changed: UnixNanos,
}

/// The coarsest tick of a clock that gives fractions of a second, doubled: 100 Hz is the slowest
/// kernel clock in use.
pub const FINE_GRANULARITY: UnixNanos = 20_000_000;
/// The tick of file systems that store whole seconds, or pairs of them.
pub const COARSE_GRANULARITY: UnixNanos = 2_000_000_000;

impl FileStamp {
    /// How coarse the clock that made it may be: a stamp without any fraction may come from a clock
    /// that knows none.
    pub fn granularity(&self) -> UnixNanos {
        let whole = |time: UnixNanos| time % 1_000_000_000 == 0;
        if whole(self.modified) && whole(self.changed) {
            COARSE_GRANULARITY
        } else {
            FINE_GRANULARITY
        }
    }

    /// Whether any later change must show in the stamp, for a stamp taken at `taken`: the file last
    /// changed longer ago than the clock's granularity. A time in the future settles nothing.
    pub fn settled_at(&self, taken: UnixNanos) -> bool {
        self.modified.max(self.changed).saturating_add(self.granularity()) <= taken
    }
}

/// What reading a whole file told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Of all bytes.
    pub hash: ContentHash,
    /// Where lines begin; `None` where the file is not UTF-8.
    pub lines: Option<LineIndex>,
}

impl FileFacts {
    fn footprint(&self) -> usize {
        size_of::<Self>()
            + size_of::<FileStamp>()
            + self.lines.as_ref().map_or(0, LineIndex::footprint)
    }
}

struct Slot {
    facts: Arc<FileFacts>,
    used: u64,
}

/// A bounded memory of facts; the least recently used go first.
pub struct FactsCache {
    slots: HashMap<FileStamp, Slot>,
    footprint: usize,
    most: usize,
    clock: u64,
}

impl FactsCache {
    /// A memory that holds at most `most` bytes of facts.
    pub fn new(most: usize) -> Self {
        Self { slots: HashMap::new(), footprint: 0, most, clock: 0 }
    }

    /// What is known of the file in exactly this state.
    pub fn get(&mut self, stamp: &FileStamp) -> Option<Arc<FileFacts>> {
        self.clock += 1;
        let clock = self.clock;
        self.slots.get_mut(stamp).map(|slot| {
            slot.used = clock;
            Arc::clone(&slot.facts)
        })
    }

    /// Remembers what a read told that began at `began` with this stamp, if that may be believed
    /// later.
    pub fn insert(&mut self, stamp: FileStamp, facts: &Arc<FileFacts>, began: UnixNanos) {
        if !stamp.settled_at(began) || facts.footprint() > self.most {
            return;
        }
        self.clock += 1;
        self.footprint += facts.footprint();
        if let Some(old) =
            self.slots.insert(stamp, Slot { facts: Arc::clone(facts), used: self.clock })
        {
            self.footprint -= old.facts.footprint();
        }
        if self.footprint > self.most {
            self.forget_oldest();
        }
    }

    /// Drops the least recently used until an eighth is free, so that the sort is paid for rarely.
    fn forget_oldest(&mut self) {
        let mut by_age: Vec<(u64, FileStamp)> =
            self.slots.iter().map(|(stamp, slot)| (slot.used, *stamp)).collect();
        by_age.sort_unstable_by_key(|(used, _)| *used);
        for (_, stamp) in by_age {
            if self.footprint <= self.most - self.most / 8 {
                break;
            }
            if let Some(slot) = self.slots.remove(&stamp) {
                self.footprint -= slot.facts.footprint();
            }
        }
    }

    /// Bytes of facts held.
    pub fn footprint(&self) -> usize {
        self.footprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts(content: u8) -> Arc<FileFacts> {
        Arc::new(FileFacts { hash: ContentHash::digest(&[content]), lines: None })
    }

    #[test]
    fn a_stamp_within_the_granularity_settles_nothing() {
        let at = |changed| FileStamp { device: 1, inode: 1, size: 1, modified: 1, changed };
        assert!(!at(1_000).settled_at(1_000));
        assert!(!at(1_000).settled_at(1_000 + FINE_GRANULARITY - 1));
        assert!(at(1_000).settled_at(1_000 + FINE_GRANULARITY));
        assert!(!at(5_000).settled_at(4_000));
        let whole = FileStamp { modified: 0, ..at(3_000_000_000) };
        assert!(!whole.settled_at(3_000_000_000 + FINE_GRANULARITY));
        assert!(whole.settled_at(3_000_000_000 + COARSE_GRANULARITY));
    }

    #[test]
    fn memory_is_bounded_and_keeps_what_is_used() {
        let mut memory = FactsCache::new(4_000);
        let stamp = |inode| FileStamp { device: 1, inode, size: 1, modified: 1, changed: 1 };
        let began = FINE_GRANULARITY * 2;
        memory.insert(stamp(0), &facts(0), began);
        for inode in 1..200 {
            memory.insert(stamp(inode), &facts(1), began);
            assert!(memory.get(&stamp(0)).is_some());
            assert!(memory.footprint() <= 4_000);
        }
        assert!(memory.get(&stamp(1)).is_none());
    }

    proptest! {
        /// A model of a file on a file system whose clock ticks: writes of one size land at any
        /// time, reads go through the memory, and what is remembered is never an older content.
        #[test]
        fn a_rewrite_within_one_tick_is_never_answered_from_memory(
            events in proptest::collection::vec((0i64..8_000_000, any::<bool>()), 1..60),
            tick in prop_oneof![Just(1i64), Just(4_000_000), Just(10_000_000)]
        ) {
            let mut memory = FactsCache::new(100_000);
            let (mut now, mut content, mut stamped) = (1_500_000_001i64, 0u8, 1_500_000_001i64);
            for (elapsed, is_write) in events {
                now += elapsed;
                if is_write {
                    content = content.wrapping_add(1);
                    stamped = now - now % tick;
                    continue;
                }
                let stamp = FileStamp { device: 1, inode: 1, size: 1, modified: stamped, changed: stamped };
                match memory.get(&stamp) {
                    Some(known) => prop_assert_eq!(known.hash, ContentHash::digest(&[content])),
                    None => memory.insert(stamp, &facts(content), now),
                }
            }
        }
    }
}
