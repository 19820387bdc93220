//! Imports a file that is one JSON array of objects, as most exports are.
//!
//! The decoder finds the end of each element by its brackets and strings alone, and then parses its
//! bytes as a row. So an invalid element is one bad row, and neither the array nor an element that
//! is too large must fit in memory. A fault between two elements ends the file, because nothing
//! shows where the next element would begin.

use std::io::{self, BufRead};

use stile_domain::json::skipping::{Mark, ValueScanner};
use stile_records::rows::line_source::LineSource;
use stile_records::rows::{DecodedRow, MAX_ROW_BYTES, RowBuffer, RowDecodeError, RowDecoder};

use super::json_text;
use crate::importer::{Importer, Recognition, StreamDeclaration, decoded_rows, file_bytes};

/// Imports each element of a JSON array.
pub static IMPORTER: Importer = Importer {
    name: "json",
    description: "a JSON array",
    recognition: Recognition { extensions: &["json"], ..Recognition::NEVER },
    byte_count: file_bytes,
    open: |path, _| Ok(decoded_rows(path, JsonArray::new(json_text::open(path)?))),
    declaration: StreamDeclaration::Inferred,
};

/// A decoder for a JSON array, with a row for each element.
#[derive(Debug)]
pub struct JsonArray<R> {
    source: LineSource<R>,
    scan: Scanner,
}

impl<R: BufRead> JsonArray<R> {
    /// Reads an array from the first byte of a file.
    pub fn new(reader: R) -> Self {
        Self::with_max_row_bytes(reader, MAX_ROW_BYTES)
    }

    pub(crate) fn with_max_row_bytes(reader: R, max_row_bytes: usize) -> Self {
        let scan = Scanner {
            position: Position::BeforeArray,
            line: 1,
            began: 1,
            element: ValueScanner::default(),
            held: RowBuffer::new(max_row_bytes),
        };
        Self { source: LineSource::new(reader), scan }
    }

    /// Returns the line of the next byte, 1-based.
    pub(super) fn line(&self) -> u64 {
        self.scan.line
    }
}

impl<R: BufRead> RowDecoder for JsonArray<R> {
    fn next(&mut self) -> io::Result<Option<DecodedRow>> {
        loop {
            if self.scan.position == Position::Ended {
                return Ok(None);
            }
            let buffer = self.source.fill()?;
            if buffer.is_empty() {
                return Ok(self.scan.at_end());
            }
            let (used, decoded) = self.scan.feed(buffer);
            self.source.consume(used);
            if decoded.is_some() {
                return Ok(decoded);
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.source.consumed()
    }
}

/// The position of the next byte in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    BeforeArray,
    AfterBracket,
    InElement,
    AfterElement,
    AfterComma,
    AfterArray,
    /// No byte is read any more.
    Ended,
}

#[derive(Debug)]
struct Scanner {
    position: Position,
    /// The line of the next byte, 1-based.
    line: u64,
    /// The line where the element began.
    began: u64,
    element: ValueScanner,
    held: RowBuffer,
}

impl Scanner {
    /// Reads up to the end of an element. Returns how many bytes were used, and the element.
    fn feed(&mut self, buffer: &[u8]) -> (usize, Option<DecodedRow>) {
        let mut at = 0;
        while let Some(&byte) = buffer.get(at) {
            if self.position == Position::InElement {
                let rest = buffer.get(at..).unwrap_or_default();
                let (length, ended) = self.scan_element(rest);
                let part = rest.get(..length).unwrap_or_default();
                self.line += memchr::memchr_iter(b'\n', part).count() as u64;
                if !ended {
                    self.held.add(part);
                    return (buffer.len(), None);
                }
                self.position = Position::AfterElement;
                return (at + length, Some(self.held.finish(self.began, part)));
            }
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
                && let Some(bad) = self.scan_between(byte)
            {
                return (at, Some(bad));
            }
            if self.position != Position::InElement {
                self.line += u64::from(byte == b'\n');
                at += 1;
            }
        }
        (at, None)
    }

    /// Handles a byte that is outside of elements, or the first of one, which is not used yet.
    /// Returns a fault.
    fn scan_between(&mut self, byte: u8) -> Option<DecodedRow> {
        let fault = match (self.position, byte) {
            (Position::BeforeArray, b'[') => return self.move_to(Position::AfterBracket),
            (Position::BeforeArray, _) => RowDecodeError::NotAnArray,
            (Position::AfterBracket | Position::AfterElement, b']') => {
                return self.move_to(Position::AfterArray);
            }
            (Position::AfterElement, b',') => return self.move_to(Position::AfterComma),
            (Position::AfterElement, _) => {
                RowDecodeError::Between("a `,` or the `]` of the array is missing")
            }
            (Position::AfterBracket | Position::AfterComma, b',' | b']' | b'}' | b':') => {
                RowDecodeError::Between("an element of the array is missing")
            }
            (Position::AfterBracket | Position::AfterComma, _) => {
                (self.began, self.element) = (self.line, ValueScanner::default());
                return self.move_to(Position::InElement);
            }
            (Position::AfterArray, _) => RowDecodeError::Between("something follows the array"),
            (Position::InElement | Position::Ended, _) => return None,
        };
        self.position = Position::Ended;
        Some(DecodedRow::bad(self.line, fault))
    }

    fn move_to(&mut self, position: Position) -> Option<DecodedRow> {
        self.position = position;
        None
    }

    /// Returns how many of these bytes belong to the element, and whether it ends there.
    fn scan_element(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some((found, mark)) = self.element.next(bytes.get(at..).unwrap_or_default()) {
            at += found;
            match mark {
                Mark::Outside(b',' | b']') => return (at, true),
                // A bracket that opened nowhere is a part of the element, which is bad.
                Mark::Closed | Mark::Outside(b'}') => return (at + 1, true),
                Mark::StringEnd | Mark::Outside(_) => at += 1,
            }
        }
        (bytes.len(), false)
    }

    /// Returns a fault if the file ends here too early.
    fn at_end(&mut self) -> Option<DecodedRow> {
        let position = std::mem::replace(&mut self.position, Position::Ended);
        let (line, bad) = match position {
            Position::AfterArray | Position::Ended => return None,
            Position::BeforeArray => (self.line, RowDecodeError::NotAnArray),
            Position::InElement => {
                let cut = "the file ends within the element that begins here";
                (self.began, RowDecodeError::Between(cut))
            }
            Position::AfterBracket | Position::AfterElement | Position::AfterComma => {
                (self.line, RowDecodeError::Between("the file ends before the `]` of the array"))
            }
        };
        Some(DecodedRow::bad(line, bad))
    }
}
