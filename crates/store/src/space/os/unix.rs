//! The system calls of Linux and macOS.
//!
//! On Linux one `openat2` opens a path beneath a folder. On other systems and older kernels each
//! component is opened by its own call with `O_NOFOLLOW`, which is slower and recognises fewer
//! mounts. macOS calls the exchange `renamex_np`; rustix has it under the same name.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchmod, fchown,
    fgetxattr, flistxattr, flock, fremovexattr, fsetxattr, fstat, fsync, linkat, mkdirat, openat,
    readlinkat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use stile_domain::facts::{FileStamp, UnixNanos};
use stile_domain::listing::EntryKind;

use super::answers::{Access, Problem, Status};
use crate::space::identity::Identity;

/// What has an open file or folder.
pub(in crate::space) use std::os::fd::AsFd as AsHandle;
/// An open file or folder.
pub(in crate::space) use std::os::fd::OwnedFd as Handle;

/// The flags of every open: never wait for the other end of a FIFO, never become the owner of a
/// terminal, never pass the handle to a child.
const ALWAYS: OFlags =
    OFlags::CLOEXEC.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);

/// Opens the root of a space by a path of the machine. Follows links.
pub(in crate::space) fn open_root(path: &std::path::Path) -> io::Result<Handle> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(rustix::fs::CWD, path, flags, Mode::empty())?)
}

/// Opens a folder beneath `root` that may be a mount point, which no other function enters.
/// `relative` must not be empty.
pub(in crate::space) fn open_mount(root: &Handle, relative: &str) -> io::Result<Handle> {
    let flags = flags_for(Access::Folder);
    Ok(match relative.rsplit_once('/') {
        None => step(root, relative, flags)?,
        Some((folders, last)) => step(&open_beneath(root, folders, Access::Folder)?, last, flags)?,
    })
}

fn flags_for(access: Access) -> OFlags {
    match access {
        Access::Read => OFlags::RDONLY,
        Access::Folder => OFlags::RDONLY | OFlags::DIRECTORY,
        Access::Append => OFlags::RDWR | OFlags::APPEND,
    }
}

/// Opens a file or folder beneath `root`. An empty path opens the root itself.
#[cfg(target_os = "linux")]
pub(super) fn open_beneath(root: &Handle, relative: &str, access: Access) -> io::Result<Handle> {
    use rustix::fs::{ResolveFlags, openat2};
    use std::sync::atomic::{AtomicBool, Ordering};
    /// Whether the kernel, or a sandbox, has no `openat2`.
    static ABSENT: AtomicBool = AtomicBool::new(false);
    let relative = or_itself(relative);
    // `NO_SYMLINKS` refuses a link already. `NOFOLLOW` with `DIRECTORY` would report it as
    // `ENOTDIR`.
    let flags = flags_for(access) | ALWAYS.difference(OFlags::NOFOLLOW);
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    if !ABSENT.load(Ordering::Relaxed) {
        // The kernel answers EAGAIN when the tree changed meanwhile. In races 64 tries always
        // sufficed.
        for _ in 0..64 {
            match openat2(root, relative, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                Err(Errno::NOSYS) => {
                    ABSENT.store(true, Ordering::Relaxed);
                    break;
                }
                // A seccomp filter may answer EPERM for a call that it does not know. The walk
                // decides.
                Err(Errno::PERM) => break,
                done => return Ok(done?),
            }
        }
    }
    walk_beneath(root, relative, flags)
}

/// Opens a file or folder beneath `root`. An empty path opens the root itself.
#[cfg(not(target_os = "linux"))]
pub(super) fn open_beneath(root: &Handle, relative: &str, access: Access) -> io::Result<Handle> {
    walk_beneath(root, or_itself(relative), flags_for(access))
}

/// Returns `.` for the empty path of the root.
fn or_itself(relative: &str) -> &str {
    if relative.is_empty() { "." } else { relative }
}

