//! The wall clock, which its owner may set at any time, forward or back.
//!
//! It decides when tokens and grants expire, how old a change is, and what lines of the journal and
//! records are dated. Every wait, limit and deadline uses the monotonic clock instead. Stamps of
//! files come from the kernel, and `space` compares them with the kernel's own clock.
//!
//! Servers that share a database share what expires, so each of them goes by the clock of the
//! database. A process has one database.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::platform::steady;

/// How far a test has moved the clock, in seconds.
static MOVED: AtomicI64 = AtomicI64::new(0);

/// The clock of the database, if this process has one.
static FOLLOWED: Mutex<Option<Followed>> = Mutex::new(None);

/// A time of another clock, and when it was read.
#[derive(Clone, Copy)]
struct Followed {
    time: SystemTime,
    /// The reading of [`steady`] at that time.
    at: Duration,
}

/// Reads the wall clock: the database's, if this process has one, and else the machine's. No other
/// function of the program does.
pub fn wall_clock() -> SystemTime {
    let followed = *followed();
    match followed {
        Some(Followed { time, at }) => time + steady().saturating_sub(at),
        None => machine_clock(),
    }
}

/// Lets this process go by another clock, which showed `time` when [`steady`] showed `at`. Returns
/// by how many milliseconds the clock of the machine is ahead of it; negative if behind.
pub(crate) fn follow(time: SystemTime, at: Duration) -> i64 {
    let now = time + steady().saturating_sub(at);
    let machine = machine_clock();
    *followed() = Some(Followed { time, at });
    let milliseconds = |by: Duration| i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    match machine.duration_since(now) {
        Ok(ahead) => milliseconds(ahead),
        Err(behind) => -milliseconds(behind.duration()),
    }
}

fn machine_clock() -> SystemTime {
    let (now, moved) = (SystemTime::now(), MOVED.load(Ordering::Relaxed));
    let by = Duration::from_secs(moved.unsigned_abs());
    let time = if moved < 0 { now.checked_sub(by) } else { now.checked_add(by) };
    time.unwrap_or(now)
}

fn followed() -> MutexGuard<'static, Option<Followed>> {
    FOLLOWED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves the clock of the machine, as this process sees it, to `seconds` after what it shows, or
/// before it if negative. For tests: the program never calls this function.
pub fn move_wall_clock(seconds: i64) {
    MOVED.store(seconds, Ordering::Relaxed);
}
