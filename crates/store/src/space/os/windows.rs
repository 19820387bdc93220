//! The system calls of Windows, which the crate `stile-windows` makes.
//!
//! A path is opened component by component, each by its name in the folder before it, spelled as
//! that folder spells it, and no link is followed. Files have no modes and owners there: of a mode,
//! whether anybody may write is kept, as the mark that a file is read-only.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stile_domain::facts::{FileStamp, UnixNanos};
use stile_domain::listing::EntryKind;
use stile_windows::files::{self, Facts, Kind, Marks, Sharing, Taken};

use super::answers::{Access, Problem, Status, UNFINISHED};
use crate::platform::LOCKED_BYTE;
use crate::space::identity::Identity;
use crate::state::make_folder;

/// What has an open file or folder.
pub(in crate::space) use std::os::windows::io::AsHandle;
/// An open file or folder.
pub(in crate::space) use std::os::windows::io::OwnedHandle as Handle;

/// Opens the root of a space by a path of the machine. Follows links.
pub(in crate::space) fn open_root(path: &std::path::Path) -> io::Result<Handle> {
    /// Without this bit the system opens no folder.
    const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    let opened = options.open(path)?;
    match status(&opened)?.kind {
        EntryKind::Directory => Ok(Handle::from(opened)),
        _ => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// Refuses: a volume that is mounted in a folder is not entered on this system.
pub(in crate::space) fn open_mount(_: &Handle, _: &str) -> io::Result<Handle> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens a file or folder beneath `root`. An empty path opens the root itself.
pub(super) fn open_beneath(root: &Handle, relative: &str, access: Access) -> io::Result<Handle> {
    if relative.is_empty() {
        return root.try_clone();
    }
    let mut folder: Option<Handle> = None;
    let mut names = relative.split('/').peekable();
    while let Some(name) = names.next() {
        let access = match (names.peek(), access) {
            (Some(_), _) | (None, Access::Folder) => files::Access::Folder,
            (None, Access::Read) => files::Access::Read,
            (None, Access::Append) => files::Access::Append,
        };
        let above = folder.as_ref().unwrap_or(root);
        folder = Some(files::open(above.as_handle(), &wide(name), access)?);
    }
    folder.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn wide(name: &str) -> Vec<u16> {
    name.encode_utf16().collect()
}

fn to_status(facts: &Facts) -> Status {
    Status {
        kind: to_kind(facts.kind()),
        stamp: FileStamp {
            device: facts.volume,
            inode: facts.number,
            size: facts.size,
            modified: facts.modified,
            changed: facts.changed,
        },
        links: facts.links,
        mode: match (facts.kind(), facts.marks()) {
            (Kind::Folder, _) => 0o777,
            (_, Marks::Plain) => 0o666,
            (_, Marks::ReadOnly) => 0o444,
            (_, Marks::Unfinished) => UNFINISHED,
        },
        owner: (0, 0),
    }
}

fn to_kind(kind: Kind) -> EntryKind {
    match kind {
        Kind::File => EntryKind::File,
        Kind::Folder => EntryKind::Directory,
        Kind::Link => EntryKind::Symlink,
    }
}

fn to_marks(mode: u32) -> Marks {
    match mode {
        UNFINISHED => Marks::Unfinished,
        mode if mode & 0o222 == 0 => Marks::ReadOnly,
        _ => Marks::Plain,
    }
}

/// Returns the attributes of an open file.
pub(in crate::space) fn status(file: impl AsHandle) -> io::Result<Status> {
    Ok(to_status(&files::facts(file.as_handle())?))
}

/// Returns the attributes of a name in an open folder. Does not follow a link.
pub(in crate::space) fn status_at(folder: &Handle, name: &str) -> io::Result<Status> {
    Ok(to_status(&files::facts_at(folder.as_handle(), &wide(name))?))
}

/// Returns the attributes of a name in an open folder, and that no mount begins there: a mounted
/// volume is a link on this system.
pub(in crate::space) fn status_and_mount_at(
    folder: &Handle,
    name: &str,
) -> io::Result<(Status, bool)> {
    Ok((status_at(folder, name)?, false))
}

/// Reads the clock that stamps files.
pub(in crate::space) fn now() -> UnixNanos {
    files::clock()
}

/// Creates a file in a folder, open for writing.
pub(super) fn create(folder: &Handle, name: &str, mode: u32) -> io::Result<Handle> {
    files::create(folder.as_handle(), &wide(name), to_marks(mode))
}

pub(super) fn set_mode(file: impl AsHandle, mode: u32) -> io::Result<()> {
    files::set_marks(file.as_handle(), to_marks(mode))
}

/// Returns the offset behind what was last written to the end of a file.
pub(in crate::space) fn append_position(mut file: &File) -> io::Result<u64> {
    io::Seek::stream_position(&mut file)
}

/// Writes over the beginning of a file.
pub(super) fn write_over(file: &File, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..)
        && !rest.is_empty()
    {
        match file.seek_write(rest, written as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            more => written += more,
        }
    }
    Ok(())
}

/// Cuts a file off that was opened for writing at its end.
pub(super) fn cut(file: &File, size: u64) -> io::Result<()> {
    File::from(files::open_to_write(file.as_handle())?).set_len(size)
}

/// Creates a folder in a folder, with the rights that the folder gives it.
pub(super) fn create_folder(folder: &Handle, name: &str, _: u32) -> io::Result<()> {
    files::create_folder(folder.as_handle(), &wide(name))
}

/// Removes an empty folder from a folder.
pub(super) fn remove_folder(folder: &Handle, name: &str) -> io::Result<()> {
    files::remove_folder(folder.as_handle(), &wide(name))
}

pub(super) fn unlink(folder: &Handle, name: &str) -> io::Result<()> {
    files::remove_file(folder.as_handle(), &wide(name))
}

/// Makes the changes of an open file or folder durable.
pub(super) fn wait_for_disk(file: impl AsHandle) -> io::Result<()> {
    files::flush(file.as_handle())
}

/// Fails: no file system of Windows exchanges two names.
pub(super) fn exchange(_: &Handle, _: &str, _: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns whether an error means that the file system lacks the operation.
pub(in crate::space) fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// Moves a file or folder in one step. Fails if the new name is in use.
pub(super) fn rename_new(from: (&Handle, &str), to: (&Handle, &str)) -> io::Result<()> {
    rename_wide((from.0, &wide(from.1)), (to.0, &wide(to.1)), Taken::Refused)
}

/// Moves a file or folder in one step. Replaces a file of the new name.
pub(super) fn rename(from: (&Handle, &str), to: (&Handle, &str)) -> io::Result<()> {
    rename_wide((from.0, &wide(from.1)), (to.0, &wide(to.1)), Taken::Replaced)
}

fn rename_wide(from: (&Handle, &[u16]), to: (&Handle, &[u16]), taken: Taken) -> io::Result<()> {
    files::rename((from.0.as_handle(), from.1), (to.0.as_handle(), to.1), taken)
}

/// Moves anything to a folder under the same name of any bytes. Fails if the name is in use there.
pub(super) fn move_named(from: &Handle, to: &Handle, name: &[u8]) -> io::Result<()> {
    let name = units_of(name);
    rename_wide((from, &name), (to, &name), Taken::Refused)
}

/// Calls `each` with the name and kind of every entry of a folder, without `.` and `..`, whatever
/// the name is. Where a link leads is not told.
pub(in crate::space) fn named_entries(
    folder: &Handle,
    mut each: impl FnMut(&[u8], EntryKind, Option<&[u8]>),
) -> io::Result<()> {
    files::entries(folder.as_handle(), |name, kind| each(&bytes_of(name), to_kind(kind), None))
}

/// Returns a name as UTF-8. Half of a pair of units, which is no character, is written like one.
fn bytes_of(name: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    for character in char::decode_utf16(name.iter().copied()) {
        match character {
            Ok(character) => {
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Err(half) => {
                let unit = half.unpaired_surrogate();
                let last = |shift: u16| 0x80 | (unit >> shift & 0x3f) as u8;
                bytes.extend([0xe0 | (unit >> 12) as u8, last(6), last(0)]);
            }
        }
    }
    bytes
}

/// Returns the name of which [`bytes_of`] made bytes.
fn units_of(bytes: &[u8]) -> Vec<u16> {
    let mut units = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let text = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => rest
                .get(..error.valid_up_to())
                .and_then(|valid| std::str::from_utf8(valid).ok())
                .unwrap_or_default(),
        };
        units.extend(text.encode_utf16());
        rest = rest.get(text.len()..).unwrap_or_default();
        // What is left begins with half a pair.
        if let [first, second, third, ..] = rest {
            let six = |byte: &u8| u16::from(byte & 0x3f);
            units.push(u16::from(*first) << 12 | six(second) << 6 | six(third));
        }
        rest = rest.get(3..).unwrap_or_default();
    }
    units
}

/// Gives a file a second name. Fails if that name is in use.
pub(super) fn link(from: (&Handle, &str), to: (&Handle, &str)) -> io::Result<()> {
    files::link_to((from.0.as_handle(), &wide(from.1)), (to.0.as_handle(), &wide(to.1)))
}

/// The locks of folders that this process holds, each with the open file that has its byte.
///
/// The system locks bytes of files, and no folder. So each user has one file, with a byte for each
/// folder.
static LOCKED_FOLDERS: Mutex<Option<HashMap<Identity, File>>> = Mutex::new(None);

fn locked_folders() -> MutexGuard<'static, Option<HashMap<Identity, File>>> {
    LOCKED_FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process may add entries to a folder. Only an attempt tells on Windows.
pub(in crate::space) fn may_write_in(_: &Handle) -> bool {
    true
}

/// Takes an exclusive lock on an open folder or file, without waiting. Returns `false` if another
/// process or handle holds it. The lock ends with [`unlock`] or the process, and that of a file
/// with its handle. Processes of one user see each other's locks of folders.
pub(in crate::space) fn try_lock(file: impl AsHandle) -> io::Result<bool> {
    let status = status(&file)?;
    if status.kind != EntryKind::Directory {
        return files::try_lock(file.as_handle(), LOCKED_BYTE, Sharing::Alone);
    }
    let mut held = locked_folders();
    let held = held.get_or_insert_default();
    if held.contains_key(&status.identity()) {
        return Ok(false);
    }
    let locks = open_locks()?;
    let is_free = files::try_lock(locks.as_handle(), byte_of(status.identity()), Sharing::Alone)?;
    if is_free {
        held.insert(status.identity(), locks);
    }
    Ok(is_free)
}

pub(in crate::space) fn unlock(file: impl AsHandle) {
    let Ok(status) = status(&file) else { return };
    if status.kind == EntryKind::Directory {
        let locks = locked_folders().as_mut().and_then(|held| held.remove(&status.identity()));
        if let Some(locks) = locks {
            files::unlock(locks.as_handle(), byte_of(status.identity()));
        }
    } else {
        files::unlock(file.as_handle(), LOCKED_BYTE);
    }
}

/// Returns the byte that stands for a folder. Two folders with one byte wait for each other, and
/// nothing worse.
fn byte_of(Identity(volume, number): Identity) -> u64 {
    let mixed = volume.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
    mixed & (LOCKED_BYTE - 1)
}

/// Opens the file with the locks of folders, in the user's profile. It stays empty.
#[expect(
    clippy::disallowed_methods,
    reason = "all processes of the user must find one file, whatever settings they have"
)]
fn open_locks() -> io::Result<File> {
    let profile = std::env::var_os("LOCALAPPDATA").map(PathBuf::from);
    let folder = profile.unwrap_or_else(std::env::temp_dir).join("stile");
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.open(folder.join("folders.lock"))
    };
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folder(&folder)?;
            open()
        }
        opened => opened,
    }
}

