//! Finds the form of a CSV file: where its table begins and ends, what separates its cells, and how
//! its numbers and dates are spelled.
//!
//! The first megabyte shows the delimiter and the header; the whole file shows the encoding, the
//! spelling of each column and the lines below the table. What the owner says counts before what is
//! found. Each decision is a line for a person to read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, BufRead, Read as _};

use stile_domain::records::declaration::{Declaration, JsonType};
use stile_domain::records::table::column::{
    AmountReading, ColumnEvidence, ColumnReading, OpenDates, Precedents, TableReading,
    TableSpelling,
};
use stile_domain::records::table::written_date::{self, DateOrder};
use stile_domain::records::table::written_number::{self, DecimalMark};
use stile_domain::unseen::shown_ends;
use stile_records::rows::MAX_ROW_BYTES;
use stile_records::rows::line_source::LineSource;

use sides::{SideCells, SidesOfTable};

use super::options::{CsvOptions, HeaderRow};
use super::records::{RecordEnd, RecordReader};
use crate::charset::file_encoding::{Encoding, Transcoder};
use crate::source::InputPath;

mod sides;

/// How much decoded text is looked at for the delimiter and the header.
const SAMPLE_BYTES: u64 = 1 << 20;
/// How many records of it are looked at.
const SAMPLE_RECORDS: usize = 1000;
/// The delimiters that are tried, the usual one first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// How many records below a table are left out. More are rows.
const MOST_FOOTERS: usize = 10;

/// How a CSV file is laid out and spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvForm {
    /// The encoding of the file.
    pub encoding: Encoding,
    /// The character between two cells.
    pub delimiter: u8,
    /// The line where the table begins, with its header if it has one, 1-based.
    pub first_line: u64,
    /// The line where the last row of the table begins; absent if the table ends with the file.
    pub last_line: Option<u64>,
    /// Whether the table begins with the names of its columns.
    pub header: HeaderRow,
    /// How each column is read.
    pub columns: Vec<ColumnReading>,
    /// How the numbers and dates of the table are spelled, where it shows.
    pub spelling: TableSpelling,
    /// The currency of each column whose amounts have one, by its name.
    pub currencies: BTreeMap<String, &'static str>,
    /// The column whose words say which amounts are negative.
    pub sides: Option<String>,
    /// How many records repeat the header. They are left out.
    pub repeated_headers: u64,
    /// The columns of numbers, by name. A few of their cells may be something
    /// else.
    pub numbers: Vec<String>,
    /// The columns of dates, likewise.
    pub dates: Vec<String>,
    /// The name of the first column, if the table has a header.
    pub first_column: Option<String>,
    /// What was decided and why, one line each, for a person to read.
    pub reasons: Vec<String>,
}

/// What the whole of a table shows.
struct ReadTable {
    names: Vec<String>,
    /// What is to be said of columns, by their number from 0.
    remarks: Vec<(usize, String)>,
    /// How many lines below the table are left out.
    below: usize,
}

/// Why the form of a file is not found.
#[derive(Debug, thiserror::Error)]
pub enum CsvFormError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// The dates can be read in two ways.
    #[error("{}", .0.described())]
    OpenDates(OpenDates),
}

impl From<CsvFormError> for io::Error {
    fn from(error: CsvFormError) -> Self {
        match error {
            CsvFormError::Read(error) => error,
            open @ CsvFormError::OpenDates(_) => {
                io::Error::new(io::ErrorKind::InvalidData, open.to_string())
            }
        }
    }
}

/// One record of the sample.
struct SampleRecord {
    line: u64,
    cells: Vec<String>,
}

impl SampleRecord {
    fn filled(&self) -> usize {
        self.cells.iter().filter(|cell| !cell.trim().is_empty()).count()
    }
}

