//! The file that `stile import --rejected` writes: one line of JSON for each row that was rejected.
//!
//! A row of a text file has its first line with it, so that a person can correct the row. A row
//! inside a mailbox or an archive is named by its place alone.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;
use stile_import::report::BadRow;
use stile_store::files::{self, NewFile};

use crate::cli::client_entry::cannot;
use crate::cli::failure::Failure;

/// The longest part of a row that is kept, in bytes.
const MAX_ROW_BYTES: usize = 64 * 1024;
/// The endings of files whose rows are lines.
const LINE_FILES: &[&str] = &["jsonl", "ndjson", "csv", "tsv"];

/// The rejected rows of an import.
pub(super) struct RejectedRows {
    path: PathBuf,
    writing: RefCell<io::Result<Writing>>,
}

struct Writing {
    to: NewFile,
    /// The file that was read last, to read on behind the last row.
    source: Option<Source>,
}

struct Source {
    name: String,
    reader: BufReader<files::SourceReader>,
    /// The number of the line that is read next, from 1.
    line: u64,
}

impl RejectedRows {
    /// Creates the file, which must not exist.
    pub(super) fn create(path: &str) -> Result<Self, Failure> {
        let path = PathBuf::from(path);
        let to = NewFile::create(&path).map_err(|error| cannot("make", &path, &error))?;
        Ok(Self { path, writing: RefCell::new(Ok(Writing { to, source: None })) })
    }

    /// Adds a row. The first error is reported by [`RejectedRows::finish`].
    pub(super) fn add(&self, bad: &BadRow) {
        let mut writing = self.writing.borrow_mut();
        if let Ok(open) = writing.as_mut()
            && let Err(error) = open.add(bad)
        {
            *writing = Err(error);
        }
    }

    /// Syncs the file.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let finished = self.writing.into_inner().and_then(|writing| writing.to.finish());
        finished.map_err(|error| cannot("write", &self.path, &error))
    }
}

impl Writing {
    fn add(&mut self, bad: &BadRow) -> io::Result<()> {
        let BadRow { file, line, code, reason } = bad;
        // A file that cannot be read again leaves the row out.
        let row = self.row(file, *line).unwrap_or_default();
        let row = json!({ "file": file, "line": line, "code": code, "reason": reason, "row": row });
        writeln!(self.to, "{row}")
    }

    /// Returns the first line of a row; `None` if rows of this file are not lines.
    fn row(&mut self, file: &str, line: u64) -> Option<String> {
        let extension = Path::new(file).extension()?.to_str()?.to_lowercase();
        if !LINE_FILES.contains(&extension.as_str()) {
            return None;
        }
        let is_ahead =
            self.source.as_ref().is_some_and(|open| open.name == file && open.line <= line);
        if !is_ahead {
            let reader = BufReader::new(files::open_again(Path::new(file)).ok()?);
            self.source = Some(Source { name: file.to_owned(), reader, line: 1 });
        }
        let source = self.source.as_mut()?;
        while source.line < line {
            skip_line(&mut source.reader).ok()?;
            source.line += 1;
        }
        let row = read_line(&mut source.reader).ok()?;
        source.line += 1;
        Some(row)
    }
}

/// Reads to the end of a line and keeps nothing.
fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}

/// Reads a line of which at most [`MAX_ROW_BYTES`] are kept.
fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        let buffer = reader.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
        let room = MAX_ROW_BYTES - line.len();
        line.extend_from_slice(part.get(..room).unwrap_or(part));
        let used = end.map_or(buffer.len(), |at| at + 1);
        reader.consume(used);
        if end.is_some() || used == 0 {
            let text = String::from_utf8_lossy(&line);
            return Ok(text.trim_end_matches('\r').to_owned());
        }
    }
}
