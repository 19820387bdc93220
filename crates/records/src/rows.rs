//! Rows of a file or of a request's body, one at a time.
//!
//! A decoder holds no more than one row, which has at most [`MAX_ROW_BYTES`]. A row that cannot be
//! used is returned with the line where it begins and the reason, and the next row follows.

use std::io;

use stile_domain::records::row::{self, ParsedRow};

pub mod json_lines;
pub mod line_source;
pub mod row_keys;

/// The most bytes that a row of JSON or CSV has in its file. Longer texts come as files.
pub const MAX_ROW_BYTES: usize = 64 * 1024 * 1024;

/// Room for a row that is kept from one to the next; more is given back.
pub const KEPT_BYTES: usize = 1024 * 1024;

/// Gives the rows of one file.
pub trait RowDecoder {
    /// The next row, or the reason why there is none at that line; nothing at the end of the file.
    ///
    /// # Errors
    /// What the reader fails with; the decoder is of no use after that.
    fn next(&mut self) -> io::Result<Option<DecodedRow>>;

    /// How many bytes of the file were read, for a progress bar.
    fn consumed(&self) -> u64;
}

/// A row of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedRow {
    /// The line where it begins, 1-based.
    pub line: u64,
    /// The row, or why it cannot be used.
    pub row: Result<ParsedRow, RowDecodeError>,
}

/// Why a row cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowDecodeError {
    /// Its JSON is at fault.
    #[error("{0}")]
    Json(#[from] row::RowError),
    /// It has more than [`MAX_ROW_BYTES`].
    #[error("the row has more than 64 MiB; import such texts as files")]
    TooLarge,
    /// The array that holds the rows is broken between two of them. Ends the file.
    #[error("it is not valid JSON: {0}. The rest of the file was not read")]
    Between(&'static str),
    /// There is no array at all. Ends the file.
    #[error(
        "the file is not a JSON array of objects; if each line is an object, import it as `jsonl`, and if it is one object, put it between `[` and `]`"
    )]
    NotAnArray,
    /// A row of CSV is no text.
    #[error("the row is not UTF-8; convert the file to UTF-8 and import it again")]
    NotUtf8,
    /// A row of CSV has not as many cells as the header.
    #[error("too many cells: the header has {header} and the row has {row}")]
    WrongCells {
        /// In the header.
        header: usize,
        /// In the row.
        row: usize,
    },
    /// A quoted cell goes on to the end of the file. Ends it.
    #[error(
        "a quote that opens in this row is not closed; the rest of the file was taken for one cell"
    )]
    UnclosedQuote,
    /// The first row of CSV cannot be a header. Ends the file.
    #[error("the first row must name the columns: column {column} {what}")]
    Header {
        /// Which column, 1-based.
        column: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl RowDecodeError {
    /// The stable code.
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

    /// Whether nothing of the file was read after it.
    pub fn ends_the_file(&self) -> bool {
        matches!(
            self,
            Self::Between(_) | Self::NotAnArray | Self::UnclosedQuote | Self::Header { .. }
        )
    }
}

impl DecodedRow {
    /// Creates a row that cannot be used.
    pub fn bad(line: u64, why: RowDecodeError) -> Self {
        Self { line, row: Err(why) }
    }

    /// Parses one row of JSON.
    pub fn json(line: u64, bytes: &[u8]) -> Self {
        Self { line, row: row::parse(bytes).map_err(RowDecodeError::from) }
    }
}

/// The part of a row that came before what the reader has now.
#[derive(Debug)]
pub struct RowBuffer {
    bytes: Vec<u8>,
    most: usize,
    too_large: bool,
}

impl RowBuffer {
    /// Creates an empty row that may grow to `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most, too_large: false }
    }

    /// Returns whether no byte was added since the row began.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.too_large
    }

    /// Appends bytes. Drops all bytes of the row once there are too many.
    pub fn add(&mut self, bytes: &[u8]) {
        self.too_large |= self.bytes.len().saturating_add(bytes.len()) > self.most;
        if self.too_large {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The row that began with what is held and ends with `last`, and begins anew.
    pub fn finish(&mut self, line: u64, last: &[u8]) -> DecodedRow {
        let decoded = if self.too_large || self.bytes.len() + last.len() > self.most {
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

    /// Begins the next row, and gives memory back that an ordinary row does not need.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.too_large = false;
    }
}
