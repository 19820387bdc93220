//! The wall clock, which its owner may set at any time, forward or back.
//!
//! It decides when tokens and grants expire, how old a change is, and what lines of the journal and
//! records are dated. Every wait, limit and deadline uses the monotonic clock instead. Stamps of
//! files come from the kernel, and `space` compares them with the kernel's own clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

/// How far a test has moved the clock, in seconds.
static MOVED: AtomicI64 = AtomicI64::new(0);

/// Reads the wall clock. No other function of the program does.
pub fn wall_clock() -> SystemTime {
    let (now, moved) = (SystemTime::now(), MOVED.load(Ordering::Relaxed));
    let by = Duration::from_secs(moved.unsigned_abs());
    let time = if moved < 0 { now.checked_sub(by) } else { now.checked_add(by) };
    time.unwrap_or(now)
}

/// Moves the wall clock of this process to `seconds` after the machine's, or before it if negative.
/// For tests: the program never calls this function.
pub fn move_wall_clock(seconds: i64) {
    MOVED.store(seconds, Ordering::Relaxed);
}
