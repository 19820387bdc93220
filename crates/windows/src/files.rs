//! Files and folders, opened by their name in an open folder.
//!
//! Every name is one component. A name that Windows would read as more than that is refused before
//! the system sees it: one with `\`, `/` or `:`, which begins another stream of a file. Nothing
//! here follows a link. All handles let other programs read, write, rename and remove the file
//! meanwhile.

use std::io;
use std::mem::offset_of;
use std::os::windows::io::{
    AsHandle, AsRawHandle as _, BorrowedHandle, FromRawHandle as _, OwnedHandle,
};
use std::ptr::{null, null_mut};

use windows_sys::Wdk::Foundation::OBJECT_ATTRIBUTES;
use windows_sys::Wdk::Storage::FileSystem::{
    FILE_CREATE, FILE_DIRECTORY_FILE, FILE_DISPOSITION_DELETE,
    FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE, FILE_DISPOSITION_INFORMATION,
    FILE_DISPOSITION_INFORMATION_EX, FILE_DISPOSITION_POSIX_SEMANTICS, FILE_INFORMATION_CLASS,
    FILE_NON_DIRECTORY_FILE, FILE_OPEN, FILE_OPEN_FOR_BACKUP_INTENT, FILE_OPEN_REPARSE_POINT,
    FILE_RENAME_INFORMATION, FILE_RENAME_POSIX_SEMANTICS, FILE_RENAME_REPLACE_IF_EXISTS,
    FILE_SYNCHRONOUS_IO_NONALERT, FileDispositionInformation, FileDispositionInformationEx,
    FileLinkInformation, FileRenameInformation, FileRenameInformationEx, NtCreateFile,
    NtSetInformationFile,
};
use windows_sys::Win32::Foundation::{
    ERROR_CANT_ACCESS_FILE, ERROR_INVALID_NAME, ERROR_IO_PENDING, ERROR_LOCK_VIOLATION,
    ERROR_NO_MORE_FILES, FILETIME, GENERIC_ACCESS_RIGHTS, HANDLE, NTSTATUS, OBJ_CASE_INSENSITIVE,
    OBJ_DONT_REPARSE, RtlNtStatusToDosError, STATUS_INVALID_INFO_CLASS, STATUS_INVALID_PARAMETER,
    STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED, UNICODE_STRING,
};
use windows_sys::Win32::Security::{
    DACL_SECURITY_INFORMATION, GetKernelObjectSecurity, SetKernelObjectSecurity,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, DELETE, FILE_APPEND_DATA, FILE_ATTRIBUTE_DIRECTORY,
    FILE_ATTRIBUTE_HIDDEN, FILE_ATTRIBUTE_NORMAL, FILE_ATTRIBUTE_READONLY,
    FILE_ATTRIBUTE_REPARSE_POINT, FILE_ATTRIBUTE_SYSTEM, FILE_ATTRIBUTE_TAG_INFO, FILE_BASIC_INFO,
    FILE_GENERIC_READ, FILE_GENERIC_WRITE, FILE_ID_BOTH_DIR_INFO, FILE_INFO_BY_HANDLE_CLASS,
    FILE_NAME_NORMALIZED, FILE_READ_ATTRIBUTES, FILE_SHARE_DELETE, FILE_SHARE_READ,
    FILE_SHARE_WRITE, FILE_WRITE_ATTRIBUTES, FILE_WRITE_DATA, FileAttributeTagInfo, FileBasicInfo,
    FileIdBothDirectoryInfo, FlushFileBuffers, GetFileInformationByHandle,
    GetFileInformationByHandleEx, GetFinalPathNameByHandleW, LOCKFILE_EXCLUSIVE_LOCK,
    LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, SYNCHRONIZE, SetFileInformationByHandle, UnlockFileEx,
    VOLUME_NAME_NONE, WRITE_DAC,
};
use windows_sys::Win32::System::IO::{IO_STATUS_BLOCK, OVERLAPPED};
use windows_sys::Win32::System::SystemInformation::GetSystemTimeAsFileTime;

use crate::checked;

