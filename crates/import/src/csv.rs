//! CSV with a header row: RFC 4180, with `,`, `;` or a tab between the cells.
//!
//! CSV has no types, so a cell is text unless it can be nothing else: `true` and `false`, and a
//! number as JSON writes it without an exponent and with at most 15 digits, which any program reads
//! exactly. `007` and `+49 30` stay text. Each cell is judged alone, because a stream has no second
//! look; what a column is, is what is inferred of all its rows. An empty cell is a field that the
//! row does not have.
//!
//! A quote that is never closed takes the rest of a file for one cell: that is noticed at the end
//! of the file, and nothing beyond the largest row is held until then.

use std::collections::HashSet;
use std::io::{self, BufRead};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use stile_domain::records::row::ParsedRow;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_domain::records::{declaration, identifiers};

use stile_records::rows::line_source::LineSource;
use stile_records::rows::{DecodedRow, KEPT_BYTES, MAX_ROW_BYTES, RowDecodeError, RowDecoder};

/// What stands between two cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// `,`
    Comma,
    /// `;`, as spreadsheets write where the comma is in numbers.
    Semicolon,
    /// U+0009.
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

    /// The one that a header has most of outside its quotes; a comma where there is none.
    fn of_header(line: &[u8]) -> Self {
        let mut counts = [0_usize; 3];
        let mut quoted = false;
        for &byte in line {
            quoted ^= byte == b'"';
            for (count, delimiter) in counts.iter_mut().zip(Self::ALL) {
                *count += usize::from(!quoted && byte == delimiter.byte());
            }
        }
        // Of equals, `max_by_key` takes the last.
        let most = counts.into_iter().zip(Self::ALL).rev().max_by_key(|(count, _)| *count);
        most.map_or(Self::Comma, |(_, delimiter)| delimiter)
    }
}

/// How much of a header is looked at for its delimiter.
const HEADER_BYTES: usize = 64 * 1024;
/// A number of more digits stays text: a double could not tell it from its neighbours.
const MAX_DIGITS: usize = 15;

/// The rows of a CSV file.
pub struct Csv<R> {
    source: LineSource<R>,
    delimiter: Option<Delimiter>,
    /// Nothing until the header was read.
    header: Option<Vec<String>>,
    over: bool,
    reader: Reader,
    cells: Cells,
    lines: Lines,
    most: usize,
}

/// The cells of one row, one after the other, and where each ends.
struct Cells {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// How many there are, of which `ends` has as many as it has room for.
    count: usize,
}

/// How a row was read.
enum Outcome {
    Whole,
    TooLarge,
    Unclosed,
}

impl<R: BufRead> Csv<R> {
    /// Begins at the beginning of a file. Without a delimiter, the header tells it.
    pub fn new(reader: R, delimiter: Option<Delimiter>) -> Self {
        Self::with_most(reader, delimiter, MAX_ROW_BYTES)
    }

    pub(super) fn with_most(reader: R, delimiter: Option<Delimiter>, most: usize) -> Self {
        Self {
            source: LineSource::new(reader),
            delimiter,
            header: None,
            over: false,
            reader: Reader::new(),
            cells: Cells { bytes: vec![0; 4096], ends: vec![0; declaration::MAX_FIELDS], count: 0 },
            lines: Lines { line: 1, after_return: false },
            most,
        }
    }

    /// Reads the header. Nothing where the file has none, or the reason why it cannot be one.
    fn begin(&mut self) -> io::Result<Option<Result<Vec<String>, DecodedRow>>> {
        let delimiter = match self.delimiter {
            Some(delimiter) => delimiter,
            None => Delimiter::of_header(self.source.first_line(HEADER_BYTES)?),
        };
        self.reader = ReaderBuilder::new().delimiter(delimiter.byte()).build();
        // The library takes a mark from before the first bytes that it is given, if it is given all
        // of the mark at once. The source has done that, whatever it was given; so the first bytes
        // are those of a blank line.
        let _ = self.reader.read_record(b"\n", &mut [0], &mut [0]);
        let Some((line, outcome)) = self.record()? else { return Ok(None) };
        let header = match outcome {
            Outcome::Whole => self.cells.header(),
            Outcome::TooLarge => {
                let what = "ends beyond the 64 MiB that a row may have";
                Err(RowDecodeError::Header { column: self.cells.count, what })
            }
            Outcome::Unclosed => Err(RowDecodeError::UnclosedQuote),
        };
        if let Ok(names) = &header {
            self.cells.ends = vec![0; names.len()];
        }
        Ok(Some(header.map_err(|why| DecodedRow::bad(line, why))))
    }