/// Opens each component by its own call, follows no link, and enters no mount. `relative` must not
/// contain `..`.
pub(in crate::space) fn walk_beneath(
    root: &Handle,
    relative: &str,
    flags: OFlags,
) -> io::Result<Handle> {
    let device = status(root)?.stamp.device;
    let mut folder: Option<Handle> = None;
    let mut names = relative.split('/').peekable();
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        let flags = if is_last { flags } else { OFlags::RDONLY | OFlags::DIRECTORY };
        let next = step(folder.as_ref().unwrap_or(root), name, flags)?;
        if name != "." && is_elsewhere(&next, device)? {
            return Err(Errno::XDEV.into());
        }
        folder = Some(next);
    }
    folder.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Opens one component, and follows no link.
fn step(folder: &Handle, name: &str, flags: OFlags) -> Result<Handle, Errno> {
    match openat(folder, name, flags | ALWAYS, Mode::empty()) {
        // With `O_DIRECTORY` the error of a link is ENOTDIR. Report ELOOP instead.
        Err(Errno::NOTDIR)
            if statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| is_link(&stat)) =>
        {
            Err(Errno::LOOP)
        }
        done => done,
    }
}

/// Returns whether a mount begins at an open file, as far as the system reports it. The number of
/// the device decides for folders alone: on some layered file systems a file has another number
/// than its folder.
fn is_elsewhere(file: &Handle, device: u64) -> io::Result<bool> {
    let status = status(file)?;
    let differs = status.kind == EntryKind::Directory && status.stamp.device != device;
    Ok(differs || is_mount_point(file))
}

#[cfg(target_os = "linux")]
fn is_mount_point(file: &Handle) -> bool {
    use rustix::fs::{StatxAttributes, StatxFlags, statx};
    statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mount_point(_: &Handle) -> bool {
    false
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// Whether this process may add entries to a folder, and remove some. A folder of which that is
/// unknown counts as one.
pub(in crate::space) fn may_write_in(folder: &Handle) -> bool {
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let found = rustix::fs::accessat(folder, c".", access, AtFlags::EACCESS);
    !matches!(found, Err(Errno::ACCESS | Errno::ROFS | Errno::PERM))
}

/// Returns the kind of a file with these bits of its mode.
fn kind_of(mode: u32) -> EntryKind {
    match FileType::from_raw_mode(mode as rustix::fs::RawMode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

#[expect(clippy::unnecessary_cast, reason = "the widths differ between platforms")]
#[cfg_attr(
    target_os = "linux",
    expect(clippy::useless_conversion, reason = "the widths differ between platforms")
)]
fn from_stat(stat: &Stat) -> Status {
    let nanos = |seconds: i64, fraction: i64| -> UnixNanos {
        seconds.saturating_mul(1_000_000_000).saturating_add(fraction)
    };
    Status {
        kind: kind_of(stat.st_mode.into()),
        stamp: FileStamp {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        },
        links: stat.st_nlink as u64,
        mode: u32::from(stat.st_mode) & 0o7777,
        owner: (stat.st_uid, stat.st_gid),
    }
}

/// Returns the attributes of an open file.
pub(in crate::space) fn status(file: impl AsHandle) -> io::Result<Status> {
    Ok(from_stat(&fstat(file)?))
}

/// Returns the attributes of a name in an open folder. Does not follow a link.
pub(in crate::space) fn status_at(folder: &Handle, name: &str) -> io::Result<Status> {
    Ok(from_stat(&statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Returns the attributes of a name in an open folder, and whether a mount begins there, as far as
/// the system reports it. Does not follow a link. On Linux one call returns both.
#[cfg(target_os = "linux")]
pub(in crate::space) fn status_and_mount_at(
    folder: &Handle,
    name: &str,
) -> io::Result<(Status, bool)> {
    use rustix::fs::{StatxAttributes, StatxFlags, makedev, statx};
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = match statx(folder, name, flags, StatxFlags::BASIC_STATS) {
        // An older kernel, or a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => return Ok((status_at(folder, name)?, false)),
        found => found?,
    };
    let nanos = |time: rustix::fs::StatxTimestamp| -> UnixNanos {
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.tv_nsec))
    };
    let mode = u32::from(found.stx_mode);
    let status = Status {
        kind: kind_of(mode),
        stamp: FileStamp {
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            size: found.stx_size,
            modified: nanos(found.stx_mtime),
            changed: nanos(found.stx_ctime),
        },
        links: u64::from(found.stx_nlink),
        mode: mode & 0o7777,
        owner: (found.stx_uid, found.stx_gid),
    };
    Ok((status, found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)))
}

#[cfg(not(target_os = "linux"))]
pub(in crate::space) fn status_and_mount_at(
    folder: &Handle,
    name: &str,
) -> io::Result<(Status, bool)> {
    Ok((status_at(folder, name)?, false))
}

/// Reads the clock that stamps files.
pub(in crate::space) fn now() -> UnixNanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    (now.tv_sec as i64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as i64)
}

/// Creates a file in a folder, open for writing.
pub(super) fn create(folder: &Handle, name: &str, mode: u32) -> io::Result<Handle> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | ALWAYS;
    Ok(openat(folder, name, flags, Mode::from_raw_mode(mode as rustix::fs::RawMode))?)
}

