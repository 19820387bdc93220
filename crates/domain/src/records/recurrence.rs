//! The dates of what repeats: the entries of a calendar that have a rule.
//!
//! A record of a calendar holds its first date and a rule, and no later date. A request that asks
//! by time gets the dates from here, so a record that repeats is found by each of them.
//!
//! *Source*: RFC 5545, sections 3.3.10 (rules) and 3.8.5 (series). Rules that repeat within a day,
//! and those that name weeks or days of the year, are not read.

use std::collections::{BTreeSet, HashSet};

use super::instant::{CalendarTime, Instant, MICROS_A_DAY};
use super::zone::Zone;
use crate::civil::{civil_from_days, days_from_civil};

/// The names of the days of the week in a rule, from Monday on.
const DAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
/// The most days, weeks, months or years of a series that are looked at in one call.
const MOST_PERIODS: i64 = 20_000;

/// How often a rule repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frequency {
    Daily,
    Weekly,
    Monthly,
    Yearly,
}

/// A rule such as `FREQ=WEEKLY;BYDAY=MO,WE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    frequency: Frequency,
    interval: i64,
    count: Option<u64>,
    until: Option<CalendarTime>,
    /// Days of the week, from 0 for Monday, each with the number within the month or year; 0 for
    /// every one.
    by_day: Vec<(i64, i64)>,
    by_month_day: Vec<i64>,
    by_month: Vec<i64>,
    by_position: Vec<i64>,
    /// The first day of a week.
    week_start: i64,
}

