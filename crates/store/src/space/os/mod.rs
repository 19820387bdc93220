//! The system calls of the space. No other module of the space makes any.
//!
//! All calls are relative to an open directory. The operating system resolves a path beneath the
//! root's handle and follows no symbolic link, even while another process replaces directories by
//! links. Only [`open_mount`] enters a mount. This module has what is the same on all systems. How
//! a system is called stands in `unix` and in `windows`, which have functions of the same names.

use std::fs::File;
use std::io::{self, Write as _};

use stile_domain::listing::EntryKind;

use crate::history::FileMetadata;

use super::fault::{self, Effect};
use super::identity::Identity;

mod answers;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

use answers::Access;
pub(super) use answers::{Problem, Status, UNFINISHED};
#[cfg(test)]
pub(super) use system::walk_beneath;
pub(super) use system::{
    AsHandle, Handle, append_position, entries, is_unsupported, locks, may_write_in, name_in_locks,
    named_entries, now, odd_names, open_mount, open_root, problem, program_name, status,
    status_and_mount_at, status_at, try_lock, unlock,
};

/// Opens a folder beneath `root`. An empty path opens the root itself.
pub(super) fn open_folder(root: &Handle, relative: &str) -> io::Result<Handle> {
    system::open_beneath(root, relative, Access::Folder)
}

/// Opens a file of any kind beneath `root` for reading.
pub(super) fn open_file(root: &Handle, relative: &str) -> io::Result<File> {
    fault::point(fault::Call::Open)?;
    system::open_beneath(root, relative, Access::Read).map(File::from)
}

/// Opens a file of any kind in an open folder for reading.
pub(super) fn open_in(folder: &Handle, name: &str) -> io::Result<File> {
    open_file(folder, name)
}

/// Opens a file of any kind in an open folder for reading and for writing at its end.
pub(super) fn open_to_append(folder: &Handle, name: &str) -> io::Result<File> {
    fault::point(fault::Call::Open)?;
    system::open_beneath(folder, name, Access::Append).map(File::from)
}

fn identity(file: impl AsHandle) -> io::Result<Identity> {
    Ok(status(file)?.identity())
}