impl CsvForm {
    /// Returns the form of a file in UTF-8 whose table begins with a header on the first line and
    /// ends with the file, and whose cells are read as they are written.
    pub fn as_written(delimiter: u8) -> Self {
        Self {
            encoding: Encoding::Utf8,
            delimiter,
            first_line: 1,
            last_line: None,
            header: HeaderRow::Present,
            columns: Vec::new(),
            spelling: TableSpelling::default(),
            currencies: BTreeMap::new(),
            sides: None,
            repeated_headers: 0,
            numbers: Vec::new(),
            dates: Vec::new(),
            first_column: None,
            reasons: Vec::new(),
        }
    }

    /// Finds the form of a file. `said` is what the owner says now. `remembered` is what was said
    /// or found before, and counts where nothing else decides. `stream` is the declaration of the
    /// stream, if there is one: a column that it declares as text stays text.
    ///
    /// # Errors
    /// [`CsvFormError`].
    pub fn find(
        path: &InputPath,
        said: &CsvOptions,
        remembered: &CsvOptions,
        stream: Option<&Declaration>,
    ) -> Result<Self, CsvFormError> {
        let open = || path.open().map(|file| file.reader);
        Self::find_in(&open, said, remembered, stream)
    }

    /// [`Self::find`], of anything that can be read repeatedly.
    ///
    /// # Errors
    /// [`CsvFormError`].
    pub fn find_in<R: BufRead>(
        open: &dyn Fn() -> io::Result<R>,
        said: &CsvOptions,
        remembered: &CsvOptions,
        stream: Option<&Declaration>,
    ) -> Result<Self, CsvFormError> {
        let options = said
            .clone()
            .or(CsvOptions { spelling: TableSpelling::default(), ..remembered.clone() });
        let marked = Encoding::marked(open()?.fill_buf()?);
        let encoding = match (&said.encoding, marked, &options.encoding) {
            (Some(said), ..) => said.clone(),
            // What is remembered counts where the file says nothing.
            (None, Some(marked), _) => marked,
            (None, None, Some(remembered)) => remembered.clone(),
            (None, None, None) => Encoding::find(open()?)?,
        };
        let text = || open().map(|reader| Transcoder::new(reader, encoding.clone()));
        let mut sample = Vec::new();
        text()?.take(SAMPLE_BYTES).read_to_end(&mut sample)?;
        let (first, named) = separator_line(&sample);
        let skipped = |lines: u64| lines.saturating_add(1);
        let remembered_delimiter = remembered
            .delimiter
            .filter(|&delimiter| usual_width(&sample_records(&sample, first, delimiter)) > 1);
        let delimiter = said.delimiter.or(named).or(remembered_delimiter);
        let delimiter = delimiter.unwrap_or_else(|| {
            let known = |delimiter: &u8| {
                known_header(&sample_records(&sample, first, *delimiter), stream).is_some()
            };
            let from = said.skipped_lines.map_or(first, skipped);
            DELIMITERS.into_iter().find(known).unwrap_or_else(|| delimiter_of(&sample, from))
        });
        let all = sample_records(&sample, first, delimiter);
        // The names that the stream declares are the header, wherever they stand.
        let known = known_header(&all, stream).filter(|_| said.skipped_lines.is_none());
        let known = known.filter(|_| said.header != Some(HeaderRow::Absent));
        let (records, table) = match (known, options.skipped_lines) {
            (Some(at), _) => (all, at),
            (None, Some(lines)) => (sample_records(&sample, skipped(lines), delimiter), 0),
            (None, None) => {
                let at = first_of_table(&all);
                (all, at)
            }
        };
        let begins = records.get(table);
        let header = match (known, options.header, begins) {
            (Some(_), ..) => HeaderRow::Present,
            (None, Some(header), _) => header,
            (None, None, Some(record)) if has_values(record) => HeaderRow::Absent,
            _ => HeaderRow::Present,
        };
        let first = match (known, options.skipped_lines) {
            (None, Some(lines)) => skipped(lines),
            _ => first,
        };
        let mut form = Self {
            encoding: encoding.clone(),
            first_line: begins.map_or(first, |record| record.line),
            header,
            first_column: begins.filter(|_| header == HeaderRow::Present).and_then(|record| {
                column_names(record.cells.iter().map(String::as_str)).into_iter().next()
            }),
            ..Self::as_written(delimiter)
        };
        let precedents = Precedents {
            said: options.spelling,
            remembered: remembered.spelling,
            has_semicolons: delimiter == b';',
            lacks_names: header == HeaderRow::Absent,
        };
        let table = form.read_columns(text()?, (precedents, remembered), stream)?;
        form.explain(table, stream);
        Ok(form)
    }

