//! Creates files and folders that only their owner can open.
//!
//! On a system without modes, only the location in the user's profile protects them.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a folder and its parents with mode 0700. Leaves existing folders as they are.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    private_folders().recursive(true).create(path)
}

/// Creates a folder with mode 0700 in a folder that exists. Fails if the folder is there.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    private_folders().create(path)
}

fn private_folders() -> DirBuilder {
    #[cfg_attr(windows, expect(unused_mut, reason = "there are no modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Creates a file with mode 0600, open for appending.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    // Windows locks no file that is open for appending alone.
    options.read(cfg!(windows));
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates the file of a database if it does not exist, and locks it as long as the returned handle
/// is open. An error comes with the failed operation.
///
/// Switching to the write-ahead log needs the database exclusively, and SQLite does not wait for
/// that, whatever the timeout. Processes that start at once therefore queue here.
pub(crate) fn lock_database(path: &Path) -> Result<File, (&'static str, io::Error)> {
    // SQLite creates the files beside the database with the same mode.
    match create_private(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(("make", error)),
        _ => {}
    }
    let queue = File::open(path).map_err(|error| ("open", error))?;
    crate::platform::lock(&queue).map_err(|error| ("lock", error))?;
    Ok(queue)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    // Windows cannot open a folder as a file, and does not need this call.
    if cfg!(windows) { Ok(()) } else { File::open(path)?.sync_all() }
}

#[cfg(unix)]
fn mode(metadata: &Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(metadata)
}

#[cfg(not(unix))]
fn mode(_: &Metadata) -> u32 {
    0
}

/// Returns whether the user of this process owns the file.
#[cfg(unix)]
pub(super) fn is_ours(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(metadata) == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
pub(super) fn is_ours(_: &Metadata) -> bool {
    true
}

/// Returns whether group or others may write.
pub(super) fn others_can_write(metadata: &Metadata) -> bool {
    mode(metadata) & 0o022 != 0
}

/// Returns whether group or others have any right.
pub(super) fn others_can_open(metadata: &Metadata) -> bool {
    mode(metadata) & 0o077 != 0
}