/// Gives a new version of a file the access list, the attributes and the time of making of the old
/// one. Other streams than the content are not copied.
pub(in crate::space) fn copy_metadata(from: &File, _: &Status, to: &File) -> io::Result<()> {
    files::copy_attributes(from.as_handle(), to.as_handle())
}

/// Does nothing: no extended attribute of this system is kept.
pub(super) fn set_attribute(_: &File, _: &str, _: &[u8]) {}

/// Returns nothing: no extended attribute of this system is kept.
pub(super) fn attributes(_: &File) -> io::Result<Vec<(String, Vec<u8>)>> {
    Ok(Vec::new())
}

/// Calls `each` with the name and kind of every entry of a folder, without `.` and `..`. The name
/// is `None` if it has half a pair of units, since no path can express it.
///
/// Returns whether the names are known to be those of one moment, which they are not here.
pub(in crate::space) fn entries(
    folder: &Handle,
    mut each: impl FnMut(Option<&str>, EntryKind),
) -> io::Result<bool> {
    files::entries(folder.as_handle(), |name, kind| {
        each(String::from_utf16(name).ok().as_deref(), to_kind(kind));
    })?;
    Ok(false)
}

/// Returns names of a folder that have half a pair of units or that `is_odd`, `most` at most.
pub(in crate::space) fn odd_names(
    folder: &Handle,
    most: usize,
    is_odd: impl Fn(&str) -> bool,
) -> io::Result<Vec<String>> {
    let mut odd = Vec::new();
    files::entries(folder.as_handle(), |name, _| {
        if odd.len() < most {
            match String::from_utf16(name) {
                Err(_) => odd.push(String::from_utf16_lossy(name)),
                Ok(name) if is_odd(&name) => odd.push(name),
                Ok(_) => {}
            }
        }
    })?;
    odd.sort();
    Ok(odd)
}

