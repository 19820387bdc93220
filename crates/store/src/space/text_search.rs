//! Searches the lines of files, in the order of their paths, a time slice for each call.
//!
//! One thread walks. Files are searched by that thread and by helpers, as many as the machine has
//! processors and all callers together leave free. The outcomes are put back in order, so an answer
//! does not depend on the number of threads. A file is read once. The hash of a file with a hit is
//! that of the bytes that were searched, or the file is skipped.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use stile_domain::error::Refusal;
use stile_domain::find::hit_line::{HitLine, MAX_HIT_CHARS};
use stile_domain::find::name_pattern::NameGlob;
use stile_domain::find::text_query::QuerySyntax;
use stile_domain::find::walk_cursor::{WalkCursor, WalkPosition};
use stile_domain::hash::ContentHash;
use stile_domain::limits::{MAX_CONTEXT_LINES, MAX_HIT_BYTES, MAX_HITS};
use stile_domain::listing::EntryKind;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Permit, Walk};

use crate::cancellation::Cancellation;

use super::lock::Turn;
use super::read::facts_of;
use super::tree::{SLICE, below};
use super::walk::{Found, WalkOrder, Walker};
use super::walk_pages::{SearchHit, SearchPage, TextSearch};
use super::{Inner, os};

/// The files that wait to be searched at most.
const QUEUE: usize = 128;
/// The largest file that is searched in one piece, in bytes. Each thread has a buffer of this size
/// at most.
const ONE_PIECE: u64 = 4 * 1024 * 1024;
/// The files after which helpers are worth their start.
const FEW: usize = 8;

/// How long the thread that walks waits for helpers before it looks whether the call is over.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// The most bytes that are searched before the search looks whether it goes on.
const AT_ONCE: usize = 64 << 10;
/// How long a file is searched, which only an expression that is slow on it takes.
const FILE_PATIENCE: Duration = Duration::from_secs(10);
/// The longest line of a large file that is searched. A search holds a whole line in memory.
const LONGEST_LINE: usize = 8 << 20;
/// The longest line that a regular expression is tried on, except in a small file. It is tried on a
/// whole line, and takes up to some thousand steps for each byte.
const LONGEST_REGEX_LINE: usize = 256 << 10;

/// A file that waits to be searched.
struct Job {
    found: Found,
    /// The last line that an earlier page showed.
    after_line: u64,
}

/// What was found in one file.
enum FileOutcome {
    /// Nothing to search: a folder, or a file that the glob leaves out.
    Passed,
    Skipped,
    Searched(Vec<SearchHit>),
}

/// The work that threads share.
#[derive(Default)]
struct Shared {
    jobs: VecDeque<(u64, Job)>,
    outcomes: BTreeMap<u64, (WalkPosition, FileOutcome)>,
    is_over: bool,
}

#[derive(Default)]
struct SharedSearch {
    shared: Mutex<Shared>,
    /// Signalled when a job or an outcome was added.
    changed: Condvar,
    /// Whether nobody waits for an outcome any more, as `Shared::is_over`, for readers of files.
    is_over: AtomicBool,
}

impl SharedSearch {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Searches files until the search is over.
    fn help(&self, mut search: impl FnMut(&Job) -> FileOutcome) {
        let mut shared = self.lock();
        while !shared.is_over {
            let Some((number, job)) = shared.jobs.pop_front() else {
                shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(shared);
            let mut begun = BegunJob { work: self, number, outcome: FileOutcome::Skipped, job };
            begun.outcome = search(&begun.job);
            drop(begun);
            shared = self.lock();
        }
    }

    /// Adds a file to be searched.
    fn add(&self, number: u64, job: Job) {
        self.lock().jobs.push_back((number, job));
        self.changed.notify_one();
    }

    /// Adds an entry that is not searched, so that the page gets all outcomes in order.
    fn pass(&self, number: u64, position: WalkPosition) {
        self.lock().outcomes.insert(number, (position, FileOutcome::Passed));
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.lock().is_over = true;
        self.changed.notify_all();
    }
}

/// A file that a helper searches. Its outcome is added also after a panic, since the thread that
/// walks waits for it.
struct BegunJob<'a> {
    work: &'a SharedSearch,
    number: u64,
    outcome: FileOutcome,
    job: Job,
}

impl Drop for BegunJob<'_> {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.outcome, FileOutcome::Passed);
        let outcome = (self.job.found.position(), outcome);
        self.work.lock().outcomes.insert(self.number, outcome);
        self.work.changed.notify_all();
    }
}