impl Rule {
    /// Reads a rule; `None` for one that is not valid, or of a kind that is not read.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rule = Self {
            frequency: Frequency::Daily,
            interval: 1,
            count: None,
            until: None,
            by_day: Vec::new(),
            by_month_day: Vec::new(),
            by_month: Vec::new(),
            by_position: Vec::new(),
            week_start: 0,
        };
        let mut has_frequency = false;
        let text = text.trim().to_ascii_uppercase();
        let text = text.strip_prefix("RRULE:").unwrap_or(&text);
        for part in text.split(';').filter(|part| !part.trim().is_empty()) {
            let (name, value) = part.trim().split_once('=')?;
            let number = |one: &str| one.trim().parse::<i64>().ok();
            let numbers = || value.split(',').map(number).collect::<Option<Vec<i64>>>();
            match name {
                "FREQ" => {
                    has_frequency = true;
                    rule.frequency = match value {
                        "DAILY" => Frequency::Daily,
                        "WEEKLY" => Frequency::Weekly,
                        "MONTHLY" => Frequency::Monthly,
                        "YEARLY" => Frequency::Yearly,
                        _ => return None,
                    };
                }
                "INTERVAL" => rule.interval = value.parse().ok().filter(|&every| every >= 1)?,
                "COUNT" => rule.count = Some(value.parse().ok()?),
                "UNTIL" => rule.until = Some(until(value)?),
                "BYDAY" => rule.by_day = value.split(',').map(week_day).collect::<Option<_>>()?,
                "BYMONTHDAY" => rule.by_month_day = numbers()?,
                "BYMONTH" => rule.by_month = numbers()?,
                "BYSETPOS" => rule.by_position = numbers()?,
                "WKST" => rule.week_start = week_day(value)?.1,
                _ => return None,
            }
        }
        let within_weeks = matches!(rule.frequency, Frequency::Daily | Frequency::Weekly);
        let has_numbered_days = rule.by_day.iter().any(|&(number, _)| number != 0);
        (has_frequency && !(within_weeks && has_numbered_days)).then_some(rule)
    }

    /// Returns the number of the day, week, month or year that a day lies in.
    fn period_of(&self, day: i64) -> i64 {
        let (year, month, _) = civil_from_days(day);
        match self.frequency {
            Frequency::Daily => day,
            // 1970-01-01 was a Thursday.
            Frequency::Weekly => (day + 3 - self.week_start).div_euclid(7),
            Frequency::Monthly => year * 12 + month - 1,
            Frequency::Yearly => year,
        }
    }

    /// Returns the days of a period on which the rule, which began on `first`, repeats.
    fn days_of(&self, period: i64, first: i64) -> BTreeSet<i64> {
        let (_, first_month, first_day) = civil_from_days(first);
        let days: BTreeSet<i64> = match self.frequency {
            Frequency::Daily => [period].into_iter().filter(|&day| self.admits(day)).collect(),
            Frequency::Weekly => {
                let monday = period * 7 - 3 + self.week_start;
                let own = |day: &i64| match self.by_day.is_empty() {
                    true => weekday(*day) == weekday(first),
                    false => self.admits(*day),
                };
                (monday..monday + 7).filter(own).filter(|&day| self.admits_month(day)).collect()
            }
            Frequency::Monthly => {
                let (year, month) = (period.div_euclid(12), period.rem_euclid(12) + 1);
                self.days_of_month(year, month, first_day)
            }
            Frequency::Yearly
                if !self.by_day.is_empty()
                    && self.by_month.is_empty()
                    && self.by_month_day.is_empty() =>
            {
                let span = (days_from_civil(period, 1, 1), days_from_civil(period + 1, 1, 1));
                self.numbered_days(span)
            }
            Frequency::Yearly => {
                let months = match (self.by_month.as_slice(), self.by_month_day.is_empty()) {
                    ([], true) => vec![first_month],
                    ([], false) => (1..=12).collect(),
                    (months, _) => months.to_vec(),
                };
                let of_month = |month: i64| self.days_of_month(period, month, first_day);
                months
                    .into_iter()
                    .filter(|month| (1..=12).contains(month))
                    .flat_map(of_month)
                    .collect()
            }
        };
        if self.by_position.is_empty() {
            return days;
        }
        let days: Vec<i64> = days.into_iter().collect();
        let length = i64::try_from(days.len()).unwrap_or(i64::MAX);
        let at = |&position: &i64| match position {
            0 => None,
            _ if position > 0 => usize::try_from(position - 1).ok(),
            _ => usize::try_from(length + position).ok(),
        };
        self.by_position.iter().filter_map(at).filter_map(|at| days.get(at).copied()).collect()
    }

    /// Returns the days of a month that the rule names, or the day that the series began on.
    fn days_of_month(&self, year: i64, month: i64, first_day: i64) -> BTreeSet<i64> {
        if !self.by_month.is_empty() && !self.by_month.contains(&month) {
            return BTreeSet::new();
        }
        let (begin, end) = (days_from_civil(year, month, 1), days_from_civil(year, month + 1, 1));
        if !self.by_day.is_empty() {
            let named = self.numbered_days((begin, end));
            return named.into_iter().filter(|&day| self.admits_month_day(day)).collect();
        }
        let named = |day: &i64| match self.by_month_day.is_empty() {
            true => *day - begin + 1 == first_day,
            false => self.admits_month_day(*day),
        };
        (begin..end).filter(named).collect()
    }

    /// Returns the days between two that are named by the day of the week, and by their number
    /// among those from the beginning or the end.
    fn numbered_days(&self, (begin, end): (i64, i64)) -> BTreeSet<i64> {
        let named = |&(number, wanted): &(i64, i64)| {
            let all: Vec<i64> = (begin..end).filter(|&day| weekday(day) == wanted).collect();
            let length = i64::try_from(all.len()).unwrap_or(i64::MAX);
            let at = if number > 0 { number - 1 } else { length + number };
            match (number, usize::try_from(at)) {
                (0, _) => all,
                (_, Ok(at)) => all.get(at).copied().into_iter().collect(),
                (_, Err(_)) => Vec::new(),
            }
        };
        self.by_day.iter().flat_map(named).collect()
    }

    /// Whether a day has the day of the week, the day of the month and the month that are named.
    fn admits(&self, day: i64) -> bool {
        let is_named =
            self.by_day.is_empty() || self.by_day.iter().any(|&(_, own)| own == weekday(day));
        is_named && self.admits_month_day(day) && self.admits_month(day)
    }

    fn admits_month(&self, day: i64) -> bool {
        self.by_month.is_empty() || self.by_month.contains(&civil_from_days(day).1)
    }

    fn admits_month_day(&self, day: i64) -> bool {
        let (year, month, own) = civil_from_days(day);
        let length = days_from_civil(year, month + 1, 1) - days_from_civil(year, month, 1);
        self.by_month_day.is_empty()
            || self.by_month_day.iter().any(|&wanted| wanted == own || wanted == own - length - 1)
    }
}

