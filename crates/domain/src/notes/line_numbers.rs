//! Line numbers of a file for positions that the Markdown parser reports.
//!
//! The parser reads the readable form of a note's body, which `commonmark::readable` makes. That
//! form has one line feed for each end of a line in Markdown, and other bytes for some tabs, NULs
//! and carriage returns. A line of a file ends at `\n` alone.

/// The text of a file beside the form of its body that the parser reads.
pub(super) struct LineNumbers<'a> {
    /// The line of the file in which the body begins, from 1.
    first: u64,
    body: &'a str,
    readable: &'a str,
}

impl<'a> LineNumbers<'a> {
    /// `body_offset` is the byte offset of the body in `text`. `readable` is its other form.
    pub(super) fn new(text: &'a str, body_offset: usize, readable: &'a str) -> Self {
        let (front, body) = text.split_at_checked(body_offset).unwrap_or(("", text));
        Self { first: 1 + line_feeds(front), body, readable }
    }

    /// Returns the line of the file, from 1, for a byte offset in the readable form.
    pub(super) fn line_at(&self, offset: usize) -> u64 {
        self.lines_at([offset]).next().unwrap_or(self.first)
    }

    /// Returns the lines of the file for ascending offsets in the readable form, in one pass.
    pub(super) fn lines_at(
        &self,
        offsets: impl IntoIterator<Item = usize>,
    ) -> impl Iterator<Item = u64> {
        let mut bytes = self.body.bytes().peekable();
        let (mut line, mut seen, mut ends, mut from) = (self.first, 0, 0, 0);
        offsets.into_iter().map(move |offset| {
            ends += line_feeds(self.readable.get(from..offset).unwrap_or_default());
            from = offset.max(from);
            while seen < ends
                && let Some(byte) = bytes.next()
            {
                let is_line_end = match byte {
                    b'\n' => true,
                    b'\r' => bytes.next_if_eq(&b'\n').is_some(),
                    _ => continue,
                };
                line += u64::from(is_line_end);
                seen += 1;
            }
            line
        })
    }
}

fn line_feeds(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}
