//! How many lines the refused calls of a caller get, so that a caller who is refused for ever does
//! not fill the owner's disk.
//!
//! Each caller has an allowance of lines for each code of refusal, which grows with time. A refused
//! call beyond the allowance is counted, and one line stands for all that were counted.

use std::collections::HashMap;

use super::JournalLine;
use crate::records::instant::{Instant, MICROS_A_SECOND};

/// How many refused calls in a row get a line each.
const BURST: i64 = 100;
/// How long it takes until one more refused call gets a line, in microseconds.
const REFILL_MICROS: i64 = 60 * MICROS_A_SECOND;
/// How long refused calls are counted until one line stands for them, in microseconds.
const SUMMARY_MICROS: i64 = 10 * 60 * MICROS_A_SECOND;
/// After how many new allowances those that nobody uses are dropped.
const CLEAN_EVERY: usize = 256;

/// The tool that a line names if it stands for several refused calls.
pub const REFUSED_CALLS: &str = "refused_calls";

/// The allowances of all callers.
#[derive(Debug, Default)]
pub struct RefusalMeter {
    allowances: HashMap<Refused, Allowance>,
}

/// Who was refused, and with which code. The token is left out: a renewed token is the same caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Refused {
    subject: Option<String>,
    client: Option<String>,
    outcome: String,
}

#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// How many more lines may be written, at the time `at`.
    lines: i64,
    /// When `lines` was last refilled.
    at: Instant,
    /// How many calls were counted, and since when.
    counted: Option<(u64, Instant)>,
}

/// What becomes of the line of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineAdmission {
    /// The line is written.
    Write,
    /// The call is counted, and a later line stands for it.
    Count,
}

impl RefusalMeter {
    /// Decides whether the line of a call is written. Lines of calls that were not refused, of
    /// events and of internal errors, which name an incident, always are.
    pub fn admit(&mut self, line: &JournalLine, now: Instant) -> LineAdmission {
        let is_nobodys = line.subject.is_none() && line.client.is_none();
        if line.outcome == "ok" || is_nobodys || line.incident.is_some() {
            return LineAdmission::Write;
        }
        if self.allowances.len() % CLEAN_EVERY == CLEAN_EVERY - 1 {
            self.allowances.retain(|_, allowance| !allowance.is_unused(now));
        }
        let refused = Refused {
            subject: line.subject.clone(),
            client: line.client.clone(),
            outcome: line.outcome.clone(),
        };
        let new = Allowance { lines: BURST, at: now, counted: None };
        self.allowances.entry(refused).or_insert(new).take(now)
    }

    /// Returns when the next line is due that stands for counted calls; `None` if no call was
    /// counted.
    pub fn next_summary(&self) -> Option<Instant> {
        let counted = self.allowances.values().filter_map(|allowance| allowance.counted);
        counted.map(|(_, since)| Instant(since.0.saturating_add(SUMMARY_MICROS))).min()
    }

    /// Takes the lines that stand for calls which were counted long enough before `now`.
    pub fn take_due(&mut self, now: Instant) -> Vec<JournalLine> {
        self.take(|since| now.0 >= since.0.saturating_add(SUMMARY_MICROS))
    }

    /// Takes the lines that stand for all calls which were counted.
    pub fn take_all(&mut self) -> Vec<JournalLine> {
        self.take(|_| true)
    }

    fn take(&mut self, is_due: impl Fn(Instant) -> bool) -> Vec<JournalLine> {
        let mut lines = Vec::new();
        for (refused, allowance) in &mut self.allowances {
            if let Some((calls, _)) = allowance.counted.take_if(|(_, since)| is_due(*since)) {
                lines.push(JournalLine {
                    subject: refused.subject.clone(),
                    client: refused.client.clone(),
                    tool: REFUSED_CALLS.to_owned(),
                    outcome: refused.outcome.clone(),
                    calls: Some(calls),
                    ..JournalLine::default()
                });
            }
        }
        lines.sort_by(|a, b| {
            (&a.subject, &a.client, &a.outcome).cmp(&(&b.subject, &b.client, &b.outcome))
        });
        lines
    }
}

impl Allowance {
    fn take(&mut self, now: Instant) -> LineAdmission {
        let passed = now.0.saturating_sub(self.at.0).max(0) / REFILL_MICROS;
        self.lines = self.lines.saturating_add(passed).min(BURST);
        self.at = match self.lines {
            BURST => now,
            _ => Instant(self.at.0.saturating_add(passed.saturating_mul(REFILL_MICROS))),
        };
        if self.lines > 0 {
            self.lines -= 1;
            return LineAdmission::Write;
        }
        let (calls, since) = self.counted.unwrap_or((0, now));
        self.counted = Some((calls.saturating_add(1), since));
        LineAdmission::Count
    }