fn weekday(day: i64) -> i64 {
    (day + 3).rem_euclid(7)
}

/// Reads a day such as `MO` or `-1SU`: its number, and the day of the week.
fn week_day(text: &str) -> Option<(i64, i64)> {
    let text = text.trim();
    let (number, name) = text.split_at_checked(text.len().checked_sub(2)?)?;
    let day = DAYS.iter().position(|own| *own == name)?;
    let number = if number.is_empty() { 0 } else { number.parse().ok().filter(|&own| own != 0)? };
    Some((number, i64::try_from(day).ok()?))
}

/// Reads the last day or time of a series, such as `20260301` or `20260301T120000Z`.
fn until(text: &str) -> Option<CalendarTime> {
    let part = |from: usize, to: usize| text.get(from..to);
    let date = format!("{}-{}-{}", part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let Some(clock) = text.get(8..).and_then(|rest| rest.strip_prefix('T')) else {
        return CalendarTime::parse(&date);
    };
    let part = |from: usize, to: usize| clock.get(from..to);
    let zone = if clock.ends_with('Z') { "Z" } else { "" };
    let clock = format!("{}:{}:{}", part(0, 2)?, part(2, 4)?, part(4, 6)?);
    CalendarTime::parse(&format!("{date}T{clock}{zone}"))
}

/// What a record says about when it takes place, as text.
#[derive(Clone, Debug, Default)]
pub struct SeriesFields {
    /// The first day of the series.
    pub date: Option<String>,
    /// The first time; absent for whole days.
    pub start: Option<String>,
    /// The end of the first time.
    pub end: Option<String>,
    /// The day after the first days.
    pub end_date: Option<String>,
    /// The rule by which it repeats, or several, a line each.
    pub rule: Option<String>,
    /// The name of the zone in which it repeats.
    pub zone: Option<String>,
    /// The dates or times of the rule on which it does not take place.
    pub not_on: Vec<String>,
    /// The dates or times on which it takes place besides.
    pub also_on: Vec<String>,
}

/// A record that repeats.
#[derive(Clone, Debug)]
pub struct Series {
    rules: Vec<Rule>,
    /// The first day, where it takes place.
    first: i64,
    /// The time of the day, where it takes place, as RFC 3339 has it.
    clock: Option<String>,
    zone: Zone,
    /// How long it lasts, in microseconds.
    length: Option<i64>,
    /// How many days the day after it is later.
    days: Option<i64>,
    /// Days, and times, on which it does not take place.
    not_on: (HashSet<i64>, HashSet<Instant>),
    also_on: Vec<Occurrence>,
}

/// One time of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Occurrence {
    /// The day, in days since 1970-01-01.
    pub day: i64,
    /// The time; `None` for whole days.
    pub start: Option<Instant>,
}

impl Occurrence {
    /// Writes the time, or the day, as RFC 3339 has it.
    pub fn written(self) -> String {
        let day = || Instant::from_day(self.day).to_rfc3339();
        match self.start {
            Some(start) => start.to_rfc3339(),
            None => day().get(..10).unwrap_or_default().to_owned(),
        }
    }
}

