//! The system calls of the space. No other module of the space makes any.
//!
//! All calls are relative to an open directory. The operating system resolves a path beneath the
//! root's handle and follows no symbolic link, even while another process replaces directories by
//! links. Only [`open_mount`] enters a mount. On Linux one `openat2` does this. On other systems
//! and older kernels each component is opened by its own call with `O_NOFOLLOW`, which is slower
//! and recognises fewer mounts. macOS calls the exchange `renamex_np`; rustix has it under the same
//! name.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{
    Access, AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, Stat, Uid, accessat,
    fchmod, fchown, fgetxattr, flistxattr, flock, fremovexattr, fsetxattr, fstat, fsync, linkat,
    mkdirat, openat, readlinkat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use stile_domain::facts::{FileStamp, UnixNanos};
use stile_domain::listing::EntryKind;

use crate::history::FileMetadata;

use super::fault::{self, Effect};
use super::identity::Identity;

/// The flags of every open: never wait for the other end of a FIFO, never become the owner of a
/// terminal, never pass the handle to a child.
const ALWAYS: OFlags =
    OFlags::CLOEXEC.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);

/// Opens the root of a space by a path of the machine. Follows links.
pub(super) fn open_root(path: &std::path::Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(rustix::fs::CWD, path, flags, Mode::empty())?)
}