    /// Returns whether a new allowance would be the same.
    fn is_unused(&self, now: Instant) -> bool {
        let missing = BURST - self.lines;
        let refilled = now.0.saturating_sub(self.at.0) / REFILL_MICROS >= missing;
        self.counted.is_none() && refilled
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(subject: &str, outcome: &str) -> JournalLine {
        JournalLine {
            subject: Some(subject.to_owned()),
            tool: "text.read".to_owned(),
            outcome: outcome.to_owned(),
            ..JournalLine::default()
        }
    }

    /// Returns how many of `calls` refused calls, one a second from `start` on, get a line.
    fn written(meter: &mut RefusalMeter, line: &JournalLine, calls: i64, start: i64) -> usize {
        let mut admit = |second| meter.admit(line, Instant((start + second) * MICROS_A_SECOND));
        (0..calls).filter(|second| admit(*second) == LineAdmission::Write).count()
    }

    #[test]
    fn a_caller_who_is_refused_for_a_day_gets_a_line_a_minute_and_one_in_ten_minutes_for_the_rest()
    {
        let mut meter = RefusalMeter::default();
        let (line, day) = (refused("ann", "stale"), 24 * 60 * 60);
        let (mut lines, mut summaries, mut counted) = (0, 0, 0);
        for second in 0..day {
            let now = Instant(second * MICROS_A_SECOND);
            lines += u64::from(meter.admit(&line, now) == LineAdmission::Write);
            for summary in meter.take_due(now) {
                summaries += 1;
                counted += summary.calls.unwrap_or_default();
            }
        }
        counted += meter.take_all().iter().filter_map(|line| line.calls).sum::<u64>();
        assert_eq!(lines + counted, 24 * 60 * 60, "each call has a line or is counted");
        assert!(lines <= 100 + 24 * 60 && summaries <= 24 * 6, "{lines} and {summaries}");
    }

    #[test]
    fn callers_and_codes_have_allowances_of_their_own() {
        let mut meter = RefusalMeter::default();
        assert_eq!(written(&mut meter, &refused("ann", "stale"), 106, 0), 101);
        assert_eq!(written(&mut meter, &refused("bob", "stale"), 1, 106), 1);
        assert_eq!(written(&mut meter, &refused("ann", "no_match"), 1, 106), 1);
        let cursor = JournalLine { client: Some("cursor".to_owned()), ..refused("ann", "stale") };
        assert_eq!(written(&mut meter, &cursor, 1, 106), 1);
        let lines = meter.take_all();
        assert_eq!(lines.len(), 1);
        let expected = JournalLine {
            tool: REFUSED_CALLS.to_owned(),
            calls: Some(5),
            ..refused("ann", "stale")
        };
        assert_eq!(lines, [expected]);
        assert_eq!((meter.take_all(), meter.next_summary()), (vec![], None));
    }

    #[test]
    fn events_that_a_client_causes_are_bounded_too() {
        let mut meter = RefusalMeter::default();
        let client = Some("cursor".to_owned());
        let event = JournalLine { subject: None, client, ..refused("ann", "no_room") };
        assert_eq!(written(&mut meter, &event, 106, 0), 101);
        assert_eq!(meter.take_all()[0].calls, Some(5));
    }

    #[test]
    fn calls_that_succeed_events_of_nobody_and_incidents_always_get_a_line() {
        let mut meter = RefusalMeter::default();
        let event = JournalLine { subject: None, ..refused("ann", "stale") };
        let incident = JournalLine { incident: Some(7), ..refused("ann", "internal") };
        for line in [refused("ann", "ok"), event, incident] {
            assert_eq!(written(&mut meter, &line, 1000, 0), 1000);
        }
    }

    proptest! {
        #[test]
        fn every_refused_call_has_a_line_or_is_counted(
            calls in prop::collection::vec((0i64..600, 0usize..3, any::<bool>()), 0..400),
        ) {
            let mut meter = RefusalMeter::default();
            let (mut now, mut told) = (0, 0);
            for (pause, who, looks) in &calls {
                now += pause * MICROS_A_SECOND;
                let line = refused(["ann", "bob", "cleo"][*who], "stale");
                told += u64::from(meter.admit(&line, Instant(now)) == LineAdmission::Write);
                if *looks {
                    let due = meter.take_due(Instant(now));
                    told += due.iter().filter_map(|line| line.calls).sum::<u64>();
                }
            }
            told += meter.take_all().iter().filter_map(|line| line.calls).sum::<u64>();
            prop_assert_eq!(told, calls.len() as u64);
        }
    }
}