/// Reads from `offset` until `buffer` is full or the file ends. Returns the number of bytes.
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..)
        && !rest.is_empty()
    {
        match crate::platform::read_at(file, rest, offset + filled as u64) {
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
pub(super) fn make_file(folder: &Handle, name: &str, mode: u32) -> io::Result<(File, u32)> {
    fault::point(fault::Call::Open)?;
    let file = system::create(folder, name, mode)?;
    let Status { mode, .. } = status(&file)?;
    fault::record(|| {
        let (folder, file) = (identity(folder)?, identity(&file)?);
        Ok(Effect::MadeFile { folder, name: name.to_owned(), file, mode })
    });
    Ok((File::from(file), mode))
}

pub(super) fn set_mode(file: impl AsHandle, mode: u32) -> io::Result<()> {
    system::set_mode(&file, mode)?;
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
pub(super) fn append_once(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    fault::point(fault::Call::Write)?;
    let part = bytes.get(..fault::most_written().unwrap_or(bytes.len())).unwrap_or(bytes);
    let written = loop {
        match file.write(part) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => break written?,
        }
    };
    fault::record(|| {
        let bytes = part.get(..written).unwrap_or_default().to_vec();
        Ok(Effect::Wrote { file: identity(file)?, bytes })
    });
    Ok(written)
}

/// Writes over the beginning of a file of [`make_file`].
pub(super) fn overwrite(file: &File, bytes: &[u8]) -> io::Result<()> {
    fault::point(fault::Call::Write)?;
    system::write_over(file, bytes)?;
    fault::record(|| Ok(Effect::Overwrote { file: identity(file)?, bytes: bytes.to_vec() }));
    Ok(())
}

/// Cuts a file off.
pub(super) fn truncate(file: &File, size: u64) -> io::Result<()> {
    fault::point(fault::Call::Write)?;
    system::cut(file, size)?;
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
pub(super) fn make_folder(folder: &Handle, name: &str, mode: Option<u32>) -> io::Result<bool> {
    let mode = mode.map_or(0o777, |_| OWNER_ALONE);
    match system::create_folder(folder, name, mode) {
        Ok(()) => {
            fault::record(|| {
                let made = status_at(folder, name)?.identity();
                Ok(Effect::MadeFolder { folder: identity(folder)?, name: name.to_owned(), made })
            });
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes an empty folder from a folder.
pub(super) fn remove_folder(folder: &Handle, name: &str) -> io::Result<()> {
    system::remove_folder(folder, name)?;
    fault::record(|| Ok(Effect::Removed { folder: identity(folder)?, name: name.to_owned() }));
    Ok(())
}

pub(super) fn unlink(folder: &Handle, name: &str) -> io::Result<()> {
    fault::moment();
    system::unlink(folder, name)?;
    fault::record(|| Ok(Effect::Removed { folder: identity(folder)?, name: name.to_owned() }));
    Ok(())
}

/// Makes the changes of an open file or folder durable.
pub(super) fn sync(file: impl AsHandle) -> io::Result<()> {
    fault::point(fault::Call::Sync)?;
    system::wait_for_disk(&file)?;
    fault::record(|| Ok(Effect::Synced(identity(&file)?)));
    Ok(())
}

/// Exchanges two names of a folder in one step.
pub(super) fn exchange(folder: &Handle, one: &str, other: &str) -> io::Result<()> {
    fault::point(fault::Call::Rename)?;
    fault::flags()?;
    system::exchange(folder, one, other)?;
    fault::record(|| {
        let (one, other) = (one.to_owned(), other.to_owned());
        Ok(Effect::Exchanged { folder: identity(folder)?, one, other })
    });
    Ok(())
}

/// Gives a temporary file of ours another name in its folder. Fails if the new name is in use.
pub(super) fn rename_new(folder: &Handle, from: &str, to: &str) -> io::Result<()> {
    move_ours((folder, from), (folder, to))
}

/// Moves a temporary file or folder of ours, also to another folder. Fails if the new name is in
/// use.
///
/// No other program writes the name `from`, so a file system without [`move_new`] may link and
/// unlink: neither step replaces or removes a file of anybody else. After a crash between them the
/// file has both names, and the cleaner removes the temporary one.
pub(super) fn move_ours(from: (&Handle, &str), to: (&Handle, &str)) -> io::Result<()> {
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
pub(super) fn set_aside(folder: &Handle, name: &str, aside: &str) -> io::Result<()> {
    match move_new((folder, name), (folder, aside)) {
        Err(error) if is_unsupported(&error) => {
            system::rename((folder, name), (folder, aside))?;
            record_rename((folder, name), (folder, aside));
            Ok(())
        }
        done => done,
    }
}

/// Moves a file from one folder to another in one step. Fails if the new name is in use, and with
/// an error that [`is_unsupported`] on a file system without such a rename.
pub(super) fn move_new(from: (&Handle, &str), to: (&Handle, &str)) -> io::Result<()> {
    fault::point(fault::Call::Rename)?;
    fault::flags()?;
    system::rename_new(from, to)?;
    record_rename(from, to);
    Ok(())
}

/// Moves a folder to another name or another folder in one step. Fails if the new name is in use.
///
/// On a file system without [`move_new`] the new name is taken by an empty folder first, which the
/// rename replaces: it replaces nothing else.
pub(super) fn move_folder_new(from: (&Handle, &str), to: (&Handle, &str)) -> io::Result<()> {
    match move_new(from, to) {
        Err(error) if is_unsupported(&error) => {
            if !make_folder(to.0, to.1, None)? {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if let Err(error) = system::rename(from, to) {
                let _ = remove_folder(to.0, to.1);
                return Err(error);
            }
            record_rename(from, to);
            Ok(())
        }
        done => done,
    }
}

/// Moves anything to a folder under the same name of any bytes, as [`named_entries`] gives it.
/// Fails if the name is in use there.
pub(super) fn move_named(from: &Handle, to: &Handle, name: &[u8]) -> io::Result<()> {
    fault::point(fault::Call::Rename)?;
    system::move_named(from, to, name)
}

fn record_rename(from: (&Handle, &str), to: (&Handle, &str)) {
    fault::record(|| {
        let (folder, to_folder) = (identity(from.0)?, identity(to.0)?);
        let (from, to) = (from.1.to_owned(), to.1.to_owned());
        Ok(Effect::Renamed { folder, from, to_folder, to })
    });
}

/// Gives a file a second name. Fails if that name is in use.
pub(super) fn link_new(from: (&Handle, &str), to: (&Handle, &str)) -> io::Result<()> {
    fault::point(fault::Call::Link)?;
    system::link(from, to)?;
    fault::record(|| {
        let (folder, name) = (identity(to.0)?, to.1.to_owned());
        Ok(Effect::Linked { folder, name, file: status_at(to.0, to.1)?.identity() })
    });
    Ok(())
}

/// Copies to a new version of a file what the old one has beside its content, as far as it makes
/// sense for other content: owner, mode and extended attributes, which include access lists, or
/// their like.
pub(super) fn copy_metadata(from: &File, status: &Status, to: &File) -> io::Result<()> {
    system::copy_metadata(from, status, to)?;
    fault::record(|| Ok(Effect::SetMode { file: identity(to)?, mode: status.mode & !0o6000 }));
    Ok(())
}

/// Returns what a file has beside its content. Attributes that cannot be read are left out.
pub(super) fn metadata(file: &File, status: &Status) -> FileMetadata {
    let attributes = system::attributes(file).unwrap_or_default().into_iter().collect();
    FileMetadata { mode: status.mode & !0o6000, attributes }
}

/// Gives a new file the mode and the attributes of a removed one, as far as the system lets it.
pub(super) fn give_metadata(file: &File, metadata: &FileMetadata) -> io::Result<()> {
    for (name, value) in &metadata.attributes {
        system::set_attribute(file, name, value);
    }
    set_mode(file, metadata.mode & 0o777)
}