    /// Looks at every row, and decides how each column is read and where the table ends.
    fn read_columns(
        &mut self,
        reader: impl BufRead,
        (precedents, remembered): (Precedents, &CsvOptions),
        stream: Option<&Declaration>,
    ) -> Result<ReadTable, CsvFormError> {
        let source = LineSource::new(reader);
        let mut records = RecordReader::new(source, self.delimiter, MAX_ROW_BYTES);
        records.skip_lines_before(self.first_line)?;
        let mut columns: Vec<(String, ColumnEvidence)> = Vec::new();
        let mut sides: Vec<SideCells> = Vec::new();
        let mut footers = Footers::default();
        let (mut is_first, mut ended) = (true, 0);
        let mut header: Vec<String> = Vec::new();
        while let Some((line, end)) = records.next()? {
            match end {
                RecordEnd::Whole => {}
                RecordEnd::TooLarge if !is_first => continue,
                RecordEnd::TooLarge | RecordEnd::Unclosed => break,
            }
            let cells: Vec<&str> = records.cells.texts().map(Result::unwrap_or_default).collect();
            if is_first {
                let count = records.cells.count;
                let names = match self.header {
                    HeaderRow::Present => column_names(cells.iter().copied()),
                    HeaderRow::Absent => column_names((0..count).map(|_| "")),
                };
                columns = names.into_iter().map(|name| (name, ColumnEvidence::default())).collect();
                sides.resize_with(columns.len(), SideCells::default);
                if std::mem::take(&mut is_first) && self.header == HeaderRow::Present {
                    ended = records.line();
                    header = cells.iter().map(|&cell| cell.to_owned()).collect();
                    continue;
                }
            }
            if header.len() > 1 && cells == header {
                self.repeated_headers += 1;
                ended = records.line();
                continue;
            }
            let lacks_date = lacks_date(&columns, &cells);
            footers.observe(line, line > ended, &cells, columns.len(), lacks_date);
            // A row with too many cells is refused, and shows nothing.
            if footers.pending.is_empty() && cells.len() <= columns.len() + 1 {
                observe(&mut columns, &cells);
                sides.iter_mut().zip(&cells).for_each(|(side, cell)| side.observe(cell));
            }
            ended = records.line();
        }
        self.last_line = footers.last_row();
        for (name, evidence) in &mut columns {
            if let Some(currency) = remembered.currencies.get(name) {
                evidence.know_currency(currency);
            }
            let Some(field) = stream.and_then(|stream| stream.field(name)) else { continue };
            let is_text = field.types.contains(JsonType::String);
            let is_number = [JsonType::Number, JsonType::Integer]
                .iter()
                .any(|&kind| field.types.contains(kind));
            if is_number && !is_text {
                evidence.declare_numbers();
            }
            if field.format.is_some() {
                evidence.declare_dates();
            }
        }
        let table = SidesOfTable::find(&columns, &sides, remembered.sides.as_deref());
        let TableReading { columns: readings, spelling, mut remarks } =
            table.decide(&columns, precedents).map_err(CsvFormError::OpenDates)?;
        (self.columns, self.spelling) = (readings, spelling);
        let side = self.columns.iter().find_map(|reading| match reading {
            ColumnReading::Amount(AmountReading { side, .. }) => *side,
            _ => None,
        });
        self.sides = side.and_then(|side| columns.get(side)).map(|(name, _)| name.clone());
        remarks.extend(table.remark(&columns, side));
        for (at, (own, cells)) in columns.iter().zip(&sides).enumerate() {
            if !remarks.iter().any(|(column, _)| *column == at) {
                remarks.extend(cells.unread_amounts(own).map(|remark| (at, remark)));
            }
        }
        for (at, (name, evidence)) in columns.iter().enumerate() {
            if let Some(ColumnReading::Amount(AmountReading { currency: Some(currency), .. })) =
                self.columns.get(at)
            {
                self.currencies.insert(name.clone(), currency);
            }
            match self.columns.get(at) {
                Some(ColumnReading::CompactDate) => self.dates.push(name.clone()),
                _ if evidence.is_number() => self.numbers.push(name.clone()),
                _ if evidence.is_date() => self.dates.push(name.clone()),
                _ => {}
            }
        }
        let names = columns.into_iter().map(|(name, _)| name).collect();
        Ok(ReadTable { names, remarks, below: footers.pending.len() })
    }

