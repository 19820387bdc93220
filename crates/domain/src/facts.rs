//! A cache of what was learned of files, keyed by the state of each: the hash and line index of a
//! file, the names in a folder.
//!
//! The key is the file's identity, size, and change and modification time at full resolution. A
//! file that changed less than one clock tick before a read could change again with the same key.
//! So the cache rejects the facts of such a read, as careful version-control tools do for their
//! index. A write through a shared memory mapping moves no clock until much later; the cache may
//! answer such a file from before the write.

use std::collections::HashMap;
use std::sync::Arc;

use crate::hash::ContentHash;
use crate::lines::LineIndex;

/// Nanoseconds since 1970-01-01 UTC, read from the clock that stamps files.
pub type UnixNanos = i64;

/// The state of a file as the file system reports it: the key of [`StampCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// The number of the file system.
    pub device: u64,
    /// The number of the file in its file system.
    pub inode: u64,
    /// The size in bytes.
    pub size: u64,
    /// When the bytes last changed. A program can set this time.
    pub modified: UnixNanos,
    /// When the bytes or the metadata last changed. No program can set this time.
    pub changed: UnixNanos,
}

/// Twice the coarsest tick of a clock with fractions of a second, in nanoseconds. The slowest
/// kernel clock in use ticks at 100 Hz.
pub const FINE_GRANULARITY: UnixNanos = 20_000_000;
/// The tick of file systems that store whole seconds or pairs of seconds, in nanoseconds.
pub const COARSE_GRANULARITY: UnixNanos = 2_000_000_000;

impl FileStamp {
    /// Returns the coarsest tick that the clock of this stamp may have, in nanoseconds. A stamp of
    /// whole seconds may come from a clock without fractions.
    pub fn granularity(&self) -> UnixNanos {
        let whole = |time: UnixNanos| time % 1_000_000_000 == 0;
        if whole(self.modified) && whole(self.changed) {
            COARSE_GRANULARITY
        } else {
            FINE_GRANULARITY
        }
    }

    /// Whether every change after `taken` changes the stamp, for a stamp that was taken then.
    ///
    /// True where the file last changed at least one granularity before `taken`. Always false for a
    /// change time in the future.
    pub fn settled_at(&self, taken: UnixNanos) -> bool {
        self.modified.max(self.changed).saturating_add(self.granularity()) <= taken
    }
}

/// What a read of a whole file learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// The hash of all bytes.
    pub hash: ContentHash,
    /// The line index; `None` for a file that is not UTF-8.
    pub lines: Option<LineIndex>,
}

/// What a [`StampCache`] keeps.
pub trait Footprint {
    /// Returns the bytes that the value takes on the heap, without the value itself.
    fn heap_bytes(&self) -> usize;
}

impl Footprint for FileFacts {
    fn heap_bytes(&self) -> usize {
        self.lines.as_ref().map_or(0, LineIndex::footprint)
    }
}

struct Slot<T> {
    value: Arc<T>,
    used: u64,
}

/// A bounded cache of what reads learned of files in an exact state. It evicts the least recently
/// used values first.
pub struct StampCache<T> {
    slots: HashMap<FileStamp, Slot<T>>,
    footprint: usize,
    max_bytes: usize,
    clock: u64,
}

impl<T: Footprint> StampCache<T> {
    /// What one value takes beside its own bytes on the heap: the value and the two counts of its
    /// `Arc`, a place in the table, and an age in the list that an eviction makes. A table doubles
    /// when it is seven eighths full, so there may be 16 places for 7 entries, and while it doubles
    /// there are half as many again. A place has a byte of its own beside its content.
    const ENTRY_BYTES: usize = size_of::<T>()
        + 2 * size_of::<usize>()
        + (size_of::<(FileStamp, Slot<T>)>() + 1) * 24 / 7
        + size_of::<u64>();

    /// Creates a cache that holds at most `max_bytes` bytes.
    pub fn new(max_bytes: usize) -> Self {
        Self { slots: HashMap::new(), footprint: 0, max_bytes, clock: 0 }
    }

