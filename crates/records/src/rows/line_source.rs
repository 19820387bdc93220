//! The bytes of a file, without the mark that Windows programs put before UTF-8, and counted.
//!
//! A reader may give as little as one byte at a time, so what has to be seen before it can be
//! judged (the mark, a header) is read ahead and then given like the rest.

use std::io::{self, BufRead, ErrorKind};

const MARK: [u8; 3] = *b"\xef\xbb\xbf";

/// A file.
#[derive(Debug)]
pub struct LineSource<R> {
    reader: R,
    consumed: u64,
    started: bool,
    /// What was read ahead, and how much of it was used.
    ahead: Vec<u8>,
    used: usize,
}

impl<R: BufRead> LineSource<R> {
    /// Reads lines from `reader`.
    pub fn new(reader: R) -> Self {
        Self { reader, consumed: 0, started: false, ahead: Vec::new(), used: 0 }
    }

    /// How many bytes were taken from the reader.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// What comes next, which is nothing at the end of the file only.
    pub fn fill(&mut self) -> io::Result<&[u8]> {
        self.start()?;
        match self.ahead.get(self.used..) {
            Some(ahead) if !ahead.is_empty() => Ok(ahead),
            _ => fill_buf(&mut self.reader),
        }
    }

    /// Goes past what was used of it.
    pub fn consume(&mut self, count: usize) {
        if self.used < self.ahead.len() {
            self.used += count;
        } else {
            self.consumed += count as u64;
            self.reader.consume(count);
        }
    }

    /// The first line of the file with its end, or as much as `most` bytes of it. To be called
    /// before anything is used.
    pub fn first_line(&mut self, most: usize) -> io::Result<&[u8]> {
        self.start()?;
        while self.ahead.len() < most {
            let buffer = fill_buf(&mut self.reader)?;
            if buffer.is_empty() {
                break;
            }
            let end = memchr::memchr2(b'\n', b'\r', buffer).map(|at| at + 1);
            let count = end.unwrap_or(buffer.len()).min(most - self.ahead.len());
            self.ahead.extend_from_slice(buffer.get(..count).unwrap_or_default());
            self.reader.consume(count);
            self.consumed += count as u64;
            if Some(count) == end {
                break;
            }
        }
        Ok(&self.ahead)
    }

    /// Passes over the mark; what only begins like one is given.
    fn start(&mut self) -> io::Result<()> {
        if self.started {
            return Ok(());
        }
        for byte in MARK {
            if fill_buf(&mut self.reader)?.first() != Some(&byte) {
                break;
            }
            self.reader.consume(1);
            self.consumed += 1;
            self.ahead.push(byte);
        }
        if self.ahead == MARK {
            self.ahead.clear();
        }
        self.started = true;
        Ok(())
    }
}

/// What the reader has.
fn fill_buf(reader: &mut impl BufRead) -> io::Result<&[u8]> {
    // The second call returns what the first has filled; the borrow checker does not let the first
    // return it.
    while let Err(error) = reader.fill_buf() {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    reader.fill_buf()
}
