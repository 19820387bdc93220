//! Random choices that can be repeated, and how much of a rig to run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A seeded source of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The choices that belong to a seed.
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Another source that goes its own way.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    /// Whether something happens that does so in `percent` of cases.
    pub fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// The seed in `STILE_RIG_SEED`, or one of this moment.
pub fn seed() -> u64 {
    let given = std::env::var("STILE_RIG_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs().wrapping_mul(1_000_000_007) ^ u64::from(now.subsec_nanos())
    })
}

/// How much of a rig to run: `usual` in every test run, `full` where `STILE_RIG_SCALE` is `full`,
/// and so many times the usual, but no more than the full amount, where it is a number.
///
/// # Panics
/// Where the variable is something else.
#[expect(clippy::panic, reason = "a misspelt scale would prove less than was asked for")]
pub fn scaled(usual: usize, full: usize) -> usize {
    match std::env::var("STILE_RIG_SCALE").as_deref() {
        Err(_) | Ok("") => usual,
        Ok("full") => full,
        Ok(scale) => match scale.parse::<usize>() {
            Ok(scale) => usual.saturating_mul(scale).clamp(1, full),
            Err(_) => panic!("STILE_RIG_SCALE is `{scale}`; it is a whole number or `full`"),
        },
    }
}

/// For how long a rig goes on that has done its usual amount: `STILE_RIG_SECONDS`, or no longer.
///
/// # Panics
/// Where the variable is no whole number.
#[expect(clippy::panic, reason = "a misspelt time would prove less than was asked for")]
pub fn seconds() -> Option<Duration> {
    let given = std::env::var("STILE_RIG_SECONDS").ok().filter(|given| !given.is_empty())?;
    match given.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => panic!("STILE_RIG_SECONDS is `{given}`; it is a whole number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_choices_again() {
        let draw =
            |mut chance: Chance| -> Vec<usize> { (0..50).map(|_| chance.below(7)).collect() };
        assert_eq!(draw(Chance::of(1)), draw(Chance::of(1)));
        assert_ne!(draw(Chance::of(1)), draw(Chance::of(2)));
        assert!((0..7).all(|face| draw(Chance::of(3)).contains(&face)));
    }
}
