//! Decodes JSON Lines: one object a line.
//!
//! Blank lines are skipped. Lines end in LF or CRLF, and the last line may have no end. A line that
//! is completely in the reader's buffer, as nearly all are, is not copied.

use std::io::{self, BufRead};

use super::line_source::LineSource;
use super::{DecodedRow, MAX_ROW_BYTES, RowBuffer, RowDecoder};

/// A decoder of JSON Lines.
#[derive(Debug)]
pub struct JsonLines<R> {
    source: LineSource<R>,
    /// The part of the current line that was read; empty while the line is blank.
    buffer: RowBuffer,
    /// The number of the current line, 1-based.
    line: u64,
}

impl<R: BufRead> JsonLines<R> {
    /// Decodes rows of at most [`MAX_ROW_BYTES`].
    pub fn new(reader: R) -> Self {
        Self::with_max_row_bytes(reader, MAX_ROW_BYTES)
    }

    /// Decodes rows of at most `max_bytes`.
    pub fn with_max_row_bytes(reader: R, max_bytes: usize) -> Self {
        Self { source: LineSource::new(reader), buffer: RowBuffer::new(max_bytes), line: 1 }
    }
}

impl<R: BufRead> RowDecoder for JsonLines<R> {
    fn next(&mut self) -> io::Result<Option<DecodedRow>> {
        loop {
            let available = self.source.fill()?;
            let at_end = available.is_empty();
            let newline = memchr::memchr(b'\n', available);
            let part = newline.and_then(|at| available.get(..at)).unwrap_or(available);
            let used = part.len() + usize::from(newline.is_some());
            let part = if self.buffer.is_empty() { part.trim_ascii_start() } else { part };
            let blank = self.buffer.is_empty() && part.is_empty();
            let mut decoded = None;
            if newline.is_some() || at_end {
                decoded = (!blank).then(|| self.buffer.finish(self.line, part));
                self.line += 1;
            } else if !blank {
                self.buffer.add(part);
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
