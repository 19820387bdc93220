//! When a record may be seen under a grant with a limit on the time of records.
//!
//! The rule stands here alone. An engine turns the bounds into conditions of a query.

use super::instant::Instant;

/// The times of the records that a grant shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibleTime {
    since: Option<Instant>,
    until: Option<Instant>,
}

/// One bound of the times that a grant shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleBound {
    /// The record happened at this time or later.
    From(Instant),
    /// The record happened before this time.
    Before(Instant),
}

impl VisibleBound {
    /// Returns whether a record of this time is within the bound.
    pub fn allows(self, happened: Instant) -> bool {
        match self {
            Self::From(since) => since <= happened,
            Self::Before(until) => happened < until,
        }
    }
}

impl VisibleTime {
    /// Makes the rule of a grant: from `since` on and before `until`, as far as there are bounds.
    pub fn new(since: Option<Instant>, until: Option<Instant>) -> Self {
        Self { since, until }
    }

    /// Returns the bounds, at most two. A record is shown if each of them allows its time.
    pub fn bounds(self) -> impl Iterator<Item = VisibleBound> {
        self.since.map(VisibleBound::From).into_iter().chain(self.until.map(VisibleBound::Before))
    }

    /// Returns whether a record of this time is shown. A record without a known time is not.
    pub fn shows(self, happened: Option<Instant>) -> bool {
        happened.is_some_and(|happened| self.bounds().all(|bound| bound.allows(happened)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bound_is_inclusive_and_the_last_is_not_and_an_unknown_time_is_hidden() {
        let at = |micros| Some(Instant(micros));
        let both = VisibleTime::new(at(5), at(8));
        assert_eq!([4, 5, 7, 8].map(|time| both.shows(at(time))), [false, true, true, false]);
        assert!(VisibleTime::new(at(5), None).shows(at(i64::MAX)));
        assert!(VisibleTime::new(None, at(8)).shows(at(i64::MIN)));
        assert!(!both.shows(None));
    }
}