/// Ends the search for the helpers, also after a panic.
struct EndOnDrop<'a>(&'a SharedSearch);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Inner {
    /// Finds a page of hits for `text.search`.
    pub(super) fn search_text(
        &self,
        permit: &Permit<Walk>,
        search: &TextSearch,
        cursor: WalkCursor,
        cancellation: &Cancellation,
    ) -> Result<SearchPage, Refusal> {
        let deadline = Instant::now() + SLICE;
        let begun = cursor.after.clone().filter(|_| cursor.line > 0);
        let mut walker = Walker::new(self, permit, WalkOrder::ByName, usize::MAX, cursor.after)?;
        let begun = begun
            .filter(|WalkPosition { path, is_folder, .. }| {
                let is_left_out = self.options.search_ignore.leaves_out_below(path, *is_folder);
                permit.may_show(path) && !is_left_out
            })
            .map(|position| Job { found: Found::at(position), after_line: cursor.line });
        let mut jobs = begun
            .into_iter()
            .chain(std::iter::from_fn(|| walker.next().map(|found| Job { found, after_line: 0 })));
        let work = SharedSearch::default();
        let mut helpers: Vec<Turn<'_>> = Vec::new();
        std::thread::scope(|scope| {
            let _end = EndOnDrop(&work);
            let stops = || cancellation.is_cancelled() || work.is_over.load(Ordering::Relaxed);
            let mut reader = FileSearcher::new(search, &stops);
            let mut pages = PageInOrder::default();
            let mut added = 0;
            let mut is_walked = false;
            loop {
                if cancellation.is_cancelled() {
                    return Err(Refusal::Cancelled);
                }
                if pages.take(&mut work.lock().outcomes) || pages.is_late(deadline) {
                    return Ok(pages.finish(true));
                }
                let waiting = added - pages.taken;
                if !is_walked && waiting < QUEUE as u64 {
                    match jobs.next() {
                        Some(job) => {
                            if is_searched(search, permit.path(), &job.found) {
                                work.add(added, job);
                            } else {
                                work.pass(added, job.found.position());
                            }
                            added += 1;
                        }
                        None => is_walked = true,
                    }
                    if added == FEW as u64 {
                        while let Some(turn) = self.search_helpers.try_enter() {
                            let help = || {
                                let stops = || work.is_over.load(Ordering::Relaxed);
                                let mut reader = FileSearcher::new(search, &stops);
                                work.help(|job| reader.search(self, job));
                            };
                            // A system without a free thread leaves the work to this one.
                            if std::thread::Builder::new().spawn_scoped(scope, help).is_err() {
                                break;
                            }
                            helpers.push(turn);
                        }
                    }
                    continue;
                }
                let mut shared = work.lock();
                match shared.jobs.pop_front() {
                    Some((number, job)) => {
                        drop(shared);
                        let position = job.found.position();
                        let outcome = reader.search(self, &job);
                        work.lock().outcomes.insert(number, (position, outcome));
                    }
                    None if waiting == 0 => return Ok(pages.finish(false)),
                    // Helpers search the last files.
                    None => {
                        if !shared.outcomes.contains_key(&pages.taken) {
                            let waited = work.changed.wait_timeout(shared, LONGEST_WAIT);
                            drop(waited.unwrap_or_else(PoisonError::into_inner));
                        }
                    }
                }
            }
        })
    }
}

/// Returns whether a search looks into an entry below `folder`: a file that fits the glob.
fn is_searched(search: &TextSearch, folder: &SpacePath, found: &Found) -> bool {
    let fits = |glob: &NameGlob| glob.is_match(below(folder, &found.path), found.name());
    found.kind == EntryKind::File && search.glob.as_ref().is_none_or(fits)
}

/// A page that is filled with outcomes in their order.
#[derive(Default)]
struct PageInOrder {
    page: SearchPage,
    bytes: usize,
    /// How many outcomes were taken.
    taken: u64,
    /// Where the next page begins.
    next: WalkCursor,
}

impl PageInOrder {
    /// Takes the outcomes that are next. Returns whether the page is full.
    fn take(&mut self, outcomes: &mut BTreeMap<u64, (WalkPosition, FileOutcome)>) -> bool {
        while let Some((position, outcome)) = outcomes.remove(&self.taken) {
            self.taken += 1;
            self.next.after = Some(position);
            self.next.line = 0;
            match outcome {
                FileOutcome::Passed => {}
                FileOutcome::Skipped => self.page.files_skipped += 1,
                FileOutcome::Searched(hits) => {
                    self.page.files_searched += 1;
                    for hit in hits {
                        if self.is_full() {
                            self.next.line = self.page.hits.last().map_or(0, |last| last.line);
                            return true;
                        }
                        self.add(hit);
                    }
                }
            }
            if self.is_full() {
                return true;
            }
        }
        false
    }