/// The bit of a reparse point's tag that says that the point stands for another name, as a link and
/// a mounted volume do, and a file that is kept in a cloud does not.
const STANDS_FOR_A_NAME: u32 = 0x2000_0000;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read a file or folder, its attributes and its rights.
    Read,
    /// To read a folder. Anything else is refused.
    Folder,
    /// To read a file, and to write at its end alone.
    Append,
}

/// What the system says of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The bits of its attributes, `FILE_ATTRIBUTE_*`.
    attributes: u32,
    /// The tag of its reparse point; 0 without one.
    tag: u32,
    /// The number of its volume.
    pub volume: u64,
    /// Its number in the volume.
    pub number: u64,
    /// Its size in bytes.
    pub size: u64,
    /// How many names it has.
    pub links: u64,
    /// When its content was changed, in nanoseconds since 1970.
    pub modified: i64,
    /// When anything of it was changed, in nanoseconds since 1970.
    pub changed: i64,
    /// When it was made, as the system counts.
    created: i64,
}

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, or a volume that is mounted in a folder.
    Link,
}

/// The attributes that Stile changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Everybody with the right may write.
    Plain,
    /// Nobody may write.
    ReadOnly,
    /// Hidden, and of the system: the file is unfinished.
    Unfinished,
}

impl Facts {
    /// Returns what the file is.
    pub fn kind(&self) -> Kind {
        kind(self.attributes, self.tag)
    }

    /// Returns the attributes that Stile changes.
    pub fn marks(&self) -> Marks {
        const UNFINISHED: u32 = FILE_ATTRIBUTE_HIDDEN | FILE_ATTRIBUTE_SYSTEM;
        if self.attributes & FILE_ATTRIBUTE_DIRECTORY != 0 {
            // There the bit says that the folder has its own icon.
            Marks::Plain
        } else if self.attributes & UNFINISHED == UNFINISHED {
            Marks::Unfinished
        } else if self.attributes & FILE_ATTRIBUTE_READONLY != 0 {
            Marks::ReadOnly
        } else {
            Marks::Plain
        }
    }
}

fn kind(attributes: u32, tag: u32) -> Kind {
    if attributes & FILE_ATTRIBUTE_REPARSE_POINT != 0 && tag & STANDS_FOR_A_NAME != 0 {
        Kind::Link
    } else if attributes & FILE_ATTRIBUTE_DIRECTORY != 0 {
        Kind::Folder
    } else {
        Kind::File
    }
}

/// Opens a file or folder by its name in an open folder, which must be spelled as the folder spells
/// it: Windows would find it by another case too, and by a short name such as `NOTES~1`.
///
/// # Errors
/// The error of the system; [`is_link`] for a link; [`io::ErrorKind::NotFound`] for another
/// spelling.
pub fn open(folder: BorrowedHandle<'_>, name: &[u16], access: Access) -> io::Result<OwnedHandle> {
    let (rights, options) = match access {
        Access::Read => (FILE_GENERIC_READ, 0),
        Access::Folder => (FILE_GENERIC_READ, FILE_DIRECTORY_FILE),
        Access::Append => {
            (FILE_GENERIC_READ | FILE_APPEND_DATA | FILE_WRITE_ATTRIBUTES, FILE_NON_DIRECTORY_FILE)
        }
    };
    // A link is opened itself, so that it is recognised; with the kind wanted, it may be no such.
    let opened = match open_exactly(folder, name, rights, options) {
        Err(error) if options != 0 => match open_exactly(folder, name, FILE_READ_ATTRIBUTES, 0) {
            Ok(found) if attributes(found.as_handle())?.0 == Kind::Link => return Err(link()),
            _ => return Err(error),
        },
        opened => opened?,
    };
    match attributes(opened.as_handle())? {
        (Kind::Link, _) => Err(link()),
        (_, false) => Ok(opened),
        // What a cloud or a compressing file system keeps elsewhere: its driver is asked now, and
        // a name that has become a link meanwhile is refused.
        (_, true) => nt_open(folder, name, rights, (FILE_OPEN, options, 0), OBJ_DONT_REPARSE),
    }
}

