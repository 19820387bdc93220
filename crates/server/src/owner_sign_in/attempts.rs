//! Delays password attempts after failures, for each address and for all addresses together.
//!
//! After some failures an address waits, and each further failure doubles the wait. A guesser with
//! many addresses meets the limit for all. An address from which the owner signed in is not held up
//! by the failures of others, so a guesser cannot lock that owner out. A one-time link and a
//! passkey are not attempts: both always work.
//!
//! Of several servers that share a database, each counts what reached it, as if the others had seen
//! as many failures. So all together take about as many attempts as one would.
//!
//! Counts are in memory and on the monotonic clock. A restart forgets them, but a guesser cannot
//! make the server restart, and setting the clock changes nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::sign_in::source_network::source_network;

use crate::fleet::Fleet;

/// How many addresses are remembered. The one whose last attempt is longest ago is forgotten first.
const MAX_ADDRESSES: usize = 1024;
/// The failures of one address that cause no delay: a person may mistype.
const FREE_OF_ADDRESS: u32 = 5;
/// The failures of all addresses that cause no delay.
const FREE_OF_ALL: u32 = 20;
/// The longest delay of one address.
const MAX_DELAY_OF_ADDRESS: Duration = Duration::from_secs(15 * 60);
/// The longest delay of all addresses: 1,440 guesses a day, whoever guesses.
const MAX_DELAY_OF_ALL: Duration = Duration::from_secs(60);
/// Failures are forgotten so long after the last one.
const MEMORY: Duration = Duration::from_secs(24 * 60 * 60);

/// The failures of one address or of all.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

/// Whom an address is remembered as.
#[derive(Debug)]
struct Visitor {
    failures: Failures,
    /// Whether the owner signed in from here.
    is_known: bool,
}

#[derive(Debug, Default)]
struct Counts {
    addresses: HashMap<IpAddr, Visitor>,
    all: Option<Failures>,
}

/// The attempts of this process.
#[derive(Debug, Default)]
pub struct Attempts {
    counts: Mutex<Counts>,
    /// `None` for a server that shares its database with none.
    fleet: Option<Arc<Fleet>>,
}

impl Attempts {
    /// Counts for one of the servers that share a database.
    pub fn shared_by(fleet: Option<Arc<Fleet>>) -> Self {
        Self { counts: Mutex::default(), fleet }
    }

    /// Begins an attempt, and counts it as a failure until [`Attempts::succeed`] is called. So
    /// attempts that run at once are counted before their outcome is known.
    ///
    /// # Errors
    /// The time until the next attempt is allowed. A refused attempt is not counted.
    pub fn begin(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let address = source_network(address);
        let servers = self.fleet.as_ref().map_or(1, |fleet| fleet.servers());
        let servers = u32::try_from(servers).unwrap_or(u32::MAX);
        let mut counts = self.lock();
        let visitor = counts.addresses.get(&address);
        let is_known = visitor.is_some_and(|visitor| visitor.is_known);
        let of_address = visitor.map_or(Duration::ZERO, |visitor| {
            visitor.failures.wait(FREE_OF_ADDRESS, MAX_DELAY_OF_ADDRESS, servers, now)
        });
        let of_all = match counts.all {
            Some(all) if !is_known => all.wait(FREE_OF_ALL, MAX_DELAY_OF_ALL, servers, now),
            _ => Duration::ZERO,
        };
        let wait = of_address.max(of_all);
        if !wait.is_zero() {
            return Err(wait);
        }
        counts.make_room(&address);
        let fresh = Visitor { failures: Failures { count: 0, last: now }, is_known: false };
        counts.addresses.entry(address).or_insert(fresh).failures.add(now);
        counts.all.get_or_insert(Failures { count: 0, last: now }).add(now);
        Ok(())
    }

    /// Takes back the failure that [`Attempts::begin`] counted, and remembers that the owner signed
    /// in from this address.
    pub fn succeed(&self, address: IpAddr, now: Instant) {
        let address = source_network(address);
        let mut counts = self.lock();
        counts.make_room(&address);
        let failures = Failures { count: 0, last: now };
        counts.addresses.insert(address, Visitor { failures, is_known: true });
        counts.take_back_of_all();
    }

    /// Takes back the failure that [`Attempts::begin`] counted, after an attempt without an
    /// outcome.
    pub fn cancel(&self, address: IpAddr) {
        let mut counts = self.lock();
        if let Some(visitor) = counts.addresses.get_mut(&source_network(address)) {
            visitor.failures.count = visitor.failures.count.saturating_sub(1);
        }
        counts.take_back_of_all();
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn make_room(&mut self, address: &IpAddr) {
        if self.addresses.len() < MAX_ADDRESSES || self.addresses.contains_key(address) {
            return;
        }
        // An address of the owner is forgotten last, so that a guesser with many addresses cannot
        // push it out.
        let oldest = self
            .addresses
            .iter()
            .min_by_key(|(_, visitor)| (visitor.is_known, visitor.failures.last));
        if let Some(oldest) = oldest.map(|(address, _)| *address) {
            self.addresses.remove(&oldest);
        }
    }

    fn take_back_of_all(&mut self) {
        if let Some(all) = &mut self.all {
            all.count = all.count.saturating_sub(1);
        }
    }
}

impl Failures {
    fn add(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last) >= MEMORY {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last = now;
    }