    /// Lets columns stay text that the stream declares as text, and writes the reasons.
    fn explain(&mut self, table: ReadTable, stream: Option<&Declaration>) {
        let ReadTable { names, remarks, below } = table;
        let mut reasons = Vec::new();
        if self.encoding != Encoding::Utf8 {
            reasons.push(format!("the encoding is {}", self.encoding.name()));
        }
        if self.delimiter != b',' {
            reasons.push(format!("{} separates the cells", delimiter_name(self.delimiter)));
        }
        match self.first_line.saturating_sub(1) {
            0 => {}
            1 => reasons.push("1 line above the table is left out".to_owned()),
            lines => reasons.push(format!("{lines} lines above the table are left out")),
        }
        if let Some(line) = self.last_line {
            let lines = match below {
                1 => format!("1 line below the table, after line {line}, is"),
                below => format!("{below} lines below the table, after line {line}, are"),
            };
            reasons.push(format!("{lines} left out"));
        }
        match self.repeated_headers {
            0 => {}
            1 => reasons.push("1 line repeats the header and is left out".to_owned()),
            lines => reasons.push(format!("{lines} lines repeat the header and are left out")),
        }
        if self.header == HeaderRow::Absent {
            reasons.push("the table has no header, so its columns are numbered".to_owned());
        }
        for (at, (name, reading)) in names.iter().zip(&mut self.columns).enumerate() {
            let remarks = remarks.iter().filter(|(column, _)| *column == at);
            let remarks: Vec<String> =
                remarks.map(|(_, remark)| format!("`{}` {remark}", shown_ends(name, 64))).collect();
            let declared = stream.and_then(|stream| stream.field(name));
            let fits = declared.is_none_or(|field| match reading {
                ColumnReading::AsWritten => true,
                ColumnReading::Number(_) | ColumnReading::Amount(_) => {
                    [JsonType::Number, JsonType::Integer]
                        .iter()
                        .any(|&kind| field.types.contains(kind))
                }
                ColumnReading::Date(_) | ColumnReading::CompactDate => field.format.is_some(),
            });
            let name = shown_ends(name, 64);
            let what = match reading {
                ColumnReading::AsWritten => {
                    reasons.extend(remarks);
                    continue;
                }
                ColumnReading::Number(mark) => numbers_with(*mark).to_owned(),
                ColumnReading::Amount(AmountReading { mark, currency, .. }) => {
                    let currency = currency.map(|own| format!(", in {own}")).unwrap_or_default();
                    format!("{}{currency}", numbers_with(*mark))
                }
                ColumnReading::Date(_) if self.spelling.dates.is_none() => "dates".to_owned(),
                ColumnReading::Date(DateOrder::DayFirst) => "dates with the day first".to_owned(),
                ColumnReading::Date(DateOrder::MonthFirst) => {
                    "dates with the month first".to_owned()
                }
                ColumnReading::Date(DateOrder::YearFirst) => "dates with the year first".to_owned(),
                ColumnReading::CompactDate => "dates of eight digits".to_owned(),
            };
            if fits {
                reasons.push(format!("`{name}` has {what}"));
                reasons.extend(remarks);
            } else {
                *reading = ColumnReading::AsWritten;
                reasons.push(format!(
                    "`{name}` has {what}, and stays as it is written: the stream declares it as text"
                ));
            }
        }
        self.reasons = reasons;
    }
}