/// Opens a file, a folder or a link itself, and refuses another spelling of its name.
fn open_exactly(
    folder: BorrowedHandle<'_>,
    name: &[u16],
    rights: u32,
    options: u32,
) -> io::Result<OwnedHandle> {
    let opened =
        nt_open(folder, name, rights, (FILE_OPEN, options | FILE_OPEN_REPARSE_POINT, 0), 0)?;
    let is_spelled_so = match last_component(opened.as_handle()) {
        Some(spelled) => spelled == name,
        // A file system that does not say so: at least no short name is taken.
        None => !name.contains(&u16::from(b'~')),
    };
    if is_spelled_so { Ok(opened) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Opens a file or folder once more, with a position and rights of its own.
fn open_again(file: BorrowedHandle<'_>, rights: u32) -> io::Result<OwnedHandle> {
    nt_open_any(file, &[], rights, (FILE_OPEN, 0, 0), 0)
}

/// Opens a file to read what is known of it, or to rename or remove it.
fn open_name(folder: BorrowedHandle<'_>, name: &[u16], rights: u32) -> io::Result<OwnedHandle> {
    nt_open(folder, name, rights, (FILE_OPEN, FILE_OPEN_REPARSE_POINT, 0), 0)
}

/// Opens a file once more to write to it, of which a handle is open that may only append.
///
/// # Errors
/// The error of the system.
pub fn open_to_write(file: BorrowedHandle<'_>) -> io::Result<OwnedHandle> {
    open_again(file, FILE_WRITE_DATA | FILE_READ_ATTRIBUTES | SYNCHRONIZE)
}

/// Creates a file in a folder, open for writing.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::AlreadyExists`] if the name is in use.
pub fn create(folder: BorrowedHandle<'_>, name: &[u16], marks: Marks) -> io::Result<OwnedHandle> {
    // The rights are changed, too: a new version gets those of the old one.
    let rights = FILE_GENERIC_WRITE | FILE_READ_ATTRIBUTES | WRITE_DAC;
    let how = (FILE_CREATE, FILE_NON_DIRECTORY_FILE, bits(marks).max(FILE_ATTRIBUTE_NORMAL));
    nt_open(folder, name, rights, how, 0)
}

/// Creates a folder in a folder.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::AlreadyExists`] if the name is in use.
pub fn create_folder(folder: BorrowedHandle<'_>, name: &[u16]) -> io::Result<()> {
    let how = (FILE_CREATE, FILE_DIRECTORY_FILE, FILE_ATTRIBUTE_NORMAL);
    nt_open(folder, name, FILE_READ_ATTRIBUTES | SYNCHRONIZE, how, 0).map(drop)
}

/// Returns what the system says of an open file.
///
/// # Errors
/// The error of the system.
pub fn facts(file: BorrowedHandle<'_>) -> io::Result<Facts> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the value outlives the call.
    checked(unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) })?;
    let basic: FILE_BASIC_INFO = about(file, FileBasicInfo)?;
    let tag = match found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT {
        0 => 0,
        _ => about::<FILE_ATTRIBUTE_TAG_INFO>(file, FileAttributeTagInfo)?.ReparseTag,
    };
    let joined = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    Ok(Facts {
        attributes: found.dwFileAttributes,
        tag,
        volume: u64::from(found.dwVolumeSerialNumber),
        number: joined(found.nFileIndexHigh, found.nFileIndexLow),
        size: joined(found.nFileSizeHigh, found.nFileSizeLow),
        links: u64::from(found.nNumberOfLinks),
        modified: since_1970(basic.LastWriteTime),
        changed: since_1970(basic.ChangeTime),
        created: basic.CreationTime,
    })
}

/// Returns what the system says of a name in an open folder. Does not follow a link.
///
/// # Errors
/// The error of the system.
pub fn facts_at(folder: BorrowedHandle<'_>, name: &[u16]) -> io::Result<Facts> {
    facts(open_name(folder, name, FILE_READ_ATTRIBUTES | SYNCHRONIZE)?.as_handle())
}

/// Returns the time that Windows counts from 1601, in units of 100 nanoseconds, in nanoseconds
/// since 1970.
fn since_1970(time: i64) -> i64 {
    /// The time between the two, in units of 100 nanoseconds.
    const BETWEEN: i64 = 116_444_736_000_000_000;
    time.saturating_sub(BETWEEN).saturating_mul(100)
}