/// Opens a folder beneath `root`. An empty path opens the root itself.
pub(super) fn open_folder(root: &OwnedFd, relative: &str) -> io::Result<OwnedFd> {
    open_beneath(root, relative, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a file of any kind beneath `root` for reading.
pub(super) fn open_file(root: &OwnedFd, relative: &str) -> io::Result<File> {
    fault::point(fault::Call::Open)?;
    open_beneath(root, relative, OFlags::RDONLY).map(File::from)
}

/// Opens a file of any kind in an open folder for reading.
pub(super) fn open_in(folder: &OwnedFd, name: &str) -> io::Result<File> {
    fault::point(fault::Call::Open)?;
    open_beneath(folder, name, OFlags::RDONLY).map(File::from)
}

/// Opens a file of any kind in an open folder for reading and for writing at its end.
pub(super) fn open_to_append(folder: &OwnedFd, name: &str) -> io::Result<File> {
    fault::point(fault::Call::Open)?;
    open_beneath(folder, name, OFlags::RDWR | OFlags::APPEND).map(File::from)
}

/// Opens a folder beneath `root` that may be a mount point, which no other function enters.
/// `relative` must not be empty.
pub(super) fn open_mount(root: &OwnedFd, relative: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    Ok(match relative.rsplit_once('/') {
        None => step(root, relative, flags)?,
        Some((folders, last)) => step(&open_folder(root, folders)?, last, flags)?,
    })
}

#[cfg(target_os = "linux")]
fn open_beneath(root: &OwnedFd, relative: &str, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    use std::sync::atomic::{AtomicBool, Ordering};
    /// Whether the kernel, or a sandbox, has no `openat2`.
    static ABSENT: AtomicBool = AtomicBool::new(false);
    let relative = or_itself(relative);
    // `NO_SYMLINKS` refuses a link already. `NOFOLLOW` with `DIRECTORY` would report it as
    // `ENOTDIR`.
    let flags = flags | ALWAYS.difference(OFlags::NOFOLLOW);
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

#[cfg(not(target_os = "linux"))]
fn open_beneath(root: &OwnedFd, relative: &str, flags: OFlags) -> io::Result<OwnedFd> {
    walk_beneath(root, or_itself(relative), flags)
}

/// Returns `.` for the empty path of the root.
fn or_itself(relative: &str) -> &str {
    if relative.is_empty() { "." } else { relative }
}

/// Opens each component by its own call, follows no link, and enters no mount. `relative` must not
/// contain `..`.
pub(super) fn walk_beneath(root: &OwnedFd, relative: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let device = status(root)?.stamp.device;
    let mut folder: Option<OwnedFd> = None;
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
fn step(folder: &OwnedFd, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
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
fn is_elsewhere(file: &OwnedFd, device: u64) -> io::Result<bool> {
    let status = status(file)?;
    let differs = status.kind == EntryKind::Directory && status.stamp.device != device;
    Ok(differs || is_mount_point(file))
}

#[cfg(target_os = "linux")]
fn is_mount_point(file: &OwnedFd) -> bool {
    use rustix::fs::{StatxAttributes, StatxFlags, statx};
    statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mount_point(_: &OwnedFd) -> bool {
    false
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// The attributes of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Status {
    pub(super) kind: EntryKind,
    pub(super) stamp: FileStamp,
    pub(super) links: u64,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
}

/// Whether this process may add entries to a folder, and remove some. A folder of which that is
/// unknown counts as one.
pub(super) fn may_write_in(folder: &OwnedFd) -> bool {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    let found = accessat(folder, c".", access, AtFlags::EACCESS);
    !matches!(found, Err(Errno::ACCESS | Errno::ROFS | Errno::PERM))
}

impl Status {
    pub(super) fn identity(&self) -> Identity {
        Identity(self.stamp.device, self.stamp.inode)
    }

    /// Returns whether nobody has permission to write, which binds the super-user too.
    pub(super) fn is_protected(&self) -> bool {
        self.mode & 0o222 == 0
    }
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
pub(super) fn status(file: impl AsFd) -> io::Result<Status> {
    Ok(from_stat(&fstat(file)?))
}

fn identity(file: impl AsFd) -> io::Result<Identity> {
    Ok(status(file)?.identity())
}

/// Returns the attributes of a name in an open folder. Does not follow a link.
pub(super) fn status_at(folder: &OwnedFd, name: &str) -> io::Result<Status> {
    Ok(from_stat(&statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Returns the attributes of a name in an open folder, and whether a mount begins there, as far as
/// the system reports it. Does not follow a link. On Linux one call returns both.
#[cfg(target_os = "linux")]
pub(super) fn status_and_mount_at(folder: &OwnedFd, name: &str) -> io::Result<(Status, bool)> {
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
pub(super) fn status_and_mount_at(folder: &OwnedFd, name: &str) -> io::Result<(Status, bool)> {
    Ok((status_at(folder, name)?, false))
}

/// Reads the clock that stamps files.
pub(super) fn now() -> UnixNanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    (now.tv_sec as i64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as i64)
}

/// Reads from `offset` until `buffer` is full or the file ends. Returns the number of bytes.
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..)
        && !rest.is_empty()
    {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The mode of new files, before the folder and the process restrict it.
pub(super) const NEW_FILE: u32 = 0o666;

/// Creates a file in a folder, open for writing. Returns the file, and its mode after the folder
/// and the process restricted `mode`.
pub(super) fn make_file(folder: &OwnedFd, name: &str, mode: u32) -> io::Result<(File, u32)> {
    fault::point(fault::Call::Open)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | ALWAYS;
    let file = openat(folder, name, flags, Mode::from_raw_mode(mode as rustix::fs::RawMode))?;
    let Status { mode, .. } = status(&file)?;
    fault::record(|| {
        let (folder, file) = (identity(folder)?, identity(&file)?);
        Ok(Effect::MadeFile { folder, name: name.to_owned(), file, mode })
    });
    Ok((File::from(file), mode))
}

pub(super) fn set_mode(file: impl AsFd, mode: u32) -> io::Result<()> {
    fchmod(&file, Mode::from_raw_mode(mode as rustix::fs::RawMode))?;
    fault::record(|| Ok(Effect::SetMode { file: identity(&file)?, mode }));
    Ok(())
}

/// Writes `bytes` to the end of a file that [`make_file`] created.
pub(super) fn write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    fault::point(fault::Call::Write)?;
    file.write_all(bytes)?;
    fault::record(|| Ok(Effect::Wrote { file: identity(file)?, bytes: bytes.to_vec() }));
    Ok(())
}

/// Writes to the end of a file of [`open_to_append`] with one call. Returns how many bytes were
/// written, which are fewer than `bytes` on a full disk.
pub(super) fn append_once(file: &File, bytes: &[u8]) -> io::Result<usize> {
    fault::point(fault::Call::Write)?;
    let part = bytes.get(..fault::most_written().unwrap_or(bytes.len())).unwrap_or(bytes);
    let written = loop {
        match rustix::io::write(file, part) {
            Err(Errno::INTR) => {}
            written => break written?,
        }
    };
    fault::record(|| {
        let bytes = part.get(..written).unwrap_or_default().to_vec();
        Ok(Effect::Wrote { file: identity(file)?, bytes })
    });
    Ok(written)
}

/// Returns the offset behind what was last written to a file.
pub(super) fn position(mut file: &File) -> io::Result<u64> {
    io::Seek::stream_position(&mut file)
}

/// Writes over the beginning of a file of [`make_file`].
pub(super) fn overwrite(file: &File, bytes: &[u8]) -> io::Result<()> {
    fault::point(fault::Call::Write)?;
    file.write_all_at(bytes, 0)?;
    fault::record(|| Ok(Effect::Overwrote { file: identity(file)?, bytes: bytes.to_vec() }));
    Ok(())
}

/// Cuts a file off.
pub(super) fn truncate(file: &File, size: u64) -> io::Result<()> {
    fault::point(fault::Call::Write)?;
    file.set_len(size)?;
    fault::record(|| Ok(Effect::Truncated { file: identity(file)?, size }));
    Ok(())
}

/// Makes the content of an open file durable, with its size.
pub(super) fn sync_data(file: &File) -> io::Result<()> {
    fault::point(fault::Call::Sync)?;
    file.sync_data()?;
    fault::record(|| Ok(Effect::Synced(identity(file)?)));
    Ok(())
}

/// The mode of a folder that only its owner can open.
pub(super) const OWNER_ALONE: u32 = stile_domain::history::folder_modes::OWNER_ALONE;

/// Creates a folder in a folder, for its owner alone until it gets its `mode` if there is one.
/// Returns `false` if the name is in use.
pub(super) fn make_folder(folder: &OwnedFd, name: &str, mode: Option<u32>) -> io::Result<bool> {
    let mode = mode.map_or(0o777, |_| OWNER_ALONE);
    match mkdirat(folder, name, Mode::from_raw_mode(mode as rustix::fs::RawMode)) {
        Ok(()) => {
            fault::record(|| {
                let made = status_at(folder, name)?.identity();
                Ok(Effect::MadeFolder { folder: identity(folder)?, name: name.to_owned(), made })
            });
            Ok(true)
        }
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes an empty folder from a folder.
pub(super) fn remove_folder(folder: &OwnedFd, name: &str) -> io::Result<()> {
    unlinkat(folder, name, AtFlags::REMOVEDIR)?;
    fault::record(|| Ok(Effect::Removed { folder: identity(folder)?, name: name.to_owned() }));
    Ok(())
}

pub(super) fn unlink(folder: &OwnedFd, name: &str) -> io::Result<()> {
    fault::moment();
    unlinkat(folder, name, AtFlags::empty())?;
    fault::record(|| Ok(Effect::Removed { folder: identity(folder)?, name: name.to_owned() }));
    Ok(())
}

/// Makes the changes of an open file or folder durable.
pub(super) fn sync(file: impl AsFd) -> io::Result<()> {
    fault::point(fault::Call::Sync)?;
    wait_for_disk(&file)?;
    fault::record(|| Ok(Effect::Synced(identity(&file)?)));
    Ok(())
}

#[cfg(not(target_os = "macos"))]
fn wait_for_disk(file: impl AsFd) -> Result<(), Errno> {
    fsync(file)
}

/// Waits until the disk has written what it keeps in its own cache, for which `fsync` does not
/// wait on macOS. A file system that cannot say so, such as one over the network, gets an `fsync`.
#[cfg(target_os = "macos")]
fn wait_for_disk(file: impl AsFd) -> Result<(), Errno> {
    match rustix::fs::fcntl_fullfsync(&file) {
        Err(Errno::INVAL | Errno::NOTSUP | Errno::NOTTY) => fsync(file),
        done => done,
    }
}

/// Exchanges two names of a folder in one step.
pub(super) fn exchange(folder: &OwnedFd, one: &str, other: &str) -> io::Result<()> {
    fault::point(fault::Call::Rename)?;
    fault::flags()?;
    renameat_with(folder, one, folder, other, RenameFlags::EXCHANGE)?;
    fault::record(|| {
        let (one, other) = (one.to_owned(), other.to_owned());
        Ok(Effect::Exchanged { folder: identity(folder)?, one, other })
    });
    Ok(())
}

/// Returns whether an error means that the file system lacks the operation.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}

/// Gives a temporary file of ours another name in its folder. Fails if the new name is in use.
pub(super) fn rename_new(folder: &OwnedFd, from: &str, to: &str) -> io::Result<()> {
    move_ours((folder, from), (folder, to))
}

/// Moves a temporary file or folder of ours, also to another folder. Fails if the new name is in
/// use.
///
/// No other program writes the name `from`, so a file system without [`move_new`] may link and
/// unlink: neither step replaces or removes a file of anybody else. After a crash between them the
/// file has both names, and the cleaner removes the temporary one.
pub(super) fn move_ours(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) -> io::Result<()> {
    match move_new(from, to) {
        Err(error) if is_unsupported(&error) => {
            if status_at(from.0, from.1)?.kind == EntryKind::Directory {
                return move_folder_new(from, to);
            }
            link_new(from, to)?;
            unlink(from.0, from.1)
        }
        done => done,
    }
}

/// Gives a file a temporary name of ours, `aside`, which no other file has.
///
/// On a file system without [`move_new`] this is a plain rename. One that links and unlinks would
/// remove what another program saves between the two steps.
pub(super) fn set_aside(folder: &OwnedFd, name: &str, aside: &str) -> io::Result<()> {
    match move_new((folder, name), (folder, aside)) {
        Err(error) if is_unsupported(&error) => {
            renameat(folder, name, folder, aside)?;
            record_rename((folder, name), (folder, aside));
            Ok(())
        }
        done => done,
    }
}

/// Moves a file from one folder to another in one step. Fails if the new name is in use, and with
/// an error that [`is_unsupported`] on a file system without such a rename.
pub(super) fn move_new(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) -> io::Result<()> {
    fault::point(fault::Call::Rename)?;
    fault::flags()?;
    renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE)?;
    record_rename(from, to);
    Ok(())
}

/// Moves a folder to another name or another folder in one step. Fails if the new name is in use.
///
/// On a file system without [`move_new`] the new name is taken by an empty folder first, which the
/// rename replaces: it replaces nothing else.
pub(super) fn move_folder_new(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) -> io::Result<()> {
    match move_new(from, to) {
        Err(error) if is_unsupported(&error) => {
            if !make_folder(to.0, to.1, None)? {
                return Err(Errno::EXIST.into());
            }
            if let Err(error) = renameat(from.0, from.1, to.0, to.1) {
                let _ = remove_folder(to.0, to.1);
                return Err(error.into());
            }
            record_rename(from, to);
            Ok(())
        }
        done => done,
    }
}

/// Moves anything to a folder under the same name of any bytes. Fails if the name is in use there.
pub(super) fn move_named(from: &OwnedFd, to: &OwnedFd, name: &CStr) -> io::Result<()> {
    fault::point(fault::Call::Rename)?;
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
pub(super) fn named_entries(
    folder: &OwnedFd,
    mut each: impl FnMut(&CStr, EntryKind, Option<&[u8]>),
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
        each(name, kind, target.as_deref().map(CStr::to_bytes));
    }
    Ok(())
}

fn record_rename(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) {
    fault::record(|| {
        let (folder, to_folder) = (identity(from.0)?, identity(to.0)?);
        let (from, to) = (from.1.to_owned(), to.1.to_owned());
        Ok(Effect::Renamed { folder, from, to_folder, to })
    });
}

/// Gives a file a second name. Fails if that name is in use.
pub(super) fn link_new(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) -> io::Result<()> {
    fault::point(fault::Call::Link)?;
    linkat(from.0, from.1, to.0, to.1, AtFlags::empty())?;
    fault::record(|| {
        let (folder, name) = (identity(to.0)?, to.1.to_owned());
        Ok(Effect::Linked { folder, name, file: status_at(to.0, to.1)?.identity() })
    });
    Ok(())
}

/// Takes an exclusive advisory lock on an open folder or file, without waiting. Returns `false` if
/// another process holds it. The lock ends with [`unlock`], the last descriptor, or the process.
pub(super) fn try_lock(file: impl AsFd) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn unlock(file: impl AsFd) {
    let _ = flock(file, FlockOperation::Unlock);
}

/// Copies owner, mode and extended attributes, which include access lists, from `from` to `to`. The
/// set-user-id and set-group-id bits are not copied: they are for the old content.
pub(super) fn copy_metadata(from: &File, status: &Status, to: &File) -> io::Result<()> {
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

/// Returns what a file has beside its content. Attributes that cannot be read are left out.
pub(super) fn metadata(file: &File, status: &Status) -> FileMetadata {
    let attributes = attributes(file).unwrap_or_default().into_iter().collect();
    FileMetadata { mode: status.mode & !0o6000, attributes }
}

/// Gives a new file the mode and the attributes of a removed one, as far as the system lets it.
pub(super) fn give_metadata(file: &File, metadata: &FileMetadata) -> io::Result<()> {
    for (name, value) in &metadata.attributes {
        let _ = fsetxattr(file, name.as_str(), value, rustix::fs::XattrFlags::empty());
    }
    set_mode(file, metadata.mode & 0o777)
}

fn attributes(file: impl AsFd) -> io::Result<Vec<(String, Vec<u8>)>> {
    let file = file.as_fd();
    attribute_names(file)?
        .into_iter()
        .map(|name| attribute(file, &name).map(|value| (name, value)))
        .collect()
}

/// Returns the names of a file's extended attributes. A file system without them has none.
fn attribute_names(file: impl AsFd) -> io::Result<Vec<String>> {
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

fn attribute(file: impl AsFd, name: &str) -> io::Result<Vec<u8>> {
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
pub(super) fn entries(
    folder: &OwnedFd,
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
pub(super) fn entries(
    folder: &OwnedFd,
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
pub(super) fn odd_names(
    folder: &OwnedFd,
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
    folder: &OwnedFd,
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
pub(super) fn locks() -> io::Result<String> {
    std::fs::read_to_string("/proc/locks")
}

/// Returns how the list of [`locks`] names a file.
pub(super) fn name_in_locks(Identity(device, inode): Identity) -> String {
    let device = device as rustix::fs::Dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    format!("{major:02x}:{minor:02x}:{inode}")
}

/// Reads the name of the program that a process runs.
pub(super) fn program_name(process: u32) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/{process}/comm"))
}
