//! Reads the records of a CSV file as cells, with the line where each begins: RFC 4180, with any
//! ASCII character between the cells.
//!
//! A quote that is never closed makes one cell of the rest of the file. The reader notices that at
//! the end of the file, and until then it keeps no more than the largest row in memory.

use std::io::{self, BufRead};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use stile_domain::records::declaration;
use stile_records::rows::line_source::LineSource;
use stile_records::rows::{KEPT_BYTES, RowDecodeError};

/// The records of a file.
pub(super) struct RecordReader<R> {
    source: LineSource<R>,
    reader: Reader,
    pub(super) cells: Cells,
    lines: LineCounter,
    max_row_bytes: usize,
}

/// The cells of one record, joined, and the end of each.
pub(super) struct Cells {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// How many cells the record has. `ends` has at most as many as it has room for.
    pub(super) count: usize,
}

/// How a record ended.
pub(super) enum RecordEnd {
    Whole,
    TooLarge,
    Unclosed,
}

impl<R: BufRead> RecordReader<R> {
    /// Reads from a source, which may have been read ahead.
    pub(super) fn new(source: LineSource<R>, delimiter: u8, max_row_bytes: usize) -> Self {
        let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
        // The library removes a byte order mark if its first input holds all of the mark, so the
        // result would depend on the size of the buffer. The source has removed the mark already,
        // so the library gets a blank line first.
        let _ = reader.read_record(b"\n", &mut [0], &mut [0]);
        Self {
            source,
            reader,
            cells: Cells { bytes: vec![0; 4096], ends: vec![0; declaration::MAX_FIELDS], count: 0 },
            lines: LineCounter { line: 1, after_return: false },
            max_row_bytes,
        }
    }

    /// Returns how many bytes were read.
    pub(super) fn consumed(&self) -> u64 {
        self.source.consumed()
    }

    /// Keeps the ends of so many cells of each record that follows.
    pub(super) fn expect_cells(&mut self, count: usize) {
        self.cells.ends = vec![0; count];
    }

    /// Skips lines, whatever they hold.
    pub(super) fn skip_lines_before(&mut self, line: u64) -> io::Result<()> {
        while self.lines.line < line {
            let buffer = self.source.fill()?;
            let end = memchr::memchr2(b'\n', b'\r', buffer).map_or(buffer.len(), |at| at + 1);
            // The line end may be two characters, of which the second begins the next buffer.
            let part = buffer.get(..end).unwrap_or_default();
            if part.is_empty() {
                return Ok(());
            }
            self.lines.count(part);
            let after_return = self.lines.after_return;
            self.source.consume(end);
            if after_return && self.source.fill()?.first() == Some(&b'\n') {
                self.lines.count(b"\n");
                self.source.consume(1);
            }
        }
        Ok(())
    }

    /// Returns the line of the next byte, 1-based.
    pub(super) fn line(&self) -> u64 {
        self.lines.line
    }

    /// Reads a record into `cells`, and returns the line where it begins. `None` at the end of the
    /// file. Blank lines are no records.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, RecordEnd)>> {
        if !self.skip_blank_lines()? {
            return Ok(None);
        }
        let began = self.lines.line;
        let cells = &mut self.cells;
        cells.bytes.truncate(KEPT_BYTES);
        cells.bytes.shrink_to(KEPT_BYTES);
        cells.count = 0;
        let (mut written, mut taken) = (0, 0_usize);
        loop {
            let buffer = self.source.fill()?;
            let at_end = buffer.is_empty();
            // A newline at the end of the file ends the record, unless a quote is open.
            let input = if at_end { b"\n" } else { buffer };
            let room = cells.bytes.get_mut(written..).unwrap_or_default();
            let places = cells.ends.get_mut(cells.count..).unwrap_or_default();
            let mut surplus = [0; 64];
            let places = if places.is_empty() { &mut surplus[..] } else { places };
            let (result, read, wrote, ended) = self.reader.read_record(input, room, places);
            cells.count += ended;
            written += wrote;
            if !at_end {
                self.lines.count(buffer.get(..read).unwrap_or_default());
                taken = taken.saturating_add(read);
                self.source.consume(read);
            }
            let too_large = taken > self.max_row_bytes;
            if too_large {
                written = 0;
            }
            match result {
                ReadRecordResult::InputEmpty if at_end => {
                    return Ok(Some((began, RecordEnd::Unclosed)));
                }
                ReadRecordResult::OutputFull if !too_large => {
                    cells.bytes.resize(cells.bytes.len() * 2, 0)
                }
                ReadRecordResult::InputEmpty
                | ReadRecordResult::OutputFull
                | ReadRecordResult::OutputEndsFull => {}
                ReadRecordResult::Record if too_large => {
                    return Ok(Some((began, RecordEnd::TooLarge)));
                }
                ReadRecordResult::Record => return Ok(Some((began, RecordEnd::Whole))),
                ReadRecordResult::End => return Ok(None),
            }
        }
    }

    /// Skips blank lines. Returns whether anything follows them.
    fn skip_blank_lines(&mut self) -> io::Result<bool> {
        loop {
            let buffer = self.source.fill()?;
            let blank = buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if blank == 0 {
                return Ok(!buffer.is_empty());
            }
            self.lines.count(buffer.get(..blank).unwrap_or_default());
            self.source.consume(blank);
        }
    }
}

impl Cells {
    /// Returns each cell whose end is known.
    pub(super) fn texts(&self) -> impl Iterator<Item = Result<&str, RowDecodeError>> {
        let mut from = 0;
        self.ends.iter().take(self.count).map(move |&end| {
            let cell = self.bytes.get(from..end).unwrap_or_default();
            from = end;
            std::str::from_utf8(cell).map_err(|_| RowDecodeError::NotUtf8)
        })
    }

    /// Returns how many bytes the cells can have without a larger allocation.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Counts lines, which end in LF, CRLF or, in old files, CR.
struct LineCounter {
    /// The line of the next byte, 1-based.
    line: u64,
    after_return: bool,
}

impl LineCounter {
    fn count(&mut self, bytes: &[u8]) {
        for at in memchr::memchr2_iter(b'\r', b'\n', bytes) {
            let after_return = match at.checked_sub(1) {
                Some(before) => bytes.get(before) == Some(&b'\r'),
                None => self.after_return,
            };
            let second = after_return && bytes.get(at) == Some(&b'\n');
            self.line += u64::from(!second);
        }
        if let Some(last) = bytes.last() {
            self.after_return = *last == b'\r';
        }
    }
}