/// Reads the clock that stamps files, in nanoseconds since 1970.
pub fn clock() -> i64 {
    let mut now = FILETIME::default();
    // SAFETY: the value outlives the call.
    unsafe { GetSystemTimeAsFileTime(&raw mut now) };
    since_1970(i64::from(now.dwHighDateTime) << 32 | i64::from(now.dwLowDateTime))
}

/// Returns what an open file is, and whether it has a reparse point.
fn attributes(file: BorrowedHandle<'_>) -> io::Result<(Kind, bool)> {
    let found: FILE_ATTRIBUTE_TAG_INFO = about(file, FileAttributeTagInfo)?;
    let has_point = found.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT != 0;
    Ok((kind(found.FileAttributes, found.ReparseTag), has_point))
}

/// What a class of information about a file is made of: numbers alone, each of which may be 0.
trait Information: Copy + Default {}
impl Information for FILE_BASIC_INFO {}
impl Information for FILE_ATTRIBUTE_TAG_INFO {}

/// Returns information of a class about an open file. The type must be that of the class.
fn about<T: Information>(
    file: BorrowedHandle<'_>,
    class: FILE_INFO_BY_HANDLE_CLASS,
) -> io::Result<T> {
    let mut found = T::default();
    let size = u32::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: the handle is open, and the system writes no more than the size of the value.
    let answer = unsafe {
        GetFileInformationByHandleEx(file.as_raw_handle(), class, (&raw mut found).cast(), size)
    };
    checked(answer)?;
    Ok(found)
}

/// Gives a file marks, and keeps its other attributes. A folder stays as it is.
///
/// # Errors
/// The error of the system.
pub fn set_marks(file: BorrowedHandle<'_>, marks: Marks) -> io::Result<()> {
    let found: FILE_BASIC_INFO = about(file, FileBasicInfo)?;
    if found.FileAttributes & FILE_ATTRIBUTE_DIRECTORY != 0 {
        return Ok(());
    }
    let others = !(FILE_ATTRIBUTE_HIDDEN | FILE_ATTRIBUTE_SYSTEM | FILE_ATTRIBUTE_READONLY);
    set_basic(file, found.FileAttributes & others | bits(marks), 0)
}

fn bits(marks: Marks) -> u32 {
    match marks {
        Marks::Plain => 0,
        Marks::ReadOnly => FILE_ATTRIBUTE_READONLY,
        Marks::Unfinished => FILE_ATTRIBUTE_HIDDEN | FILE_ATTRIBUTE_SYSTEM,
    }
}

/// Sets the attributes of a file, and the time when it was made unless that is 0.
fn set_basic(file: BorrowedHandle<'_>, attributes: u32, created: i64) -> io::Result<()> {
    // A time of 0 stays as it is, and so would attributes of 0.
    let attributes = if attributes == 0 { FILE_ATTRIBUTE_NORMAL } else { attributes };
    let wanted = FILE_BASIC_INFO {
        CreationTime: created,
        FileAttributes: attributes,
        ..FILE_BASIC_INFO::default()
    };
    let size = u32::try_from(size_of_val(&wanted)).unwrap_or(0);
    // SAFETY: the handle is open, and the value has the type of its class, and its size.
    checked(unsafe {
        SetFileInformationByHandle(
            file.as_raw_handle(),
            FileBasicInfo,
            (&raw const wanted).cast(),
            size,
        )
    })
}

/// Gives a file the rights, the attributes and the time of making of another one.
///
/// # Errors
/// The error of the system. Part of it may be done then.
pub fn copy_attributes(from: BorrowedHandle<'_>, to: BorrowedHandle<'_>) -> io::Result<()> {
    let rights = rights(from)?;
    let information = DACL_SECURITY_INFORMATION;
    let wanted = rights.as_ptr().cast_mut().cast();
    // SAFETY: the handle is open, and the description is one that the system has written.
    checked(unsafe { SetKernelObjectSecurity(to.as_raw_handle(), information, wanted) })?;
    let Facts { attributes, created, .. } = facts(from)?;
    set_basic(to, attributes & !FILE_ATTRIBUTE_REPARSE_POINT, created)
}

