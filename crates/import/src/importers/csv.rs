//! Imports CSV: the tables of banks, shops and spreadsheets, as they write them.
//!
//! [`form`] finds how a file is laid out and spelled, and the decoder here reads its rows so. CSV
//! has no types. In a column that is read as numbers or dates, a cell of that kind becomes one, and
//! any other cell stays text. In any other column a cell becomes a boolean if it is `true` or
//! `false`, and a number if it is a JSON number without an exponent and with at most 15 digits,
//! which any program reads exactly. Any other cell is text, also `007` and `+49 30`. The type of a
//! column is inferred from all rows later. An empty cell becomes no field.

use std::io::{self, BufRead};
use std::sync::Arc;

use stile_domain::records::row::ParsedRow;
use stile_domain::records::table::column::{AmountReading, ColumnReading};
use stile_domain::records::table::{written_date, written_number};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_domain::records::{declaration, identifiers};
use stile_records::rows::line_source::LineSource;
use stile_records::rows::{DecodedRow, MAX_ROW_BYTES, RowDecodeError, RowDecoder};

use crate::importer::{
    ImportRows, Importer, LocatedRow, Recognition, StreamDeclaration, decoded_rows, file_bytes,
};
use crate::source::InputPath;

pub mod form;
pub mod options;
mod records;

use crate::charset::file_encoding::Transcoder;
use form::CsvForm;
use options::{CsvOptions, HeaderRow};
use records::{Cells, RecordEnd, RecordReader};

/// Imports each row of a CSV file.
pub static IMPORTER: Importer = Importer {
    name: "csv",
    description: "CSV",
    recognition: Recognition { extensions: &["csv", "tsv"], ..Recognition::NEVER },
    byte_count: file_bytes,
    open: |path, _| {
        let nothing = CsvOptions::default();
        open(path, &CsvForm::find(path, &nothing, &nothing, None)?)
    },
    declaration: StreamDeclaration::Inferred,
};

/// Opens a file of this form to read its rows from the first on.
///
/// # Errors
/// The file cannot be opened.
pub fn open(path: &InputPath, form: &CsvForm) -> io::Result<Box<dyn ImportRows>> {
    let file = path.open()?;
    let reader = Transcoder::new(file.reader, form.encoding.clone());
    let rows = decoded_rows(path, CsvDecoder::new(reader, form));
    Ok(Box::new(CsvRows { rows, bytes: file.bytes }))
}

/// The rows of a file. Decoded text can have more bytes than the file, so progress ends with the
/// file's.
struct CsvRows {
    rows: Box<dyn ImportRows>,
    bytes: u64,
}

impl ImportRows for CsvRows {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        self.rows.next()
    }

    fn consumed(&self) -> u64 {
        self.rows.consumed().min(self.bytes)
    }
}

/// A decoder for a CSV file.
pub struct CsvDecoder<R> {
    records: RecordReader<R>,
    form: Arc<CsvForm>,
    /// Absent until the first record was read.
    names: Option<Vec<String>>,
    /// The cells of the header, if later records repeat it.
    repeated: Option<Vec<String>>,
    has_ended: bool,
}

impl<R: BufRead> CsvDecoder<R> {
    /// Reads a file of this form from its first byte. The reader returns UTF-8.
    pub fn new(reader: R, form: &CsvForm) -> Self {
        Self::with_max_row_bytes(reader, form, MAX_ROW_BYTES)
    }

    fn with_max_row_bytes(reader: R, form: &CsvForm, max_row_bytes: usize) -> Self {
        Self {
            records: RecordReader::new(LineSource::new(reader), form.delimiter, max_row_bytes),
            form: Arc::new(form.clone()),
            names: None,
            repeated: None,
            has_ended: false,
        }
    }

    /// Reads the next record, and the names of the columns with the first one. A table without a
    /// header has its first row there.
    fn next_record(&mut self) -> io::Result<Option<(u64, Result<RecordEnd, RowDecodeError>)>> {
        if self.names.is_none() {
            self.records.skip_lines_before(self.form.first_line)?;
        }
        let Some((line, end)) = self.records.next()? else { return Ok(None) };
        if self.form.last_line.is_some_and(|last| line > last) {
            return Ok(None);
        }
        if self.names.is_some() {
            let repeats = |header: &Vec<String>| {
                let texts = self.records.cells.texts().map(Result::unwrap_or_default);
                texts.eq(header.iter().map(String::as_str))
            };
            if self.repeated.as_ref().is_some_and(repeats) {
                return self.next_record();
            }
            return Ok(Some((line, Ok(end))));
        }
        let names = match end {
            RecordEnd::Whole => names_of(&self.records.cells, self.form.header),
            RecordEnd::TooLarge => {
                let what = "ends beyond the 64 MiB that a row may have";
                Err(RowDecodeError::Header { column: self.records.cells.count, what })
            }
            RecordEnd::Unclosed => Err(RowDecodeError::UnclosedQuote),
        };
        match names {
            Err(bad) => Ok(Some((line, Err(bad)))),
            Ok(names) => {
                let count = names.len();
                self.names = Some(names);
                if self.form.header == HeaderRow::Absent {
                    return Ok(Some((line, Ok(end))));
                }
                if self.form.repeated_headers > 0 {
                    let texts = self.records.cells.texts().map(Result::unwrap_or_default);
                    self.repeated = Some(texts.map(str::to_owned).collect());
                }
                // One cell more shows whether it is empty.
                self.records.expect_cells(count + 1);
                self.next_record()
            }
        }
    }
}

