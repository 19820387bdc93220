//! Collects the hits of one file, with the lines around them.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use stile_domain::find::hit_line::{HitLine, MAX_HIT_CHARS};
use stile_domain::hash::ContentHash;
use stile_domain::limits::{MAX_CONTEXT_LINES, MAX_HIT_BYTES, MAX_HITS};

use super::walk::Found;
use super::walk_pages::{SearchHit, TextSearch};

/// A line of a file that matches, or stands beside one that does.
struct Line {
    number: u64,
    text: String,
}

/// A hit in a file whose hash is not known yet.
pub(super) struct RawHit {
    line: u64,
    text: HitLine,
    before: Vec<String>,
    after: Vec<String>,
}

/// The most bytes that a hit adds to [`HitLines::bytes`].
const LONGEST_HIT_BYTES: usize = 4 * MAX_HIT_CHARS * (1 + MAX_CONTEXT_LINES);

/// Collects the hits of one file.
pub(super) struct HitLines<'a> {
    pub(super) search: &'a TextSearch,
    after_line: u64,
    pub(super) hits: Vec<RawHit>,
    /// The bytes of the hits and the lines before them.
    bytes: usize,
    /// The last lines that were seen.
    recent: VecDeque<Line>,
    /// How many lines without a match were tried in parts.
    pub(super) lines_in_parts: u64,
}

impl<'a> HitLines<'a> {
    pub(super) fn new(search: &'a TextSearch, after_line: u64) -> Self {
        let (hits, recent) = (Vec::new(), VecDeque::new());
        Self { search, after_line, hits, bytes: 0, recent, lines_in_parts: 0 }
    }

    pub(super) fn finish(self, found: &Found, hash: ContentHash) -> Vec<SearchHit> {
        let named = |hit: RawHit| SearchHit {
            path: found.path.clone(),
            hash,
            line: hit.line,
            page: None,
            text: hit.text,
            before: hit.before,
            after: hit.after,
        };
        self.hits.into_iter().map(named).collect()
    }

    /// Adds a line that matches at a byte offset, unless an earlier page showed it. Returns whether
    /// more lines are wanted.
    pub(super) fn add(&mut self, number: u64, bytes: &[u8], at: usize) -> bool {
        let line = text_of(bytes);
        if number <= self.after_line {
            self.pass(number, &line);
            return true;
        }
        let first = number.saturating_sub(self.search.context as u64);
        let near = self.recent.iter().filter(|line| line.number >= first);
        let before: Vec<String> = near.map(|line| line.text.clone()).collect();
        self.pass(number, &line);
        let text = HitLine::new(&line, at);
        // One hit more than a page holds tells that there are more. The lines after it are also
        // those after the hits before it.
        let goes_on = self.hits.len() < MAX_HITS + self.search.context
            && self.bytes < MAX_HIT_BYTES + self.search.context * LONGEST_HIT_BYTES;
        self.bytes += text.text.len() + before.iter().map(String::len).sum::<usize>();
        self.hits.push(RawHit { line: number, text, before, after: Vec::new() });
        goes_on
    }

    /// Shows a line to the hits before it, and remembers the line for the hits after it.
    pub(super) fn pass(&mut self, number: u64, line: &str) {
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
pub(super) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(content_of(bytes))
}

/// Returns a line without its terminator.
pub(super) fn content_of(bytes: &[u8]) -> &[u8] {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl Sink for HitLines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        // An offset in the bytes is one in the text, if the file is text.
        let at = self.search.query.find(content_of(found.bytes())).unwrap_or(0);
        Ok(self.add(found.line_number().unwrap_or(0), found.bytes(), at))
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.pass(context.line_number().unwrap_or(0), &text_of(context.bytes()));
        Ok(true)
    }
}