    /// Returns what is known of the file in exactly this state; `None` where the cache has nothing.
    pub fn get(&mut self, stamp: &FileStamp) -> Option<Arc<T>> {
        self.clock += 1;
        let clock = self.clock;
        self.slots.get_mut(stamp).map(|slot| {
            slot.used = clock;
            Arc::clone(&slot.value)
        })
    }

    /// Stores what a read learned that began at `began`, when the file had this stamp.
    ///
    /// Does nothing where the stamp has not settled ([`FileStamp::settled_at`]) or where the value
    /// alone exceeds the bound.
    pub fn insert(&mut self, stamp: FileStamp, value: &Arc<T>, began: UnixNanos) {
        let bytes = Self::footprint_of(value);
        if !stamp.settled_at(began) || bytes > self.max_bytes {
            return;
        }
        self.clock += 1;
        self.footprint += bytes;
        let slot = Slot { value: Arc::clone(value), used: self.clock };
        if let Some(old) = self.slots.insert(stamp, slot) {
            self.footprint -= Self::footprint_of(&old.value);
        }
        if self.footprint > self.max_bytes {
            self.evict_oldest();
        }
    }

    fn footprint_of(value: &T) -> usize {
        Self::ENTRY_BYTES + value.heap_bytes()
    }

    /// Evicts the least recently used values, an eighth of them at a time, until an eighth of the
    /// bytes is free, so that this is rare. It works on the ages alone: a large allocation that is
    /// freed again stays with the allocator, once for each thread that made one.
    fn evict_oldest(&mut self) {
        while self.footprint > self.max_bytes - self.max_bytes / 8 {
            let mut ages: Vec<u64> = self.slots.values().map(|slot| slot.used).collect();
            let last = ages.len() / 8;
            let (_, youngest_evicted, _) = ages.select_nth_unstable(last);
            let youngest_evicted = *youngest_evicted;
            self.slots.retain(|_, slot| {
                let is_kept = slot.used > youngest_evicted;
                if !is_kept {
                    self.footprint -= Self::footprint_of(&slot.value);
                }
                is_kept
            });
        }
    }

    /// Returns the bytes of all stored values.
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
    fn a_stamp_within_the_granularity_has_not_settled() {
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
    fn the_cache_is_bounded_and_keeps_used_facts() {
        let mut cache = StampCache::new(10_000);
        let stamp = |inode| FileStamp { device: 1, inode, size: 1, modified: 1, changed: 1 };
        let began = FINE_GRANULARITY * 2;
        cache.insert(stamp(0), &facts(0), began);
        for inode in 1..200 {
            cache.insert(stamp(inode), &facts(1), began);
            assert!(cache.get(&stamp(0)).is_some());
            assert!(cache.footprint() <= 10_000);
        }
        assert!(cache.get(&stamp(1)).is_none());
    }

    proptest! {
        /// Models a file on a file system whose clock ticks. Writes of one size happen at any time,
        /// and reads go through the cache. The cache never answers with an older content.
        #[test]
        fn a_rewrite_within_one_tick_is_never_answered_from_the_cache(
            events in proptest::collection::vec((0i64..8_000_000, any::<bool>()), 1..60),
            tick in prop_oneof![Just(1i64), Just(4_000_000), Just(10_000_000)]
        ) {
            let mut cache = StampCache::<FileFacts>::new(100_000);
            let (mut now, mut content, mut stamped) = (1_500_000_001i64, 0u8, 1_500_000_001i64);
            for (elapsed, is_write) in events {
                now += elapsed;
                if is_write {
                    content = content.wrapping_add(1);
                    stamped = now - now % tick;
                    continue;
                }
                let (modified, changed) = (stamped, stamped);
                let stamp = FileStamp { device: 1, inode: 1, size: 1, modified, changed };
                match cache.get(&stamp) {
                    Some(known) => prop_assert_eq!(known.hash, ContentHash::digest(&[content])),
                    None => cache.insert(stamp, &facts(content), now),
                }
            }
        }
    }
}
