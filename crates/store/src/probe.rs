//! Looks at a folder without changing anything in it, for `stile doctor`.

use std::io;
use std::path::Path;

/// What a folder allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderProbe {
    /// Whether this process may make files in the folder.
    pub is_writable: bool,
    /// The room for files of this user, in bytes. `None` if the system does not tell.
    pub free_bytes: Option<u64>,
}

/// Looks at a folder.
///
/// # Errors
/// The error of the system; [`io::ErrorKind::NotADirectory`] if the path leads to something else.
pub fn folder(path: &Path) -> io::Result<FolderProbe> {
    // Listing is the least that every use of a folder needs.
    path.read_dir()?.next().transpose()?;
    Ok(FolderProbe { is_writable: is_writable(path), free_bytes: free_bytes(path) })
}

#[cfg(unix)]
fn is_writable(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.permissions().readonly())
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_folder_is_looked_at_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let probe = super::folder(folder.path()).unwrap();
        assert!(probe.is_writable);
        #[cfg(unix)]
        assert!(probe.free_bytes.unwrap() > 0);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(super::folder(&file).is_err());
        assert!(super::folder(&folder.path().join("none")).is_err());
    }
}
