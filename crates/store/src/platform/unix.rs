//! The calls of Linux and macOS.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, OFlags, access};
use rustix::time::{ClockId, clock_gettime};

/// Reads from an offset once, and leaves the position of the file alone.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Reads a clock that nobody sets. It goes on while the machine sleeps, where the system has such a
/// clock.
pub(crate) fn steady() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// Returns the numbers that no other file of the machine has. Does not follow a link at the end of
/// the path.
pub(crate) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = path.symlink_metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Returns the numbers that no other file of the machine has.
pub(crate) fn identity_of_open(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Opens a file for reading, and no link. Waits for nobody.
pub(crate) fn open_unfollowed(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Returns whether this process may make files in a folder.
pub(crate) fn is_writable(folder: &Path) -> bool {
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Returns how much this user may still write to the disk with a folder, in bytes, if the system
/// says so.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

/// Returns the size of the disk with a folder, in bytes, if the system says so.
pub(crate) fn disk_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_blocks.saturating_mul(disk.f_frsize))
}

/// Locks a file for this handle alone, and waits until that can be done.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    file.lock()
}

/// Locks a file for this handle and those that share the lock, and waits until that can be done.
pub(crate) fn lock_shared(file: &File) -> io::Result<()> {
    file.lock_shared()
}

/// Locks a file for this handle alone, without waiting.
pub(crate) fn try_lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

/// Locks a file for this handle and those that share the lock, without waiting.
pub(crate) fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    file.try_lock_shared()
}