/// Fails: the system has no list of all locks.
pub(in crate::space) fn locks() -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns nothing: there is no list of locks that would name a file.
pub(in crate::space) fn name_in_locks(_: Identity) -> String {
    String::new()
}

/// Fails: nobody asks, since no list of locks names a process.
pub(in crate::space) fn program_name(_: u32) -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns what an error of the system says.
pub(in crate::space) fn problem(error: &io::Error) -> Problem {
    /// Another program has opened the file and lets nobody else.
    const ERROR_SHARING_VIOLATION: i32 = 32;
    /// Another program has locked the bytes.
    const ERROR_LOCK_VIOLATION: i32 = 33;
    /// The file is being removed.
    const ERROR_DELETE_PENDING: i32 = 303;
    if files::is_link(error) {
        return Problem::Link;
    }
    if let Some(ERROR_SHARING_VIOLATION | ERROR_LOCK_VIOLATION | ERROR_DELETE_PENDING) =
        error.raw_os_error()
    {
        return Problem::Busy;
    }
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename => Problem::Absent,
        io::ErrorKind::NotADirectory => Problem::NotAFolder,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Problem::Denied,
        io::ErrorKind::IsADirectory => Problem::NotAFile,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Problem::NoSpace,
        io::ErrorKind::ResourceBusy => Problem::Busy,
        _ => Problem::Other,
    }
}
