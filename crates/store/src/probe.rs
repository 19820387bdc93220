//! Looks at a folder without changing anything in it, for `stile doctor`.

use std::io;
use std::path::Path;

use crate::platform;

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
    Ok(FolderProbe {
        is_writable: platform::is_writable(path),
        free_bytes: platform::free_bytes(path),
    })
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
