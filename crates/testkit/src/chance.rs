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

/// The seed of a usual test run.
const USUAL_SEED: u64 = 20_261_128;

/// Returns the seed in `STILE_RIG_SEED`. Without one, a usual run makes the same choices every
/// time, so what fails was broken by the change under test; a larger run takes its seed from the
/// clock, and finds what no run has found yet.
pub fn seed() -> u64 {
    let given = std::env::var("STILE_RIG_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| {
        if Scale::given() == Scale::Times(1) {
            return USUAL_SEED;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs().wrapping_mul(1_000_000_007) ^ u64::from(now.subsec_nanos())
    })
}

/// How much a rig does, as `STILE_RIG_SCALE` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// So many times what a usual test run does: 1 without the variable.
    Times(usize),
    /// `full`: what must pass before a merge.
    Full,
    /// `long`: what takes hours.
    Long,
}

impl Scale {
    /// Returns the scale in `STILE_RIG_SCALE`.
    ///
    /// # Panics
    /// The variable is neither a whole number nor `full` nor `long`.
    #[expect(clippy::panic, reason = "a misspelt scale would prove less than was asked for")]
    pub fn given() -> Self {
        let given = std::env::var("STILE_RIG_SCALE").unwrap_or_default();
        Self::parse(&given).unwrap_or_else(|| {
            panic!("STILE_RIG_SCALE is `{given}`; it is a whole number, `full` or `long`")
        })
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::Times(1)),
            "full" => Some(Self::Full),
            "long" => Some(Self::Long),
            _ => text.parse().ok().map(Self::Times),
        }
    }

    /// Returns how many rounds to run, where these are the rounds of a usual, a full and a long
    /// run. A number of times stops at `full`.
    pub fn rounds(self, usual: usize, full: usize, long: usize) -> usize {
        match self {
            Self::Times(times) => usual.saturating_mul(times).clamp(1, full),
            Self::Full => full,
            Self::Long => long,
        }
    }
}

/// Returns how many rounds of a rig to run, where a long run does the same as a full one.
///
/// # Panics
/// `STILE_RIG_SCALE` names no scale.
pub fn scaled(usual: usize, full: usize) -> usize {
    scaled_long(usual, full, full)
}

/// Returns how many rounds of a rig to run, where a long run does more than a full one.
///
/// # Panics
/// `STILE_RIG_SCALE` names no scale.
pub fn scaled_long(usual: usize, full: usize, long: usize) -> usize {
    Scale::given().rounds(usual, full, long)
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

    #[test]
    fn a_scale_is_a_number_or_full_or_long() {
        for (text, scale) in [
            ("", Some(Scale::Times(1))),
            ("3", Some(Scale::Times(3))),
            ("full", Some(Scale::Full)),
            ("long", Some(Scale::Long)),
            ("Long", None),
            ("-1", None),
        ] {
            assert_eq!(Scale::parse(text), scale, "{text}");
        }
    }

    #[test]
    fn only_a_long_run_does_more_than_a_full_one() {
        assert_eq!(Scale::Times(1).rounds(5, 100, 1000), 5);
        assert_eq!(Scale::Times(9).rounds(5, 100, 1000), 45);
        assert_eq!(Scale::Times(99).rounds(5, 100, 1000), 100);
        assert_eq!(Scale::Times(0).rounds(5, 100, 1000), 1);
        assert_eq!(Scale::Full.rounds(5, 100, 1000), 100);
        assert_eq!(Scale::Long.rounds(5, 100, 1000), 1000);
    }
}