    fn add(&mut self, hit: SearchHit) {
        let context = hit.before.iter().chain(&hit.after).map(String::len);
        let path = hit.path.as_str().len();
        self.bytes += path + hit.text.text.len() + context.sum::<usize>();
        self.page.hits.push(hit);
    }

    fn is_full(&self) -> bool {
        self.page.hits.len() >= MAX_HITS || self.bytes >= MAX_HIT_BYTES
    }

    /// Whether the time is over and the next call would go on further than this one began.
    fn is_late(&self, deadline: Instant) -> bool {
        self.taken > 0 && Instant::now() >= deadline
    }

    fn finish(self, has_more: bool) -> SearchPage {
        SearchPage { next: has_more.then_some(self.next), ..self.page }
    }
}

/// Searches one file after another, with one buffer.
struct FileSearcher<'a> {
    search: &'a TextSearch,
    /// Whether nobody waits for the outcome any more.
    stops: &'a dyn Fn() -> bool,
    searcher: Searcher,
    buffer: Vec<u8>,
}

impl<'a> FileSearcher<'a> {
    fn new(search: &'a TextSearch, stops: &'a dyn Fn() -> bool) -> Self {
        let searcher = SearcherBuilder::new()
            .line_terminator(grep_matcher::LineTerminator::crlf())
            .line_number(true)
            .before_context(search.context)
            .after_context(search.context)
            .binary_detection(BinaryDetection::quit(0))
            .bom_sniffing(false)
            .heap_limit(Some(match search.query.syntax() {
                QuerySyntax::Literal => LONGEST_LINE,
                QuerySyntax::Regex => LONGEST_REGEX_LINE,
            }))
            .build();
        Self { search, stops, searcher, buffer: Vec::new() }
    }

    fn search(&mut self, inner: &Inner, job: &Job) -> FileOutcome {
        self.try_search(inner, job)
            .ok()
            .flatten()
            .map_or(FileOutcome::Skipped, FileOutcome::Searched)
    }

    /// Returns the hits of a file, one more than a page holds; `None` for a file to be skipped.
    fn try_search(&mut self, inner: &Inner, job: &Job) -> io::Result<Option<Vec<SearchHit>>> {
        let file = job.found.open(inner)?;
        let status = os::status(&file)?;
        let stamp = status.stamp;
        if status.kind != EntryKind::File || stamp.size > inner.options.limits.file_size {
            return Ok(None);
        }
        let until = Instant::now() + FILE_PATIENCE;
        let mut lines = HitLines::new(self.search, job.after_line);
        if stamp.size > ONE_PIECE {
            let reader = FromStart { file: &file, offset: 0 };
            let reader = Paced { reader, until, stops: self.stops };
            self.searcher.search_reader(self.search.query.matcher(), reader, &mut lines)?;
            if lines.is_binary {
                return Ok(None);
            }
            if lines.hits.is_empty() {
                return Ok(Some(Vec::new()));
            }
            let facts = inner.facts_of_file(&file, stamp)?;
            let is_text = facts.as_ref().is_some_and(|facts| facts.lines.is_some());
            return Ok(facts.filter(|_| is_text).map(|facts| lines.finish(&job.found, facts.hash)));
        }
        let began = os::now();
        let size = usize::try_from(ONE_PIECE).unwrap_or(usize::MAX).saturating_add(1);
        // The buffer grows to the largest file and stays.
        let wanted = usize::try_from(stamp.size).unwrap_or(size).saturating_add(1);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let read = os::read_at(&file, self.buffer.get_mut(..wanted).unwrap_or_default(), 0)?;
        if read == wanted {
            // The file grows at this moment.
            return Ok(None);
        }
        let bytes = self.buffer.get(..read).unwrap_or_default();
        let is_quick = self.search.query.syntax() == QuerySyntax::Literal;
        if is_quick || read <= AT_ONCE {
            self.searcher.search_slice(self.search.query.matcher(), bytes, &mut lines)?;
        } else {
            // In pieces, since a slow expression takes seconds for each of them.
            let reader = Paced { reader: bytes, until, stops: self.stops };
            self.searcher.search_reader(self.search.query.matcher(), reader, &mut lines)?;
        }
        if lines.is_binary {
            return Ok(None);
        }
        if lines.hits.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let known = inner.memory().get(&stamp);
        let facts = match known {
            Some(facts) => facts,
            None => {
                let facts = std::sync::Arc::new(facts_of(bytes));
                if os::status(&file)?.stamp == stamp {
                    inner.memory().insert(stamp, &facts, began);
                }
                facts
            }
        };
        Ok(facts.lines.is_some().then(|| lines.finish(&job.found, facts.hash)))
    }
}

/// Reads a file from its beginning, whatever its position is.
struct FromStart<'f> {
    file: &'f File,
    offset: u64,
}

