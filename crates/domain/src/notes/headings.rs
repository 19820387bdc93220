//! One walk over the events of a body: its headings, their texts, and which of them have something
//! to read.
//!
//! The parser yields events in document order and the walk keeps only what is open: at most one
//! heading's text, at most six headings that may still get a body (each deeper than the one
//! before), and the headings that wait for the end of the block that the next one stands in.

use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::{MAX_HEADINGS, MAX_TEXT_CHARS, commonmark, whitespace};

/// A heading, without what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// 1 to 6.
    pub(super) level: u8,
    /// Normalised and cut.
    pub(super) text: String,
    /// Whether something stands below it.
    pub(super) body: bool,
}

/// The headings of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Headings {
    pub(super) list: Vec<Heading>,
    /// Whether there were more, or a text was cut.
    pub(super) truncated: bool,
}

/// The headings of a Markdown text.
pub(super) fn headings(body: &str) -> Headings {
    let body = commonmark::readable(body);
    let mut walk = Walk::default();
    let mut events = commonmark::events(&body);
    // An event stays where the parser put it. A `for` would move each of them, which costs a tenth
    // of the pass.
    while let Some((event, range)) = &events.next() {
        walk.take(event, &body, range.clone());
    }
    walk.found
}

#[derive(Default)]
struct Walk {
    found: Headings,
    /// Open elements around the next event.
    depth: usize,
    /// The number of the top-level block that the next event belongs to.
    block: usize,
    /// Whether that block holds something.
    full: bool,
    /// How many images are open.
    images: usize,
    /// The heading that is open.
    text: Option<Text>,
    /// Headings that the next block may still belong to.
    open: Vec<Open>,
    /// Headings whose section ends inside this block, which is theirs if it holds something.
    ending: Vec<usize>,
}

/// A heading whose section has not ended.
struct Open {
    level: u8,
    /// Its place in the list; none past the most that are told.
    index: Option<usize>,
    /// The top-level block that it is or stands in.
    block: usize,
}

/// The text of a heading while it is read.
struct Text {
    raw: String,
    /// Whether the next piece of text belongs to the one before: the pieces into which the parser
    /// cuts a text are one, the children of a heading are apart.
    joined: bool,
    /// Where in the body the `#` that close it begin, and how many they are.
    closing: Option<(usize, usize)>,
    /// How many of them the parser took for text.
    unseen: usize,
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
        if self.unseen > 0 {
            raw = whitespace::trim_end(raw);
            raw = raw.get(..raw.len().saturating_sub(self.unseen)).unwrap_or_default();
        }
        whitespace::normal(raw)
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
                    heading.unseen = count;
                }
                self.text(text);
            }
            Event::SoftBreak => self.text("\n"),
            Event::Code(text) | Event::InlineHtml(text) => self.leaf(text),
            Event::Html(text) => self.hold(text),
            // It is a space between children of a heading, and nothing in an image's alternative
            // text.
            Event::HardBreak if self.images > 0 => {}
            Event::HardBreak => self.apart(),
            Event::Rule => {
                self.full = true;
                if self.depth == 0 {
                    self.close_block();
                }
            }
            // Extensions, which are off.
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
            _ => self.apart(),
        }
        self.depth += 1;
    }

    fn end(&mut self, tag: TagEnd) {
        self.depth = self.depth.saturating_sub(1);
        match tag {
            TagEnd::Heading(_) => self.finish_heading(),
            TagEnd::Image => {
                self.images = self.images.saturating_sub(1);
                self.apart();
            }
            _ => self.apart(),
        }
        if self.depth == 0 {
            self.close_block();
        }
    }

    fn text(&mut self, piece: &str) {
        match &mut self.text {
            Some(text) => text.piece(piece, true),
            None => self.hold(piece),
        }
    }

    /// Code and HTML stand apart in a heading, but for those in an image's alternative text.
    fn leaf(&mut self, piece: &str) {
        let inside = self.images > 0;
        match &mut self.text {
            Some(text) => text.piece(piece, inside),
            None => self.hold(piece),
        }
    }

    fn apart(&mut self) {
        if self.images == 0
            && let Some(text) = &mut self.text
        {
            text.joined = false;
        }
    }

    fn hold(&mut self, piece: &str) {
        self.full = self.full || !piece.chars().all(whitespace::is_white);
    }

    fn heading(&mut self, level: u8, body: &str, range: Range<usize>) {
        while let Some(open) = self.open.pop_if(|open| open.level >= level) {
            // The block that this heading stands in began before it, and after that one.
            if self.depth > 0 && open.block < self.block {
                self.ending.extend(open.index);
            }
        }
        let index = (self.found.list.len() < MAX_HEADINGS).then_some(self.found.list.len());
        if index.is_some() {
            self.found.list.push(Heading { level, text: String::new(), body: false });
        } else {
            self.found.truncated = true;
        }
        self.open.push(Open { level, index, block: self.block });
        let start = range.start;
        let closing = commonmark::closing(body.get(range).unwrap_or_default())
            .map(|(at, count)| (start + at, count));
        self.text = Some(Text { raw: String::new(), joined: false, closing, unseen: 0 });
    }

    fn finish_heading(&mut self) {
        let Some(text) = self.text.take() else { return };
        let index = self.open.last().and_then(|open| open.index);
        if index.is_none() && self.depth == 0 {
            // Past the most that are told, and no part of a block: nobody asks for its text.
            self.full = false;
            return;
        }
        let mut text = text.finish();
        // In a quote or a list it is something that its block holds; by itself it is no body.
        self.full = self.depth > 0 && (self.full || !text.is_empty());
        if let Some(index) = index
            && let Some(heading) = self.found.list.get_mut(index)
        {
            self.found.truncated |= whitespace::cut(&mut text, MAX_TEXT_CHARS);
            heading.text = text;
        }
    }

    fn close_block(&mut self) {
        if self.full {
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
        self.full = false;
        self.block += 1;
    }
}
