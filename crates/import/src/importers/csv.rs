//! Imports CSV with a header row: RFC 4180, with `,`, `;` or a tab between the cells.
//!
//! CSV has no types. A cell becomes a boolean if it is `true` or `false`, and a number if it is a
//! JSON number without an exponent and with at most 15 digits, which any program reads exactly. Any
//! other cell is text, also `007` and `+49 30`. The decoder sees each cell alone, because it reads
//! the file once; the type of a column is inferred from all rows later. An empty cell becomes no
//! field.
//!
//! A quote that is never closed makes one cell of the rest of the file. The decoder notices that at
//! the end of the file, and until then it keeps no more than the largest row in memory.

use std::collections::HashSet;
use std::io::{self, BufRead};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use stile_domain::records::row::ParsedRow;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_domain::records::{declaration, identifiers};

use stile_records::rows::line_source::LineSource;
use stile_records::rows::{DecodedRow, KEPT_BYTES, MAX_ROW_BYTES, RowDecodeError, RowDecoder};
use stile_store::files;

use crate::importer::{Importer, Recognition, StreamDeclaration, decoded_rows, file_bytes};

/// Imports each row of a CSV file.
pub static IMPORTER: Importer = Importer {
    name: "csv",
    description: "CSV",
    recognition: Recognition { extensions: &["csv", "tsv"], ..Recognition::NEVER },
    byte_count: file_bytes,
    open: |path, _| Ok(decoded_rows(path, CsvDecoder::new(files::open(path)?.reader, None))),
    declaration: StreamDeclaration::Inferred,
};

/// The character between two cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// `,`, also for a header without a delimiter.
    Comma,
    /// `;`, which spreadsheets write in countries with a decimal comma.
    Semicolon,
    /// A tab, U+0009.
    Tab,
}

impl Delimiter {
    const ALL: [Self; 3] = [Self::Comma, Self::Semicolon, Self::Tab];

    fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
        }
    }

    /// Returns the delimiter that occurs most often in a header outside of quotes; a comma if none
    /// does.
    fn of_header(line: &[u8]) -> Self {
        let mut counts = [0_usize; 3];
        let mut quoted = false;
        for &byte in line {
            quoted ^= byte == b'"';
            for (count, delimiter) in counts.iter_mut().zip(Self::ALL) {
                *count += usize::from(!quoted && byte == delimiter.byte());
            }
        }
        // `max_by_key` returns the last of equals, so the order is reversed.
        let most_frequent = counts.into_iter().zip(Self::ALL).rev().max_by_key(|(count, _)| *count);
        most_frequent.map_or(Self::Comma, |(_, delimiter)| delimiter)
    }
}

/// How many bytes of a header are searched for the delimiter.
const HEADER_BYTES: usize = 64 * 1024;
/// The most digits of a number. A longer one stays text, because a double would round it.
const MAX_DIGITS: usize = 15;

/// A decoder for a CSV file.
pub struct CsvDecoder<R> {
    source: LineSource<R>,
    delimiter: Option<Delimiter>,
    /// Absent until the header was read.
    header: Option<Vec<String>>,
    has_ended: bool,
    reader: Reader,
    cells: Cells,
    lines: LineCounter,
    max_row_bytes: usize,
}

/// The cells of one row, joined, and the end of each.
struct Cells {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// How many cells the row has. `ends` has at most as many as it has room for.
    count: usize,
}

enum RowEnd {
    Whole,
    TooLarge,
    Unclosed,
}

impl<R: BufRead> CsvDecoder<R> {
    /// Reads CSV from the first byte of a file. Without a delimiter, the header decides.
    pub fn new(reader: R, delimiter: Option<Delimiter>) -> Self {
        Self::with_max_row_bytes(reader, delimiter, MAX_ROW_BYTES)
    }

    fn with_max_row_bytes(reader: R, delimiter: Option<Delimiter>, max_row_bytes: usize) -> Self {
        Self {
            source: LineSource::new(reader),
            delimiter,
            header: None,
            has_ended: false,
            reader: Reader::new(),
            cells: Cells { bytes: vec![0; 4096], ends: vec![0; declaration::MAX_FIELDS], count: 0 },
            lines: LineCounter { line: 1, after_return: false },
            max_row_bytes,
        }
    }