impl Series {
    /// Reads what a record says. `None` if it does not repeat, or has a rule that is not read.
    pub fn of(fields: &SeriesFields) -> Option<Self> {
        let rules = fields.rule.iter().flat_map(|rules| rules.lines());
        let rules = rules.map(Rule::parse).collect::<Option<Vec<_>>>()?;
        if rules.is_empty() && fields.also_on.is_empty() {
            return None;
        }
        let zone = fields.zone.as_deref().and_then(Zone::named);
        let zone = zone.or_else(|| Zone::named("Etc/UTC"))?;
        let time = |text: &Option<String>| text.as_deref().and_then(Instant::parse);
        let day_of = |text: &str| match CalendarTime::parse(text)? {
            CalendarTime::Date(day) => Some(day),
            CalendarTime::Moment(at) => match CalendarTime::parse(&zone.local_date(at)?)? {
                CalendarTime::Date(day) => Some(day),
                CalendarTime::Moment(_) => None,
            },
        };
        let start = time(&fields.start);
        let first = fields.start.as_deref().or(fields.date.as_deref()).and_then(day_of)?;
        let clock =
            start.and_then(|start| Some(zone.local_time(start)?.split_once('T')?.1.to_owned()));
        let days = fields.end_date.as_deref().and_then(day_of).map(|end| end - first);
        let mut not_on = (HashSet::new(), HashSet::new());
        for text in &fields.not_on {
            match CalendarTime::parse(text) {
                Some(CalendarTime::Date(day)) => drop(not_on.0.insert(day)),
                Some(CalendarTime::Moment(at)) => drop(not_on.1.insert(at)),
                None => {}
            }
        }
        let also = |text: &String| {
            let start = match CalendarTime::parse(text)? {
                CalendarTime::Moment(at) => Some(at),
                CalendarTime::Date(_) => None,
            };
            Some(Occurrence { day: day_of(text)?, start })
        };
        let also_on = fields.also_on.iter().filter_map(also).collect();
        let length = start.zip(time(&fields.end)).map(|(start, end)| end.0 - start.0);
        Some(Self { rules, first, clock, length, days, not_on, also_on, zone })
    }

    /// Returns what a field of the record would hold for an occurrence, as filters compare it.
    pub fn value(&self, field: &str, at: Occurrence) -> Option<Instant> {
        let midnight = |day: i64| Some(Instant(day.checked_mul(MICROS_A_DAY)?));
        match field {
            "date" => midnight(at.day),
            "start" => at.start,
            "end" => Some(Instant(at.start?.0.checked_add(self.length?)?)),
            "end_date" => midnight(at.day.checked_add(self.days?)?),
            _ => None,
        }
    }

    /// Returns the first occurrences that fulfil a test, at most `most`, and whether there are
    /// more. None before the day `from` or after the day `to` does. `None` if finding them takes
    /// too long.
    pub fn occurrences(
        &self,
        (from, to): (Option<i64>, Option<i64>),
        most: usize,
        wanted: &dyn Fn(Occurrence) -> bool,
    ) -> Option<(Vec<Occurrence>, bool)> {
        let mut found: BTreeSet<Occurrence> = self.besides().filter(|&own| wanted(own)).collect();
        for rule in &self.rules {
            // Each rule has its dates in order, and the first of all are among the first of each.
            let mut own = BTreeSet::new();
            self.each_of_rule(rule, (from, to), &mut |at| {
                if !self.is_left_out(at) && wanted(at) {
                    own.insert(at);
                }
                own.len() <= most
            })?;
            found.append(&mut own);
        }
        let has_more = found.len() > most;
        Some((found.into_iter().take(most).collect(), has_more))
    }

    /// Whether the first date is one of those on which it does not take place.
    pub fn begins_later(&self) -> bool {
        let first = self.at(self.first);
        first.is_some_and(|at| self.is_left_out(at))
    }

    /// Returns when it takes place besides.
    fn besides(&self) -> impl Iterator<Item = Occurrence> {
        self.also_on.iter().copied().filter(|&own| !self.is_left_out(own))
    }

    fn is_left_out(&self, at: Occurrence) -> bool {
        self.not_on.0.contains(&at.day)
            || at.start.is_some_and(|start| self.not_on.1.contains(&start))
    }

