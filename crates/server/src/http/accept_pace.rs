//! How fast the server accepts connections.
//!
//! A connection that waits to be accepted costs the server nothing, and one that it accepts costs
//! some tens of microseconds, whoever opened it. Without a pace, whoever opens connections as fast
//! as the machine allows has the requests of all others wait behind theirs: decision 128.

use std::time::{Duration, Instant};

/// The time that a connection takes up, so that there are at most 4,000 a second.
const EACH: Duration = Duration::from_micros(250);
/// The time that the server saves up while few connections come: 256 connections at once.
const MOST_SAVED: Duration = Duration::from_millis(64);

/// The pace of one listener.
pub(super) struct AcceptPace {
    saved: Duration,
    since: Instant,
}

impl AcceptPace {
    /// Begins with all that can be saved up.
    pub(super) fn new(now: Instant) -> Self {
        Self { saved: MOST_SAVED, since: now }
    }

    /// Counts a connection that was accepted `now`. Returns how long the server waits before it
    /// accepts the next one, if it waits at all.
    pub(super) fn pause(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.since);
        self.since = now;
        self.saved = (self.saved + passed).min(MOST_SAVED);
        let missing = EACH.saturating_sub(self.saved);
        self.saved = self.saved.saturating_sub(EACH);
        // The pause pays for this connection, so it is not saved up as well.
        self.since += missing;
        (!missing.is_zero()).then_some(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts for `time` as fast as the pace allows. Returns how many connections that were.
    fn accepted_within(pace: &mut AcceptPace, start: Instant, time: Duration) -> u32 {
        let (mut now, mut count) = (start, 0);
        while now < start + time {
            count += 1;
            now += pace.pause(now).unwrap_or_default() + Duration::from_nanos(100);
        }
        count
    }

    #[test]
    fn a_flood_is_accepted_at_a_steady_pace_and_a_burst_at_once() {
        let start = Instant::now();
        let mut pace = AcceptPace::new(start);
        assert!((0..256).all(|_| pace.pause(start).is_none()), "a burst does not wait");
        let flood = accepted_within(&mut pace, start, Duration::from_secs(10));
        assert!((39_000..=41_000).contains(&flood), "{flood}");
        let later = start + Duration::from_secs(20);
        assert!((0..256).all(|_| pace.pause(later).is_none()), "what is saved up comes back");
        assert_eq!(pace.pause(later), Some(EACH), "and not more than that");
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_saves_nothing_up() {
        let start = Instant::now() + Duration::from_secs(60);
        let mut pace = AcceptPace::new(start);
        (0..256).for_each(|_| assert_eq!(pace.pause(start), None));
        assert_eq!(pace.pause(start - Duration::from_secs(30)), Some(EACH));
    }
}
