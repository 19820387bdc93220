//! Limits the rate of requests per subject.
//!
//! Each subject has a token bucket on the monotonic clock. The number of buckets is bounded: a full
//! bucket equals a new one, so full buckets are dropped when there are many.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::fleet::Fleet;

/// The number of buckets from which full ones are dropped.
const MAX_SUBJECTS: usize = 10_000;

/// What is left of a bucket from which one request can be taken: one, but for what rounding may
/// have cost.
const WHOLE: f64 = 1.0 - 1e-9;

/// The buckets of all subjects.
pub struct RateLimit {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
    /// `None` for a server that shares its database with none.
    fleet: Option<Arc<Fleet>>,
}

struct Bucket {
    /// Requests left at `at`.
    left: f64,
    at: Instant,
}

impl RateLimit {
    /// Allows `per_second` requests over time and `burst` at once. Zero counts as one.
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self {
            fleet: None,
            per_second: per_second.max(1).into(),
            burst: burst.max(1).into(),
            buckets: Mutex::default(),
        }
    }

    /// Allows one request in each `interval` over time and `burst` at once. Zero counts as one.
    pub fn one_in(interval: Duration, burst: u32) -> Self {
        let per_second = 1.0 / interval.max(Duration::from_millis(1)).as_secs_f64();
        Self { per_second, ..Self::new(1, burst) }
    }

    /// Divides what a subject may send among the servers that share a database, so that they all
    /// together allow as much as one would.
    #[must_use]
    pub fn shared_by(self, fleet: Option<Arc<Fleet>>) -> Self {
        Self { fleet, ..self }
    }

    /// Takes one request from a subject's bucket.
    ///
    /// # Errors
    /// If the bucket is empty, the time until the next request is allowed.
    pub fn take(&self, subject: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_SUBJECTS && !buckets.contains_key(subject) {
            buckets.retain(|_, bucket| self.left(bucket, now) < self.burst());
        }
        let bucket = match buckets.get_mut(subject) {
            Some(bucket) => bucket,
            None => {
                buckets.entry(subject.to_owned()).or_insert(Bucket { left: self.burst(), at: now })
            }
        };
        bucket.left = self.left(bucket, now);
        bucket.at = now;
        if bucket.left < WHOLE {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / self.per_second()));
        }
        bucket.left -= 1.0;
        Ok(())
    }

    fn left(&self, bucket: &Bucket, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(bucket.at).as_secs_f64();
        elapsed.mul_add(self.per_second(), bucket.left).min(self.burst())
    }

    fn per_second(&self) -> f64 {
        self.per_second / self.servers()
    }

    fn burst(&self) -> f64 {
        (self.burst / self.servers()).max(1.0)
    }

    fn servers(&self) -> f64 {
        let servers = self.fleet.as_ref().map_or(1, |fleet| fleet.servers());
        u32::try_from(servers).map_or(1.0, f64::from)
    }
}

#[cfg(test)]
mod tests {
    use stile_store::state::{StateDir, TokenStore};

    use super::*;

    #[test]
    fn each_subject_has_a_burst_and_then_a_rate() {
        let limit = RateLimit::new(2, 3);
        let start = Instant::now();
        for _ in 0..3 {
            assert!(limit.take("ann", start).is_ok());
        }
        let wait = limit.take("ann", start).unwrap_err();
        assert!(wait <= Duration::from_millis(500), "{wait:?}");
        assert!(limit.take("bob", start).is_ok());
        let half = Duration::from_millis(250);
        assert_eq!(limit.take("ann", start + half), Err(half), "the rest of the wait");
        assert!(limit.take("ann", start + Duration::from_millis(500)).is_ok());
        assert!(limit.take("ann", start + Duration::from_millis(501)).is_err());
        assert!(limit.take("ann", start + Duration::from_secs(3600)).is_ok());
    }

    #[test]
    fn servers_that_share_a_database_allow_together_what_one_would() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        let fleet = Fleet::of_servers(Arc::new(tokens), 4);
        let limit = RateLimit::new(8, 12).shared_by(Some(fleet));
        let start = Instant::now();
        let at_once = (0..12).filter(|_| limit.take("ann", start).is_ok()).count();
        assert_eq!(at_once, 3, "a quarter of the burst");
        let later = start + Duration::from_secs(1);
        let in_a_second = (0..12).filter(|_| limit.take("ann", later).is_ok()).count();
        assert_eq!(in_a_second, 2, "a quarter of the rate");
    }

    #[test]
    fn a_subject_that_used_its_burst_up_is_not_forgotten_when_there_are_many() {
        let limit = RateLimit::new(1, 1);
        let start = Instant::now();
        for number in 1..MAX_SUBJECTS {
            let _ = limit.take(&number.to_string(), start);
        }
        let later = start + Duration::from_secs(5);
        assert!(limit.take("ann", later).is_ok());
        assert!(limit.take("one more", later).is_ok());
        assert_eq!(limit.buckets.lock().unwrap().len(), 2);
        assert!(limit.take("ann", later).is_err());
    }

    #[test]
    fn full_buckets_are_dropped_when_there_are_many() {
        let limit = RateLimit::new(1, 1);
        let start = Instant::now();
        for number in 0..MAX_SUBJECTS {
            let _ = limit.take(&number.to_string(), start);
        }
        let _ = limit.take("one more", start + Duration::from_secs(5));
        assert_eq!(limit.buckets.lock().unwrap().len(), 1);
    }
}
