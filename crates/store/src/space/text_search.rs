//! Searches the lines of files, in the order of their paths, a time slice for each call.
//!
//! One thread walks. Files are searched by that thread and by helpers, as many as the machine has
//! processors and all callers together leave free. The outcomes are put back in order, so an answer
//! does not depend on the number of threads. A file is read once. The hash of a file with a hit is
//! that of the bytes that were searched, or the file is left out.
//!
//! What `text.read` takes for text is searched: UTF-8, with or without zero bytes, the texts of
//! documents and, in a file of one piece, every encoding that is recognised.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use stile_domain::document::DocumentKind;
use stile_domain::error::Refusal;
use stile_domain::facts::FileFacts;
use stile_domain::find::name_pattern::NameGlob;
use stile_domain::find::text_query::{PART_BYTES, QuerySyntax};
use stile_domain::find::walk_cursor::{WalkCursor, WalkPosition};
use stile_domain::limits::{MAX_HIT_BYTES, MAX_HITS};
use stile_domain::listing::EntryKind;
use stile_domain::permit::{Permit, Walk};
use stile_domain::text_encoding::{may_be_text, text_of};

use crate::cancellation::Cancellation;

use super::hit_lines::HitLines;
use super::left_out::{LeftOut, LeftOutReason, leave_out, leave_out_file};
use super::lock::Turn;
use super::long_lines::{LONGEST_LINE, search_line_by_line};
use super::read::{Utf8Check, facts_of};
use super::shared_work::{EndOnDrop, FEW, SharedWork};
use super::tree::{SLICE, below};
use super::walk::{Found, WalkOrder, Walker};
use super::walk_pages::{SearchHit, SearchPage, TextSearch};
use super::whole_file::HEAD;
use super::{Inner, os};

/// The files that wait to be searched at most.
const QUEUE: usize = 128;
/// The largest file that is searched in one piece, in bytes. Each thread has a buffer of this size
/// at most.
const ONE_PIECE: u64 = 4 * 1024 * 1024;

/// The byte order mark, which belongs to the file and not to its first line.
const BOM: &str = "\u{feff}";
/// The most bytes that are searched before the search looks whether it goes on.
const AT_ONCE: usize = 64 << 10;
/// How long a file is searched, which only an expression that is slow on it takes.
const FILE_PATIENCE: Duration = Duration::from_secs(10);

/// A file that waits to be searched.
struct Job {
    found: Found,
    /// The last line that an earlier page showed.
    after_line: u64,
}

/// What was found in one file.
#[derive(Debug, PartialEq)]
enum FileOutcome {
    /// Nothing to search: a folder, or a file that the glob leaves out.
    Passed,
    LeftOut(LeftOutReason),
    Searched(SearchedFile),
}

/// What was found in a file that was searched.
#[derive(Debug, Default, PartialEq)]
struct SearchedFile {
    hits: Vec<SearchHit>,
    /// How many lines without a match were tried in parts.
    lines_in_parts: u64,
}

/// What a search gives back of an entry.
type PlacedOutcome = (WalkPosition, FileOutcome);