fn numbers_with(mark: DecimalMark) -> &'static str {
    match mark {
        DecimalMark::Point => "numbers with a decimal point",
        DecimalMark::Comma => "numbers with a decimal comma",
    }
}

/// Returns a delimiter as a sentence names it.
fn delimiter_name(delimiter: u8) -> String {
    match delimiter {
        b'\t' => "a tab".to_owned(),
        other => format!("`{}`", char::from(other)),
    }
}

/// Gives each column a name of its own: a column without a name its number, and a second column of
/// the same name the name with a number behind it. Space around a name is left out.
pub(super) fn column_names<'c>(cells: impl Iterator<Item = &'c str>) -> Vec<String> {
    let cells: Vec<&str> = cells.map(str::trim).collect();
    let mut taken: HashSet<String> = cells.iter().map(|&name| name.to_owned()).collect();
    let mut seen = HashSet::new();
    let mut next: HashMap<&str, u32> = HashMap::new();
    let mut names = Vec::with_capacity(cells.len());
    for (&cell, column) in cells.iter().zip(1..) {
        let name = match cell {
            "" => format!("column_{column}"),
            cell if seen.insert(cell) => cell.to_owned(),
            cell => loop {
                let number = next.entry(cell).or_insert(1);
                *number += 1;
                let name = format!("{cell}_{number}");
                if taken.insert(name.clone()) {
                    break name;
                }
            },
        };
        names.push(name);
    }
    names
}

fn observe(columns: &mut [(String, ColumnEvidence)], cells: &[&str]) {
    for ((_, evidence), cell) in columns.iter_mut().zip(cells) {
        evidence.observe(cell);
    }
}

/// Words of lines that banks put below a table, in lower case.
const TOTALS: [&str; 14] = [
    "total", "sum", "summe", "saldo", "kontostand", "endsaldo", "schlusssaldo", "balance",
    "gesamt", "gesamtsumme", "totale", "solde", "suma", "razem",
];

/// Returns what a record lacks of the date that each row so far has in one column.
fn lacks_date(columns: &[(String, ColumnEvidence)], cells: &[&str]) -> Lack {
    let dated = columns.iter().position(|(_, evidence)| evidence.is_always_a_date());
    let Some(cell) = dated.and_then(|column| cells.get(column)) else { return Lack::Nothing };
    let is_total = |cell: &&str| {
        let cell = cell.trim().trim_end_matches(':').to_lowercase();
        cell.split_whitespace().next().is_some_and(|first| TOTALS.contains(&first))
    };
    match cell.trim() {
        "" if cells.iter().any(is_total) => Lack::DateOfTotal,
        "" => Lack::Date,
        text if ColumnEvidence::is_date_cell(text) => Lack::Nothing,
        _ => Lack::DateOfTotal,
    }
}

/// What a record lacks of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    Nothing,
    /// The date, where each row before has one.
    Date,
    /// The date, and it says that it is a total or has other words in place of the date.
    DateOfTotal,
}

/// Records that may be below the table, where nothing but such records follows. The first of them
/// has a total in place of a date, or follows an empty line without a date or without some cells,
/// or has a single cell; the others have no date or too few cells.
#[derive(Default)]
struct Footers {
    /// The line of the last row of the table.
    last: Option<u64>,
    /// The lines of the records since.
    pending: Vec<u64>,
    /// Whether there were so many of them that they are rows, and so are all that follow.
    are_rows: bool,
}

impl Footers {
    fn observe(
        &mut self,
        line: u64,
        is_after_blank: bool,
        cells: &[&str],
        columns: usize,
        lack: Lack,
    ) {
        let is_short = columns > 1 && cells.len() < columns;
        let may_be = !self.are_rows && (is_short || lack != Lack::Nothing);
        let begins = is_after_blank || is_short && cells.len() == 1 || lack == Lack::DateOfTotal;
        let continues = begins || !self.pending.is_empty();
        if may_be && continues && self.last.is_some() {
            self.pending.push(line);
            if self.pending.len() > MOST_FOOTERS {
                self.pending.clear();
                (self.last, self.are_rows) = (Some(line), true);
            }
        } else {
            self.pending.clear();
            self.last = Some(line);
        }
    }

