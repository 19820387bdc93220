//! Collects the headings of a body, their texts, and whether content follows each heading.
//!
//! The parser yields events in document order. One walk over the events keeps only the open parts:
//! the text of at most one heading, at most six headings whose section has not ended (each deeper
//! than the one before), and the headings that wait for the end of the current block.

use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::limits::{MAX_HEADINGS, MAX_TEXT_CHARS};
use super::{commonmark, whitespace};

/// A heading, without the text of its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// The level, from 1 to 6.
    pub(super) level: u8,
    /// The text, with white space normalized, truncated to [`MAX_TEXT_CHARS`].
    pub(super) text: String,
    /// Whether content follows the heading in its section.
    pub(super) body: bool,
    /// The byte offset of the heading in the [`commonmark::readable`] body.
    pub(super) start: usize,
    /// The offset behind the heading itself.
    pub(super) heading_end: usize,
    /// The offset of the next heading of the same or a lower level; `None` where no such heading
    /// follows.
    pub(super) end: Option<usize>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Headings {
    pub(super) list: Vec<Heading>,
    /// Whether headings were omitted or a text was truncated.
    pub(super) truncated: bool,
}

/// Collects the headings of a Markdown text.
pub(super) fn headings(body: &str) -> Headings {
    headings_in(&commonmark::readable(body))
}

/// Collects the headings of a text that [`commonmark::readable`] has rewritten.
pub(super) fn headings_in(body: &str) -> Headings {
    let mut walk = Walk::default();
    let mut events = commonmark::events(body);
    // A `for` would move each event, which costs a tenth of the pass. A reference does not.
    while let Some((event, range)) = &events.next() {
        walk.take(event, body, range.clone());
    }
    walk.found
}

#[derive(Default)]
struct Walk {
    found: Headings,
    /// The number of open elements around the next event.
    depth: usize,
    /// The number of the top-level block that the next event belongs to.
    block: usize,
    /// Whether that block holds content: text, code, HTML or a thematic break.
    has_content: bool,
    /// The number of open images.
    images: usize,
    /// The text of the open heading.
    text: Option<Text>,
    /// The headings whose section may contain the next block.
    open: Vec<Open>,
    /// The headings whose section ends inside the current block. Content of the block is theirs.
    ending: Vec<usize>,
}

/// A heading whose section has not ended.
struct Open {
    level: u8,
    /// The index in the list; `None` for a heading after the first [`MAX_HEADINGS`].
    index: Option<usize>,
    /// The number of the top-level block that is the heading or contains it.
    block: usize,
}

/// The text of a heading while it is read.
struct Text {
    raw: String,
    /// Whether the next piece continues the one before. The parser may split one text into pieces.
    /// Different children of a heading are separated by a space.
    joined: bool,
    /// The offset in the body and the length of the closing `#` sequence.
    closing: Option<(usize, usize)>,
    /// The number of closing `#` that the parser took for text.
    taken_as_text: usize,
}

impl Text {
    fn piece(&mut self, piece: &str, joins: bool) {
        if !(joins && self.joined) {
            self.raw.push(' ');
        }
        self.raw.push_str(piece);
        self.joined = joins;
    }

    fn finish(&self) -> String {
        let mut raw = self.raw.as_str();
        if self.taken_as_text > 0 {
            raw = whitespace::trim_end(raw);
            raw = raw.get(..raw.len().saturating_sub(self.taken_as_text)).unwrap_or_default();
        }
        whitespace::normalize(raw)
    }
}