/// Returns the outcome of a file whose thread panicked.
fn failed(job: &Job) -> PlacedOutcome {
    (job.found.position(), FileOutcome::LeftOut(LeftOutReason::Unreadable))
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
        let mut begun = begun
            .filter(|WalkPosition { path, is_folder, .. }| {
                let is_left_out = self.options.search_ignore.leaves_out_below(path, *is_folder);
                permit.may_read(path) && !is_left_out
            })
            .map(|position| Job { found: Found::at(position), after_line: cursor.line });
        let work = SharedWork::new(failed);
        let mut helpers: Vec<Turn<'_>> = Vec::new();
        std::thread::scope(|scope| {
            let _end = EndOnDrop(&work);
            let stops = || cancellation.is_cancelled() || work.is_over();
            let mut reader = FileSearcher::new(search, &stops);
            let mut pages = PageInOrder::default();
            let mut added = 0;
            let mut is_walked = false;
            loop {
                if cancellation.is_cancelled() {
                    return Err(Refusal::Cancelled);
                }
                let next_found = || walker.next().map(|found| Job { found, after_line: 0 });
                if pages.take(&mut work.lock().outcomes) || pages.is_late(deadline) {
                    return Ok(pages.finish());
                }
                let waiting = added - pages.taken;
                if !is_walked && waiting < QUEUE as u64 {
                    let job = begun.take().or_else(next_found);
                    pages.unnameable.extend(walker.take_unnameable().map(|left| (added, left)));
                    match job {
                        Some(job) => {
                            if is_searched(search, permit, &job.found) {
                                work.add(added, job);
                            } else {
                                work.put(added, (job.found.position(), FileOutcome::Passed));
                            }
                            added += 1;
                        }
                        None => is_walked = true,
                    }
                    if added == FEW {
                        self.search_helpers.start_threads(scope, &mut helpers, || {
                            let stops = || work.is_over();
                            let mut reader = FileSearcher::new(search, &stops);
                            work.help(|job| (job.found.position(), reader.search(self, job)));
                        });
                    }
                    continue;
                }
                let mut shared = work.lock();
                match shared.jobs.pop_front() {
                    Some((number, job)) => {
                        drop(shared);
                        let position = job.found.position();
                        let outcome = reader.search(self, &job);
                        work.put(number, (position, outcome));
                    }
                    None if waiting == 0 => return Ok(pages.finish_walk()),
                    // Helpers search the last files.
                    None => {
                        if !shared.outcomes.contains_key(&pages.taken) {
                            work.wait(shared);
                        }
                    }
                }
            }
        })
    }
}

/// Returns whether a search looks into an entry: a file that fits the glob and is not guarded.
fn is_searched(search: &TextSearch, permit: &Permit<Walk>, found: &Found) -> bool {
    let fits = |glob: &NameGlob| glob.is_match(below(permit.path(), &found.path), found.name());
    found.kind == EntryKind::File
        && search.glob.as_ref().is_none_or(fits)
        && permit.may_read(&found.path)
}

/// A page that is filled with outcomes in their order.
#[derive(Default)]
struct PageInOrder {
    page: SearchPage,
    bytes: usize,
    /// How many outcomes were taken.
    taken: u64,
    /// The entries that no path can name, by the number of the outcome that follows them.
    unnameable: BTreeMap<u64, LeftOut>,
    /// Where the next page begins.
    next: WalkCursor,
}

impl PageInOrder {
    /// Takes the outcomes that are next. Returns whether the page is full.
    fn take(&mut self, outcomes: &mut BTreeMap<u64, (WalkPosition, FileOutcome)>) -> bool {
        while let Some((position, outcome)) = outcomes.remove(&self.taken) {
            if let Some(left) = self.unnameable.remove(&self.taken) {
                leave_out(&mut self.page.left_out, left);
            }
            self.taken += 1;
            let path = position.path.clone();
            self.next.after = Some(position);
            self.next.line = 0;
            match outcome {
                FileOutcome::Passed => {}
                FileOutcome::LeftOut(why) => leave_out_file(&mut self.page.left_out, &path, why),
                FileOutcome::Searched(SearchedFile { hits, lines_in_parts }) => {
                    self.page.files_searched += 1;
                    self.page.lines_in_parts += lines_in_parts;
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

    /// Returns the page of a walk that goes on, with the cursor of the next page.
    fn finish(self) -> SearchPage {
        SearchPage { next: Some(self.next), ..self.page }
    }

    /// Returns the last page of a walk.
    fn finish_walk(mut self) -> SearchPage {
        for (_, left) in std::mem::take(&mut self.unnameable) {
            leave_out(&mut self.page.left_out, left);
        }
        self.page
    }
}

/// Searches one file after another, with one buffer.
struct FileSearcher<'a> {
    lines: LineSearcher<'a>,
    buffer: Vec<u8>,
}

/// Searches the lines of a file.
struct LineSearcher<'a> {
    search: &'a TextSearch,
    /// Whether nobody waits for the outcome any more.
    stops: &'a dyn Fn() -> bool,
    searcher: Searcher,
}

impl<'a> LineSearcher<'a> {
    /// Searches a file in pieces. If it has a line that is too long for a regular expression,
    /// searches it once more, line by line.
    fn search_reader<R: Read>(
        &mut self,
        open: impl Fn() -> R,
        after_line: u64,
    ) -> io::Result<HitLines<'a>> {
        let (until, stops) = (Instant::now() + FILE_PATIENCE, self.stops);
        let reader = || Paced { reader: open(), until, stops };
        let mut lines = HitLines::new(self.search, after_line);
        let matcher = self.search.query.matcher();
        let searched = self.searcher.search_reader(matcher, reader(), &mut lines);
        let is_regex = self.search.query.syntax() == QuerySyntax::Regex;
        match searched {
            Err(error) if is_regex && error.kind() != io::ErrorKind::TimedOut => {
                lines = HitLines::new(self.search, after_line);
                let goes_on = || !stops() && Instant::now() < until;
                search_line_by_line(reader(), goes_on, &mut lines)?;
            }
            searched => searched?,
        }
        Ok(lines)
    }
}

impl<'a> FileSearcher<'a> {
    fn new(search: &'a TextSearch, stops: &'a dyn Fn() -> bool) -> Self {
        let searcher = SearcherBuilder::new()
            .line_terminator(grep_matcher::LineTerminator::crlf())
            .line_number(true)
            .before_context(search.context)
            .after_context(search.context)
            .binary_detection(BinaryDetection::none())
            .bom_sniffing(false)
            .heap_limit(Some(match search.query.syntax() {
                QuerySyntax::Literal => LONGEST_LINE,
                QuerySyntax::Regex => PART_BYTES,
            }))
            .build();
        Self { lines: LineSearcher { search, stops, searcher }, buffer: Vec::new() }
    }

