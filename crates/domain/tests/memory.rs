//! Measures memory, in a process of its own whose allocator counts.

use std::alloc::System;
use std::sync::Arc;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use stile_domain::facts::{FINE_GRANULARITY, FileFacts, FileStamp, StampCache};
use stile_domain::hash::ContentHash;
use stile_domain::lines::LineScanner;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn the_cache_of_facts_takes_no_more_memory_than_its_bound() {
    const MAX_BYTES: usize = 1 << 20;
    let region = Region::new(ALLOCATOR);
    let mut cache = StampCache::new(MAX_BYTES);
    let mut most = 0;
    for inode in 0..20_000 {
        let mut scanner = LineScanner::default();
        scanner.feed(b"one\ntwo\n");
        let facts =
            FileFacts { hash: ContentHash::digest(b"one\ntwo\n"), lines: Some(scanner.finish()) };
        let stamp = FileStamp { device: 1, inode, size: 8, modified: 1, changed: 1 };
        cache.insert(stamp, &Arc::new(facts), FINE_GRANULARITY * 2);
        let stats = region.change();
        most = most.max(stats.bytes_allocated - stats.bytes_deallocated);
    }
    assert!(most <= MAX_BYTES, "{most} bytes");
    assert!(most > MAX_BYTES / 4, "{most} bytes: hardly anything was cached");
}
