//! Files that hold incoming bytes until they are written to the database.
//!
//! Only one writer at a time can use the database. Bytes from a slow connection are therefore first
//! written to a file of the state folder, so that nobody waits for their sender. The file loses its
//! name as soon as it is made, so the system removes it when its holder ends, even after a kill.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use crate::state::create_private;

/// A file without a name, to be written and then read once.
#[derive(Debug)]
pub struct SpoolFile {
    writer: File,
    reader: File,
}

impl SpoolFile {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let writer = create_private(path)?;
        let reader = File::open(path);
        std::fs::remove_file(path)?;
        Ok(Self { writer, reader: reader? })
    }

    /// Returns a reader of the written bytes, from the first one.
    pub fn into_reader(self) -> impl Read {
        BufReader::new(self.reader)
    }
}

impl Write for SpoolFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
