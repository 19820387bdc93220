//! The calls of Windows.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::windows::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::windows::io::AsHandle as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use stile_windows::files::{self, Kind, Sharing, facts};
use stile_windows::machine::disk_room;

/// The right to see what is known of a file.
const FILE_READ_ATTRIBUTES: u32 = 0x80;
/// The byte that is locked in a file, far behind the end of every file. What is locked on this
/// system can be neither read nor written by others, and the lock is not to do that.
pub(crate) const LOCKED_BYTE: u64 = 1 << 62;
/// Without this bit the system opens no folder.
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
/// With this bit a link is opened, and not what it leads to.
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;

/// Reads from an offset once. Moves the position of the file, which nobody relies on here.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// Reads a clock that nobody sets, which begins with the process.
pub(crate) fn steady() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed()
}

/// Returns the numbers that no other file of the machine has. Does not follow a link at the end of
/// the path.
pub(crate) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let mut options = OpenOptions::new();
    options
        .access_mode(FILE_READ_ATTRIBUTES)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT);
    identity_of_open(&options.open(path)?)
}

/// Returns the numbers that no other file of the machine has.
pub(crate) fn identity_of_open(file: &File) -> io::Result<(u64, u64)> {
    let facts = facts(file.as_handle())?;
    Ok((facts.volume, facts.number))
}

/// Opens a file for reading, and no link.
pub(crate) fn open_unfollowed(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    let file = options.open(path)?;
    match facts(file.as_handle())?.kind() {
        Kind::Link => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link")),
        Kind::File | Kind::Folder => Ok(file),
    }
}

/// Returns whether this process may make files in a folder, as far as a look at it tells: the
/// access list is not read.
pub(crate) fn is_writable(folder: &Path) -> bool {
    folder.is_dir()
}

/// Returns how much this user may still write to the disk with a folder, in bytes, if the system
/// says so.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    disk_room(folder).ok().map(|room| room.free)
}

/// Returns the size of the disk with a folder, in bytes, if the system says so.
pub(crate) fn disk_bytes(folder: &Path) -> Option<u64> {
    disk_room(folder).ok().map(|room| room.total)
}

/// Locks a file for this handle alone, and waits until that can be done.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    files::lock(file.as_handle(), LOCKED_BYTE, Sharing::Alone)
}

/// Locks a file for this handle and those that share the lock, and waits until that can be done.
pub(crate) fn lock_shared(file: &File) -> io::Result<()> {
    files::lock(file.as_handle(), LOCKED_BYTE, Sharing::Shared)
}

/// Locks a file for this handle alone, without waiting.
pub(crate) fn try_lock(file: &File) -> Result<(), TryLockError> {
    tried(files::try_lock(file.as_handle(), LOCKED_BYTE, Sharing::Alone))
}

/// Locks a file for this handle and those that share the lock, without waiting.
pub(crate) fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    tried(files::try_lock(file.as_handle(), LOCKED_BYTE, Sharing::Shared))
}

fn tried(taken: io::Result<bool>) -> Result<(), TryLockError> {
    match taken {
        Ok(true) => Ok(()),
        Ok(false) => Err(TryLockError::WouldBlock),
        Err(error) => Err(TryLockError::Error(error)),
    }
}