impl Walk {
    fn take(&mut self, event: &Event<'_>, body: &str, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, body, range),
            Event::End(tag) => self.end(*tag),
            Event::Text(text) => {
                if let Some(heading) = &mut self.text
                    && let Some((at, count)) = heading.closing
                    && range.end > at
                {
                    heading.taken_as_text = count;
                }
                self.text(text);
            }
            Event::SoftBreak => self.text("\n"),
            Event::Code(text) | Event::InlineHtml(text) => self.leaf(text),
            Event::Html(text) => self.mark_content(text),
            // A hard break separates children of a heading. In the alternative text of an image a
            // hard break is nothing.
            Event::HardBreak if self.images > 0 => {}
            Event::HardBreak => self.separate(),
            Event::Rule => {
                self.has_content = true;
                if self.depth == 0 {
                    self.close_block();
                }
            }
            // Extensions are off.
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>, body: &str, range: Range<usize>) {
        match tag {
            Tag::Heading { level, .. } => self.heading(*level as u8, body, range),
            Tag::Image { .. } => {
                if self.images == 0 {
                    self.leaf("");
                }
                self.images += 1;
            }
            _ => self.separate(),
        }
        self.depth += 1;
    }

    fn end(&mut self, tag: TagEnd) {
        self.depth = self.depth.saturating_sub(1);
        match tag {
            TagEnd::Heading(_) => self.finish_heading(),
            TagEnd::Image => {
                self.images = self.images.saturating_sub(1);
                self.separate();
            }
            _ => self.separate(),
        }
        if self.depth == 0 {
            self.close_block();
        }
    }

    fn text(&mut self, piece: &str) {
        match &mut self.text {
            Some(text) => text.piece(piece, true),
            None => self.mark_content(piece),
        }
    }

    /// Takes code and HTML. In a heading they are separate children, except inside an image.
    fn leaf(&mut self, piece: &str) {
        let inside = self.images > 0;
        match &mut self.text {
            Some(text) => text.piece(piece, inside),
            None => self.mark_content(piece),
        }
    }

    fn separate(&mut self) {
        if self.images == 0
            && let Some(text) = &mut self.text
        {
            text.joined = false;
        }
    }

    fn mark_content(&mut self, piece: &str) {
        self.has_content = self.has_content || !piece.chars().all(whitespace::is_whitespace);
    }

    fn heading(&mut self, level: u8, body: &str, range: Range<usize>) {
        while let Some(open) = self.open.pop_if(|open| open.level >= level) {
            if let Some(ended) = open.index.and_then(|index| self.found.list.get_mut(index)) {
                ended.end = Some(range.start);
            }
            // The block of this heading began before the heading and after the open one.
            if self.depth > 0 && open.block < self.block {
                self.ending.extend(open.index);
            }
        }
        let index = (self.found.list.len() < MAX_HEADINGS).then_some(self.found.list.len());
        if index.is_some() {
            self.found.list.push(Heading {
                level,
                text: String::new(),
                body: false,
                start: range.start,
                heading_end: range.end,
                end: None,
            });
        } else {
            self.found.truncated = true;
        }
        self.open.push(Open { level, index, block: self.block });
        let start = range.start;
        let closing = commonmark::closing(body.get(range).unwrap_or_default())
            .map(|(at, count)| (start + at, count));
        self.text = Some(Text { raw: String::new(), joined: false, closing, taken_as_text: 0 });
    }

    fn finish_heading(&mut self) {
        let Some(text) = self.text.take() else { return };
        let index = self.open.last().and_then(|open| open.index);
        if index.is_none() && self.depth == 0 {
            // The heading is beyond the limit and in no block, so its text is not needed.
            self.has_content = false;
            return;
        }
        let mut text = text.finish();
        // A heading in a quote or a list is content of its block. A heading by itself is not.
        self.has_content = self.depth > 0 && (self.has_content || !text.is_empty());
        if let Some(index) = index
            && let Some(heading) = self.found.list.get_mut(index)
        {
            self.found.truncated |= whitespace::truncate(&mut text, MAX_TEXT_CHARS);
            heading.text = text;
        }
    }

    fn close_block(&mut self) {
        if self.has_content {
            let before = self
                .open
                .iter()
                .filter(|open| open.block < self.block)
                .filter_map(|open| open.index);
            for index in before.chain(self.ending.iter().copied()) {
                if let Some(heading) = self.found.list.get_mut(index) {
                    heading.body = true;
                }
            }
        }
        self.ending.clear();
        self.has_content = false;
        self.block += 1;
    }
}
