//! Files that somebody sent and that wait to be imported: in the state folder, for one process.
//!
//! Each process has a folder of its own below `uploads`, and holds a lock as long as it runs. What
//! a process left behind that was killed is removed by the next one that starts. No file is synced:
//! a file that is lost is sent again.

use std::fs::{File, TryLockError};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::platform;
use crate::state::{StateDir, create_private, make_folder, make_private_folder};

/// The folder in the state folder. A backup leaves it out.
pub(crate) const FOLDER: &str = "uploads";
const LOCK: &str = "lock";
const BUFFER: usize = 256 * 1024;

/// The folder of the files that this process holds. They are removed when it is dropped.
#[derive(Debug)]
pub struct UploadFolder {
    path: PathBuf,
    _lock: File,
}

impl UploadFolder {
    /// Makes the folder, and removes those of processes that have ended.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn open(state: &StateDir) -> io::Result<Self> {
        let all = state.path().join(FOLDER);
        make_folder(&all)?;
        remove_left(&all)?;
        let path = all.join(Uuid::new_v4().simple().to_string());
        // Others look for folders, so the lock is held before there is one.
        let lock = create_private(&path.with_extension(LOCK))?;
        platform::lock(&lock)?;
        make_private_folder(&path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Begins a file with this name, which must have no separator.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn begin(&self, name: &str) -> io::Result<IncomingFile> {
        let folder = self.path.join(Uuid::new_v4().simple().to_string());
        make_private_folder(&folder)?;
        let staged = StagedFile { path: folder.join(name), folder, bytes: 0 };
        let file = BufWriter::with_capacity(BUFFER, create_private(&staged.path)?);
        Ok(IncomingFile { file, staged })
    }
}

impl Drop for UploadFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes the folders of processes that have ended.
fn remove_left(all: &Path) -> io::Result<()> {
    for entry in all.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && !is_held(&entry.path().with_extension(LOCK)) {
            remove(&entry.path());
        }
    }
    Ok(())
}

fn is_held(lock: &Path) -> bool {
    let tried = File::open(lock).map(|file| platform::try_lock(&file));
    matches!(tried, Ok(Err(TryLockError::WouldBlock)))
}

fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
    let _ = std::fs::remove_file(folder.with_extension(LOCK));
}

/// A file that is being sent.
#[derive(Debug)]
pub struct IncomingFile {
    file: BufWriter<File>,
    staged: StagedFile,
}

impl IncomingFile {
    /// Adds bytes.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.staged.bytes = self.staged.bytes.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn finish(mut self) -> io::Result<StagedFile> {
        self.file.flush()?;
        Ok(self.staged)
    }
}

/// A file that was sent. It is removed when this is dropped.
#[derive(Debug)]
pub struct StagedFile {
    folder: PathBuf,
    path: PathBuf,
    bytes: u64,
}

impl StagedFile {
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(state: &StateDir) -> usize {
        state.path().join(FOLDER).read_dir().unwrap().count()
    }

    #[test]
    fn a_file_is_there_until_it_is_dropped_and_a_folder_until_its_process_ends() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let uploads = UploadFolder::open(&state).unwrap();
        let mut incoming = uploads.begin("bank.csv").unwrap();
        incoming.write(b"a,b\n").unwrap();
        let staged = incoming.finish().unwrap();
        assert_eq!((std::fs::read(staged.path()).unwrap(), staged.bytes()), (b"a,b\n".to_vec(), 4));
        // Another process leaves it alone.
        let other = UploadFolder::open(&state).unwrap();
        assert!(staged.path().exists());
        let path = staged.path().to_owned();
        drop(staged);
        assert!(!path.exists());
        drop((uploads, other));
        assert_eq!(entries(&state), 0);
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let left = state.path().join(FOLDER).join("left");
        std::fs::create_dir_all(left.join("deeper")).unwrap();
        std::fs::write(left.join("deeper/bank.csv"), "a").unwrap();
        std::fs::write(left.with_extension(LOCK), "").unwrap();
        let uploads = UploadFolder::open(&state).unwrap();
        assert!(!left.exists() && !left.with_extension(LOCK).exists());
        drop(uploads);
    }
}
