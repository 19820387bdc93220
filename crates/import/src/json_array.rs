//! One JSON array of objects, as most exports are.
//!
//! The extent of each element is found by its brackets and strings alone, and its bytes are then
//! read as a row; so an element that is at fault costs itself, and neither the array nor its
//! largest element must fit in memory. Only what stands between two elements is judged here, and
//! there a fault ends the file: nothing says where the next element would begin.

use std::io::{self, BufRead};

use stile_records::rows::line_source::LineSource;
use stile_records::rows::{DecodedRow, MAX_ROW_BYTES, RowBuffer, RowDecodeError, RowDecoder};

/// The rows of a file that is a JSON array.
#[derive(Debug)]
pub struct JsonArray<R> {
    source: LineSource<R>,
    scan: Scan,
}

impl<R: BufRead> JsonArray<R> {
    /// Begins at the beginning of a file.
    pub fn new(reader: R) -> Self {
        Self::with_most(reader, MAX_ROW_BYTES)
    }

    pub(super) fn with_most(reader: R, most: usize) -> Self {
        let scan = Scan {
            place: Place::Before,
            line: 1,
            began: 1,
            depth: 0,
            inside: Inside::Plain,
            held: RowBuffer::new(most),
        };
        Self { source: LineSource::new(reader), scan }
    }

    /// The line that is read, 1-based.
    pub(super) fn line(&self) -> u64 {
        self.scan.line
    }
}

impl<R: BufRead> RowDecoder for JsonArray<R> {
    fn next(&mut self) -> io::Result<Option<DecodedRow>> {
        loop {
            if self.scan.place == Place::Over {
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

/// Where in the file the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the array.
    Before,
    /// Behind its `[`.
    First,
    /// In an element.
    Element,
    /// Behind an element.
    Behind,
    /// Behind a comma.
    Next,
    /// Behind the array.
    After,
    /// Nothing more is read.
    Over,
}

/// Where in an element the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Plain,
    Text,
    /// Behind the `\` in a string.
    Escaped,
}

#[derive(Debug)]
struct Scan {
    place: Place,
    /// The line of the next byte, and the one where the element began.
    line: u64,
    began: u64,
    /// How many brackets of the element are open.
    depth: usize,
    inside: Inside,
    held: RowBuffer,
}

impl Scan {
    /// Reads on, up to the end of an element. Says how many bytes it used.
    fn feed(&mut self, buffer: &[u8]) -> (usize, Option<DecodedRow>) {
        let mut at = 0;
        while let Some(&byte) = buffer.get(at) {
            if self.place == Place::Element {
                let rest = buffer.get(at..).unwrap_or_default();
                let (length, ended) = self.element(rest);
                let part = rest.get(..length).unwrap_or_default();
                self.line += memchr::memchr_iter(b'\n', part).count() as u64;
                if !ended {
                    self.held.add(part);
                    return (buffer.len(), None);
                }
                self.place = Place::Behind;
                return (at + length, Some(self.held.finish(self.began, part)));
            }
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
                && let Some(bad) = self.between(byte)
            {
                return (at, Some(bad));
            }
            if self.place != Place::Element {
                self.line += u64::from(byte == b'\n');
                at += 1;
            }
        }
        (at, None)
    }

    /// Judges a byte that stands in no element; one that begins an element is not used yet.
    fn between(&mut self, byte: u8) -> Option<DecodedRow> {
        let wrong = match (self.place, byte) {
            (Place::Before, b'[') => return self.go(Place::First),
            (Place::Before, _) => RowDecodeError::NotAnArray,
            (Place::First | Place::Behind, b']') => return self.go(Place::After),
            (Place::Behind, b',') => return self.go(Place::Next),
            (Place::Behind, _) => {
                RowDecodeError::Between("a `,` or the `]` of the array is missing")
            }
            (Place::First | Place::Next, b',' | b']' | b'}' | b':') => {
                RowDecodeError::Between("an element of the array is missing")
            }
            (Place::First | Place::Next, _) => {
                (self.began, self.depth, self.inside) = (self.line, 0, Inside::Plain);
                return self.go(Place::Element);
            }
            (Place::After, _) => RowDecodeError::Between("something follows the array"),
            (Place::Element | Place::Over, _) => return None,
        };
        self.place = Place::Over;
        Some(DecodedRow::bad(self.line, wrong))
    }

    fn go(&mut self, place: Place) -> Option<DecodedRow> {
        self.place = place;
        None
    }

    /// How many of these bytes belong to the element, and whether it ends there.
    fn element(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.inside {
                Inside::Escaped => self.inside = Inside::Text,
                Inside::Text => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    let Some(length) = memchr::memchr2(b'"', b'\\', rest) else {
                        return (bytes.len(), false);
                    };
                    at += length;
                    self.inside =
                        if bytes.get(at) == Some(&b'"') { Inside::Plain } else { Inside::Escaped };
                }
                Inside::Plain => match byte {
                    b'"' => self.inside = Inside::Text,
                    b'{' | b'[' => self.depth += 1,
                    b',' | b']' if self.depth == 0 => return (at, true),
                    b']' | b'}' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return (at + 1, true);
                        }
                    }
                    _ => {}
                },
            }
            at += 1;
        }
        (at, false)
    }

    fn at_end(&mut self) -> Option<DecodedRow> {
        let bad = match self.place {
            Place::After | Place::Over => None,
            Place::Before => Some(DecodedRow::bad(self.line, RowDecodeError::NotAnArray)),
            Place::Element => {
                let cut =
                    RowDecodeError::Between("the file ends within the element that begins here");
                Some(DecodedRow::bad(self.began, cut))
            }
            Place::First | Place::Behind | Place::Next => Some(DecodedRow::bad(
                self.line,
                RowDecodeError::Between("the file ends before the `]` of the array"),
            )),
        };
        self.place = Place::Over;
        bad
    }
}