pub(super) fn set_mode(file: impl AsHandle, mode: u32) -> io::Result<()> {
    Ok(fchmod(&file, Mode::from_raw_mode(mode as rustix::fs::RawMode))?)
}

/// Returns the offset behind what was last written to the end of a file.
pub(in crate::space) fn append_position(mut file: &File) -> io::Result<u64> {
    io::Seek::stream_position(&mut file)
}

/// Writes over the beginning of a file.
pub(super) fn write_over(file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, 0)
}

/// Cuts a file off that was opened for writing at its end.
pub(super) fn cut(file: &File, size: u64) -> io::Result<()> {
    file.set_len(size)
}

/// Creates a folder in a folder.
pub(super) fn create_folder(folder: &Handle, name: &str, mode: u32) -> io::Result<()> {
    Ok(mkdirat(folder, name, Mode::from_raw_mode(mode as rustix::fs::RawMode))?)
}

/// Removes an empty folder from a folder.
pub(super) fn remove_folder(folder: &Handle, name: &str) -> io::Result<()> {
    Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

pub(super) fn unlink(folder: &Handle, name: &str) -> io::Result<()> {
    Ok(unlinkat(folder, name, AtFlags::empty())?)
}

/// Makes the changes of an open file or folder durable.
#[cfg(not(target_os = "macos"))]
pub(super) fn wait_for_disk(file: impl AsHandle) -> io::Result<()> {
    Ok(fsync(file)?)
}

/// Waits until the disk has written what it keeps in its own cache, for which `fsync` does not
/// wait on macOS. A file system that cannot say so, such as one over the network, gets an `fsync`.
#[cfg(target_os = "macos")]
pub(super) fn wait_for_disk(file: impl AsHandle) -> io::Result<()> {
    match rustix::fs::fcntl_fullfsync(&file) {
        Err(Errno::INVAL | Errno::NOTSUP | Errno::NOTTY) => Ok(fsync(file)?),
        done => Ok(done?),
    }
}

/// Exchanges two names of a folder in one step.
pub(super) fn exchange(folder: &Handle, one: &str, other: &str) -> io::Result<()> {
    Ok(renameat_with(folder, one, folder, other, RenameFlags::EXCHANGE)?)
}

/// Returns whether an error means that the file system lacks the operation.
pub(in crate::space) fn is_unsupported(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}

/// Moves a file or folder in one step. Fails if the new name is in use, and with an error that
/// [`is_unsupported`] on a file system without such a rename.
pub(super) fn rename_new(from: (&Handle, &str), to: (&Handle, &str)) -> io::Result<()> {
    Ok(renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE)?)
}

/// Moves a file or folder in one step. Replaces a file of the new name, or an empty folder.
pub(super) fn rename(from: (&Handle, &str), to: (&Handle, &str)) -> io::Result<()> {
    Ok(renameat(from.0, from.1, to.0, to.1)?)
}

