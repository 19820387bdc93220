//! Rows of a file that is read as a whole, since its formats are small and have no order of rows.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::sync::Arc;

use crate::importer::{ImportRow, ImportRows, LeftOutRows, LocatedRow, UnusableRow};
use crate::source::InputPath;

/// The largest file that is read, in bytes.
pub(super) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A row with the line where it begins, or why it cannot be used.
pub type ReadRow = (u64, Result<ImportRow, UnusableRow>);

/// What was read of a file: its rows, and what is left out of them.
pub(super) struct WholeRows {
    pub(super) rows: Vec<ReadRow>,
    pub(super) left_out: Option<LeftOutRows>,
}

impl From<Vec<ReadRow>> for WholeRows {
    fn from(rows: Vec<ReadRow>) -> Self {
        Self { rows, left_out: None }
    }
}

/// Gives each row of a file a key of its own.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<String, u64>);

impl Keys {
    /// Returns a key, with a number behind it if an earlier row has it.
    pub(super) fn take(&mut self, key: String) -> String {
        let mut number = self.0.get(&key).copied().unwrap_or_default();
        loop {
            number += 1;
            let own = if number == 1 { key.clone() } else { format!("{key}#{number}") };
            // The key of another row may end like that.
            if number == 1 || !self.0.contains_key(&own) {
                self.0.insert(key, number);
                self.0.entry(own.clone()).or_insert(1);
                return own;
            }
        }
    }
}

/// The rows of a file.
struct WholeFile {
    file: Arc<str>,
    bytes: u64,
    rows: std::vec::IntoIter<ReadRow>,
    left_out: Option<LeftOutRows>,
}

/// Opens a file whose bytes `read` turns into rows.
pub(super) fn open<R: Into<WholeRows>>(
    path: &InputPath,
    read: impl FnOnce(&[u8]) -> io::Result<R>,
) -> io::Result<Box<dyn ImportRows>> {
    of(path.display().to_string(), path.open()?.reader, read)
}

/// Makes rows of what `source` reads.
pub(super) fn of<R: Into<WholeRows>>(
    file: String,
    source: impl io::Read,
    read: impl FnOnce(&[u8]) -> io::Result<R>,
) -> io::Result<Box<dyn ImportRows>> {
    let mut text = Vec::new();
    let bytes = source.take(MAX_BYTES + 1).read_to_end(&mut text)? as u64;
    if bytes > MAX_BYTES {
        let message = "the file has more than 64 MiB; export shorter periods";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let WholeRows { rows, left_out } = read(&text)?.into();
    Ok(Box::new(WholeFile { file: file.into(), bytes, rows: rows.into_iter(), left_out }))
}

impl ImportRows for WholeFile {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let next = self.rows.next();
        Ok(next.map(|(line, row)| LocatedRow { file: Arc::clone(&self.file), line, row }))
    }

    fn left_out(&self) -> Option<LeftOutRows> {
        self.left_out
    }

    fn consumed(&self) -> u64 {
        if self.rows.len() == 0 { self.bytes } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_have_one_key() {
        let mut keys = Keys::default();
        let taken: Vec<_> = ["a", "a#2", "a", "a", "a#2", "b"]
            .into_iter()
            .map(|key| keys.take(key.to_owned()))
            .collect();
        assert_eq!(taken, ["a", "a#2", "a#3", "a#4", "a#2#2", "b"]);
    }
}