    /// Reads the header; `None` if the file is empty. The inner error is a bad row: the first row
    /// cannot be a header.
    fn read_header(&mut self) -> io::Result<Option<Result<Vec<String>, DecodedRow>>> {
        let delimiter = match self.delimiter {
            Some(delimiter) => delimiter,
            None => Delimiter::of_header(self.source.first_line(HEADER_BYTES)?),
        };
        self.reader = ReaderBuilder::new().delimiter(delimiter.byte()).build();
        // The library removes a byte order mark if its first input holds all of the mark, so the
        // result would depend on the size of the buffer. The source has removed the mark already,
        // so the library gets a blank line first.
        let _ = self.reader.read_record(b"\n", &mut [0], &mut [0]);
        let Some((line, end)) = self.read_row()? else { return Ok(None) };
        let header = match end {
            RowEnd::Whole => self.cells.header(),
            RowEnd::TooLarge => {
                let what = "ends beyond the 64 MiB that a row may have";
                Err(RowDecodeError::Header { column: self.cells.count, what })
            }
            RowEnd::Unclosed => Err(RowDecodeError::UnclosedQuote),
        };
        if let Ok(names) = &header {
            self.cells.ends = vec![0; names.len()];
        }
        Ok(Some(header.map_err(|why| DecodedRow::bad(line, why))))
    }

    /// Reads a row into `cells`, and returns the line where it begins. `None` at the end of the
    /// file.
    fn read_row(&mut self) -> io::Result<Option<(u64, RowEnd)>> {
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
            // A newline at the end of the file ends the row, unless a quote is open.
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
                    return Ok(Some((began, RowEnd::Unclosed)));
                }
                ReadRecordResult::OutputFull if !too_large => {
                    cells.bytes.resize(cells.bytes.len() * 2, 0)
                }
                ReadRecordResult::InputEmpty
                | ReadRecordResult::OutputFull
                | ReadRecordResult::OutputEndsFull => {}
                ReadRecordResult::Record if too_large => {
                    return Ok(Some((began, RowEnd::TooLarge)));
                }
                ReadRecordResult::Record => return Ok(Some((began, RowEnd::Whole))),
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

impl<R: BufRead> RowDecoder for CsvDecoder<R> {
    fn next(&mut self) -> io::Result<Option<DecodedRow>> {
        if self.has_ended {
            return Ok(None);
        }
        if self.header.is_none() {
            match self.read_header()? {
                Some(Ok(header)) => self.header = Some(header),
                none_or_bad => {
                    self.has_ended = true;
                    return Ok(none_or_bad.and_then(Result::err));
                }
            }
        }
        let Some((line, end)) = self.read_row()? else {
            self.has_ended = true;
            return Ok(None);
        };
        let header = self.header.as_deref().unwrap_or_default();
        let row = match end {
            RowEnd::Whole => self.cells.row(header),
            RowEnd::TooLarge => Err(RowDecodeError::TooLarge),
            RowEnd::Unclosed => {
                self.has_ended = true;
                Err(RowDecodeError::UnclosedQuote)
            }
        };
        Ok(Some(DecodedRow { line, row }))
    }

    fn consumed(&self) -> u64 {
        self.source.consumed()
    }
}

impl Cells {
    /// Returns each cell whose end is known.
    fn texts(&self) -> impl Iterator<Item = Result<&str, RowDecodeError>> {
        let mut from = 0;
        self.ends.iter().take(self.count).map(move |&end| {
            let cell = self.bytes.get(from..end).unwrap_or_default();
            from = end;
            std::str::from_utf8(cell).map_err(|_| RowDecodeError::NotUtf8)
        })
    }

    fn header(&self) -> Result<Vec<String>, RowDecodeError> {
        let bad = |column, what| Err(RowDecodeError::Header { column, what });
        if self.count > declaration::MAX_FIELDS {
            return bad(self.count, "is one too many: there may be 10000");
        }
        let mut names: Vec<String> = Vec::with_capacity(self.count);
        for (text, column) in self.texts().zip(1..) {
            match text {
                Err(_) => {
                    return bad(
                        column,
                        "is not UTF-8; convert the file to UTF-8 and import it again",
                    );
                }
                // Some programs write an index without a name first, or a comma at the end.
                Ok("") => names.push(format!("column_{column}")),
                Ok(name) if !identifiers::is_field_name(name) => {
                    return bad(column, "has a name of more than 512 bytes or with U+0000");
                }
                Ok(name) => names.push(name.to_owned()),
            }
        }
        let mut seen = HashSet::new();
        match names.iter().zip(1..).find(|(name, _)| !seen.insert(*name)) {
            Some((_, column)) => bad(column, "has the name of another one"),
            None => Ok(names),
        }
    }

