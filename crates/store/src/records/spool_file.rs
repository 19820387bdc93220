//! Bytes that wait, so that nobody waits for their sender.
//!
//! Only one can write to the database at a time. What comes over a slow line is therefore first put
//! into a file of the state folder. The file has no name from the moment on in which it is made, so
//! that it is gone with whoever holds it, also after a kill.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};

use super::{Engine, Records};
use crate::state::create_private;

/// A file without a name, to be written and then read once.
#[derive(Debug)]
pub struct SpoolFile {
    to: File,
    from: File,
}

impl Records {
    /// Makes one.
    ///
    /// # Errors
    /// What the system says.
    pub fn create_spool_file(&self) -> io::Result<SpoolFile> {
        let Engine::Sqlite(sqlite) = &self.inner.engine;
        let path = sqlite.beside(&format!("incoming-{}", uuid::Uuid::new_v4().simple()));
        let to = create_private(&path)?;
        let from = File::open(&path);
        std::fs::remove_file(&path)?;
        Ok(SpoolFile { to, from: from? })
    }
}

impl SpoolFile {
    /// What was written, from its beginning.
    pub fn into_reader(self) -> impl Read {
        BufReader::new(self.from)
    }
}

impl Write for SpoolFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