    /// Passes each occurrence of the rule, in order, until `go_on` returns false. `None` if there
    /// are too many before.
    fn each_of_rule(
        &self,
        rule: &Rule,
        (from, to): (Option<i64>, Option<i64>),
        go_on: &mut dyn FnMut(Occurrence) -> bool,
    ) -> Option<()> {
        let first_period = rule.period_of(self.first);
        // What a number of repetitions ends is counted from the first.
        let skipped = match from.filter(|_| rule.count.is_none()) {
            Some(from) => (rule.period_of(from) - 1 - first_period).max(0) / rule.interval,
            None => 0,
        };
        let mut count = 0;
        for number in skipped..skipped.checked_add(MOST_PERIODS)? {
            let period = first_period.checked_add(number.checked_mul(rule.interval)?)?;
            if to.is_some_and(|to| period > rule.period_of(to)) {
                return Some(());
            }
            for day in rule.days_of(period, self.first) {
                if day < self.first {
                    continue;
                }
                let Some(at) = self.at(day) else { return Some(()) };
                if rule.until.is_some_and(|until| is_after(at, until)) {
                    return Some(());
                }
                count += 1;
                if rule.count.is_some_and(|most| count > most) || !go_on(at) {
                    return Some(());
                }
            }
        }
        None
    }

    /// Returns the occurrence on a day; `None` beyond the years that the calendar has.
    fn at(&self, day: i64) -> Option<Occurrence> {
        let whole = Occurrence { day, start: None };
        let Some(clock) = &self.clock else { return Some(whole) };
        let local = format!("{}T{clock}", whole.written());
        Some(Occurrence { day, start: Some(self.zone.instant_of(&local)?) })
    }
}