    fn row(&self, header: &[String]) -> Result<ParsedRow, RowDecodeError> {
        // Many programs leave out empty cells at the end. Too many cells come from a comma that is
        // not quoted.
        if self.count > header.len() {
            return Err(RowDecodeError::WrongCells { header: header.len(), row: self.count });
        }
        let mut fields = RecordFields::new();
        for (name, text) in header.iter().zip(self.texts()) {
            let text = text?;
            if !text.is_empty() {
                fields.push((name.clone(), cell(text)));
            }
        }
        Ok(ParsedRow { fields, replaced: 0 })
    }
}

/// Returns the value of a cell that is not empty.
fn cell(text: &str) -> FieldValue {
    match text {
        "true" => FieldValue::Bool(true),
        "false" => FieldValue::Bool(false),
        _ if is_number(text) => FieldValue::Number(text.into()),
        _ => FieldValue::Text(text.to_owned()),
    }
}

/// Returns whether a cell is an optional `-`, then `0` or digits that do not begin with `0`, then
/// optionally a point and digits.
fn is_number(text: &str) -> bool {
    let number = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // The point is not a digit.
    number.len() <= MAX_DIGITS + usize::from(number.contains('.'))
        && digits(whole)
        && digits(fraction)
        && (whole == "0" || !whole.starts_with('0'))
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

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;
    use crate::decoder_properties::{decode_all, render_rows};

    fn decoded(text: impl AsRef<[u8]>, size: usize) -> Vec<DecodedRow> {
        decode_all(CsvDecoder::new(BufReader::with_capacity(size, text.as_ref()), None))
    }

    #[test]
    fn cells_are_text_unless_they_are_numbers_or_booleans() {
        for number in ["0", "-0", "7", "-12.50", "0.5", "123456789012345", "12345678901234.5"] {
            assert_eq!(cell(number), FieldValue::Number(number.into()), "{number}");
        }
        let texts =
            "007|+1|1.|.5|1e5|1,5|--1|-|1234567890123456|0x1f| 1|True|NaN|1.2.3|00|-01|٣|1_0";
        for text in texts.split('|') {
            assert_eq!(cell(text), FieldValue::Text(text.into()), "{text}");
        }
        assert_eq!(
            [cell("true"), cell("false")],
            [FieldValue::Bool(true), FieldValue::Bool(false)]
        );
    }

    #[test]
    fn a_bad_row_is_reported_and_the_others_are_read() {
        let text = b"\xef\xbb\xbf\nid;name;note\r\n1;Ada;\"one\ntwo \"\"2\"\"\"\r\n\r\n\
            2;Bo\n3;Cy;a;b;c\n4;\xff;x\r5;\"a\";\xc3\r\
            6;\"long, longer, longest\";\n;;\n007;\"Di\"x;;\n\
            8;x;\"end";
        for size in [1, 3, 4096] {
            let rows = decode_all(CsvDecoder::with_max_row_bytes(
                BufReader::with_capacity(size, text.as_slice()),
                Some(Delimiter::Semicolon),
                26,
            ));
            insta::allow_duplicates! { insta::assert_snapshot!(render_rows(&rows)) };
        }
    }

    #[test]
    fn the_header_decides_the_delimiter_or_is_refused() {
        let mut lines = String::new();
        let columns =
            |count: usize| (0..count).map(|at| format!("c{at}")).collect::<Vec<_>>().join(",");
        for text in [
            "", "\n\r\n", "a", "a\n1", "a,b\n1,2", "a;b\n1,5;2", "a\tb\n1,5\t2",
            "\"a;b;c\",d\nx,y", "a,,b\n", "a,b,a\n", "a,\"b", "a\0,b", "a,b\r1,2\r3,4", "a,b\n\"",
            "\"a\nb\",c\n1,2",
        ] {
            lines += &format!("{text:?}\n{}", render_rows(&decoded(text, 2)));
        }
        lines += &render_rows(&decoded(b"a,\xff\n1,2", 2));
        lines += &render_rows(&decoded(columns(10_001), 4096));
        lines += &render_rows(&decoded(columns(20_001), 4096));
        insta::assert_snapshot!(lines);
        let large = decode_all(CsvDecoder::with_max_row_bytes(
            "a,b,long,longer\n1,2,3,4".as_bytes(),
            None,
            8,
        ));
        assert!(matches!(
            large.as_slice(),
            [DecodedRow { row: Err(RowDecodeError::Header { column: 4, .. }), .. }]
        ));
        let wide = columns(10_000);
        assert_eq!(decoded(format!("{wide}\n{wide}\n{wide},x,{wide}"), 4096).len(), 2);
    }

    #[test]
    fn a_quote_that_is_never_closed_does_not_keep_the_file_in_memory() {
        let text = format!("a,b\n1,\"{}", "x,y\n".repeat(100_000));
        let mut csv = CsvDecoder::with_max_row_bytes(text.as_bytes(), None, 1000);
        let decoded = csv.next().unwrap().unwrap();
        assert_eq!((decoded.line, decoded.row), (2, Err(RowDecodeError::UnclosedQuote)));
        assert!(csv.cells.bytes.capacity() <= KEPT_BYTES);
        assert_eq!(csv.consumed(), text.len() as u64);
    }

    fn written(cell: &str, delimiter: char, quoted: bool) -> String {
        if quoted || cell.is_empty() || cell.contains([delimiter, '"', '\r', '\n']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.to_owned()
        }
    }

    proptest! {
        #[test]
        fn written_rows_are_read_back(
            names in prop::collection::btree_set("[a-z\",;\n\té]{1,4}", 1..5),
            rows in prop::collection::vec(
                prop::collection::vec(
                    prop_oneof![
                        "[a-c\"',;\t\r\n 0-9.é-]{0,6}",
                        "-?[0-9]{1,20}",
                        "true|false",
                    ],
                    5,
                ),
                0..6,
            ),
            delimiter in prop::sample::select(Delimiter::ALL.to_vec()),
            size in 1..40_usize,
            quoted in any::<bool>(),
            crlf in any::<bool>(),
            mark in any::<bool>(),
        ) {
            let between = char::from(delimiter.byte());
            let line = |cells: &mut dyn Iterator<Item = &String>| {
                let cells: Vec<_> = cells.map(|cell| written(cell, between, quoted)).collect();
                cells.join(&between.to_string())
            };
            let mut lines = vec![line(&mut names.iter())];
            lines.extend(rows.iter().map(|row| line(&mut row.iter().take(names.len()))));
            let lines = lines.join(if crlf { "\r\n" } else { "\n" });
            let text = (if mark { "\u{feff}" } else { "" }).to_owned() + &lines;
            let reader = BufReader::with_capacity(size, text.as_bytes());
            let decoded = decode_all(CsvDecoder::new(reader, Some(delimiter)));
            let expected: Vec<RecordFields> = rows.iter().map(|row| {
                let cells = names.iter().zip(row).filter(|(_, text)| !text.is_empty());
                cells.map(|(name, text)| (name.clone(), cell(text))).collect()
            }).collect();
            let found: Vec<RecordFields> =
                decoded.into_iter().map(|decoded| decoded.row.unwrap().fields).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn the_size_of_the_buffer_does_not_change_the_rows(
            pieces in prop::collection::vec(prop::sample::select(vec![
                &b"a"[..], b"b", b"\"", b",", b";", b"\r", b"\n", b"\r\n", b"\xff", b"\xef", b"1",
                b"\xef\xbb\xbf",
            ]), 0..40),
            size in 1..20_usize, max_bytes in 1..40_usize,
        ) {
            let bytes = pieces.concat();
            let decode = |reader: BufReader<&[u8]>| {
                decode_all(CsvDecoder::with_max_row_bytes(reader, None, max_bytes))
            };
            let whole = decode(BufReader::new(bytes.as_slice()));
            prop_assert_eq!(whole, decode(BufReader::with_capacity(size, bytes.as_slice())));
        }

        #[test]
        fn every_number_is_a_json_number(text in "-?[0-9.e]{1,18}") {
            if is_number(&text) {
                prop_assert!(serde_json::from_str::<serde_json::Number>(&text).is_ok());
            }
        }
    }
}