/// Moves anything to a folder under the same name of any bytes. Fails if the name is in use there.
pub(super) fn move_named(from: &Handle, to: &Handle, name: &[u8]) -> io::Result<()> {
    match renameat_with(from, name, to, name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        done => return Ok(done?),
    }
    // A file system without such a rename. Somebody may take the name just now.
    match statat(to, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(renameat(from, name, to, name)?),
        Err(error) => Err(error.into()),
        Ok(_) => Err(Errno::EXIST.into()),
    }
}

/// Calls `each` with the name and kind of every entry of a folder, without `.` and `..`, whatever
/// bytes the name is. A link comes with its target.
pub(in crate::space) fn named_entries(
    folder: &Handle,
    mut each: impl FnMut(&[u8], EntryKind, Option<&[u8]>),
) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        // An entry that went meanwhile is not there.
        let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let kind = from_stat(&stat).kind;
        let target = match kind {
            EntryKind::Symlink => readlinkat(folder, name, Vec::new()).ok(),
            _ => None,
        };
        each(name.to_bytes(), kind, target.as_deref().map(CStr::to_bytes));
    }
    Ok(())
}

/// Gives a file a second name. Fails if that name is in use.
pub(super) fn link(from: (&Handle, &str), to: (&Handle, &str)) -> io::Result<()> {
    Ok(linkat(from.0, from.1, to.0, to.1, AtFlags::empty())?)
}

/// Takes an exclusive advisory lock on an open folder or file, without waiting. Returns `false` if
/// another process holds it. The lock ends with [`unlock`], the last descriptor, or the process.
pub(in crate::space) fn try_lock(file: impl AsHandle) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(in crate::space) fn unlock(file: impl AsHandle) {
    let _ = flock(file, FlockOperation::Unlock);
}

/// Copies owner, mode and extended attributes, which include access lists, from `from` to `to`. The
/// set-user-id and set-group-id bits are not copied: they are for the old content.
pub(in crate::space) fn copy_metadata(from: &File, status: &Status, to: &File) -> io::Result<()> {
    let (owner, group) = status.owner;
    if self::status(to)?.owner != status.owner {
        fchown(to, Some(Uid::from_raw(owner)), Some(Gid::from_raw(group)))?;
    }
    let wanted = attributes(from)?;
    for name in attribute_names(to)? {
        if !wanted.iter().any(|(wanted, _)| *wanted == name) {
            fremovexattr(to, name.as_str())?;
        }
    }
    for (name, value) in wanted {
        if attribute(to, &name).ok().as_deref() != Some(value.as_slice()) {
            fsetxattr(to, name.as_str(), &value, rustix::fs::XattrFlags::empty())?;
        }
    }
    set_mode(to, status.mode & !0o6000)
}

/// Gives a file an extended attribute, as far as the system lets it.
pub(super) fn set_attribute(file: &File, name: &str, value: &[u8]) {
    let _ = fsetxattr(file, name, value, rustix::fs::XattrFlags::empty());
}

/// Returns the extended attributes of a file.
pub(super) fn attributes(file: impl AsHandle) -> io::Result<Vec<(String, Vec<u8>)>> {
    let file = file.as_fd();
    attribute_names(file)?
        .into_iter()
        .map(|name| attribute(file, &name).map(|value| (name, value)))
        .collect()
}

/// Returns the names of a file's extended attributes. A file system without them has none.
fn attribute_names(file: impl AsHandle) -> io::Result<Vec<String>> {
    let mut names = vec![0u8; 64 * 1024];
    let length = match flistxattr(file, names.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
        Err(error) => return Err(error.into()),
    };
    names.truncate(length);
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| String::from_utf8(name.to_vec()).map_err(|_| io::ErrorKind::InvalidData.into()))
        .collect()
}

fn attribute(file: impl AsHandle, name: &str) -> io::Result<Vec<u8>> {
    let mut value = vec![0u8; 64 * 1024];
    let length = fgetxattr(file, name, value.as_mut_slice())?;
    value.truncate(length);
    Ok(value)
}