    /// Returns how long the next attempt has to wait. `servers` divide the free attempts, and each
    /// waits as many times as long.
    fn wait(self, free: u32, longest: Duration, servers: u32, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.last);
        let free = free.div_ceil(servers);
        if self.count < free || since >= MEMORY {
            return Duration::ZERO;
        }
        let doublings = (self.count - free).min(16);
        let delay = Duration::from_secs(1 << doublings).min(longest).saturating_mul(servers);
        delay.saturating_sub(since)
    }
}

#[cfg(test)]
mod tests {
    use stile_store::state::{StateDir, TokenStore};

    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    /// Fails attempts from an address, each as soon as it is allowed, and returns the waits.
    fn waits(attempts: &Attempts, from: IpAddr, now: &mut Instant, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let wait = attempts.begin(from, *now).err().unwrap_or_default();
                *now += wait;
                if !wait.is_zero() {
                    attempts.begin(from, *now).unwrap();
                }
                wait.as_secs()
            })
            .collect()
    }

    #[test]
    fn the_delay_of_an_address_doubles_with_each_failure_up_to_a_limit() {
        let (attempts, mut now) = (Attempts::default(), Instant::now());
        let waited = waits(&attempts, address(1), &mut now, 18);
        assert_eq!(waited, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]);
        // An attempt that comes too early changes nothing.
        let left = attempts.begin(address(1), now + Duration::from_secs(1)).unwrap_err();
        assert_eq!(left, Duration::from_secs(899));
        assert_eq!(attempts.begin(address(1), now + Duration::from_secs(1)), Err(left));
        assert!(attempts.begin(address(1), now + MEMORY).is_ok());
        assert!(attempts.begin(address(1), now + MEMORY).is_ok());
    }

    #[test]
    fn servers_that_share_a_database_divide_the_attempts() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let tokens = Arc::new(TokenStore::open(&state).unwrap());
        let attempts = Attempts::shared_by(Some(Fleet::of_servers(tokens, 3)));
        let mut now = Instant::now();
        let waited = waits(&attempts, address(1), &mut now, 15);
        assert_eq!(waited, [0, 0, 3, 6, 12, 24, 48, 96, 192, 384, 768, 1536, 2700, 2700, 2700]);
    }

    #[test]
    fn many_addresses_share_one_limit_that_spares_the_owners_address() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        attempts.begin(address(0), now).unwrap();
        attempts.succeed(address(0), now);
        for number in 1..=FREE_OF_ALL {
            attempts.begin(address(number), now).unwrap();
        }
        assert!(attempts.begin(address(1000), now).is_err());
        assert!(attempts.begin(address(0), now).is_ok());
        attempts.succeed(address(0), now);
        let mut later = now;
        for number in 2000..2010 {
            let _ = waits(&attempts, address(number), &mut later, 1);
        }
        assert_eq!(attempts.begin(address(3000), later), Err(MAX_DELAY_OF_ALL));
    }

    #[test]
    fn success_and_an_attempt_without_an_outcome_take_the_failure_back() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..100 {
            attempts.begin(address(1), now).unwrap();
            attempts.cancel(address(1));
            attempts.begin(address(2), now).unwrap();
            attempts.succeed(address(2), now);
        }
        assert!(attempts.begin(address(3), now).is_ok());
    }

    #[test]
    fn attempts_that_run_at_once_are_counted_before_they_end() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let begun = (0..100).filter(|_| attempts.begin(address(1), now).is_ok()).count();
        assert_eq!(begun, FREE_OF_ADDRESS as usize);
    }

    #[test]
    fn few_addresses_are_remembered_and_the_owners_is_not_pushed_out() {
        let (attempts, mut now) = (Attempts::default(), Instant::now());
        attempts.begin(address(0), now).unwrap();
        attempts.succeed(address(0), now);
        for number in 1..2 * u32::try_from(MAX_ADDRESSES).unwrap() {
            now += MAX_DELAY_OF_ALL;
            attempts.begin(address(number), now).unwrap();
        }
        assert_eq!(attempts.lock().addresses.len(), MAX_ADDRESSES);
        assert!(attempts.begin(address(0), now).is_ok());
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        for (one, other, same) in [
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            let parse = |text: &str| source_network(text.parse().unwrap());
            assert_eq!(parse(one) == parse(other), same, "{one} {other}");
        }
    }
}