    fn last_row(&self) -> Option<u64> {
        self.last.filter(|_| !self.pending.is_empty())
    }
}

/// Reads a line such as `sep=;`, with which some programs begin a file. Returns the line where the
/// rest begins, and the delimiter.
fn separator_line(sample: &[u8]) -> (u64, Option<u8>) {
    let sample = sample.strip_prefix("\u{feff}".as_bytes()).unwrap_or(sample);
    let line = sample.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    match line.trim_ascii_start() {
        [s, e, p, b'=', delimiter]
            if [*s, *e, *p].eq_ignore_ascii_case(b"sep") && delimiter.is_ascii() =>
        {
            (2, Some(*delimiter))
        }
        _ => (1, None),
    }
}

/// Chooses the delimiter that makes the most cells in records of equal length.
fn delimiter_of(sample: &[u8], first: u64) -> u8 {
    let score = |delimiter: u8| {
        let records = sample_records(sample, first, delimiter);
        let width = usual_width(&records);
        let of_width = records.iter().filter(|record| record.cells.len() == width).count();
        of_width * (width - 1)
    };
    // `max_by_key` returns the last of equals, so the order is reversed.
    DELIMITERS.into_iter().rev().max_by_key(|&delimiter| score(delimiter)).unwrap_or(b',')
}

/// Returns how many cells most records have; at least 1.
fn usual_width(records: &[SampleRecord]) -> usize {
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for record in records {
        *counts.entry(record.cells.len()).or_default() += 1;
    }
    let usual = counts.into_iter().max_by_key(|&(width, count)| (count, width));
    usual.map_or(1, |(width, _)| width.max(1))
}

/// Returns the records of a sample. A record that the sample cuts is left out, unless it is the
/// only one.
fn sample_records(sample: &[u8], first: u64, delimiter: u8) -> Vec<SampleRecord> {
    let mut reader = RecordReader::new(LineSource::new(sample), delimiter, MAX_ROW_BYTES);
    let mut records = Vec::new();
    if reader.skip_lines_before(first).is_err() {
        return records;
    }
    while records.len() < SAMPLE_RECORDS
        && let Ok(Some((line, RecordEnd::Whole))) = reader.next()
    {
        let cells = reader.cells.texts().map(|cell| cell.unwrap_or_default().to_owned());
        records.push(SampleRecord { line, cells: cells.collect() });
    }
    if sample.len() as u64 == SAMPLE_BYTES && records.len() > 1 && records.len() < SAMPLE_RECORDS {
        records.pop();
    }
    records
}

/// Returns the index of the first record of the table: the first one with at least as many cells as
/// most records have, three fifths of them filled. A header with one cell less directly above
/// belongs to the table, so that the rows are reported as what they are, but a line with values
/// above names is none. Of several records without values the one directly above the values is the
/// header.
fn first_of_table(records: &[SampleRecord]) -> usize {
    if let Some(header) = header_behind_narrower_lines(records) {
        return header;
    }
    let width = usual_width(records);
    let is_of_table =
        |record: &SampleRecord| record.cells.len() >= width && record.filled() * 5 >= width * 3;
    let first = records.iter().position(is_of_table).unwrap_or(0);
    if let Some(header) = header_above_values(records, first) {
        return header;
    }
    let above = first.checked_sub(1).and_then(|above| records.get(above));
    let has_own = records.get(first).is_some_and(|record| !has_values(record))
        && records.get(first + 1).is_some_and(has_values);
    let is_header = above.zip(records.get(first)).is_some_and(|(above, record)| {
        above.filled() >= 2
            && above.cells.len() + 1 >= record.cells.len()
            && above.line + 1 == record.line
            && !(has_own && has_values(above))
    });
    if is_header { first - 1 } else { first }
}

