//! Reads the bytes of a whole file into memory.

use std::fs::File;
use std::io;

use stile_domain::media_type::HEAD_BYTES;

use super::file_hash::PIECE;
use super::os;

/// The bytes at the beginning of a file by which its kind can be told.
pub(super) const HEAD: usize = HEAD_BYTES;

/// Reads an open file of about `size` bytes. Returns `None` if it has more than `limit` bytes.
pub(super) fn read_whole(file: &File, size: u64, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let mut room = usize::try_from(size.min(limit)).unwrap_or(usize::MAX).saturating_add(1);
    loop {
        let start = bytes.len();
        bytes.resize(start + room, 0);
        let read = os::read_at(file, bytes.get_mut(start..).unwrap_or_default(), start as u64)?;
        bytes.truncate(start + read);
        if bytes.len() as u64 > limit {
            return Ok(None);
        }
        if read < room {
            return Ok(Some(bytes));
        }
        room = PIECE;
    }
}
