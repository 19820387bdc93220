//! Reads the bytes of a file, skips a UTF-8 byte order mark, and counts what was read.
//!
//! A reader may return as little as one byte at a time. The mark and a header must be complete
//! before a decoder can judge them, so they are read ahead and then returned like the rest.

use std::io::{self, BufRead, ErrorKind};

const BYTE_ORDER_MARK: [u8; 3] = *b"\xef\xbb\xbf";

/// The bytes of a file that a row decoder reads.
#[derive(Debug)]
pub struct LineSource<R> {
    reader: R,
    consumed: u64,
    started: bool,
    /// The bytes that were read ahead.
    ahead: Vec<u8>,
    /// How many of them were consumed.
    used: usize,
}

impl<R: BufRead> LineSource<R> {
    /// Reads from `reader`, from its current position on.
    pub fn new(reader: R) -> Self {
        Self { reader, consumed: 0, started: false, ahead: Vec::new(), used: 0 }
    }

    /// Returns how many bytes were taken from the reader.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Returns the next bytes; empty only at the end of the file.
    pub fn fill(&mut self) -> io::Result<&[u8]> {
        self.start()?;
        match self.ahead.get(self.used..) {
            Some(ahead) if !ahead.is_empty() => Ok(ahead),
            _ => fill_buf(&mut self.reader),
        }
    }

    /// Marks bytes that [`LineSource::fill`] returned as used.
    pub fn consume(&mut self, count: usize) {
        if self.used < self.ahead.len() {
            self.used += count;
        } else {
            self.consumed += count as u64;
            self.reader.consume(count);
        }
    }

    /// Returns the first line of the file with its end, or its first `max_bytes`. The caller must
    /// not have consumed anything yet.
    pub fn first_line(&mut self, max_bytes: usize) -> io::Result<&[u8]> {
        self.start()?;
        while self.ahead.len() < max_bytes {
            let buffer = fill_buf(&mut self.reader)?;
            if buffer.is_empty() {
                break;
            }
            let end = memchr::memchr2(b'\n', b'\r', buffer).map(|at| at + 1);
            let count = end.unwrap_or(buffer.len()).min(max_bytes - self.ahead.len());
            self.ahead.extend_from_slice(buffer.get(..count).unwrap_or_default());
            self.reader.consume(count);
            self.consumed += count as u64;
            if Some(count) == end {
                break;
            }
        }
        Ok(&self.ahead)
    }

    /// Skips the byte order mark. Keeps bytes that only begin like one.
    fn start(&mut self) -> io::Result<()> {
        if self.started {
            return Ok(());
        }
        for byte in BYTE_ORDER_MARK {
            if fill_buf(&mut self.reader)?.first() != Some(&byte) {
                break;
            }
            self.reader.consume(1);
            self.consumed += 1;
            self.ahead.push(byte);
        }
        if self.ahead == BYTE_ORDER_MARK {
            self.ahead.clear();
        }
        self.started = true;
        Ok(())
    }
}

/// Fills the reader's buffer, again after an interruption.
fn fill_buf(reader: &mut impl BufRead) -> io::Result<&[u8]> {
    // The second call returns what the first call read. The borrow checker does not allow the first
    // to return its result from the loop.
    while let Err(error) = reader.fill_buf() {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    reader.fill_buf()
}