/// Returns the description of who may do what with a file.
fn rights(file: BorrowedHandle<'_>) -> io::Result<Vec<u64>> {
    let mut needed = 1024;
    loop {
        let mut description = vec![0u64; (needed as usize).div_ceil(8)];
        let size = u32::try_from(description.len() * 8).unwrap_or(0);
        // SAFETY: the handle is open, and the system writes no more than the size of the buffer,
        // which is aligned for every field of a description.
        let answer = unsafe {
            GetKernelObjectSecurity(
                file.as_raw_handle(),
                DACL_SECURITY_INFORMATION,
                description.as_mut_ptr().cast(),
                size,
                &raw mut needed,
            )
        };
        match checked(answer) {
            Err(_) if needed > size => {}
            done => return done.map(|()| description),
        }
    }
}

/// Makes the changes of an open file or folder durable, as far as the file system does.
///
/// # Errors
/// The error of the system.
pub fn flush(file: BorrowedHandle<'_>) -> io::Result<()> {
    if flush_open(file).is_ok() {
        return Ok(());
    }
    // A handle that only reads flushes nothing.
    match open_again(file, FILE_WRITE_DATA | SYNCHRONIZE) {
        // Nobody can have written to what nobody may write to.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
        Ok(writable) => match flush_open(writable.as_handle()) {
            // No file system but NTFS is known to flush a folder.
            Err(_) if facts(file)?.kind() == Kind::Folder => Ok(()),
            flushed => flushed,
        },
    }
}

fn flush_open(file: BorrowedHandle<'_>) -> io::Result<()> {
    // SAFETY: the handle is open.
    checked(unsafe { FlushFileBuffers(file.as_raw_handle()) })
}

/// What a rename does about a file that has the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It fails.
    Refused,
    /// It replaces the file.
    Replaced,
}