/// Calls `each` with the name and kind of every entry of a folder, without `.` and `..`. The name
/// is `None` if it is not UTF-8, since no path can express it.
///
/// Returns whether the system gave all names at once, so that they are those of one moment. Between
/// two calls a system may lose its place, and skip names that were there all the time, when other
/// processes exchange and remove entries meanwhile. (Linux does so in memory file systems.)
#[cfg(target_os = "linux")]
pub(in crate::space) fn entries(
    folder: &Handle,
    mut each: impl FnMut(Option<&str>, EntryKind),
) -> io::Result<bool> {
    /// Room for the names of most folders, in bytes.
    const BUFFER: usize = 64 * 1024;
    use rustix::fs::RawDir;
    // A position of its own: `folder` may be shared.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | ALWAYS;
    let folder = openat(folder, ".", flags, Mode::empty())?;
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut reader = RawDir::new(&folder, buffer.spare_capacity_mut());
    // Counts the calls of `getdents64`. The last one returns no entry, so a folder whose names all
    // came from one call needs two.
    let mut calls = 0;
    loop {
        calls += usize::from(reader.is_buffer_empty());
        let Some(entry) = reader.next() else { return Ok(calls <= 2) };
        let entry = entry?;
        give(&folder, entry.file_name(), entry.file_type(), &mut each);
    }
}

/// Calls `each` with the name and kind of every entry of a folder, without `.` and `..`. The name
/// is `None` if it is not UTF-8, since no path can express it.
///
/// Returns whether the names are known to be those of one moment, which they are not here.
#[cfg(not(target_os = "linux"))]
pub(in crate::space) fn entries(
    folder: &Handle,
    mut each: impl FnMut(Option<&str>, EntryKind),
) -> io::Result<bool> {
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        give(folder, entry.file_name(), entry.file_type(), &mut each);
    }
    Ok(false)
}

/// Returns names of a folder that are not UTF-8 or that `is_odd`, `most` at most. A byte that is
/// not part of a character is written as `\\xff`.
pub(in crate::space) fn odd_names(
    folder: &Handle,
    most: usize,
    is_odd: impl Fn(&str) -> bool,
) -> io::Result<Vec<String>> {
    let mut odd = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let bytes = entry.file_name().to_bytes();
        match std::str::from_utf8(bytes) {
            Err(_) => odd.push(escaped_bytes(bytes)),
            Ok("." | "..") => {}
            Ok(name) if is_odd(name) => odd.push(name.to_owned()),
            Ok(_) => {}
        }
        if odd.len() >= most {
            break;
        }
    }
    odd.sort();
    Ok(odd)
}

fn escaped_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

fn give(
    folder: &Handle,
    name: &CStr,
    file_type: FileType,
    each: &mut impl FnMut(Option<&str>, EntryKind),
) {
    let Ok(name) = name.to_str() else { return each(None, EntryKind::Other) };
    if name == "." || name == ".." {
        return;
    }
    let kind = match file_type {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Unknown => status_at(folder, name).map_or(EntryKind::Other, |status| status.kind),
        _ => EntryKind::Other,
    };
    each(Some(name), kind);
}

/// Reads the list of all locks of the machine.
pub(in crate::space) fn locks() -> io::Result<String> {
    std::fs::read_to_string("/proc/locks")
}

/// Returns how the list of [`locks`] names a file.
pub(in crate::space) fn name_in_locks(Identity(device, inode): Identity) -> String {
    let device = device as rustix::fs::Dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    format!("{major:02x}:{minor:02x}:{inode}")
}

/// Reads the name of the program that a process runs.
pub(in crate::space) fn program_name(process: u32) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/{process}/comm"))
}

/// Returns what an error of the system says.
pub(in crate::space) fn problem(error: &io::Error) -> Problem {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::STALE | Errno::NAMETOOLONG) => Problem::Absent,
        Some(Errno::NOTDIR) => Problem::NotAFolder,
        Some(Errno::XDEV) => Problem::Mount,
        Some(Errno::LOOP) => Problem::Link,
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Problem::Denied,
        Some(Errno::NXIO | Errno::NODEV | Errno::ISDIR) => Problem::NotAFile,
        Some(Errno::NOSPC | Errno::DQUOT) => Problem::NoSpace,
        Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::TXTBSY | Errno::BUSY) => {
            Problem::Busy
        }
        _ => Problem::Other,
    }
}