fn is_after(at: Occurrence, until: CalendarTime) -> bool {
    match (until, at.start) {
        (CalendarTime::Date(last), _) => at.day > last,
        (CalendarTime::Moment(last), Some(start)) => start > last,
        (CalendarTime::Moment(last), None) => at.day > last.day(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(date: &str, rule: &str) -> SeriesFields {
        let own = |text: &str| Some(text.to_owned());
        match date.len() {
            10 => SeriesFields { date: own(date), rule: own(rule), ..SeriesFields::default() },
            _ => SeriesFields {
                date: own(&date[..10]),
                start: own(date),
                rule: own(rule),
                ..SeriesFields::default()
            },
        }
    }

    fn first(fields: &SeriesFields, most: usize) -> Vec<String> {
        let series = Series::of(fields).unwrap();
        let (found, _) = series.occurrences((None, None), most, &|_| true).unwrap();
        found.into_iter().map(Occurrence::written).collect()
    }

    /// The examples of RFC 5545, section 3.8.5.3, as whole days.
    #[test]
    fn a_rule_has_the_days_that_the_standard_gives() {
        for (date, rule, days) in [
            ("1997-09-02", "FREQ=DAILY;COUNT=3", "1997-09-02 1997-09-03 1997-09-04"),
            ("1997-09-02", "FREQ=DAILY;INTERVAL=10;COUNT=3", "1997-09-02 1997-09-12 1997-09-22"),
            (
                "1998-01-01",
                "FREQ=YEARLY;UNTIL=20000131;BYMONTH=1;BYDAY=SU",
                "1998-01-04 1998-01-11 1998-01-18",
            ),
            ("1997-09-02", "FREQ=WEEKLY;UNTIL=19970916", "1997-09-02 1997-09-09 1997-09-16"),
            (
                "1997-09-01",
                "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=MO,WE,FR",
                "1997-09-01 1997-09-03 1997-09-05 1997-09-15",
            ),
            (
                "1997-08-05",
                "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO",
                "1997-08-05 1997-08-10 1997-08-19 1997-08-24",
            ),
            (
                "1997-08-05",
                "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU",
                "1997-08-05 1997-08-17 1997-08-19 1997-08-31",
            ),
            ("1997-09-05", "FREQ=MONTHLY;COUNT=3;BYDAY=1FR", "1997-09-05 1997-10-03 1997-11-07"),
            ("1997-09-22", "FREQ=MONTHLY;COUNT=3;BYDAY=-2MO", "1997-09-22 1997-10-20 1997-11-17"),
            ("1997-09-28", "FREQ=MONTHLY;BYMONTHDAY=-3", "1997-09-28 1997-10-29 1997-11-28"),
            (
                "1997-09-30",
                "FREQ=MONTHLY;COUNT=4;BYMONTHDAY=1,-1",
                "1997-09-30 1997-10-01 1997-10-31 1997-11-01",
            ),
            (
                "1998-02-13",
                "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
                "1998-02-13 1998-03-13 1998-11-13",
            ),
            (
                "1997-09-04",
                "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3",
                "1997-09-04 1997-10-07 1997-11-06",
            ),
            (
                "1997-06-10",
                "FREQ=YEARLY;COUNT=4;BYMONTH=6,7",
                "1997-06-10 1997-07-10 1998-06-10 1998-07-10",
            ),
            ("1997-05-19", "FREQ=YEARLY;BYDAY=20MO", "1997-05-19 1998-05-18 1999-05-17"),
            (
                "1996-11-05",
                "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
                "1996-11-05 2000-11-07 2004-11-02",
            ),
            ("2026-01-31", "FREQ=MONTHLY", "2026-01-31 2026-03-31 2026-05-31"),
            ("2024-02-29", "FREQ=YEARLY", "2024-02-29 2028-02-29 2032-02-29"),
        ] {
            let days: Vec<&str> = days.split(' ').collect();
            assert_eq!(first(&series(date, rule), days.len()), days, "{rule}");
        }
        for none in ["", "FREQ=HOURLY", "FREQ=YEARLY;BYWEEKNO=20", "FREQ=DAILY;BYHOUR=9", "X"] {
            assert_eq!(Rule::parse(none), None, "{none}");
        }
    }

    #[test]
    fn an_occurrence_has_its_clock_in_its_zone_and_not_on_is_left_out() {
        let mut fields = series("2026-03-22T08:00:00Z", "FREQ=WEEKLY");
        fields.zone = Some("Europe/Zurich".to_owned());
        fields.end = Some("2026-03-22T09:00:00Z".to_owned());
        let days = ["2026-03-22T08:00:00Z", "2026-03-29T07:00:00Z", "2026-04-05T07:00:00Z"];
        assert_eq!(first(&fields, 3), days);
        fields.not_on = vec!["2026-03-29T07:00:00Z".to_owned()];
        fields.also_on = vec!["2026-03-30T07:00:00Z".to_owned()];
        assert_eq!(first(&fields, 3), [days[0], "2026-03-30T07:00:00Z", days[2]]);
        let rule = Some("FREQ=WEEKLY;COUNT=2\nFREQ=WEEKLY;BYDAY=TU;COUNT=1".to_owned());
        assert!(!Series::of(&fields).unwrap().begins_later());
        let later = SeriesFields { not_on: vec![days[0].to_owned()], ..fields.clone() };
        assert!(Series::of(&later).unwrap().begins_later());
        let both = SeriesFields { rule, ..fields.clone() };
        let tuesday = "2026-03-24T08:00:00Z";
        assert_eq!(first(&both, 3), [days[0], tuesday, "2026-03-30T07:00:00Z"], "two rules");
        let series = Series::of(&fields).unwrap();
        let (found, has_more) =
            series.occurrences((Some(20_700), Some(20_720)), 1, &|at| at.day >= 20_700).unwrap();
        assert_eq!((found.len(), has_more), (1, true));
        let end = series.value("end", found[0]).unwrap();
        assert_eq!(end.0 - found[0].start.unwrap().0, 3_600_000_000);
    }

    #[test]
    fn a_series_is_found_long_after_it_began_and_what_never_is_ends() {
        let day = |text: &str| match CalendarTime::parse(text) {
            Some(CalendarTime::Date(day)) => day,
            _ => panic!("{text}"),
        };
        let daily = Series::of(&series("1900-01-01", "FREQ=DAILY")).unwrap();
        let range = (Some(day("2026-02-09")), Some(day("2026-02-16")));
        let within = |at: Occurrence| at.day >= range.0.unwrap() && at.day < range.1.unwrap();
        assert_eq!(daily.occurrences(range, 16, &within).unwrap().0.len(), 7);
        let never = Series::of(&series("2026-01-01", "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30"));
        assert_eq!(never.unwrap().occurrences((None, None), 1, &|_| true), None);
    }
}
