//! JSON Lines: one object a line.
//!
//! Blank lines are passed over, lines end in LF or CRLF, and the last one need not end. A line that
//! lies whole in the reader's buffer, as nearly all do, is not copied.

use std::io::{self, BufRead};

use super::line_source::LineSource;
use super::{DecodedRow, MAX_ROW_BYTES, RowBuffer, RowDecoder};

/// The rows of a file of JSON Lines.
#[derive(Debug)]
pub struct JsonLines<R> {
    source: LineSource<R>,
    /// What was read of the line; nothing while it is blank.
    held: RowBuffer,
    /// The line that is read, 1-based.
    line: u64,
}

impl<R: BufRead> JsonLines<R> {
    /// Begins at the beginning of a file.
    pub fn new(reader: R) -> Self {
        Self::with_most(reader, MAX_ROW_BYTES)
    }

    /// Reads rows of at most `most` bytes.
    pub fn with_most(reader: R, most: usize) -> Self {
        Self { source: LineSource::new(reader), held: RowBuffer::new(most), line: 1 }
    }
}

impl<R: BufRead> RowDecoder for JsonLines<R> {
    fn next(&mut self) -> io::Result<Option<DecodedRow>> {
        loop {
            let buffer = self.source.fill()?;
            let at_end = buffer.is_empty();
            let newline = memchr::memchr(b'\n', buffer);
            let part = newline.and_then(|at| buffer.get(..at)).unwrap_or(buffer);
            let used = part.len() + usize::from(newline.is_some());
            let part = if self.held.is_empty() { part.trim_ascii_start() } else { part };
            let blank = self.held.is_empty() && part.is_empty();
            let mut decoded = None;
            if newline.is_some() || at_end {
                decoded = (!blank).then(|| self.held.finish(self.line, part));
                self.line += 1;
            } else if !blank {
                self.held.add(part);
            }
            self.source.consume(used);
            if decoded.is_some() || at_end {
                return Ok(decoded);
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.source.consumed()
    }
}
