//! What the journal says of each client, counted once and then kept up with new lines.
//!
//! Reading a month of a busy journal takes longer than a page may. So the counts stay in memory,
//! and no page waits for the month: a thread reads it line by line, and then adds new lines as long
//! as somebody looks at pages. Until it has read the month, pages say that the calls are being
//! counted. A short journal is counted at once. Memory never holds more than the counts. A line
//! that is written while the month is read may count twice, which shows in no set of files.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use stile_domain::audit::activity::ClientActivity;
use stile_domain::audit::seen::Seen;
use stile_domain::audit::touched::TouchedFolders;
use stile_domain::audit::{CallKind, caller, kind};
use stile_domain::journal::JournalLine;
use stile_domain::records::instant::{Instant, MICROS_A_SECOND};
use stile_store::journal::{JournalPlace, NewLines};

/// How many days the chart of a client has.
pub const CHART_DAYS: usize = 30;
/// Over how many days the page says what a client saw.
pub const SEEN_DAYS: usize = 7;
/// How long after they were added new lines are added to the counts, in microseconds.
const KEPT_UP: i64 = 300 * MICROS_A_SECOND;
/// How often the thread adds new lines. At 1,000 calls a second it then holds 5,000 of them.
const PAUSE: Duration = Duration::from_secs(5);
/// How long after the last look the thread goes on, in microseconds: as long as a session lasts.
const LOOKED_AT: i64 = 12 * 60 * 60 * MICROS_A_SECOND;
/// The longest journal that is counted while a page waits, in bytes: some 7,000 lines.
const COUNTED_AT_ONCE: u64 = 2 << 20;
/// The most clients that are told apart. Names are chosen by strangers.
const MAX_CLIENTS: usize = 1_000;

/// The counts of all clients.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// The calls of each client by day.
    pub activity: ClientActivity,
    seen: BTreeMap<String, BTreeMap<String, Seen>>,
    touched: BTreeMap<String, TouchedFolders>,
    last: BTreeMap<String, String>,
    /// How many lines of the journal could not be read.
    pub damaged: usize,
}