/// Reads on until the file has taken too long, or nobody waits for the outcome any more.
struct Paced<'f, R> {
    reader: R,
    until: Instant,
    stops: &'f dyn Fn() -> bool,
}

impl<R: Read> Read for Paced<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.stops)() || Instant::now() >= self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.reader.read(buffer)
    }
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = os::read_at(self.file, buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// A line of a file that matches, or stands beside one that does.
struct Line {
    number: u64,
    text: String,
}

/// A hit in a file whose hash is not known yet.
struct RawHit {
    line: u64,
    text: HitLine,
    before: Vec<String>,
    after: Vec<String>,
}

/// The most bytes that a hit adds to [`HitLines::bytes`].
const LONGEST_HIT_BYTES: usize = 4 * MAX_HIT_CHARS * (1 + MAX_CONTEXT_LINES);

/// Collects the hits of one file.
struct HitLines<'a> {
    search: &'a TextSearch,
    after_line: u64,
    hits: Vec<RawHit>,
    /// The bytes of the hits and the lines before them.
    bytes: usize,
    /// The last lines that were seen.
    recent: VecDeque<Line>,
    is_binary: bool,
}

impl<'a> HitLines<'a> {
    fn new(search: &'a TextSearch, after_line: u64) -> Self {
        let (hits, recent) = (Vec::new(), VecDeque::new());
        Self { search, after_line, hits, bytes: 0, recent, is_binary: false }
    }

    fn finish(self, found: &Found, hash: ContentHash) -> Vec<SearchHit> {
        let named = |hit: RawHit| SearchHit {
            path: found.path.clone(),
            hash,
            line: hit.line,
            text: hit.text,
            before: hit.before,
            after: hit.after,
        };
        self.hits.into_iter().map(named).collect()
    }

    /// Shows a line to the hits before it, and remembers the line for the hits after it.
    fn pass(&mut self, number: u64, line: &str) {
        let context = self.search.context;
        if context == 0 {
            return;
        }
        let near = self.hits.iter_mut().rev().take(context);
        for hit in near.filter(|hit| number <= hit.line + context as u64) {
            hit.after.push(HitLine::of_context(line));
        }
        if self.recent.len() == context {
            self.recent.pop_front();
        }
        self.recent.push_back(Line { number, text: HitLine::of_context(line) });
    }
}

/// Returns a line without its terminator, as text.
fn text_of(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line))
}

impl Sink for HitLines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let number = found.line_number().unwrap_or(0);
        let line = text_of(found.bytes());
        if number <= self.after_line {
            self.pass(number, &line);
            return Ok(true);
        }
        let first = number.saturating_sub(self.search.context as u64);
        let near = self.recent.iter().filter(|line| line.number >= first);
        let before: Vec<String> = near.map(|line| line.text.clone()).collect();
        self.pass(number, &line);
        // An offset in the bytes is one in the text, if the file is text.
        let at = self.search.query.find(found.bytes()).unwrap_or(0);
        let text = HitLine::new(&line, at);
        // One hit more than a page holds tells that there are more. The lines after it are also
        // those after the hits before it.
        let goes_on = self.hits.len() < MAX_HITS + self.search.context
            && self.bytes < MAX_HIT_BYTES + self.search.context * LONGEST_HIT_BYTES;
        self.bytes += text.text.len() + before.iter().map(String::len).sum::<usize>();
        self.hits.push(RawHit { line: number, text, before, after: Vec::new() });
        Ok(goes_on)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.pass(context.line_number().unwrap_or(0), &text_of(context.bytes()));
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.is_binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_domain::path::SpacePath;

    #[test]
    fn a_file_is_read_until_it_has_taken_too_long_or_nobody_waits() {
        let soon = Instant::now() + Duration::from_secs(60);
        let read = |until, stops: &dyn Fn() -> bool| {
            Paced { reader: &b"text"[..], until, stops }.read(&mut [0; 8])
        };
        assert_eq!(read(soon, &|| false).unwrap(), 4);
        assert!(read(soon, &|| true).is_err() && read(Instant::now(), &|| false).is_err());
    }

    #[test]
    fn a_file_on_which_a_helper_panics_has_an_outcome() {
        let work = SharedSearch::default();
        let path = SpacePath::parse("/a").unwrap();
        let position = WalkPosition { start: SpacePath::root(), path, is_folder: false };
        let found = Found::at(position.clone());
        work.lock().jobs.push_back((7, Job { found, after_line: 0 }));
        let helped = std::thread::scope(|scope| {
            scope.spawn(|| work.help(|_| panic!("a fault of the searcher"))).join()
        });
        assert!(helped.is_err());
        let outcome = work.lock().outcomes.remove(&7);
        assert!(matches!(outcome, Some((at, FileOutcome::Skipped)) if at == position));
    }
}
