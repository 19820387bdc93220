//! The folder of a person with a space of their own, as the operator measures, copies and removes
//! it: the files, and their old versions beside them.
//!
//! Nothing follows a symbolic link. A copy leaves links and other special files out.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

/// What a folder holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderRoom {
    /// The number of regular files.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
}

/// Counts the files in a folder and below it. A missing folder has none.
///
/// # Errors
/// The error of the file system.
pub fn room(folder: &Path) -> io::Result<FolderRoom> {
    let mut room = FolderRoom::default();
    visit(folder, &mut |_, metadata| {
        if metadata.is_file() {
            room.files += 1;
            room.bytes += metadata.len();
        }
        Ok(())
    })?;
    Ok(room)
}

/// Copies the files of a folder into another one, which is made, and returns what was copied.
///
/// # Errors
/// The error of the file system. A part of the files may have been copied.
pub fn copy(folder: &Path, to: &Path) -> io::Result<FolderRoom> {
    let mut room = FolderRoom::default();
    fs::create_dir_all(to)?;
    visit(folder, &mut |entry, metadata| {
        let path = entry.path();
        let Ok(relative) = path.strip_prefix(folder) else { return Ok(()) };
        let target = to.join(relative);
        if metadata.is_dir() {
            fs::create_dir_all(target)
        } else if metadata.is_file() {
            room.bytes += fs::copy(&path, target)?;
            room.files += 1;
            Ok(())
        } else {
            Ok(())
        }
    })?;
    Ok(room)
}

/// Removes a folder with all that it holds. A missing folder is no error.
///
/// # Errors
/// The error of the file system. A part of the files may be gone.
pub fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// What is done with each entry below a folder.
type OnEntry<'v> = &'v mut dyn FnMut(&DirEntry, &fs::Metadata) -> io::Result<()>;

/// Calls `on_entry` for all that is below a folder, a folder before what it holds.
fn visit(folder: &Path, on_entry: OnEntry<'_>) -> io::Result<()> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // The metadata of the entry itself, not of what a link leads to.
            let metadata = entry.metadata()?;
            on_entry(&entry, &metadata)?;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_counted_copied_and_removed_without_what_links_lead_to() {
        let place = tempfile::tempdir().unwrap();
        let (folder, copied) = (place.path().join("a"), place.path().join("b"));
        fs::create_dir_all(folder.join("notes/deep")).unwrap();
        fs::write(folder.join("notes/deep/one.md"), "12345").unwrap();
        fs::write(folder.join("two.md"), "1").unwrap();
        fs::write(place.path().join("other.md"), "not the person's").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(place.path(), folder.join("link")).unwrap();
        let all = FolderRoom { files: 2, bytes: 6 };
        assert_eq!(room(&folder).unwrap(), all);
        assert_eq!(copy(&folder, &copied).unwrap(), all);
        assert_eq!(room(&copied).unwrap(), all);
        assert_eq!(fs::read(copied.join("notes/deep/one.md")).unwrap(), b"12345");
        remove(&folder).unwrap();
        remove(&folder).unwrap();
        assert!(!folder.exists() && place.path().join("other.md").exists());
        assert_eq!(room(&folder).unwrap(), FolderRoom::default());
    }
}