impl Digest {
    /// Counts these lines.
    #[cfg(test)]
    pub(crate) fn of_lines(lines: &[JournalLine]) -> Self {
        let mut digest = Self::default();
        lines.iter().for_each(|line| digest.count(line));
        digest
    }

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
        self.touched.entry(who.to_owned()).or_default().count(line);
    }

    /// Drops the days that no page shows any more.
    fn forget(&mut self, now: Instant) {
        let first = day(now, CHART_DAYS);
        for days in self.activity.clients.values_mut() {
            days.retain(|day, _| *day >= first);
        }
        self.activity.clients.retain(|_, days| !days.is_empty());
        for touched in self.touched.values_mut() {
            touched.forget_before(&first);
        }
        self.touched.retain(|who, _| self.activity.clients.contains_key(who));
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

    /// Returns the folders that a client read and changed within the time of the chart.
    pub fn touched(&self, client: &str) -> Option<&TouchedFolders> {
        self.touched.get(client)
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
    let first = now.plus_days(-days);
    first.to_rfc3339().get(..10).unwrap_or_default().to_owned()
}

/// The counts, and the lines that follow them.
struct KeptUp {
    digest: Arc<Digest>,
    new_lines: NewLines,
    at: Instant,
}

/// Counts the journal.
pub(super) struct JournalDigest(Arc<SharedDigest>);

/// The part of the digest that the thread shares.
struct SharedDigest {
    place: JournalPlace,
    kept: Mutex<Option<KeptUp>>,
    /// Whether the thread runs.
    is_watched: AtomicBool,
    /// When somebody looked last, in microseconds.
    looked: AtomicI64,
}

impl JournalDigest {
    pub(super) fn new(place: JournalPlace) -> Self {
        let (is_watched, looked) = (AtomicBool::new(false), AtomicI64::new(crate::clock::now().0));
        Self(Arc::new(SharedDigest { place, kept: Mutex::default(), is_watched, looked }))
    }

    /// Returns the counts of all lines until `now`; `None` if the journal is long and was not
    /// counted for some time. A thread then counts it.
    pub(super) fn until(&self, now: Instant) -> io::Result<Option<Arc<Digest>>> {
        self.0.looked.store(now.0, Ordering::Relaxed);
        if let Some(digest) = self.0.kept_up(now)? {
            return Ok(Some(digest));
        }
        if self.0.place.bytes()? <= COUNTED_AT_ONCE {
            return self.0.count_anew(now).map(Some);
        }
        self.count_in_thread();
        Ok(None)
    }

    /// Lets a thread count the journal and keep the counts up. One runs at a time.
    pub(super) fn count_in_thread(&self) {
        if self.0.is_watched.swap(true, Ordering::Relaxed) {
            return;
        }
        let shared = Arc::downgrade(&self.0);
        let thread = std::thread::Builder::new().name("journal counts".to_owned());
        if let Err(error) = thread.spawn(move || watch(&shared)) {
            tracing::error!(target: "stile::pages", %error, "the journal is not counted");
            self.0.is_watched.store(false, Ordering::Relaxed);
        }
    }
}

/// Counts the journal, and adds new lines until nobody looks any more.
fn watch(shared: &Weak<SharedDigest>) {
    while let Some(shared) = shared.upgrade() {
        let now = crate::clock::now();
        let counted = match shared.kept_up(now) {
            Ok(None) => shared.count_anew(now).map(drop),
            kept => kept.map(drop),
        };
        let is_looked_at = now.0 - shared.looked.load(Ordering::Relaxed) < LOOKED_AT;
        if let Err(error) = &counted {
            tracing::error!(target: "stile::pages", %error, "the journal is not counted");
        }
        if counted.is_err() || !is_looked_at {
            shared.is_watched.store(false, Ordering::Relaxed);
            return;
        }
        drop(shared);
        std::thread::sleep(PAUSE);
    }
}

impl SharedDigest {
    /// Returns the counts with the lines since the last look; `None` if that is long ago.
    fn kept_up(&self, now: Instant) -> io::Result<Option<Arc<Digest>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // A page knows the time in whole seconds, and so may come before the thread.
        let is_kept_up = |kept: &KeptUp| now.0.abs_diff(kept.at.0) < KEPT_UP.unsigned_abs();
        let Some(mut current) = kept.take().filter(is_kept_up) else { return Ok(None) };
        let lines = current.new_lines.take()?;
        if !lines.is_empty() {
            let digest = Arc::make_mut(&mut current.digest);
            lines.iter().for_each(|line| digest.count(line));
        }
        if day(current.at, 1) != day(now, 1) {
            Arc::make_mut(&mut current.digest).forget(now);
        }
        current.at = now;
        let digest = Arc::clone(&current.digest);
        *kept = Some(current);
        Ok(Some(digest))
    }

    /// Counts the month, and keeps the counts. Nobody waits for it who has others.
    fn count_anew(&self, now: Instant) -> io::Result<Arc<Digest>> {
        // Before the first look, so that no line falls between the two.
        let new_lines = self.place.new_lines()?;
        let mut digest = Digest::default();
        let mut lines = self.place.lines(Instant::parse(&day(now, CHART_DAYS)))?;
        while let Some(line) = lines.next_line()? {
            digest.count(&line);
        }
        digest.damaged = lines.damaged();
        digest.forget(now);
        let digest = Arc::new(digest);
        let counted = KeptUp { digest: Arc::clone(&digest), new_lines, at: now };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
        Ok(digest)
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
            let counted = digest.until(now).unwrap().unwrap();
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
        let counted = digest.until(now).unwrap().unwrap();
        assert_eq!(counted.clients().collect::<Vec<_>>(), ["cursor", "planner"]);
        assert_eq!(counted.seen("cursor").changed(), ["changed 1 file in /work"]);
        assert!(counted.last_call("cursor").is_some() && counted.last_call("x").is_none());
        // What is older than the chart does not count.
        assert_eq!(total(now.plus_days(40)), 0);
    }

    #[test]
    fn a_long_journal_is_counted_without_a_page_that_waits() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let journal = Journal::open(&state).unwrap();
        let lines = 12_000;
        for _ in 0..lines {
            journal.append(line("cursor", "text.read")).unwrap();
        }
        let place = JournalPlace::new(state, None);
        assert!(place.bytes().unwrap() > COUNTED_AT_ONCE);
        let digest = JournalDigest::new(place);
        let now = crate::clock::now();
        assert!(digest.until(now).unwrap().is_none(), "no page waits");
        let counted = loop {
            match digest.until(now).unwrap() {
                Some(counted) => break counted,
                None => std::thread::yield_now(),
            }
        };
        let days = counted.activity.clients["cursor"].values();
        assert_eq!(days.map(|counts| counts.reads).sum::<u64>(), lines);
    }
}