    fn search(&mut self, inner: &Inner, job: &Job) -> FileOutcome {
        match self.try_search(inner, job) {
            Ok(Ok(searched)) => FileOutcome::Searched(searched),
            Ok(Err(why)) => FileOutcome::LeftOut(why),
            // Errors of the system have a number. All others are those of a search that stopped.
            Err(error) if error.raw_os_error().is_none() => {
                FileOutcome::LeftOut(LeftOutReason::TooLong)
            }
            Err(_) => FileOutcome::LeftOut(LeftOutReason::Unreadable),
        }
    }

    /// Returns the hits of a file, one more than a page holds, or why it is left out.
    fn try_search(
        &mut self,
        inner: &Inner,
        job: &Job,
    ) -> io::Result<Result<SearchedFile, LeftOutReason>> {
        let file = job.found.open(inner)?;
        let status = os::status(&file)?;
        let stamp = status.stamp;
        if status.kind != EntryKind::File {
            return Ok(Err(LeftOutReason::Unreadable));
        }
        if stamp.size > inner.options.limits.file_size {
            return Ok(Err(LeftOutReason::TooLong));
        }
        if let Some(kind) = inner.documents.kind(&job.found.path, &file)?
            && let Some(searched) = self.search_document(inner, job, &file, kind)?
        {
            return Ok(searched);
        }
        if stamp.size > ONE_PIECE {
            return self.search_pieces(inner, job, &file);
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
            return Ok(Err(LeftOutReason::Unreadable));
        }
        let bytes = self.buffer.get(..read).unwrap_or_default();
        let Some(text) = text_of(bytes) else { return Ok(Err(LeftOutReason::NotText)) };
        let text = text.strip_prefix(BOM).unwrap_or(&text).as_bytes();
        let search = self.lines.search;
        let is_quick = search.query.syntax() == QuerySyntax::Literal;
        let lines = if is_quick || read <= AT_ONCE {
            let mut lines = HitLines::new(search, job.after_line);
            self.lines.searcher.search_slice(search.query.matcher(), text, &mut lines)?;
            lines
        } else {
            // In pieces, since a slow expression takes seconds for each of them.
            self.lines.search_reader(|| text, job.after_line)?
        };
        SearchedFile::of(lines, &job.found, || {
            if let Some(facts) = inner.memory().get(&stamp) {
                return Ok(Ok(facts));
            }
            let facts = Arc::new(facts_of(bytes));
            if os::status(&file)?.stamp == stamp {
                inner.memory().insert(stamp, &facts, began);
            }
            Ok(Ok(facts))
        })
    }