/// Returns the index of a header that is wider than all before it, with a date and a number below
/// it. A statement of few bookings has fewer of them than of lines about the account, which have
/// two or three cells.
fn header_behind_narrower_lines(records: &[SampleRecord]) -> Option<usize> {
    const LEAST: usize = 4;
    let mut widest = 0;
    let at = records.iter().position(|record| {
        let width = record.cells.len();
        let is_wider = width > widest;
        widest = widest.max(width);
        is_wider && width >= LEAST && record.filled() * 5 >= width * 3 && !has_values(record)
    })?;
    let width = records.get(at)?.cells.len();
    let mut below = records.get(at + 1..)?.iter().filter(|record| record.filled() > 0);
    let first = below.next()?;
    let cells = || first.cells.iter().map(|cell| cell.trim());
    let dates = cells().filter(|cell| ColumnEvidence::is_date_cell(cell)).count();
    let of_width = |record: &&SampleRecord| record.cells.len().abs_diff(width) <= 1;
    let rows = 1 + below.clone().filter(of_width).count();
    let is_table = of_width(&first)
        && (1..cells().filter(|cell| is_value(cell)).count()).contains(&dates)
        && rows * 2 > below.count();
    // Where most records are as wide, the other rules know more.
    (is_table && at > 0 && usual_width(records) < width).then_some(at)
}

/// Returns the index of the record above the first one that has a value in each column of values,
/// if that record has words in all of them and is not before `first`. Two columns of values are
/// needed to tell a header from a row with an odd cell.
fn header_above_values(records: &[SampleRecord], first: usize) -> Option<usize> {
    let below = records.get(first..)?;
    // What stands above the table is in the first lines.
    let body = below.get(below.len() / 3..)?;
    let width = usual_width(records);
    let cell = |record: &SampleRecord, column: usize| -> String {
        record.cells.get(column).map(|cell| cell.trim().to_owned()).unwrap_or_default()
    };
    let is_of_values = |&column: &usize| {
        let filled = body.iter().map(|record| cell(record, column)).filter(|it| !it.is_empty());
        let (all, values) = filled
            .fold((0, 0), |(all, values), cell| (all + 1, values + usize::from(is_value(&cell))));
        values > 0 && values * 2 >= all
    };
    let of_values: Vec<usize> = (0..width).filter(is_of_values).collect();
    if of_values.len() < 2 {
        return None;
    }
    let row = below.iter().position(|record| {
        let cells = of_values.iter().map(|&column| cell(record, column));
        let filled: Vec<String> = cells.filter(|cell| !cell.is_empty()).collect();
        filled.len() * 2 > of_values.len() && filled.iter().all(|cell| is_value(cell))
    })?;
    let above = below.get(row.checked_sub(1)?)?;
    let is_header = of_values.iter().all(|&column| {
        let cell = cell(above, column);
        !is_value(&cell) && cell.chars().any(char::is_alphabetic)
    });
    is_header.then_some(first + row - 1)
}

/// Returns the index of the record with the names of fields that the stream declares: most of its
/// cells, and two or more, or the only one.
fn known_header(records: &[SampleRecord], stream: Option<&Declaration>) -> Option<usize> {
    let stream = stream?;
    records.iter().position(|record| {
        let names = column_names(record.cells.iter().map(String::as_str));
        let filled = record.filled();
        let known = names.iter().filter(|name| stream.field(name).is_some()).count();
        let needed = if filled == 1 { 1 } else { 2.max((filled * 3).div_ceil(5)) };
        filled > 0 && known >= needed
    })
}

/// Returns whether a record has a value. Names of columns have none.
fn has_values(record: &SampleRecord) -> bool {
    let compact = |cell: &str| written_date::compact_to_rfc3339(cell).is_some();
    record.cells.iter().map(|cell| cell.trim()).any(|cell| is_value(cell) || compact(cell))
}

/// Returns whether a cell is a date, or a number that is not a whole one without a sign: some names
/// of columns are years.
fn is_value(cell: &str) -> bool {
    let is_number =
        DecimalMark::ALL.iter().any(|&mark| written_number::to_json(cell, mark).is_some());
    let is_whole = cell.bytes().all(|byte| byte.is_ascii_digit());
    is_number && !is_whole || ColumnEvidence::is_date_cell(cell)
}

#[cfg(test)]
mod tests;
