//! Decodes the rows of a file or of a request's body, one at a time.
//!
//! A decoder holds no more than one row of at most [`MAX_ROW_BYTES`]. For a row that cannot be used
//! the decoder returns the line at which the row begins and the reason, and goes on with the next
//! row. The formats of files other than JSON Lines are in the import crate.

use std::io;

use stile_domain::records::row::{self, ParsedRow};

pub mod json_lines;
pub mod line_source;
pub mod row_keys;

/// The greatest size of a row of JSON or CSV, in bytes of its file. A longer text is imported as a
/// file of its own.
pub const MAX_ROW_BYTES: usize = 64 * 1024 * 1024;

/// The buffer that a decoder keeps between rows, in bytes. A larger buffer is freed.
pub const KEPT_BYTES: usize = 1024 * 1024;

/// A decoder of the rows of one file.
pub trait RowDecoder {
    /// Returns the next row, usable or not; `None` at the end of the file.
    ///
    /// # Errors
    /// What the reader fails with. The decoder must not be used after that.
    fn next(&mut self) -> io::Result<Option<DecodedRow>>;

    /// Returns how many bytes of the file were read, for a progress bar.
    fn consumed(&self) -> u64;
}

/// One row of a file, usable or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedRow {
    /// The line at which the row begins, 1-based.
    pub line: u64,
    /// The fields, or why the row cannot be used.
    pub row: Result<ParsedRow, RowDecodeError>,
}

/// Why a row cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowDecodeError {
    /// The JSON is malformed, or is not an object.
    #[error("{0}")]
    Json(#[from] row::RowError),
    /// The row has more than [`MAX_ROW_BYTES`].
    #[error("the row has more than 64 MiB; import such texts as files")]
    TooLarge,
    /// The JSON array that holds the rows is malformed between two rows. Ends the file.
    #[error("it is not valid JSON: {0}. The rest of the file was not read")]
    Between(&'static str),
    /// The file is not a JSON array. Ends the file.
    #[error(
        "the file is not a JSON array of objects, or is empty; if each line is an object, import it as `jsonl`, and if its rows are in a member of an object, name the member with --rows"
    )]
    NotAnArray,
    /// A row of CSV is not UTF-8.
    #[error("the row is not UTF-8; convert the file to UTF-8 and import it again")]
    NotUtf8,
    /// A row of CSV has more cells than the header.
    #[error("too many cells: the header has {header} and the row has {row}")]
    WrongCells {
        /// The number of cells in the header.
        header: usize,
        /// The number of cells in the row.
        row: usize,
    },
    /// A quote is never closed, so that its cell extends to the end of the file.
    #[error(
        "a quote that opens in this row is not closed; the rest of the file was taken for one cell"
    )]
    UnclosedQuote,
    /// The first row of CSV cannot be the header. Ends the file.
    #[error("the first row must name the columns: column {column} {what}")]
    Header {
        /// The column, 1-based.
        column: usize,
        /// What is wrong with the column.
        what: &'static str,
    },
}

impl RowDecodeError {
    /// Returns the stable code that answers and reports have.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(bad) => bad.fault.code(),
            Self::TooLarge => "row_too_large",
            Self::Between(_) => "invalid_json",
            Self::NotAnArray => "not_an_array",
            Self::NotUtf8 => "invalid_utf8",
            Self::WrongCells { .. } => "wrong_cells",
            Self::UnclosedQuote => "unclosed_quote",
            Self::Header { .. } => "bad_header",
        }
    }

    /// Returns whether the decoder reads nothing of the file after this error.
    pub fn ends_the_file(&self) -> bool {
        matches!(
            self,
            Self::Between(_) | Self::NotAnArray | Self::UnclosedQuote | Self::Header { .. }
        )
    }
}

impl DecodedRow {
    /// Creates a row that cannot be used.
    pub fn bad(line: u64, error: RowDecodeError) -> Self {
        Self { line, row: Err(error) }
    }

    /// Parses one row of JSON.
    pub fn json(line: u64, bytes: &[u8]) -> Self {
        Self { line, row: row::parse(bytes).map_err(RowDecodeError::from) }
    }
}

/// The beginning of a row whose end the reader does not have yet.
#[derive(Debug)]
pub struct RowBuffer {
    bytes: Vec<u8>,
    max_bytes: usize,
    too_large: bool,
}

impl RowBuffer {
    /// Creates an empty row that may grow to `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self { bytes: Vec::new(), max_bytes, too_large: false }
    }

    /// Returns whether no byte was added since the row began.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.too_large
    }

    /// Appends bytes. Drops all bytes of the row once there are too many.
    pub fn add(&mut self, bytes: &[u8]) {
        self.too_large |= self.bytes.len().saturating_add(bytes.len()) > self.max_bytes;
        if self.too_large {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Decodes the row that ends with `last`, and begins the next row.
    pub fn finish(&mut self, line: u64, last: &[u8]) -> DecodedRow {
        let decoded = if self.too_large || self.bytes.len() + last.len() > self.max_bytes {
            DecodedRow::bad(line, RowDecodeError::TooLarge)
        } else if self.bytes.is_empty() {
            DecodedRow::json(line, last)
        } else {
            self.bytes.extend_from_slice(last);
            DecodedRow::json(line, &self.bytes)
        };
        self.clear();
        decoded
    }

    /// Begins the next row. Frees memory above [`KEPT_BYTES`].
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.too_large = false;
    }
}
