//! Hashes whole files.

use std::fs::File;
use std::io;

use stile_domain::hash::{ContentHash, ContentHasher};

use super::os;

/// The size of the pieces in which larger files are read, in bytes.
pub(super) const PIECE: usize = 256 * 1024;

/// Hashes an open file.
pub(super) fn hash_file(file: &File) -> io::Result<ContentHash> {
    let mut hasher = ContentHasher::default();
    let size = os::status(file)?.stamp.size;
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(PIECE).clamp(1, PIECE)];
    let mut offset = 0;
    loop {
        let read = os::read_at(file, &mut buffer, offset)?;
        hasher.update(buffer.get(..read).unwrap_or_default());
        offset += read as u64;
        if read < buffer.len() {
            return Ok(hasher.finish());
        }
    }
}