/// Moves a file or folder to a name in an open folder.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::AlreadyExists`] if the name is in use.
pub fn rename(
    (from, name): (BorrowedHandle<'_>, &[u16]),
    (to, new): (BorrowedHandle<'_>, &[u16]),
    taken: Taken,
) -> io::Result<()> {
    let file = open_name(from, name, DELETE | FILE_READ_ATTRIBUTES | SYNCHRONIZE)?;
    let replace = match taken {
        Taken::Refused => 0,
        Taken::Replaced => FILE_RENAME_REPLACE_IF_EXISTS,
    };
    let flags = replace | FILE_RENAME_POSIX_SEMANTICS;
    match set_name(file.as_handle(), FileRenameInformationEx, (to, new), flags)? {
        Set::Done => Ok(()),
        // An older system, or another file system than NTFS.
        Set::Unknown => {
            match set_name(file.as_handle(), FileRenameInformation, (to, new), replace)? {
                Set::Done => Ok(()),
                Set::Unknown => Err(io::ErrorKind::Unsupported.into()),
            }
        }
    }
}

/// Gives a file a second name. Fails if that name is in use.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::AlreadyExists`] if the name is in use.
pub fn link_to(
    (from, name): (BorrowedHandle<'_>, &[u16]),
    (to, new): (BorrowedHandle<'_>, &[u16]),
) -> io::Result<()> {
    let file = open_name(from, name, FILE_WRITE_ATTRIBUTES | SYNCHRONIZE)?;
    match set_name(file.as_handle(), FileLinkInformation, (to, new), 0)? {
        Set::Done => Ok(()),
        Set::Unknown => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Removes a file or a link from a folder. The name is free at once, also while other programs have
/// the file open, where the file system can do that.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::IsADirectory`] for a folder.
pub fn remove_file(folder: BorrowedHandle<'_>, name: &[u16]) -> io::Result<()> {
    let file = open_name(folder, name, DELETE | FILE_READ_ATTRIBUTES | SYNCHRONIZE)?;
    match attributes(file.as_handle())?.0 {
        Kind::Folder => Err(io::ErrorKind::IsADirectory.into()),
        Kind::File | Kind::Link => remove_open(file.as_handle()),
    }
}

/// Removes an empty folder from a folder.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::NotADirectory`] for anything else.
pub fn remove_folder(folder: BorrowedHandle<'_>, name: &[u16]) -> io::Result<()> {
    let file = open_name(folder, name, DELETE | FILE_READ_ATTRIBUTES | SYNCHRONIZE)?;
    match attributes(file.as_handle())?.0 {
        Kind::Folder => remove_open(file.as_handle()),
        Kind::File | Kind::Link => Err(io::ErrorKind::NotADirectory.into()),
    }
}

fn remove_open(file: BorrowedHandle<'_>) -> io::Result<()> {
    let wanted = FILE_DISPOSITION_INFORMATION_EX {
        Flags: FILE_DISPOSITION_DELETE
            | FILE_DISPOSITION_POSIX_SEMANTICS
            | FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE,
    };
    if let Set::Done = set(file, FileDispositionInformationEx, &wanted)? {
        return Ok(());
    }
    let wanted = FILE_DISPOSITION_INFORMATION { DeleteFile: true };
    match set(file, FileDispositionInformation, &wanted)? {
        Set::Done => Ok(()),
        Set::Unknown => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Calls `each` with the name and kind of every entry of a folder, without `.` and `..`.
///
/// # Errors
/// The error of the system.
pub fn entries(folder: BorrowedHandle<'_>, mut each: impl FnMut(&[u16], Kind)) -> io::Result<()> {
    /// Room for the entries of one call, in bytes. One entry has 620 at most.
    const BUFFER: usize = 64 * 1024;
    // A position of its own: `folder` may be shared.
    let folder = open_again(folder, FILE_GENERIC_READ)?;
    let mut buffer = vec![0u64; BUFFER / 8];
    loop {
        // SAFETY: the handle is open, and the system writes no more than the size of the buffer,
        // which is aligned for every field of an entry.
        let answer = unsafe {
            GetFileInformationByHandleEx(
                folder.as_raw_handle(),
                FileIdBothDirectoryInfo,
                buffer.as_mut_ptr().cast(),
                BUFFER as u32,
            )
        };
        match checked(answer) {
            Err(error) if error.raw_os_error() == Some(ERROR_NO_MORE_FILES as i32) => return Ok(()),
            done => done?,
        }
        let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
        each_of(&bytes, &mut each);
    }
}

/// Calls `each` for the entries in the answer of one call, which are `FILE_ID_BOTH_DIR_INFO`, each
/// with the offset of the next.
fn each_of(answer: &[u8], each: &mut impl FnMut(&[u16], Kind)) {
    let mut rest = answer;
    loop {
        let number = |at: usize| -> Option<u32> {
            Some(u32::from_ne_bytes(rest.get(at..at + 4)?.try_into().ok()?))
        };
        let field = |at| number(at).unwrap_or_default();
        let name_at = offset_of!(FILE_ID_BOTH_DIR_INFO, FileName);
        let length = field(offset_of!(FILE_ID_BOTH_DIR_INFO, FileNameLength)) as usize;
        let name = rest.get(name_at..name_at.saturating_add(length)).unwrap_or_default();
        let name: Vec<u16> =
            name.as_chunks::<2>().0.iter().map(|pair| u16::from_ne_bytes(*pair)).collect();
        const DOT: u16 = b'.' as u16;
        if !name.is_empty() && !matches!(name.as_slice(), [DOT] | [DOT, DOT]) {
            // This field has the tag of a reparse point, if the entry is one.
            let tag = field(offset_of!(FILE_ID_BOTH_DIR_INFO, EaSize));
            each(&name, kind(field(offset_of!(FILE_ID_BOTH_DIR_INFO, FileAttributes)), tag));
        }
        match field(offset_of!(FILE_ID_BOTH_DIR_INFO, NextEntryOffset)) {
            0 => return,
            next => rest = rest.get(next as usize..).unwrap_or_default(),
        }
    }
}

/// Who else may have a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody.
    Alone,
    /// Whoever shares it too.
    Shared,
}

/// Locks one byte of a file without waiting. The byte may be far behind the end of the file, so
/// that nobody is kept from reading or writing what the file has. Returns `false` if another handle
/// holds it. The lock ends with [`unlock`], the handle, or the process.
///
/// # Errors
/// The error of the system. The file must have been opened for reading or for writing anywhere.
pub fn try_lock(file: BorrowedHandle<'_>, byte: u64, sharing: Sharing) -> io::Result<bool> {
    match lock_byte(file, byte, sharing, LOCKFILE_FAIL_IMMEDIATELY) {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error().map(|code| code as u32) {
            Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Ok(false),
            _ => Err(error),
        },
    }
}

/// Locks one byte of a file like [`try_lock`], and waits until that can be done.
///
/// # Errors
/// The error of the system.
pub fn lock(file: BorrowedHandle<'_>, byte: u64, sharing: Sharing) -> io::Result<()> {
    lock_byte(file, byte, sharing, 0)
}

fn lock_byte(file: BorrowedHandle<'_>, byte: u64, sharing: Sharing, how: u32) -> io::Result<()> {
    let how = match sharing {
        Sharing::Alone => how | LOCKFILE_EXCLUSIVE_LOCK,
        Sharing::Shared => how,
    };
    let mut place = place(byte);
    // SAFETY: the handle is open and was not opened for overlapped calls, so that the call is over
    // when it returns, and the place outlives it.
    checked(unsafe { LockFileEx(file.as_raw_handle(), how, 0, 1, 0, &raw mut place) })
}

/// Releases a lock of [`try_lock`] or [`lock`].
pub fn unlock(file: BorrowedHandle<'_>, byte: u64) {
    let mut place = place(byte);
    // SAFETY: as in `lock_byte`.
    unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &raw mut place) };
}

fn place(byte: u64) -> OVERLAPPED {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.Offset = byte as u32;
    place.Anonymous.Anonymous.OffsetHigh = (byte >> 32) as u32;
    place
}

/// Returns whether an error says that a link is there.
pub fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ERROR_CANT_ACCESS_FILE as i32)
}

fn link() -> io::Error {
    io::Error::from_raw_os_error(ERROR_CANT_ACCESS_FILE as i32)
}

/// Returns the last component of the path of an open file, as its folder spells it. `None` if the
/// file system does not say.
fn last_component(file: BorrowedHandle<'_>) -> Option<Vec<u16>> {
    let mut path = vec![0u16; 512];
    loop {
        let room = u32::try_from(path.len()).ok()?;
        // SAFETY: the handle is open, and the system writes no more than the room of the buffer.
        let length = unsafe {
            GetFinalPathNameByHandleW(
                file.as_raw_handle(),
                path.as_mut_ptr(),
                room,
                FILE_NAME_NORMALIZED | VOLUME_NAME_NONE,
            )
        } as usize;
        match length {
            0 => return None,
            length if length < path.len() => {
                let path = path.get(..length)?;
                let begin = path.iter().rposition(|unit| *unit == u16::from(b'\\'))? + 1;
                return path.get(begin..).map(<[u16]>::to_vec);
            }
            more => path.resize(more + 1, 0),
        }
    }
}

/// Refuses a name that the system would read as more than one component.
fn nt_open(
    folder: BorrowedHandle<'_>,
    name: &[u16],
    rights: GENERIC_ACCESS_RIGHTS,
    how: (u32, u32, u32),
    object: u32,
) -> io::Result<OwnedHandle> {
    check_name(name)?;
    nt_open_any(folder, name, rights, how, object)
}

fn check_name(name: &[u16]) -> io::Result<()> {
    let is = |text: &str| name.iter().copied().eq(text.encode_utf16());
    let is_separator = |unit: &u16| [b'\\', b'/', b':', 0].map(u16::from).contains(unit);
    if is("") || is(".") || is("..") || name.iter().any(is_separator) {
        return Err(io::Error::from_raw_os_error(ERROR_INVALID_NAME as i32));
    }
    Ok(())
}

/// Opens or creates a name in a folder; the folder itself with an empty name.
fn nt_open_any(
    folder: BorrowedHandle<'_>,
    name: &[u16],
    rights: GENERIC_ACCESS_RIGHTS,
    (disposition, options, attributes): (u32, u32, u32),
    object: u32,
) -> io::Result<OwnedHandle> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidFilename);
    let bytes = u16::try_from(name.len() * 2).map_err(too_long)?;
    let name =
        UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: name.as_ptr().cast_mut() };
    let wanted = OBJECT_ATTRIBUTES {
        Length: u32::try_from(size_of::<OBJECT_ATTRIBUTES>()).unwrap_or(0),
        RootDirectory: folder.as_raw_handle(),
        ObjectName: &raw const name,
        Attributes: OBJ_CASE_INSENSITIVE | object,
        SecurityDescriptor: null(),
        SecurityQualityOfService: null(),
    };
    let mut handle: HANDLE = null_mut();
    let mut answer = IO_STATUS_BLOCK::default();
    // SAFETY: the handle of the folder is open; the name, the attributes and both places of the
    // answer outlive the call, which is over when it returns, as its options say.
    let status = unsafe {
        NtCreateFile(
            &raw mut handle,
            rights | SYNCHRONIZE,
            &raw const wanted,
            &raw mut answer,
            null(),
            attributes,
            FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
            disposition,
            options | FILE_SYNCHRONOUS_IO_NONALERT | FILE_OPEN_FOR_BACKUP_INTENT,
            null(),
            0,
        )
    };
    success(status)?;
    // SAFETY: the system has opened the handle for us, and nothing else has it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

fn success(status: NTSTATUS) -> io::Result<()> {
    if status >= 0 {
        return Ok(());
    }
    // SAFETY: the call only looks a number up.
    let code = unsafe { RtlNtStatusToDosError(status) };
    Err(io::Error::from_raw_os_error(code as i32))
}

/// Whether the file system knows what was to be set.
enum Set {
    Done,
    Unknown,
}

/// What is to be set of a file: numbers alone, as its class wants them.
trait Setting: Copy {}
impl Setting for FILE_DISPOSITION_INFORMATION {}
impl Setting for FILE_DISPOSITION_INFORMATION_EX {}

fn set<T: Setting>(
    file: BorrowedHandle<'_>,
    class: FILE_INFORMATION_CLASS,
    wanted: &T,
) -> io::Result<Set> {
    let size = u32::try_from(size_of::<T>()).unwrap_or(0);
    let mut answer = IO_STATUS_BLOCK::default();
    // SAFETY: the handle is open, and the value has the type of its class, and its size.
    let status = unsafe {
        NtSetInformationFile(
            file.as_raw_handle(),
            &raw mut answer,
            std::ptr::from_ref(wanted).cast(),
            size,
            class,
        )
    };
    answered(status)
}

/// Gives an open file a name in a folder. A link has the same shape as a rename.
fn set_name(
    file: BorrowedHandle<'_>,
    class: FILE_INFORMATION_CLASS,
    (folder, name): (BorrowedHandle<'_>, &[u16]),
    flags: u32,
) -> io::Result<Set> {
    check_name(name)?;
    let name_at = offset_of!(FILE_RENAME_INFORMATION, FileName);
    let name_bytes: Vec<u8> = name.iter().flat_map(|unit| unit.to_ne_bytes()).collect();
    let size = (name_at + name_bytes.len()).max(size_of::<FILE_RENAME_INFORMATION>());
    let mut bytes = vec![0u8; size.next_multiple_of(8)];
    let root = folder.as_raw_handle() as usize;
    let length = u32::try_from(name_bytes.len()).unwrap_or(0);
    for (at, field) in [
        (0, flags.to_ne_bytes().as_slice()),
        (offset_of!(FILE_RENAME_INFORMATION, RootDirectory), root.to_ne_bytes().as_slice()),
        (offset_of!(FILE_RENAME_INFORMATION, FileNameLength), length.to_ne_bytes().as_slice()),
        (name_at, name_bytes.as_slice()),
    ] {
        if let Some(place) = bytes.get_mut(at..at + field.len()) {
            place.copy_from_slice(field);
        }
    }
    // Aligned as the system wants it.
    let words: Vec<u64> =
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let mut answer = IO_STATUS_BLOCK::default();
    // SAFETY: both handles are open, and the buffer has the shape of the class, with a name of the
    // length that stands in it.
    let status = unsafe {
        NtSetInformationFile(
            file.as_raw_handle(),
            &raw mut answer,
            words.as_ptr().cast(),
            u32::try_from(size).unwrap_or(0),
            class,
        )
    };
    answered(status)
}

fn answered(status: NTSTATUS) -> io::Result<Set> {
    match status {
        STATUS_INVALID_INFO_CLASS
        | STATUS_INVALID_PARAMETER
        | STATUS_NOT_IMPLEMENTED
        | STATUS_NOT_SUPPORTED => Ok(Set::Unknown),
        status => success(status).map(|()| Set::Done),
    }
}
