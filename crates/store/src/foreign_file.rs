//! Replaces a file of another program, such as the settings of an editor, whole or not at all.
//!
//! The file keeps its rights and the link that leads to it. A change that another program made
//! since the file was read is never overwritten.

use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::state::{create_private, make_folder, sync_folder};

/// The longest file that is read, in bytes. The settings of a program have some kilobytes; one
/// client keeps its history beside them.
const MAX_BYTES: u64 = 32 << 20;
/// What is appended to the name of a copy.
const COPY: &str = ".before-stile";

/// A file as it was read, or the place of a file that does not exist yet.
#[derive(Debug)]
pub struct ForeignFile {
    /// The path after following links.
    path: PathBuf,
    text: Option<String>,
    permissions: Option<Permissions>,
}

/// Who may read a file after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    /// The same users as before; the owner alone if the file is new.
    AsBefore,
    /// The owner alone, since the file now has a secret.
    OwnerOnly,
}

impl ForeignFile {
    /// Reads a file. A file that does not exist has no text.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::InvalidData`] if the file is not UTF-8;
    /// [`io::ErrorKind::InvalidInput`] if it is not a regular file;
    /// [`io::ErrorKind::FileTooLarge`] if it has more than 32 MiB.
    pub fn read(path: &Path) -> io::Result<Self> {
        let path = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if is_missing(&error) && path.symlink_metadata().is_err() => {
                return Ok(Self { path: path.to_owned(), text: None, permissions: None });
            }
            Err(error) => return Err(error),
        };
        let metadata = path.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let text = Some(read_text(&path)?);
        Ok(Self { path, text, permissions: Some(metadata.permissions()) })
    }

    /// The text of the file; `None` if there was no file.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The path of the file, which no link leads away from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the place of the copy that [`ForeignFile::keep_copy`] makes.
    pub fn copy_path(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(COPY);
        self.path.with_file_name(name)
    }

    /// Copies the file beside itself, with its rights, over an earlier copy. Does nothing if there
    /// is no file.
    ///
    /// # Errors
    /// The error of the system.
    pub fn keep_copy(&self) -> io::Result<()> {
        let (Some(text), Some(permissions)) = (&self.text, &self.permissions) else {
            return Ok(());
        };
        write_whole(&self.copy_path(), text, Some(permissions), || Ok(()))
    }

    /// Replaces the file with a text, durably. Makes the folder of a new file.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::ResourceBusy`] if the file is not what was read.
    /// Nothing is changed then.
    pub fn replace(&self, text: &str, secrecy: Secrecy) -> io::Result<()> {
        if let (None, Some(folder)) = (&self.text, self.path.parent()) {
            make_folder(folder)?;
        }
        let permissions = self.permissions.clone().map(|permissions| match secrecy {
            Secrecy::AsBefore => permissions,
            Secrecy::OwnerOnly => owner_only(permissions),
        });
        write_whole(&self.path, text, permissions.as_ref(), || self.check_unchanged())
    }

    /// Removes the file, durably.
    ///
    /// # Errors
    /// The errors of [`ForeignFile::replace`].
    pub fn remove(&self) -> io::Result<()> {
        self.check_unchanged()?;
        std::fs::remove_file(&self.path)?;
        sync_parent(&self.path)
    }

    fn check_unchanged(&self) -> io::Result<()> {
        let now = match read_text(&self.path) {
            Ok(text) => Some(text),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        if now == self.text {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another program has just changed it; nothing was written, so run this again",
        ))
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for settings"));
    }
    Ok(text)
}

/// Writes a file beside `path` and renames the file to `path`, if `check` allows it then.
fn write_whole(
    path: &Path,
    text: &str,
    permissions: Option<&Permissions>,
    check: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", Uuid::new_v4().simple()));
    let written = create_private(&temporary)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions.clone()))?;
            file.sync_all()
        })
        .and_then(|()| check())
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written.and_then(|()| sync_parent(path))
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_folder)
}

#[cfg(unix)]
fn owner_only(mut permissions: Permissions) -> Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    permissions.set_mode(permissions.mode() & 0o700);
    permissions
}

#[cfg(not(unix))]
fn owner_only(permissions: Permissions) -> Permissions {
    permissions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names = crate::files::entry_names(folder).unwrap();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_and_its_folder_are_made_for_the_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/mcp.json");
        let file = ForeignFile::read(&path).unwrap();
        assert_eq!(file.text(), None);
        file.replace("{}", Secrecy::AsBefore).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
        assert_eq!(names(path.parent().unwrap()), ["mcp.json"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        ForeignFile::read(&path).unwrap().remove().unwrap();
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_keeps_its_rights_and_the_link_to_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        std::fs::write(&real, "old").unwrap();
        std::fs::set_permissions(&real, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;

        let file = ForeignFile::read(&link).unwrap();
        file.keep_copy().unwrap();
        file.replace("new", Secrecy::AsBefore).unwrap();
        assert_eq!((std::fs::read_to_string(&link).unwrap().as_str(), mode(&real)), ("new", 0o644));
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(file.copy_path()).unwrap(), "old");
        assert_eq!(mode(&file.copy_path()), 0o644);

        ForeignFile::read(&link).unwrap().replace("secret", Secrecy::OwnerOnly).unwrap();
        assert_eq!(mode(&real), 0o600);
        assert_eq!(names(folder.path()), ["link.json", "real.json", "real.json.before-stile"]);
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        let missing = ForeignFile::read(&path).unwrap();
        std::fs::write(&path, "old").unwrap();
        let file = ForeignFile::read(&path).unwrap();
        std::fs::write(&path, "newer").unwrap();
        for stale in [missing, file] {
            let error = stale.replace("mine", Secrecy::AsBefore).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
            assert_eq!(stale.remove().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "newer");
        assert_eq!(names(folder.path()), ["mcp.json"]);
    }

    #[test]
    fn what_is_not_a_text_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ForeignFile::read(folder.path()).is_err());
        let path = folder.path().join("binary");
        std::fs::write(&path, b"\xff\xfe").unwrap();
        assert_eq!(ForeignFile::read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