    /// Reads a row into `cells`. Says at which line it begins; nothing at the end of the file.
    fn record(&mut self) -> io::Result<Option<(u64, Outcome)>> {
        if !self.blank_lines()? {
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
            // At the end of the file a newline is added; that does not end the row only within
            // quotes.
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
            let too_large = taken > self.most;
            if too_large {
                written = 0;
            }
            match result {
                ReadRecordResult::InputEmpty if at_end => {
                    return Ok(Some((began, Outcome::Unclosed)));
                }
                ReadRecordResult::OutputFull if !too_large => {
                    cells.bytes.resize(cells.bytes.len() * 2, 0)
                }
                ReadRecordResult::InputEmpty
                | ReadRecordResult::OutputFull
                | ReadRecordResult::OutputEndsFull => {}
                ReadRecordResult::Record if too_large => {
                    return Ok(Some((began, Outcome::TooLarge)));
                }
                ReadRecordResult::Record => return Ok(Some((began, Outcome::Whole))),
                ReadRecordResult::End => return Ok(None),
            }
        }
    }

    /// Goes past blank lines. Whether anything follows them.
    fn blank_lines(&mut self) -> io::Result<bool> {
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

impl<R: BufRead> RowDecoder for Csv<R> {
    fn next(&mut self) -> io::Result<Option<DecodedRow>> {
        if self.over {
            return Ok(None);
        }
        if self.header.is_none() {
            match self.begin()? {
                Some(Ok(header)) => self.header = Some(header),
                none_or_bad => {
                    self.over = true;
                    return Ok(none_or_bad.and_then(Result::err));
                }
            }
        }
        let Some((line, outcome)) = self.record()? else {
            self.over = true;
            return Ok(None);
        };
        let header = self.header.as_deref().unwrap_or_default();
        let row = match outcome {
            Outcome::Whole => self.cells.row(header),
            Outcome::TooLarge => Err(RowDecodeError::TooLarge),
            Outcome::Unclosed => {
                self.over = true;
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
    /// Each cell that there is room for.
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
                // The index that some programs put first, or a comma at the end.
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
        // Many programs leave out cells at the end that are empty; one too many is a comma that was
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

/// What a cell holds.
fn cell(text: &str) -> FieldValue {
    match text {
        "true" => FieldValue::Bool(true),
        "false" => FieldValue::Bool(false),
        _ if is_number(text) => FieldValue::Number(text.into()),
        _ => FieldValue::Text(text.to_owned()),
    }
}

/// `-`? then `0` or digits that do not begin with it, then a point and digits, as they please.
fn is_number(text: &str) -> bool {
    let number = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // One more for the point.
    number.len() <= MAX_DIGITS + usize::from(number.contains('.'))
        && digits(whole)
        && digits(fraction)
        && (whole == "0" || !whole.starts_with('0'))
}

/// Counts lines, which end in LF, CRLF or, as they did once, in CR.
struct Lines {
    /// The line of the next byte, 1-based.
    line: u64,
    after_return: bool,
}

impl Lines {
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

    use super::super::laws::{all, told};
    use super::*;

    fn decoded(text: impl AsRef<[u8]>, size: usize) -> Vec<DecodedRow> {
        all(Csv::new(BufReader::with_capacity(size, text.as_ref()), None))
    }

    #[test]
    fn cells_are_text_unless_they_can_be_nothing_else() {
        for number in ["0", "-0", "7", "-12.50", "0.5", "123456789012345", "12345678901234.5"] {
            assert_eq!(cell(number), FieldValue::Number(number.into()), "{number}");
        }
        let texts = [
            "007",
            "+1",
            "1.",
            ".5",
            "1e5",
            "1,5",
            "--1",
            "-",
            "1234567890123456",
            "0x1f",
            " 1",
            "True",
            "NaN",
            "1.2.3",
            "00",
            "-01",
            "٣",
            "1_0",
        ];
        for text in texts {
            assert_eq!(cell(text), FieldValue::Text(text.into()), "{text}");
        }
        assert_eq!(
            [cell("true"), cell("false")],
            [FieldValue::Bool(true), FieldValue::Bool(false)]
        );
    }

    #[test]
    fn rows_that_cannot_be_used_cost_themselves() {
        let text = b"\xef\xbb\xbf\nid;name;note\r\n1;Ada;\"one\ntwo \"\"2\"\"\"\r\n\r\n2;Bo\n3;Cy;a;b;c\n4;\xff;x\r5;\"a\";\xc3\r6;\"long, longer, longest\";\n;;\n007;\"Di\"x;;\n8;x;\"end";
        for size in [1, 3, 4096] {
            let rows = all(Csv::with_most(
                BufReader::with_capacity(size, text.as_slice()),
                Some(Delimiter::Semicolon),
                26,
            ));
            insta::allow_duplicates! { insta::assert_snapshot!(told(&rows)) };
        }
    }

    #[test]
    fn the_header_tells_the_delimiter_or_why_it_is_none() {
        let mut lines = String::new();
        let columns =
            |count: usize| (0..count).map(|at| format!("c{at}")).collect::<Vec<_>>().join(",");
        for text in [
            "",
            "\n\r\n",
            "a",
            "a\n1",
            "a,b\n1,2",
            "a;b\n1,5;2",
            "a\tb\n1,5\t2",
            "\"a;b;c\",d\nx,y",
            "a,,b\n",
            "a,b,a\n",
            "a,\"b",
            "a\0,b",
            "a,b\r1,2\r3,4",
            "a,b\n\"",
            "\"a\nb\",c\n1,2",
        ] {
            lines += &format!("{text:?}\n{}", told(&decoded(text, 2)));
        }
        lines += &told(&decoded(b"a,\xff\n1,2", 2));
        lines += &told(&decoded(columns(10_001), 4096));
        lines += &told(&decoded(columns(20_001), 4096));
        insta::assert_snapshot!(lines);
        let large = all(Csv::with_most("a,b,long,longer\n1,2,3,4".as_bytes(), None, 8));
        assert!(matches!(
            large.as_slice(),
            [DecodedRow { row: Err(RowDecodeError::Header { column: 4, .. }), .. }]
        ));
        let wide = columns(10_000);
        assert_eq!(decoded(format!("{wide}\n{wide}\n{wide},x,{wide}"), 4096).len(), 2);
    }

    #[test]
    fn a_quote_that_is_never_closed_does_not_hold_the_file() {
        let text = format!("a,b\n1,\"{}", "x,y\n".repeat(100_000));
        let mut csv = Csv::with_most(text.as_bytes(), None, 1000);
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
        fn csv_is_the_rows_that_were_written(
            names in prop::collection::btree_set("[a-z\",;\n\té]{1,4}", 1..5),
            rows in prop::collection::vec(prop::collection::vec(prop_oneof!["[a-c\"',;\t\r\n 0-9.é-]{0,6}", "-?[0-9]{1,20}", "true|false"], 5), 0..6),
            delimiter in prop::sample::select(Delimiter::ALL.to_vec()),
            size in 1..40_usize, quoted in any::<bool>(), crlf in any::<bool>(), mark in any::<bool>(),
        ) {
            let between = char::from(delimiter.byte());
            let line = |cells: &mut dyn Iterator<Item = &String>| {
                cells.map(|cell| written(cell, between, quoted)).collect::<Vec<_>>().join(&between.to_string())
            };
            let mut lines = vec![line(&mut names.iter())];
            lines.extend(rows.iter().map(|row| line(&mut row.iter().take(names.len()))));
            let text = (if mark { "\u{feff}" } else { "" }).to_owned() + &lines.join(if crlf { "\r\n" } else { "\n" });
            let decoded = all(Csv::new(BufReader::with_capacity(size, text.as_bytes()), Some(delimiter)));
            let expected: Vec<RecordFields> = rows.iter().map(|row| {
                let cells = names.iter().zip(row).filter(|(_, text)| !text.is_empty());
                cells.map(|(name, text)| (name.clone(), cell(text))).collect()
            }).collect();
            let found: Vec<RecordFields> = decoded.into_iter().map(|decoded| decoded.row.unwrap().fields).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn bytes_are_the_same_in_pieces_of_any_size(
            pieces in prop::collection::vec(prop::sample::select(vec![&b"a"[..], b"b", b"\"", b",", b";", b"\r", b"\n", b"\r\n", b"\xff", b"\xef", b"1", b"\xef\xbb\xbf"]), 0..40),
            size in 1..20_usize, most in 1..40_usize,
        ) {
            let bytes = pieces.concat();
            let whole = all(Csv::with_most(bytes.as_slice(), None, most));
            prop_assert_eq!(whole, all(Csv::with_most(BufReader::with_capacity(size, bytes.as_slice()), None, most)));
        }

        #[test]
        fn a_number_is_one_in_json(text in "-?[0-9.e]{1,18}") {
            if is_number(&text) {
                prop_assert!(serde_json::from_str::<serde_json::Number>(&text).is_ok());
            }
        }
    }
}
