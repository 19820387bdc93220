//! What the journal says of each client, counted once and then kept up with new lines.
//!
//! Reading a month of a busy journal takes longer than a page may. So the counts stay in memory,
//! and a page adds what was written since the last one. If that is long ago, the month is read
//! anew, line by line, so that memory never holds more than the counts. A line that is written
//! while the month is read may count twice, which shows in no set of files.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use stile_domain::audit::activity::ClientActivity;
use stile_domain::audit::seen::Seen;
use stile_domain::audit::{CallKind, caller, kind};
use stile_domain::journal::JournalLine;
use stile_domain::records::instant::Instant;
use stile_store::journal::{JournalPlace, NewLines};

/// How many days the chart of a client has.
pub const CHART_DAYS: usize = 30;
/// Over how many days the page says what a client saw.
pub const SEEN_DAYS: usize = 7;
const MICROS_A_DAY: i64 = 86_400_000_000;
/// How long after the last look new lines are added to the counts, in microseconds.
const KEPT_UP: i64 = 300_000_000;
/// The most clients that are told apart. Names are chosen by strangers.
const MAX_CLIENTS: usize = 1_000;

/// The counts of all clients.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// The calls of each client by day.
    pub activity: ClientActivity,
    seen: BTreeMap<String, BTreeMap<String, Seen>>,
    last: BTreeMap<String, String>,
    /// How many lines of the journal could not be read.
    pub damaged: usize,
}

impl Digest {
    fn count(&mut self, line: &JournalLine) {
        let who = caller(line);
        let Some(day) = line.at.get(..10).filter(|_| kind(line) != CallKind::Event) else { return };
        if !self.last.contains_key(who) && self.last.len() >= MAX_CLIENTS {
            return;
        }
        self.activity.count(line);
        let last = self.last.entry(who.to_owned()).or_default();
        if *last < line.at {
            line.at.clone_into(last);
        }
        let days = self.seen.entry(who.to_owned()).or_default();
        days.entry(day.to_owned()).or_default().count(line);
    }

    /// Drops the days that no page shows any more.
    fn forget(&mut self, now: Instant) {
        let first = day(now, CHART_DAYS);
        for days in self.activity.clients.values_mut() {
            days.retain(|day, _| *day >= first);
        }
        self.activity.clients.retain(|_, days| !days.is_empty());
        let first = day(now, SEEN_DAYS);
        for days in self.seen.values_mut() {
            days.retain(|day, _| *day >= first);
        }
        self.seen.retain(|_, days| !days.is_empty());
        self.last.retain(|who, _| self.activity.clients.contains_key(who));
    }

    /// Returns what a client saw and changed in the last [`SEEN_DAYS`] days.
    pub fn seen(&self, client: &str) -> Seen {
        let mut all = Seen::default();
        for day in self.seen.get(client).into_iter().flat_map(BTreeMap::values) {
            Seen::merge(&mut all, day);
        }
        all
    }

    /// Returns when a client called last, within the time of the chart.
    pub fn last_call(&self, client: &str) -> Option<Instant> {
        Instant::parse(self.last.get(client)?)
    }

    /// Returns the names of the clients that called within the time of the chart.
    pub fn clients(&self) -> impl Iterator<Item = &str> {
        self.last.keys().map(String::as_str)
    }
}

/// Returns the first of the last `days` days, as the journal writes it.
fn day(now: Instant, days: usize) -> String {
    let days = i64::try_from(days.saturating_sub(1)).unwrap_or_default();
    let first = Instant(now.0.saturating_sub(days.saturating_mul(MICROS_A_DAY)));
    first.to_rfc3339().get(..10).unwrap_or_default().to_owned()
}

/// The counts, and the lines that follow them.
struct KeptUp {
    digest: Arc<Digest>,
    new_lines: NewLines,
    at: Instant,
}

/// Counts the journal when somebody looks.
pub(super) struct JournalDigest {
    place: JournalPlace,
    kept: Mutex<Option<KeptUp>>,
}

impl JournalDigest {
    pub(super) fn new(place: JournalPlace) -> Self {
        Self { place, kept: Mutex::default() }
    }

    /// Returns the counts of all lines until `now`.
    pub(super) fn until(&self, now: Instant) -> io::Result<Arc<Digest>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_kept_up = |kept: &KeptUp| now.0 >= kept.at.0 && now.0 - kept.at.0 < KEPT_UP;
        let mut current = match kept.take().filter(is_kept_up) {
            Some(mut current) => {
                let lines = current.new_lines.take()?;
                if !lines.is_empty() {
                    let digest = Arc::make_mut(&mut current.digest);
                    lines.iter().for_each(|line| digest.count(line));
                }
                current
            }
            None => self.counted_anew(now)?,
        };
        if day(current.at, 1) != day(now, 1) {
            Arc::make_mut(&mut current.digest).forget(now);
        }
        current.at = now;
        let digest = Arc::clone(&current.digest);
        *kept = Some(current);
        Ok(digest)
    }

    fn counted_anew(&self, now: Instant) -> io::Result<KeptUp> {
        // Before the first look, so that no line falls between the two.
        let new_lines = self.place.new_lines()?;
        let mut digest = Digest::default();
        let mut lines = self.place.lines(Instant::parse(&day(now, CHART_DAYS)))?;
        while let Some(line) = lines.next_line()? {
            digest.count(&line);
        }
        digest.damaged = lines.damaged();
        digest.forget(now);
        Ok(KeptUp { digest: Arc::new(digest), new_lines, at: now })
    }
}

#[cfg(test)]
mod tests {
    use stile_store::journal::Journal;
    use stile_store::state::StateDir;

    use super::*;

    fn line(client: &str, tool: &str) -> JournalLine {
        JournalLine {
            subject: Some("ann".to_owned()),
            client: Some(client.to_owned()),
            tool: tool.to_owned(),
            path: stile_domain::path::SpacePath::parse("/work/plan.md").ok(),
            outcome: "ok".to_owned(),
            ..JournalLine::default()
        }
    }

    #[test]
    fn lines_are_counted_once_whenever_somebody_looks() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let journal = Journal::open(&state).unwrap();
        journal.append(line("cursor", "text.read")).unwrap();
        let digest = JournalDigest::new(JournalPlace::new(state, None));
        let now = crate::clock::now();
        let total = |now| {
            let counted = digest.until(now).unwrap();
            let days = counted.activity.clients.values().flat_map(BTreeMap::values);
            days.map(|counts| counts.total()).sum::<u64>()
        };
        assert_eq!(total(now), 1);
        journal.append(line("cursor", "text.edit")).unwrap();
        journal.append(line("planner", "text.read")).unwrap();
        assert_eq!(total(now), 3);
        assert_eq!(total(now), 3);
        // After a long time the journal is read anew, with the same result.
        assert_eq!(total(Instant(now.0 + KEPT_UP)), 3);
        let counted = digest.until(now).unwrap();
        assert_eq!(counted.clients().collect::<Vec<_>>(), ["cursor", "planner"]);
        assert_eq!(counted.seen("cursor").changed(), ["changed 1 file in /work"]);
        assert!(counted.last_call("cursor").is_some() && counted.last_call("x").is_none());
        // What is older than the chart does not count.
        assert_eq!(total(Instant(now.0 + 40 * MICROS_A_DAY)), 0);
    }
}
