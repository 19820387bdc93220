//! Rows of a file that is read as a whole, since its formats are small and have no order of rows.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use stile_store::files;

use crate::importer::{ImportRow, ImportRows, LocatedRow, UnusableRow};

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A row with the line where it begins, or why it cannot be used.
pub(super) type ReadRow = (u64, Result<ImportRow, UnusableRow>);

/// The rows of a file.
struct WholeFile {
    file: Arc<str>,
    bytes: u64,
    rows: std::vec::IntoIter<ReadRow>,
}

/// Opens a file whose bytes `read` turns into rows.
pub(super) fn open(
    path: &Path,
    read: impl FnOnce(&[u8]) -> io::Result<Vec<ReadRow>>,
) -> io::Result<Box<dyn ImportRows>> {
    let mut text = Vec::new();
    let source = files::open(path)?.reader;
    let bytes = source.take(MAX_BYTES + 1).read_to_end(&mut text)? as u64;
    if bytes > MAX_BYTES {
        let message = "the file has more than 64 MiB; export shorter periods";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let file = path.display().to_string().into();
    Ok(Box::new(WholeFile { file, bytes, rows: read(&text)?.into_iter() }))
}

impl ImportRows for WholeFile {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let next = self.rows.next();
        Ok(next.map(|(line, row)| LocatedRow { file: Arc::clone(&self.file), line, row }))
    }

    fn consumed(&self) -> u64 {
        if self.rows.len() == 0 { self.bytes } else { 0 }
    }
}