    /// Searches the text of a document. `None` if the file is UTF-8, and so is a text.
    fn search_document(
        &mut self,
        inner: &Inner,
        job: &Job,
        file: &File,
        kind: DocumentKind,
    ) -> io::Result<Option<Result<SearchedFile, LeftOutReason>>> {
        let stamp = inner.settled_stamp(file)?;
        let Some(facts) = inner.facts_of_file(file, stamp)? else {
            return Ok(Some(Err(LeftOutReason::Unreadable)));
        };
        if facts.lines.is_some() && !kind.is_never_text(&job.found.path) {
            return Ok(None);
        }
        let document = match inner.documents.read(file, stamp, kind)? {
            Ok(document) => document,
            Err(why) => return Ok(Some(Err(why.left_out()))),
        };
        let lines = self.lines.search_reader(|| document.text.as_bytes(), job.after_line)?;
        let searched = SearchedFile::of(lines, &job.found, || Ok(Ok(facts)))?;
        Ok(Some(searched.map(|mut searched| {
            for hit in &mut searched.hits {
                hit.page = document.part_of(hit.line);
            }
            searched
        })))
    }

    /// Searches a file that is read in pieces, if it is UTF-8. One that may be binary, since it has
    /// a zero byte, is read to its end first.
    fn search_pieces(
        &mut self,
        inner: &Inner,
        job: &Job,
        file: &File,
    ) -> io::Result<Result<SearchedFile, LeftOutReason>> {
        let stamp = inner.settled_stamp(file)?;
        let mut head = [0; HEAD];
        let read = os::read_at(file, &mut head, 0)?;
        let head = head.get(..read).unwrap_or_default();
        if !may_be_text(head) {
            return Ok(Err(LeftOutReason::NotText));
        }
        let has_zero = memchr::memchr(0, head).is_some();
        // Text in another encoding is not decoded in pieces.
        let not_utf8 = if has_zero { LeftOutReason::NotText } else { LeftOutReason::TooLong };
        let facts = || {
            Ok(match inner.facts_of_file(file, stamp)? {
                Some(facts) if facts.lines.is_some() => Ok(facts),
                Some(_) => Err(not_utf8),
                None => Err(LeftOutReason::Unreadable),
            })
        };
        if has_zero && let Err(why) = facts()? {
            return Ok(Err(why));
        }
        let offset = if head.starts_with(BOM.as_bytes()) { BOM.len() as u64 } else { 0 };
        let check = RefCell::new(Utf8Check::default());
        let open = || {
            check.take();
            FromStart { file, offset, check: &check }
        };
        let lines = self.lines.search_reader(open, job.after_line)?;
        if lines.hits.is_empty() && !check.borrow().is_text() {
            return Ok(Err(not_utf8));
        }
        SearchedFile::of(lines, &job.found, facts)
    }
}

impl SearchedFile {
    /// Returns what was found in a file. `facts` are those of the file, which only a hit needs, or
    /// why the file is left out.
    fn of(
        lines: HitLines<'_>,
        found: &Found,
        facts: impl FnOnce() -> io::Result<Result<Arc<FileFacts>, LeftOutReason>>,
    ) -> io::Result<Result<Self, LeftOutReason>> {
        let lines_in_parts = lines.lines_in_parts;
        if lines.hits.is_empty() {
            return Ok(Ok(Self { hits: Vec::new(), lines_in_parts }));
        }
        let hits = facts()?.map(|facts| lines.finish(found, facts.hash));
        Ok(hits.map(|hits| Self { hits, lines_in_parts }))
    }
}

/// Reads a file from an offset on, whatever its position is, and checks what was read.
struct FromStart<'f> {
    file: &'f File,
    offset: u64,
    check: &'f RefCell<Utf8Check>,
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
        self.check.borrow_mut().feed(buffer.get(..read).unwrap_or_default());
        Ok(read)
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
        let work = SharedWork::new(failed);
        let path = SpacePath::parse("/a").unwrap();
        let position = WalkPosition { start: SpacePath::root(), path, is_folder: false };
        let found = Found::at(position.clone());
        work.lock().jobs.push_back((7, Job { found, after_line: 0 }));
        let helped = std::thread::scope(|scope| {
            scope.spawn(|| work.help(|_| panic!("a fault of the searcher"))).join()
        });
        assert!(helped.is_err());
        let outcome = work.lock().outcomes.remove(&7);
        let left_out = FileOutcome::LeftOut(LeftOutReason::Unreadable);
        assert!(outcome.is_some_and(|(at, outcome)| at == position && outcome == left_out));
    }
}
