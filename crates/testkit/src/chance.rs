//! Repeatable random choices, and the scale of a rig.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A seeded source of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Makes the source of a seed.
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a source that is independent of this one.
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

    /// Returns a number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    /// Returns true in `percent` of 100 cases.
    pub fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Returns the seed in `STILE_RIG_SEED`, or a seed from the clock.
pub fn seed() -> u64 {
    let given = std::env::var("STILE_RIG_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs().wrapping_mul(1_000_000_007) ^ u64::from(now.subsec_nanos())
    })
}

/// Returns how many rounds of a rig to run: `usual`, or `full` if `STILE_RIG_SCALE` is `full`, or
/// that many times `usual`, at most `full`, if the variable is a number.
///
/// # Panics
/// The variable is neither a whole number nor `full`.
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

/// Returns how long a rig runs at least: `STILE_RIG_SECONDS`, or `None` for its usual rounds.
///
/// # Panics
/// The variable is not a whole number.
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