impl<R: BufRead> RowDecoder for CsvDecoder<R> {
    fn next(&mut self) -> io::Result<Option<DecodedRow>> {
        if self.has_ended {
            return Ok(None);
        }
        let (line, end) = loop {
            let Some((line, end)) = self.next_record()? else {
                self.has_ended = true;
                return Ok(None);
            };
            let mut texts = self.records.cells.texts();
            let is_blank = texts.all(|text| text == Ok(""));
            // A row of delimiters alone says nothing.
            if !matches!(end, Ok(RecordEnd::Whole)) || !is_blank {
                break (line, end);
            }
        };
        let names = self.names.as_deref().unwrap_or_default();
        let row = match end {
            Ok(RecordEnd::Whole) => row(&self.records.cells, names, &self.form.columns),
            Ok(RecordEnd::TooLarge) => Err(RowDecodeError::TooLarge),
            Ok(RecordEnd::Unclosed) => {
                self.has_ended = true;
                Err(RowDecodeError::UnclosedQuote)
            }
            Err(bad) => {
                self.has_ended = true;
                Err(bad)
            }
        };
        Ok(Some(DecodedRow { line, row }))
    }

    fn consumed(&self) -> u64 {
        self.records.consumed()
    }
}

/// Returns the names of the columns from the first record.
fn names_of(cells: &Cells, header: HeaderRow) -> Result<Vec<String>, RowDecodeError> {
    let bad = |column, what| Err(RowDecodeError::Header { column, what });
    if cells.count > declaration::MAX_FIELDS {
        return bad(cells.count, "is one too many: there may be 10000");
    }
    if header == HeaderRow::Absent {
        return Ok(form::column_names((0..cells.count).map(|_| "")));
    }
    let mut names = Vec::with_capacity(cells.count);
    for (text, column) in cells.texts().zip(1..) {
        match text {
            Err(_) => {
                return bad(column, "is not UTF-8; name the encoding of the file with --encoding");
            }
            Ok(name) if !name.is_empty() && !identifiers::is_field_name(name) => {
                return bad(column, "has a name of more than 512 bytes or with U+0000");
            }
            Ok(name) => names.push(name),
        }
    }
    Ok(form::column_names(names.into_iter()))
}

fn row(
    cells: &Cells,
    names: &[String],
    columns: &[ColumnReading],
) -> Result<ParsedRow, RowDecodeError> {
    // Many programs leave out empty cells at the end, and some end each row with a delimiter. Too
    // many cells come from a comma that is not quoted.
    let ends_empty = || matches!(cells.texts().nth(names.len()), Some(Ok("")));
    let is_wide = cells.count > names.len();
    if is_wide && !(cells.count == names.len() + 1 && ends_empty()) {
        return Err(RowDecodeError::WrongCells { header: names.len(), row: cells.count });
    }
    let mut fields = RecordFields::new();
    let readings = columns.iter().copied().chain(std::iter::repeat(ColumnReading::AsWritten));
    let nth = |column: usize| cells.texts().nth(column).and_then(Result::ok);
    for ((name, text), reading) in names.iter().zip(cells.texts()).zip(readings) {
        let text = text?;
        if !text.is_empty() {
            let side = match reading {
                ColumnReading::Amount(amount) => amount.side.and_then(nth),
                _ => None,
            };
            fields.push((name.clone(), cell(text, reading, side)));
        }
    }
    Ok(ParsedRow { fields, replaced: 0 })
}

/// Returns the value of a cell that is not empty. `side` is the cell that says on which side of the
/// account it is.
fn cell(text: &str, reading: ColumnReading, side: Option<&str>) -> FieldValue {
    let number = |json: String| FieldValue::Number(json.into());
    let read = match reading {
        ColumnReading::AsWritten => None,
        ColumnReading::Number(mark) => {
            AmountReading { mark, currency: None, side: None }.to_json(text, None).map(number)
        }
        ColumnReading::Amount(amount) => amount.to_json(text, side).map(number),
        ColumnReading::Date(order) => written_date::to_rfc3339(text, order).map(FieldValue::Text),
        ColumnReading::CompactDate => written_date::compact_to_rfc3339(text).map(FieldValue::Text),
    };
    match (read, reading, text) {
        (Some(value), ..) => value,
        (None, ColumnReading::AsWritten, "true") => FieldValue::Bool(true),
        (None, ColumnReading::AsWritten, "false") => FieldValue::Bool(false),
        (None, ColumnReading::AsWritten, text) if written_number::is_plain(text) => {
            FieldValue::Number(text.into())
        }
        (None, _, text) => FieldValue::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests;
